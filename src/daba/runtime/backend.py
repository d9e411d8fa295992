"""Where a solve is computed: on the CPU with Numba, or on a GPU with torch and Triton."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from daba.core.errors import DabaError, GpuMemoryError
from daba.core.options import Options
from daba.partition.ordering import ON_HOST, NumpyArrays

if TYPE_CHECKING:
    from daba.backends.cpu.lm.operations import CpuOperations
    from daba.backends.cpu.threads import Pool
    from daba.backends.gpu.lm.operations import GpuOperations
    from daba.backends.operations import Block, ConsensusOperations
    from daba.core.lm import Loss, Observations
    from daba.core.types import Int32
    from daba.distributed.comm.base import Communicator
    from daba.distributed.lm_shard import LmShard
    from daba.distributed.shard import Shard
    from daba.solver.elimination import Cost
    from daba.solver.interface import Solver
    from daba.solver.lm.make import Speed


class Backend(Protocol):
    compiling: float
    """Seconds spent compiling since the solve began; they are nobody's."""

    def running(self) -> contextlib.AbstractContextManager[Any]:
        """A context for the whole solve."""

    def arrays(self, observations: int) -> NumpyArrays:
        """Where the observations of a process are to be sorted and kept, if there are so many."""

    def solver(self, shard: Shard, options: Options, comm: Communicator) -> Solver:
        """The solver of a shard."""


class Cpu:
    """Threads set and kernels compiled before any clock starts; where only the problem tells which
    kernels those are, the clock stands still meanwhile."""

    compiling = 0.0

    def __init__(self, options: Options, comm: Communicator, constrained: bool) -> None:
        self.pool: Pool | None = None
        self.threads = options.threads or comm.threads
        if options.centralized:
            return
        with _needed_packages():
            from daba.backends.cpu.threads import set_threads
            from daba.runtime.compile import compile_for

            set_threads(self.threads)
            compile_for(options, constrained, tell=comm.rank == 0)
        comm.barrier()  # other machines may have caches of their own

    def running(self) -> contextlib.AbstractContextManager[Any]:
        from daba.backends.cpu.threads import one_blas_thread

        return one_blas_thread()

    def arrays(self, observations: int) -> NumpyArrays:
        return ON_HOST

    def solver(self, shard: Shard, options: Options, comm: Communicator) -> Solver:
        if not options.centralized:
            from daba.backends.cpu import cache
            from daba.solver.make import make_solver

            before = cache.seconds
            solver = make_solver(shard, options, comm)
            self.compiling += cache.seconds - before
            return solver
        from daba.solver.lm.make import lm_solver

        return lm_solver(shard, options, comm, self)

    def prepare(self) -> None:
        """For everything that is computed."""
        with _needed_packages():
            from daba.backends.cpu.threads import Pool, set_threads
            from daba.runtime.compile import compile_symbolic

            if self.pool is None:
                self.pool = Pool(set_threads(self.threads, of_numba=False))
            with _stopped_clock(self):
                compile_symbolic()

    def operations(self, parts: LmShard, loss: Loss, coarse: bool) -> CpuOperations:
        from daba.backends.cpu.lm.operations import CpuOperations
        from daba.runtime.compile import compile_lm

        assert self.pool is not None
        with _stopped_clock(self):
            compile_lm(parts.kind, coarse)
        return CpuOperations(parts, loss, self.pool)

    def plan(self, obs: Observations, cluster: Int32, block: int) -> tuple[Any, Cost]:
        from daba.solver.lm.plan import make_plan

        return make_plan(obs, cluster, block)

    @property
    def speed(self) -> Speed:
        from daba.solver.lm.make import CPU

        return CPU


@contextlib.contextmanager
def _stopped_clock(backend: Backend) -> Iterator[None]:
    began = time.perf_counter()
    yield
    backend.compiling += time.perf_counter() - began


@contextlib.contextmanager
def _needed_packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise DabaError(
            f"the CPU backend needs {error.name}: pip install daba, or use --backend gpu"
        ) from error


