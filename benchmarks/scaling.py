"""How cost grows with observations and devices, and what memory is used: `make bench-scaling`.

Every measurement runs in a process of its own, on synthetic cities that other processes made.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from daba.runtime.environment import environment
from daba.tools.report.tables import seconds
from report import HERE, machine_words, save_json, say, table, warn_if_busy

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 2_000_000, 5_000_000)
DEVICES = (4, 8, 16, 32)
PER_POINT, PER_CAMERA = 5, 500
"""Observations of one point and of one camera: a larger city is not a denser one."""
WARM = 2
"""First iterations that are not counted."""
PICTURE = HERE / "scaling.png"

Numbers = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.job:
        print(json.dumps(JOBS[options.job](**json.loads(options.settings))))
        return 0
    warn_if_busy()
    words = machine_words(options.threads)
    data: Numbers = {"machine": environment() | {"threads": options.threads}}
    parts = [f"# Scaling\n\n{words}."]
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, options.scenes or Path(scratch))
        for name in options.parts:
            data[name] = getattr(bench, name)()
            parts.append(WORDS[name](data[name]))
    text = "\n\n".join(parts) + "\n"
    say(f"results: {save_json('scaling', data).relative_to(HERE.parent)}")
    if options.plot and "size" in data:
        draw(data["size"], options.plot, options.threads)
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="most observations")
    parser.add_argument("--parts", nargs="+", choices=WORDS, default=list(WORDS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=10, help="iterations that are timed")
    parser.add_argument("--repeat", type=int, default=3, help="solves of which the best counts")
    parser.add_argument("--device-observations", type=int, default=500_000)
    parser.add_argument("--scenes", type=Path, help="folder to keep the scenes in")
    parser.add_argument("--plot", type=Path, help=f"draw the plot, such as {PICTURE.name}")
    parser.add_argument("--output", type=Path, help="write the Markdown here, too")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


class Bench:
    """The three parts; all real work is done by jobs in other processes."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        folder.mkdir(parents=True, exist_ok=True)
        job("compile", threads=options.threads)

    def scene(self, observations: int) -> str:
        path = self.folder / f"city-{observations}.npz"
        if not path.exists():
            say(f"making a city of {observations:,} observations")
            job("make", path=str(path), observations=observations)
        return str(path)

    def size(self) -> list[Numbers]:
        """Time per iteration against observations."""
        rows = []
        for size in (s for s in SIZES if s <= self.options.largest):
            for refine in ("none", "sweep"):
                repeat = self.options.repeat if size <= 300_000 else 1
                rows.append(self.timed(size, [8], refine, repeat)[0])
        return rows

    def devices(self) -> list[Numbers]:
        """Time per iteration against devices."""
        size = min(self.options.device_observations, self.options.largest)
        rows = []
        for refine in ("none", "sweep"):
            rows += self.timed(size, list(DEVICES), refine, self.options.repeat)
        return rows

    def timed(self, size: int, devices: list[int], refine: str, repeat: int) -> list[Numbers]:
        rows: list[Numbers] = job(
            "iterations",
            path=self.scene(size),
            devices=devices,
            refine=refine,
            repeat=repeat,
            iterations=self.options.iterations,
            threads=self.options.threads,
        )
        for r in rows:
            say(f"  {size:,} obs., {r['devices']} devices, {refine}: {seconds(r['seconds'])}")
        return rows

    def memory(self) -> list[Numbers]:
        """Peak memory of a solve."""
        rows = []
        path = self.scene(self.options.largest)
        for method, devices, refine in (
            ("lm", 1, "none"), ("daba", 8, "none"), ("daba", 8, "sweep"),
        ):  # fmt: skip
            settings = {"method": method, "devices": devices, "refine": refine}
            rows.append(job("memory", path=path, threads=self.options.threads, **settings))
            say(f"  {method}, {refine}: {rows[-1]['peak'] / rows[-1]['observations']:.0f} bytes")
        return rows


def job(name: str, **settings: Any) -> Any:
    """Run one of JOBS in a new process; returns what it returned."""
    command = [sys.executable, __file__, "--job", name, "--settings", json.dumps(settings)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"the job '{name}' failed: {settings}")
    return json.loads(done.stdout)


# Jobs. They import daba themselves: the process that starts them stays small.


