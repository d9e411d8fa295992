"""Compile every GPU kernel to machine code, on a machine without a GPU: run by
`tests/backends/gpu/test_compile.py` in a process of its own.

    python tests/helpers/compile_gpu.py 90 mixed     # compute capability, precision
    python tests/helpers/compile_gpu.py 90 ahead     # what is compiled ahead, and what runs then

Launches of a whole iteration are recorded instead of run, and what each would have compiled is
compiled; in `float64` each kernel once, with what it was launched with last. Prints kernel,
registers, and bytes of stack. With `ahead` nothing is compiled: prints kernels that iterations
launch and `launch_all` does not, after "missing".
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import constrained
import torch
import triton
from scene_for_gpu import tiny_problem
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

import daba
from daba.backends.gpu.consensus import GpuConsensus
from daba.backends.gpu.operations import GpuOperations
from daba.backends.operations import Block
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard, make_shard
from daba.solver.interface import Solver
from daba.solver.make import consensus_solver, gpu_consensus, gpu_solver, intrinsics_held

TYPES = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.int8: "*i8",
}
launched: dict[Any, Any] = {}


def note(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
    """In place of a launch."""
    fused = options.pop("enable_fp_fusion")
    compiled = {"num_warps": options.pop("num_warps", 4), "enable_fp_fusion": fused}
    values = dict(zip(self.arg_names, args, strict=False)) | options
    fixed = {p.name: values[p.name] for p in self.params if p.is_constexpr}
    signature, aligned = {}, {}
    for n, name in enumerate(self.arg_names):
        if name in fixed:
            signature[name] = "constexpr"
        elif isinstance(values[name], torch.Tensor):
            signature[name] = TYPES[values[name].dtype]
            aligned[(n,)] = [["tt.divisibility", 16]]
        else:
            signature[name] = "i32"
    key = (self.__name__, str(compiled), str(sorted(fixed.items(), key=lambda item: item[0])))
    launched[key] = (self, signature, fixed, aligned, compiled)


def record(precision: str) -> None:
    JITFunction.run = note
    problem = tiny_problem()
    partition = daba.partition_from_arrays(problem, torch.tensor([0, 0, 1, 1]).numpy())
    shard = make_shard(problem, partition)
    options = Options(method="daba", devices=2, precision=precision, loss=daba.Welsch(4.0))  # type: ignore[arg-type]
    gpu_solver(shard, options, device="cpu").iterate()
    for tie in (constrained.everything, constrained.all_but_across) if precision == "mixed" else ():
        problem = tie(tiny_problem())
        shard = make_shard(problem, constrained.in_halves(problem))
        gpu_solver(shard, options, device="cpu", prepare=lambda ops: ops.launch_all())


def record_lm() -> None:
    """Operations of Levenberg–Marquardt, each once, for an error that needs everything: two camera
    models, shared intrinsics, and sensors that move."""
    JITFunction.run = note
    from lm_for_gpu import every_operation

    every_operation()


def ahead() -> None:
    """Whether `launch_all` launches what iterations do."""
    JITFunction.run = note
    methods: list[dict[str, Any]] = [
        {"method": "admm"},
        {"method": "dr"},
        *({"method": "daba", "refine": refine} for refine in ("none", "points", "sweep")),
        {"method": "duba"},
        {"method": "lm"},
    ]
    plain = [(lambda problem: problem, chosen) for chosen in methods]
    ties = [(constrained.held, chosen) for chosen in methods[:2]]
    ties += [(constrained.everything, chosen) for chosen in methods[2:6]]
    for tie, chosen in (*plain, *ties, (constrained.all_but_across, methods[4])):
        problem = tie(tiny_problem())
        devices = 1 if chosen["method"] == "lm" else 2
        options = Options(devices=devices, **chosen)
        partition = daba.partition_from_arrays(problem, torch.arange(4).numpy() * devices // 4)
        shard = make_shard(problem, partition)
        before: set[Any] = set()

        def prepare(operations: GpuOperations, before: set[Any] = before) -> None:
            operations.launch_all()
            before.update(launched)
            launched.clear()

        made(shard, options, prepare).iterate()
        print("missing", *(name for name, *_ in set(launched) - before), flush=True)
        launched.clear()


def made(shard: Shard, options: Options, prepare: Callable[[GpuOperations], None]) -> Solver:
    """A solver, whose operations are prepared before anything is launched."""
    if not options.copies:
        return gpu_solver(shard, options, device="cpu", prepare=prepare)

    held = intrinsics_held(shard, Communicator())

    def operations(shard: Shard, block: Block) -> GpuConsensus:
        ops = gpu_consensus(shard, options, Communicator(), block, "cpu", held)
        prepare(ops)
        return ops

    return consensus_solver(shard, options, Communicator(), operations, held)


def stack(cubin: bytes) -> tuple[str, str]:
    """Registers, and bytes of stack."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=False
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", told)
    return found.groups() if found else ("?", "?")  # type: ignore[return-value]


def main() -> None:
    capability, precision = int(sys.argv[1]), sys.argv[2]
    if precision == "ahead":
        ahead()
        return
    if precision == "lm":
        record_lm()
    else:
        record(precision)
    chosen = launched
    if precision == "float64":  # its other variants are those of "mixed"
        chosen = {key[:1]: launch for key, launch in launched.items()}
    for (name, *_), (kernel, signature, fixed, aligned, options) in chosen.items():
        compiled = triton.compile(
            ASTSource(kernel, signature, fixed, aligned),
            target=GPUTarget("cuda", capability, 32),
            options=options,
        )
        print(name, *stack(compiled.asm["cubin"]), flush=True)


if __name__ == "__main__":
    main()