class Gpu:
    """One GPU for each process of a machine, in turn."""

    compiling = 0.0

    def __init__(self, comm: Communicator) -> None:
        import torch

        self.device = torch.device("cuda", comm.rank % torch.cuda.device_count())
        torch.empty(1, device=self.device)  # CUDA takes a second to start, which is nobody's
        self.name, self.comm = torch.cuda.get_device_name(self.device), comm

    def running(self) -> contextlib.AbstractContextManager[Any]:
        import torch

        return torch.cuda.device(self.device)

    def arrays(self, observations: int) -> NumpyArrays:
        from daba.backends.gpu.setting_up import TorchArrays, fits

        return TorchArrays(self.device) if fits(observations, self.device) else ON_HOST

    def prepare(self) -> None:
        """Nothing."""

    def operations(self, parts: LmShard, loss: Loss, coarse: bool) -> GpuOperations:
        from daba.backends.gpu.lm.operations import GpuOperations
        from daba.backends.gpu.memory import check_lm_memory

        self.everywhere(lambda: check_lm_memory(parts, self.device))
        ops = GpuOperations(parts, loss, self.device)
        self.compile(lambda: ops.launch_all(ops.upload(parts.x)))
        return ops

    def everywhere(self, check: Callable[[], None]) -> None:
        """Raise `GpuMemoryError` on all processes if one of them has."""
        error = GpuMemoryError("another process has too little GPU memory")
        found = False
        try:
            check()
        except GpuMemoryError as mine:
            error, found = mine, True
        if self.comm.any(found):
            raise error

    def compile(self, launch: Callable[[], Any]) -> None:
        """What `launch` launches; the clock stands still meanwhile."""
        from daba.backends.gpu.compiler import compile_ahead

        with _stopped_clock(self):
            compile_ahead(launch, self.device, tell=self.comm.rank == 0)

    def plan(self, obs: Observations, cluster: Int32, block: int) -> tuple[Any, Cost]:
        from daba.backends.gpu.lm.factors import factoring_cost
        from daba.solver.elimination import Cost

        return cluster, Cost(*factoring_cost(obs, cluster, block))

    @property
    def speed(self) -> Speed:
        from daba.solver.lm.make import GPU

        return GPU

    def solver(self, shard: Shard, options: Options, comm: Communicator) -> Solver:
        from daba.backends.gpu.memory import check_memory
        from daba.solver.make import gpu_solver

        if options.centralized and not self._plain(shard, options):
            if options.precision not in ("auto", "float64"):
                raise DabaError(
                    "lm on several devices, in pixels, with constraints or with a direct solution "
                    "knows double precision only; leave --precision out"
                )
            from daba.solver.lm.make import lm_solver

            solver = lm_solver(shard, options, comm, self)
            if solver.ops.on_gpu:
                from daba.solver.lm.on_gpu import launch_linear, rehearse

                self.compile(lambda: launch_linear(solver))
                with _stopped_clock(self):
                    rehearse(solver)
            return solver
        if options.copies:
            return self._consensus(shard.on_host(), options, comm)
        self.everywhere(lambda: check_memory(shard, options, self.device))
        return gpu_solver(
            shard, options, comm, self.device, lambda ops: self.compile(ops.launch_all)
        )

    def _consensus(self, shard: Shard, options: Options, comm: Communicator) -> Solver:
        from daba.backends.gpu.memory import check_memory
        from daba.solver.make import consensus_solver, gpu_consensus, intrinsics_held

        held = intrinsics_held(shard, comm)

        def operations(shard: Shard, block: Block) -> ConsensusOperations:
            self.everywhere(lambda: check_memory(shard, options, self.device))
            ops = gpu_consensus(shard, options, comm, block, self.device, held)
            self.compile(ops.launch_all)
            return ops

        return consensus_solver(shard, options, comm, operations, held)

    def _plain(self, shard: Shard, options: Options) -> bool:
        """Whether the kernels of Algorithm 1 serve for lm, with conjugate gradients, which they do
        many times as fast where these are few: of the 29 million observations of a landscape, 6 ms
        an iteration against 110 or more on an H200. They know one device, rays, and no
        constraints."""
        rays = options.error != "pixel" and shard.constraints is None
        if not rays or shard.ranges.devices > 1 or options.linear_solver == "direct":
            return False
        if options.linear_solver == "pcg" or options.precision not in ("auto", "float64"):
            return True
        from daba.backends.gpu.sparsity import direct_pays

        return not direct_pays(shard, self.device)


def make_backend(options: Options, comm: Communicator, constrained: bool = False) -> Backend:
    """The one of the options; `auto` is the GPU where one can be used, and says what it is."""
    if options.backend == "cpu":
        return Cpu(options, comm, constrained)
    missing = why_no_gpu()
    if not missing and options.linear_solver == "direct" and not options.centralized:
        missing = "its linear solver is pcg; leave --linear-solver out"
    if options.backend == "auto" and missing:
        return cpu_instead(options, comm, constrained, missing)
    if missing:
        raise DabaError(f"no GPU can be used: {missing}; use --backend cpu")
    gpu = Gpu(comm)
    if options.backend == "auto" and comm.rank == 0:
        print(f"daba: backend auto: on the GPU, {gpu.name}", file=sys.stderr, flush=True)
    return gpu


def cpu_instead(options: Options, comm: Communicator, constrained: bool, why: str) -> Cpu:
    """Where `auto` finds that no GPU can be used."""
    if comm.rank == 0:
        print(f"daba: backend auto: on the CPU: {why}", file=sys.stderr, flush=True)
    return Cpu(options, comm, constrained)


def why_no_gpu() -> str:
    """What is missing, or nothing."""
    try:
        import torch

        if not torch.cuda.is_available():
            return "torch finds no CUDA device"
        import triton  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed (pip install 'daba[gpu]')"
    return ""
