"""Bundle Adjustment in the Large (BAL): the text format of the field's benchmark problems.

    cameras points observations
    camera point x y            one line per observation, pixels
    r r r  t t t  f k1 k2       9 numbers per camera, any layout
    X Y Z                       3 numbers per point, any layout

`forward` says what cameras mean and how they become ours.

A solution's own focal length differs from the one its observations were divided by, on which
the weights ω and so the objective depend. `bal_weights` keeps the latter in a small file beside
the solution, with which `load(..., "standard")` gives back the same objective.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from daba.core.errors import DabaError
from daba.io import bal_weights
from daba.io.errors.bal import explain, parse_header
from daba.io.files import PathLike, open_input, open_output, writing_folder
from daba.io.forward import (
    ForwardCameras,
    ForwardObservations,
    Reading,
    check_intrinsics,
    divisors,
    first_info,
    from_problem,
    paper_intrinsics,
    pixels,
    records,
    stem,
    to_problem,
)
from daba.io.numbers import MisfitError, check_size, chunks, first_line, numbers, write_rows
from daba.io.source import CHUNK, Source
from daba.partition.ordering import Records
from daba.problem.problem import Floats, Problem, pixel_weights

_KEPT = np.dtype([("camera", np.int32), ("point", np.int32), ("u", np.float64, 2)])

Sink = Callable[[Floats], None]


def load(path: PathLike, intrinsics: Reading = "paper") -> Problem:
    """Read a BAL file.

    intrinsics   "paper" takes k1, k2 as the paper's authors do, d = (1, k1 f², k2 f⁴);
                 "standard" fits d per camera to BAL's own forward model, with the residual of
                 the fit in `problem.info["intrinsics_fit"]`
    """
    check_intrinsics(intrinsics)
    cam, pt, u = np.empty(0, np.int32), np.empty(0, np.int32), np.empty((0, 2))
    k = 0

    def begin(K: int) -> Sink:
        nonlocal cam, pt, u
        cam, pt, u = np.empty(K, np.int32), np.empty(K, np.int32), np.empty((K, 2))
        return keep

    def keep(rows: Floats) -> None:
        nonlocal k
        new = slice(k, k + len(rows))
        cam[new], pt[new], u[new] = rows[:, 0], rows[:, 1], rows[:, 2:]
        k = new.stop

    parameters, points = _read(path, begin)
    return to_problem(
        path, intrinsics, _cameras(parameters), points, ForwardObservations(cam, pt, u)
    )


def open_source(path: PathLike, scratch: Path) -> Source:
    """Read a BAL file as "paper" without holding its observations: they wait in `scratch` until
    the focal lengths, which follow them, are known."""
    kept = scratch / "observations"
    with open(kept, "xb") as out:

        def keep(rows: Floats) -> None:
            new = np.empty(len(rows), _KEPT)
            new["camera"], new["point"], new["u"] = rows[:, 0], rows[:, 1], rows[:, 2:]
            with writing_folder(scratch):
                out.write(new.data)

        parameters, points = _read(path, lambda _: keep)
    cameras = _cameras(parameters)
    f = np.ascontiguousarray(cameras.model[:, 0])
    with np.errstate(over="ignore", invalid="ignore"):
        d = paper_intrinsics(cameras.model)

    def read() -> Iterator[Records]:
        with open(kept, "rb") as stream:
            while len(rows := np.fromfile(stream, _KEPT, CHUNK)):
                cam = np.ascontiguousarray(rows["camera"])
                u = rows["u"] / -f[cam, None]
                weights = pixel_weights(u, f[cam])
                yield Records(cam, np.ascontiguousarray(rows["point"]), u, weights)

    return Source(
        cameras=records(cameras, d),
        points=np.negative(points, out=points),
        focal=f,
        observations=kept.stat().st_size // _KEPT.itemsize,
        read=read,
        name=stem(path),
        info=first_info(path, "paper"),
        file=Path(path).name,
    )


def scan(path: PathLike) -> tuple[int, int, int]:
    """Counts of cameras, points and observations of a BAL file: all of it is read, so that what
    is wrong with it is found, but observations are not kept."""
    K = 0

    def begin(count: int) -> Sink:
        nonlocal K
        K = count
        return lambda rows: None

    parameters, points = _read(path, begin)
    return len(parameters), len(points), K


def save(problem: Problem, path: PathLike) -> None:
    """Write a BAL file in the standard forward model, which every other tool reads.

    f, k1, k2 of each camera come from `daba.problem.intrinsics.forward_model`. Weights other than
    `pixel_weights` have no place in the format and are lost. A second file, `path` with
    .weights.json after it, is written where the objective could not be found again without it.
    """
    R, t, model = from_problem(problem)
    parameters = np.hstack([angle_axes(R), t, model])
    with open_output(path) as out:
        out.write(
            b"%d %d %d\n" % (problem.num_cameras, problem.num_points, problem.num_observations)
        )
        for c in chunks(problem.num_observations):
            ends = problem.camera_index[c], problem.point_index[c]
            # 15 digits give back the decimal numbers that were read before dividing by f.
            write_rows(out, "%d %d %.15g %.15g\n", [*ends, *pixels(problem, c).T])
        for c in chunks(problem.num_cameras):
            write_rows(out, "%.17g\n" * 9, list(parameters[c].T))
        for c in chunks(problem.num_points):
            write_rows(out, "%.17g\n" * 3, list(-problem.points[c].T))
    bal_weights.save(path, model[:, 0], divisors(problem, model[:, 0]))


def rotation_matrices(angle_axis: Floats) -> Floats:
    """Rodrigues' formula, (N,3) -> (N,3,3), accurate for the smallest angles too."""
    θ = np.linalg.norm(angle_axis, axis=1)
    x, y, z = angle_axis.T
    o = np.zeros_like(x)
    K = np.stack([o, -z, y, z, o, -x, -y, x, o], axis=1).reshape(-1, 3, 3)
    a = np.sinc(θ / np.pi)  # sin θ / θ
    b = 0.5 * np.sinc(θ / (2 * np.pi)) ** 2  # (1 − cos θ) / θ²
    return np.asarray(np.eye(3) + a[:, None, None] * K + b[:, None, None] * (K @ K))


