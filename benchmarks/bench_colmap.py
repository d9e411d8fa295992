"""COLMAP's own bundle adjustment and `daba solve` on the same COLMAP models: `make bench-colmap`.

Each model is perturbed with a seed (poses and points), written down, and adjusted by both from
there, with the same parameters free. Errors are COLMAP's own, computed by pycolmap on what each of
the two has written. Times: pycolmap's call of `bundle_adjustment`, without reading and writing;
the solve of daba as it tells it, and the whole command, with start of Python, reading and writing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pycolmap

from report import HERE, machine_words, save_json, say, table, warn_if_busy

DATA = HERE.parent.parent / "shared" / "data" / "colmap"


class Errors(NamedTuple):
    """Of a model, in pixels, over the observations that all models compared have in front."""

    colmap: float
    """pycolmap's mean reprojection error."""
    mean: float
    rms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("models", nargs="*", type=Path, help="folders with COLMAP models")
    parser.add_argument("--rotation", type=float, default=0.5, help="degrees")
    parser.add_argument("--center", type=float, default=0.5, help="per cent of the extent")
    parser.add_argument("--point", type=float, default=0.5, help="per cent of the extent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1, help="the best time counts")
    parser.add_argument("--solve", default="--method lm", help="options of daba solve")
    args = parser.parse_args()
    models = args.models or sorted(folder for folder in DATA.glob("*") if folder.is_dir())
    if not models:
        sys.exit("no models: name folders, or put some into ../shared/data/colmap")
    warn_if_busy()
    print(machine_words(os.cpu_count() or 1) + "\n")
    rows, found = [], []
    for model in models:
        with tempfile.TemporaryDirectory() as scratch:
            result = compare(model, Path(scratch), args)
        found.append(result)
        rows.append(row(result))
    head = [
        "model", "observations", "start", "pycolmap", "daba", "ratio", "rms ratio",
        "pycolmap, s", "daba, s", "command, s", "times faster",
    ]  # fmt: skip
    print(table(head, rows))
    options = {name: str(value) for name, value in vars(args).items()}
    say(f"written: {save_json('colmap', {'options': options, 'models': found})}")


def compare(model: Path, scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    start, theirs, ours = (scratch / name for name in ("start", "theirs", "ours"))
    perturb(model, start, args)
    their_seconds = min(run_colmap(start, theirs) for _ in range(args.repeat))
    runs = [run_daba(start, ours, args.solve.split()) for _ in range(args.repeat)]
    command, solve = (min(times) for times in zip(*runs, strict=True))
    folders = {"start": start, "pycolmap": theirs, "daba": ours}
    errors = {name: errors_of(folder, folders.values()) for name, folder in folders.items()}
    return {
        "model": model.name,
        "observations": pycolmap.Reconstruction(os.fspath(start)).compute_num_observations(),
        "errors": {name: error._asdict() for name, error in errors.items()},
        "ratio": errors["daba"].mean / errors["pycolmap"].mean,
        "colmap_ratio": errors["daba"].colmap / errors["pycolmap"].colmap,
        "rms_ratio": errors["daba"].rms / errors["pycolmap"].rms,
        "seconds": {"pycolmap": their_seconds, "daba": solve, "command": command},
    }


def perturb(model: Path, out: Path, args: argparse.Namespace) -> None:
    """Turn and move every frame, and move every point, by the same amount in a random direction."""
    r = pycolmap.Reconstruction(os.fspath(model))
    random = np.random.default_rng(args.seed)
    centers = np.array([image.projection_center() for image in r.images.values() if image.has_pose])
    extent = float(np.linalg.norm(np.ptp(centers, axis=0)))

    def direction() -> np.ndarray:
        v = random.normal(size=3)
        return v / np.linalg.norm(v)

    for number in r.reg_frame_ids():
        frame = r.frames[number]
        pose: Any = frame.rig_from_world
        R = pycolmap.Rotation3d(np.deg2rad(args.rotation) * direction()) * pose.rotation
        center = pose.inverse().translation + 0.01 * args.center * extent * direction()
        frame.rig_from_world = pycolmap.Rigid3d(R, -(R.matrix() @ center))
    for point in r.points3D.values():
        point.xyz = point.xyz + 0.01 * args.point * extent * direction()
    r.update_point_3d_errors()
    out.mkdir()
    r.write(os.fspath(out))


def run_colmap(start: Path, out: Path) -> float:
    r = pycolmap.Reconstruction(os.fspath(start))
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.ceres.solver_options.num_threads = os.cpu_count() or 1
    began = time.perf_counter()
    pycolmap.bundle_adjustment(r, options)
    seconds = time.perf_counter() - began
    r.update_point_3d_errors()
    out.mkdir(exist_ok=True)
    r.write(os.fspath(out))
    return seconds


def run_daba(start: Path, out: Path, options: list[str]) -> tuple[float, float]:
    """Seconds of the whole command, and of its solve."""
    history = out.with_suffix(".json")
    command = [sys.executable, "-m", "daba", "solve", os.fspath(start), "--output", os.fspath(out)]
    began = time.perf_counter()
    subprocess.run([*command, "--history", os.fspath(history), "--quiet", *options], check=True)
    seconds = time.perf_counter() - began
    return seconds, json.loads(history.read_text())["result"]["seconds"]


def errors_of(folder: Path, all_folders: Any) -> Errors:
    residuals = [_residuals(other) for other in all_folders]
    common = set.intersection(*({k for k, r in found.items() if r < 1e100} for found in residuals))
    here = _residuals(folder)
    r = np.array([here[k] for k in common])
    model = pycolmap.Reconstruction(os.fspath(folder))
    return Errors(
        model.compute_mean_reprojection_error(), float(r.mean()), float((r @ r / len(r)) ** 0.5)
    )


def _residuals(folder: Path) -> dict[tuple[int, int], float]:
    """Pixel error of each observation, by image and 2D point."""
    model = pycolmap.Reconstruction(os.fspath(folder))
    found = {}
    for number, image in model.images.items():
        for k in image.get_observation_point2D_idxs():
            point = image.points2D[k]
            seen = image.project_point(model.points3D[point.point3D_id].xyz)
            error = np.inf if seen is None else float(np.linalg.norm(seen - point.xy))
            found[number, int(k)] = error
    return found


def row(result: dict[str, Any]) -> list[str]:
    errors, seconds = result["errors"], result["seconds"]
    return [
        result["model"],
        f"{result['observations']:,}",
        *(f"{errors[name]['mean']:.5g}" for name in ("start", "pycolmap", "daba")),
        f"{result['ratio']:.4f}",
        f"{result['rms_ratio']:.4f}",
        *(f"{seconds[name]:.2f}" for name in ("pycolmap", "daba", "command")),
        " / ".join(f"{seconds['pycolmap'] / seconds[name]:.1f}" for name in ("daba", "command")),
    ]


if __name__ == "__main__":
    main()
