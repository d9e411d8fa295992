"""Time on a GPU: every kernel against the memory's bandwidth, and whole iterations.

    python benchmarks/gpu.py                     # kernels at the largest size, iterations at all
    python benchmarks/gpu.py --only iterations --sizes 1723,156502,678718

Scenes are synthetic (`scene.py`); needs NumPy, torch and Triton only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from daba.backends.gpu.kernels import decide, intra, moments, pcg, schur, state, step
from daba.backends.gpu.operations import GpuOperations
from daba.backends.operations import Row
from daba.core.options import Options
from daba.distributed.shard import join
from daba.io.store.store import Store
from daba.io.store.writing import write_store
from daba.partition.ordering import Layout, lay_out
from daba.runtime.solve import solve
from daba.solver.algorithm import Algorithm1
from daba.solver.make import gpu_solver
from scene import in_strips, landscape

SIZES = (
    (49, 7_776, 31_843),
    (1_723, 156_502, 678_718),
    (1_778, 993_923, 5_001_946),
    (13_682, 4_456_117, 28_987_644),
)
REPEATS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("kernels", "iterations"))
    parser.add_argument("--sizes", nargs="*", default=[",".join(map(str, s)) for s in SIZES])
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--refine", nargs="*", default=["none"])
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--store", action="store_true", help="from a store to the first iteration")
    parser.add_argument("--profile", action="store_true", help="where an iteration's time goes")
    args = parser.parse_args()
    bandwidth = copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}, copy bandwidth {bandwidth / 1e12:.2f} TB/s", flush=True)
    sizes = [tuple(int(x) for x in size.split(",")) for size in args.sizes]
    for size in sizes:
        began = time.perf_counter()
        problem = landscape(*size)
        partition = in_strips(problem, args.devices)
        layout = lay_out(problem, partition)
        blocks = [layout.device_block(device) for device in range(args.devices)]
        shard = join(blocks, 0, layout.ranges)
        inter = len(shard.inter.camera) / size[2]
        print(
            f"\n{size[0]:,} cameras, {size[1]:,} points, {size[2]:,} observations, "
            f"{args.devices} devices, {100 * inter:.1f} % inter, {args.precision} "
            f"(made in {time.perf_counter() - began:.1f} s)",
            flush=True,
        )
        for refine in args.refine:
            options = Options(devices=args.devices, refine=refine, precision=args.precision)
            solver = timed_solver(shard, options)
            if args.only != "kernels":
                iterations(solver, args.iterations)
            if args.profile:
                profile(solver)
            if args.only != "iterations" and size == sizes[-1] and refine == "none":
                kernels(solver, bandwidth)
            del solver
            torch.cuda.empty_cache()
        if args.store:
            from_store(layout, args.precision)


def copy_bandwidth() -> float:
    """Bytes read and written per second by a large copy."""
    a = torch.empty(1 << 30, dtype=torch.float32, device="cuda").normal_()
    b = torch.empty_like(a)
    return 2 * a.numel() * 4 / milliseconds(lambda: torch.neg(a, out=b)) * 1e3


def milliseconds(launch: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Of one launch, in a graph of many; the best of a few runs."""
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            launch()
    graph.replay()
    times = []
    for _ in range(4):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / repeats)
    return min(times)


def timed_solver(shard: Any, options: Options) -> Algorithm1:
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    solver = gpu_solver(shard, options)
    solver.iterate()
    solver.iterate()
    torch.cuda.synchronize()
    print(f"  {options.refine}: set up and compiled in {time.perf_counter() - began:.1f} s")
    return solver