def compile_job(threads: int) -> None:
    """Leave every kernel compiled, so that no later job compiles: that takes time and memory."""
    import daba.runtime.compile
    from daba.backends.cpu.threads import set_threads

    set_threads(threads)
    daba.runtime.compile.compile_kernels()
    load_kernels(threads)


def load_kernels(threads: int) -> None:
    """Run every kernel on a small problem."""
    import daba

    tiny = daba.generate(daba.SceneOptions(cameras=20, points=500)).start
    wanted: Numbers = {"iterations": 2, "threads": threads}
    for linear_solver in ("direct", "pcg"):
        daba.solve(tiny, method="lm", linear_solver=linear_solver, **wanted)
        for refine in ("none", "sweep"):
            daba.solve(tiny, devices=2, refine=refine, linear_solver=linear_solver, **wanted)


def make_job(path: str, observations: int) -> None:
    import daba

    options = daba.SceneOptions(
        cameras=max(observations // PER_CAMERA, 12),
        points=observations // PER_POINT,
        observations=observations,
    )
    daba.save(daba.generate(options).start, path)


def iterations_job(
    path: str, devices: list[int], refine: str, repeat: int, iterations: int, threads: int
) -> list[Numbers]:
    """Seconds per iteration: of each solve the median, of the solves, in turn, the best."""
    import daba

    problem = daba.load(path)
    settings: Numbers = {"refine": refine, "iterations": WARM + iterations, "threads": threads}
    options = daba.Options(**settings, function_tolerance=0.0)
    best: dict[int, Numbers] = {}
    for _ in range(repeat):
        for count in devices:
            row = measured(daba.solve(problem, options, devices=count))
            if count not in best or row["seconds"] < best[count]["seconds"]:
                best[count] = row
    return list(best.values())


def measured(result: Any) -> Numbers:
    import numpy as np

    took = np.diff([row.seconds for row in result.history])[WARM:]
    counted = result.history[1 + WARM :]
    return {
        "observations": result.problem.num_observations,
        "cameras": result.problem.num_cameras,
        "devices": result.options.devices,
        "refine": result.options.refine,
        "seconds": float(np.median(took)),
        "mean_seconds": float(np.mean(took)),
        "setup_seconds": result.history[0].seconds,
        "pcg_iterations": float(np.mean([row.pcg_iterations for row in counted])),
        "retries": float(np.mean([row.lm_retries for row in counted])),
        "restarts": float(np.mean([row.restarts for row in counted])),
        "linear_solver": result.linear_solver,
        "inter_share": result.inter_share,
    }


def memory_job(path: str, method: str, devices: int, refine: str, threads: int) -> Numbers:
    """Bytes resident before the problem is read, after, once set up, and at most."""
    import daba

    load_kernels(threads)
    base = resident()
    problem = daba.load(path)
    loaded, loading = resident(), peak()
    later: list[tuple[int, int]] = []
    result = daba.solve(
        problem,
        method=method,
        devices=devices,
        refine=refine,
        threads=threads,
        iterations=4,
        function_tolerance=0.0,
        callback=lambda row: later.append((resident(), peak())),
    )
    return {
        "method": method,
        "devices": devices,
        "refine": refine,
        "linear_solver": result.linear_solver,
        "observations": problem.num_observations,
        "base": base,
        "loaded": loaded,
        "peak_loading": loading,
        "set_up": later[0][0],
        "peak_setting_up": later[0][1],
        "iterating": max(now for now, _ in later),
        "peak": max(peak(), *(now for now, _ in later)),
    }


def resident() -> int:
    return _status("VmRSS") or peak()


def peak() -> int:
    """Most bytes ever resident. ru_maxrss also counts the process this one was forked from."""
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    path = Path("/proc/self/status")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith(name + ":"):
                return 1024 * int(line.split()[1])
    return 0


JOBS: dict[str, Callable[..., Any]] = {
    "compile": compile_job,
    "make": make_job,
    "iterations": iterations_job,
    "memory": memory_job,
}


# Words and the picture


def exponent(rows: list[Numbers], above: int = 0) -> float:
    """Slope of log(time) over log(observations), by least squares."""
    rows = [r for r in rows if r["observations"] >= above]
    x = [math.log(r["observations"]) for r in rows]
    y = [math.log(r["seconds"]) for r in rows]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / max(spread, 1e-300)


def by_refine(rows: list[Numbers]) -> dict[str, list[Numbers]]:
    kinds = dict.fromkeys(r["refine"] for r in rows)
    return {kind: [r for r in rows if r["refine"] == kind] for kind in kinds}


def size_words(rows: list[Numbers]) -> str:
    kinds = by_refine(rows)
    lines = []
    for none, sweep in zip(kinds["none"], kinds["sweep"], strict=True):
        K = none["observations"]
        lines.append([f"{K:,}", f"{none['cameras']:,}", none["linear_solver"]])
        for r in (none, sweep):
            lines[-1] += [seconds(r["seconds"]), f"{1e9 * r['seconds'] / K:.0f} ns"]
        lines[-1].append(f"{none['pcg_iterations'] / none['devices']:.0f}")
    head = ("observations", "cameras", "linear solver", "none", "per obs.", "sweep", "per obs.",
            "PCG it. per device")  # fmt: skip
    slopes = "; ".join(
        f"refine {kind}: time ∝ observations^{exponent(some):.2f}"
        f" (from 10⁵: {exponent(some, 90_000):.2f})"
        for kind, some in kinds.items()
        if some[-1]["observations"] > 90_000
    )
    return f"## Observations (time per iteration, 8 devices)\n\n{table(head, lines)}\n\n{slopes}"


def devices_words(rows: list[Numbers]) -> str:
    kinds = by_refine(rows)
    head = ["devices", *(str(r["devices"]) for r in kinds["none"]), "most over fewest"]
    lines = []
    for kind, some in kinds.items():
        ratio = some[-1]["seconds"] / some[0]["seconds"]
        lines.append([f"refine {kind}", *(seconds(r["seconds"]) for r in some), f"**{ratio:.2f}**"])
    first = kinds["none"]
    lines.append(["inter observations", *(f"{100 * r['inter_share']:.1f} %" for r in first), ""])
    lines.append(["linear solver", *(r["linear_solver"] for r in first), ""])
    title = f"## Devices in one process ({first[0]['observations']:,} observations)"
    return f"{title}\n\n{table(head, lines)}"


def memory_words(rows: list[Numbers]) -> str:
    K = rows[0]["observations"]
    stages = ("base", "loaded", "set_up", "iterating", "peak_loading", "peak_setting_up", "peak")
    lines = []
    for r in rows:
        name = "lm" if r["method"] == "lm" else f"daba, {r['devices']} devices, {r['refine']}"
        cells = [f"{r[stage] / K:.0f}" for stage in stages]
        above = f"{(r['peak'] - r['base']) / K:.0f}"
        lines.append([f"{name} ({r['linear_solver']})", *cells[:-1], f"**{cells[-1]}**", above])
    head = ("resident bytes per observation", "libraries", "problem read", "set up", "iterating",
            "peak reading", "peak setting up", "peak of all", "without libraries")  # fmt: skip
    return f"## Memory ({K:,} observations)\n\n{table(head, lines)}"


WORDS: dict[str, Callable[[list[Numbers]], str]] = {
    "size": size_words,
    "devices": devices_words,
    "memory": memory_words,
}


def draw(rows: list[Numbers], path: Path, threads: int) -> None:
    """Time per iteration against observations, with a line of slope one."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from daba.tools.plotting import COLOURS, FAINT, STYLE

    style: Any = STYLE
    with mpl.rc_context(style):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        for colour, (kind, some) in zip(COLOURS, by_refine(rows).items(), strict=False):
            x = [r["observations"] for r in some]
            label = f"refine {kind}: observations^{exponent(some):.2f}"
            axes.loglog(x, [r["seconds"] for r in some], "o-", color=colour, label=label)
        per = rows[-1]["seconds"] / rows[-1]["observations"]
        axes.loglog(x, [per * k for k in x], "--", color=FAINT, label="linear", zorder=0)
        axes.set(
            xlabel="observations", title=f"seconds per iteration, 8 devices, {threads} threads"
        )
        axes.grid(True)
        axes.legend()
        figure.savefig(path, dpi=130, metadata={})


if __name__ == "__main__":
    sys.exit(main())
