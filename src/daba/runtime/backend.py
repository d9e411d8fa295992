"""Where a solve is computed: on the CPU with Numba, or on a GPU with torch and Triton."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from daba.core.errors import DabaError
from daba.core.options import Options

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator
    from daba.distributed.shard import Shard
    from daba.solver.interface import Solver

CONSTRAINED = "fixed parameters, shared intrinsics and priors are for the CPU only"


class Backend(Protocol):
    def running(self) -> contextlib.AbstractContextManager[Any]:
        """A context for the whole solve."""

    def solver(self, shard: Shard, options: Options, comm: Communicator) -> Solver:
        """The solver of a shard."""


class Cpu:
    """Threads set and kernels compiled before any clock starts."""

    def __init__(self, options: Options, comm: Communicator, constrained: bool) -> None:
        try:
            from daba.backends.cpu.threads import set_threads
            from daba.runtime.compile import compile_for

            set_threads(options.threads or comm.threads)
            compile_for(options, constrained, tell=comm.rank == 0)
        except ImportError as error:
            raise DabaError(
                f"the CPU backend needs {error.name}: pip install daba, or use --backend gpu"
            ) from error
        comm.barrier()  # other machines may have caches of their own

    def running(self) -> contextlib.AbstractContextManager[Any]:
        from daba.backends.cpu.threads import one_blas_thread

        return one_blas_thread()

    def solver(self, shard: Shard, options: Options, comm: Communicator) -> Solver:
        from daba.solver.make import make_solver

        return make_solver(shard, options, comm)


class Gpu:
    """One GPU for each process of a machine, in turn."""

    def __init__(self, comm: Communicator) -> None:
        import torch

        self.device = torch.device("cuda", comm.rank % torch.cuda.device_count())

    def running(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        return torch.cuda.device(self.device)

    def solver(self, shard: Shard, options: Options, comm: Communicator) -> Solver:
        from daba.backends.gpu.memory import check_memory
        from daba.solver.make import gpu_solver

        if shard.constraints is not None:  # of a store, which is looked into only now
            raise DabaError(f"no GPU can be used: {CONSTRAINED}; use --backend cpu")
        check_memory(shard, options, self.device)
        return gpu_solver(shard, options, comm, self.device)


def make_backend(options: Options, comm: Communicator, constrained: bool = False) -> Backend:
    """The one of the options; `auto` is the GPU where there is one that can be used."""
    if options.backend == "cpu":
        return Cpu(options, comm, constrained)
    missing = why_no_gpu()
    if options.method in ("admm", "dr"):
        missing = f"{options.method} runs on the CPU only"
    if constrained:
        missing = CONSTRAINED
    if options.backend == "auto" and missing:
        return Cpu(options, comm, constrained)
    if missing:
        raise DabaError(f"no GPU can be used: {missing}; use --backend cpu")
    if options.linear_solver == "direct":
        raise DabaError("on a GPU the linear solver is pcg; leave --linear-solver out")
    return Gpu(comm)


def why_no_gpu() -> str:
    """What is missing, or nothing."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed (pip install 'daba[gpu]')"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    return ""