def iterations(solver: Algorithm1, count: int) -> None:
    first = solver.objective
    for _ in range(6):  # graphs of the lengths that are needed
        solver.iterate()
    times, steps, retries = [], 0, 0
    for _ in range(count):
        began = time.perf_counter()
        solver.iterate()
        times.append(time.perf_counter() - began)
        steps += solver.counts.pcg_iterations
        retries += solver.counts.lm_retries
    peak = torch.cuda.max_memory_allocated()
    print(
        f"  one iteration {1e3 * np.median(times):.3f} ms (mean {1e3 * np.mean(times):.3f}), "
        f"{steps / count / solver.shard.num_devices:.1f} CG iterations per device, "
        f"{retries} retries, "
        f"F {first:.6g} -> {solver.objective:.6g}, peak memory {peak / 1e9:.2f} GB",
        flush=True,
    )


def from_store(layout: Layout, precision: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scene.daba"
        write_store(layout, path)
        began = time.perf_counter()
        found = solve(Store(path), backend="gpu", precision=precision, refine="none", iterations=1)
        seconds = time.perf_counter() - began
        print(f"  from a store to the end of the first iteration and back: {seconds:.1f} s")
        print(f"    of these, after laying out: {found.history[-1].seconds:.1f} s", flush=True)


def profile(solver: Algorithm1, count: int = 10) -> None:
    """Time of each kernel inside whole iterations."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    with profiled(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(count):
            solver.iterate()
    rows = [(e.self_device_time_total, e.count, e.key) for e in found.key_averages()]
    for total, calls, name in sorted(rows, reverse=True)[:24]:
        print(f"  {name[:40]:<40}{total / 1e3 / count:9.4f} ms{calls / count:7.1f} calls")
    print(f"  together {sum(row[0] for row in rows) / 1e3 / count:.3f} ms", flush=True)


def kernels(solver: Algorithm1, bandwidth: float) -> None:
    print(f"  {'kernel':<22}{'ms':>9}{'GB':>8}{'share':>8}{'registers':>11}{'spills':>8}")
    for name, launch, moved, kernel in launches(solver):
        flags(solver, stopped=name == "move")
        ms = milliseconds(launch)
        share = moved / bandwidth / (ms / 1e3)
        used = ", ".join(f"{r}" for r, _ in registers(kernel)) or "-"
        spilled = ", ".join(f"{s}" for _, s in registers(kernel)) or "-"
        print(f"  {name:<22}{ms:9.4f}{moved / 1e9:8.3f}{100 * share:7.0f}%{used:>11}{spilled:>8}",
              flush=True)  # fmt: skip
    flags(solver)
    _, it, a = parts(solver)
    both = milliseconds(lambda: it.product(0))
    w, k, P = a.record_l.element_size(), a.intra_c.records.element_size() * 4, a.P
    moved = k * (len(a.intra_c.records) + len(a.intra_l.records)) + w * P * (16 + 4 + 8)
    share = moved / bandwidth / (both / 1e3)
    print(
        f"  Schur product {both:.4f} ms, {moved / 1e9:.3f} GB, "
        f"{100 * share:.0f} % of the copy bandwidth",
        flush=True,
    )


def flags(solver: Algorithm1, stopped: bool = False) -> None:
    """Make every kernel do its work; a step is made only when CG has stopped."""
    table = solver.operations.read().copy()
    for row in (Row.RUN, Row.RUN_ODD, Row.TRYING, Row.ACTIVE):
        table[row] = 1.0
    if stopped:
        table[Row.RUN] = 0.0
    table[Row.STATUS] = 0.0
    solver.operations.write(table)


def parts(solver: Algorithm1) -> tuple[GpuOperations, Any, Any]:
    """Operations, their launches, and their arrays."""
    ops = solver.operations
    assert isinstance(ops, GpuOperations)
    return ops, ops.launches, ops.arrays


def launches(solver: Algorithm1) -> Iterator[tuple[str, Callable[[], Any], float, Any]]:
    """Name, launch, the bytes that must move at least, and the kernel."""
    ops, it, a = parts(solver)
    w = a.record_l.element_size()
    by_c, by_l = _size(a.intra_c.records), _size(a.intra_l.records)
    inter_c, inter_l = _size(a.inter_c.records), _size(a.inter_l.records)
    C, P, edge = a.C, a.P, a.inter_l.members.numel()
    base, surrogate = a.bar, a.at_bar
    yield "product_points", lambda: _points(it), by_l + P * w * (4 + 8 + 3), schur.product_points
    yield (
        "product_cameras",
        lambda: _cameras(it),
        by_c + P * w * 8 + C * 2048,
        schur.product_cameras,
    )
    yield "update", lambda: it.update(0), C * (256 + 6 * 16) * w, pcg.update
    yield "direction", lambda: it.direction(False, 0), C * 48 * w, pcg.direction
    yield (
        "linearize_points",
        lambda: _only(it, "p"),
        by_l + P * (32 + 24 + 7 * w),
        intra.linearize_points,
    )
    yield (
        "linearize_cameras",
        lambda: _only(it, "c"),
        by_c + P * 32 + C * 2048,
        intra.linearize_cameras,
    )
    yield (
        "damp_points",
        lambda: it.damp(base, surrogate),
        P * (32 * 3 + 24 + 7 * w + 16 * w),
        schur.damp_points,
    )
    yield "eliminate", it.eliminate, by_c + P * w * 16 + C * 256 * w, schur.eliminate
    yield "precondition", it.precondition, C * (2048 + 512 * w), pcg.precondition
    yield "camera_system", lambda: it.assemble(base, surrogate), C * 3 * 2048, moments.camera_system
    yield (
        "move",
        lambda: it.move(base, surrogate),
        by_l + P * (32 * 4 + 24 + 19 * w),
        step.move_points,
    )
    yield "objective", lambda: it.objective(a.new, Row.TRYING), by_c + P * 32, intra.objective
    yield (
        "evaluate",
        lambda: it.evaluate(a.new, (base, surrogate), (a.x, a.at_x), Row.TRYING),
        P * 32 * 5,
        moments.evaluate_points,
    )
    yield (
        "rebase",
        lambda: it.rebase(a.bar, a.at_bar, False, False),
        inter_c + inter_l + 64 * edge + C * 2048,
        moments.build_points,
    )
    yield (
        "rebase with slack",
        lambda: it.rebase(a.new, a.at_x, True, True),
        inter_c + inter_l + 128 * edge + C * 2048,
        moments.build_points,
    )
    yield "extrapolate", it.extrapolate, P * 32 * 3, state.extrapolate_points
    yield (
        "add_up",
        lambda: it.add_up(ops.step_jobs),
        8 * (6 * C + 4 * a.intra_l.count),
        decide.add_up,
    )
    yield "settle", it.settle, 0.0, state.settle_points
    yield "shift", it.shift, P * 32 * 4, state.shift


def _size(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


def _points(it: Any) -> None:
    whole, schur.product_cameras = schur.product_cameras, _Nothing()
    it.product(0)
    schur.product_cameras = whole


def _cameras(it: Any) -> None:
    whole, schur.product_points = schur.product_points, _Nothing()
    it.product(0)
    schur.product_points = whole


def _only(it: Any, which: str) -> None:
    names = {"p": "linearize_cameras", "c": "linearize_points"}
    whole = getattr(intra, names[which])
    fill, schur.fill_cameras = schur.fill_cameras, _Nothing()
    setattr(intra, names[which], _Nothing())
    it.linearize(it.a.x)
    setattr(intra, names[which], whole)
    schur.fill_cameras = fill


class _Nothing:
    """In place of a kernel that is not to run."""

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args, **kwargs: None


def registers(kernel: Any) -> list[tuple[int, int]]:
    """Registers and spills of every variant that has been compiled."""
    found = set()
    for cache in kernel.device_caches.values():
        for compiled in cache[0].values():
            if hasattr(compiled, "n_regs") and compiled.n_regs is not None:
                found.add((compiled.n_regs, compiled.n_spills))
    return sorted(found)


if __name__ == "__main__":
    main()