def angle_axes(R: Floats) -> Floats:
    """The inverse of `rotation_matrices`, through quaternions: safe near 0 and near π."""
    # Four ways to a quaternion (w, v); the one with the largest leading entry loses no digits.
    xx, yy, zz = R[:, 0, 0], R[:, 1, 1], R[:, 2, 2]
    leading = np.stack([1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz])
    a, b, c = R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]
    p, q, r = R[:, 1, 0] + R[:, 0, 1], R[:, 0, 2] + R[:, 2, 0], R[:, 2, 1] + R[:, 1, 2]
    four = np.array(
        [
            [leading[0], a, b, c],
            [a, leading[1], p, q],
            [b, p, leading[2], r],
            [c, q, r, leading[3]],
        ]
    )
    quaternion = four[leading.argmax(axis=0), :, np.arange(len(R))]
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    quaternion *= np.where(quaternion[:, :1] < 0, -1.0, 1.0)
    w, v = quaternion[:, 0], quaternion[:, 1:]
    sine = np.linalg.norm(v, axis=1)
    tiny = sine < 1e-150
    scale = np.where(tiny, 2.0, 2 * np.arctan2(sine, w) / np.where(tiny, 1.0, sine))
    return np.asarray(v * scale[:, None])


def _cameras(parameters: Floats) -> ForwardCameras:
    return ForwardCameras(
        rotation_matrices(parameters[:, :3]), parameters[:, 3:6], parameters[:, 6:]
    )


def _read(path: PathLike, begin: Callable[[int], Sink]) -> tuple[Floats, Floats]:
    """Camera parameters (C,9) and points as in the file. Observations go, a few rows (camera,
    point, x, y) at a time, where `begin` says, which is given their number."""
    try:
        with open_input(path) as stream:
            return _read_stream(stream, path, begin)
    except MisfitError:
        raise explain(path) from None


def _read_stream(
    stream: IO[bytes], path: PathLike, begin: Callable[[int], Sink]
) -> tuple[Floats, Floats]:
    try:
        C, P, K = parse_header(first_line(stream))
    except DabaError:
        raise MisfitError from None
    check_size(stream, 4 * K + 9 * C + 3 * P)
    try:
        keep, tail = begin(K), np.empty(9 * C + 3 * P)
    except (MemoryError, ValueError):
        raise DabaError(
            f"{Path(path).name}: not enough memory for the {C} cameras, {P} points and {K} "
            "observations that its first line announces"
        ) from None
    k = n = 0  # observations and numbers after them, so far
    rest = np.empty(0)
    for values in numbers(stream):
        if k < K:
            values = np.concatenate([rest, values])
            new = min(len(values) // 4, K - k)
            rows = values[: 4 * new].reshape(-1, 4)
            _check_rows(rows, C, P)
            keep(rows)
            k += new
            values = values[4 * new :]
            if k < K:
                rest = values
                continue
        if n + len(values) > len(tail):
            raise MisfitError
        tail[n : n + len(values)] = values
        n += len(values)
    if k < K or n < len(tail) or not np.isfinite(tail).all():
        raise MisfitError
    parameters = tail[: 9 * C].reshape(C, 9)
    if not (parameters[:, 6] > 0).all():
        raise MisfitError
    return parameters, tail[9 * C :].reshape(P, 3).copy()


def _check_rows(rows: Floats, C: int, P: int) -> None:
    index = rows[:, :2]
    fits = (index >= 0) & (index < [C, P]) & (index == np.floor(index))
    if not (fits.all() and np.isfinite(rows[:, 2:]).all()):
        raise MisfitError
