"""Bundle Adjustment in the Large (BAL): the text format of the field's benchmark problems.

    cameras points observations
    camera point x y            one line per observation, pixels
    r r r  t t t  f k1 k2       9 numbers per camera, any layout
    X Y Z                       3 numbers per point, any layout

BAL projects `P = R X + t` to `u_px = f (1 + k1 ρ² + k2 ρ⁴) p` with `p = −P.xy / P.z` and
`ρ = |p|`. The paper's ray model sees the same scene reflected through the origin:

    u = −u_px / f,  R ← Rᵀ,  t ← Rᵀ t,  l = −X

A solution's own focal length differs from the one its observations were divided by, on which
the weights ω and so the objective depend. `bal_weights` keeps the latter in a small file beside
the solution, with which `load(..., "standard")` gives back the same objective.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from daba.errors import DabaError
from daba.intrinsics import forward_model, rays_from_forward
from daba.io import bal_weights
from daba.io.bal_errors import explain, parse_header
from daba.io.files import PathLike, open_input, open_output, writing_folder
from daba.io.source import CHUNK, Source
from daba.layout import Records
from daba.problem import Floats, Ints, Problem, camera_records, pixel_weights

Intrinsics = Literal["paper", "standard"]

_BLOCK = 1 << 22  # bytes of text parsed at once
_CHUNK = 1 << 16  # observations handled at once
_KEPT = np.dtype([("camera", np.int32), ("point", np.int32), ("u", np.float64, 2)])

Sink = Callable[[Floats], None]


class _MisfitError(Exception):
    """The numbers do not fit the header; `explain` will find out why."""


def load(path: PathLike, intrinsics: Intrinsics = "paper") -> Problem:
    """Read a BAL file.

    intrinsics   "paper" takes k1, k2 as the paper's authors do, d = (1, k1 f², k2 f⁴);
                 "standard" fits d per camera to BAL's own forward model, with the residual of
                 the fit in `problem.info["intrinsics_fit"]`
    """
    if intrinsics not in ("paper", "standard"):
        raise DabaError(f"intrinsics must be 'paper' or 'standard', not {intrinsics!r}")
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
    f, k12 = np.ascontiguousarray(parameters[:, 6]), parameters[:, 7:]
    for c in _chunks(len(u)):
        u[c] /= -f[cam[c], None]
    info = _info(path, intrinsics)
    with np.errstate(over="ignore", invalid="ignore"):  # `validated` names the camera
        if intrinsics == "paper":
            d = _paper_intrinsics(f, k12)
        else:
            d, info["intrinsics_fit"] = rays_from_forward(cam, u, f, k12)
            f, d = _change_divisor(cam, u, f, d, bal_weights.load(path, f))
    weights = np.empty(len(u))
    for c in _chunks(len(u)):
        weights[c] = pixel_weights(u[c], f[cam[c]])
    np.negative(points, out=points)
    try:
        return Problem(
            cameras=_camera_records(parameters, d),
            points=points,
            camera_index=cam,
            point_index=pt,
            u=u,
            weights=weights,
            focal=f,
            name=_stem(path),
            info=info,
        ).validated()
    except DabaError as error:
        raise DabaError(f"{Path(path).name}: {error}") from error


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
    f = np.ascontiguousarray(parameters[:, 6])
    with np.errstate(over="ignore", invalid="ignore"):
        d = _paper_intrinsics(f, parameters[:, 7:])

    def read() -> Iterator[Records]:
        with open(kept, "rb") as stream:
            while len(rows := np.fromfile(stream, _KEPT, CHUNK)):
                cam = np.ascontiguousarray(rows["camera"])
                u = rows["u"] / -f[cam, None]
                weights = pixel_weights(u, f[cam])
                yield Records(cam, np.ascontiguousarray(rows["point"]), u, weights)

    return Source(
        cameras=_camera_records(parameters, d),
        points=np.negative(points, out=points),
        focal=f,
        observations=kept.stat().st_size // _KEPT.itemsize,
        read=read,
        name=_stem(path),
        info=_info(path, "paper"),
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

    f, k1, k2 of each camera come from `daba.intrinsics.forward_model`. Weights other than
    `pixel_weights` have no place in the format and are lost. A second file, `path` with
    .weights.json after it, is written where the objective could not be found again without it.
    """
    R = problem.rotations.transpose(0, 2, 1)  # world to camera
    model = forward_model(problem)
    t = np.einsum("cij,cj->ci", R, problem.centers)
    parameters = np.hstack([angle_axes(R), t, model])
    with open_output(path) as out:
        out.write(
            b"%d %d %d\n" % (problem.num_cameras, problem.num_points, problem.num_observations)
        )
        for c in _chunks(problem.num_observations):
            cam, pt = problem.camera_index[c], problem.point_index[c]
            x, y = (-problem.focal[cam, None] * problem.u[c]).T
            # 15 digits give back the decimal numbers that were read before dividing by f.
            _write_rows(out, "%d %d %.15g %.15g\n", [cam, pt, x, y])
        for c in _chunks(problem.num_cameras):
            _write_rows(out, "%.17g\n" * 9, list(parameters[c].T))
        for c in _chunks(problem.num_points):
            _write_rows(out, "%.17g\n" * 3, list(-problem.points[c].T))
    bal_weights.save(path, model[:, 0], problem.focal)


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


def _change_divisor(
    cam: Ints, u: Floats, f: Floats, d: Floats, divisor: Floats | None
) -> tuple[Floats, Floats]:
    """Focal length and d after u, divided by f so far, is divided by `divisor` instead.

    With c = f / divisor, u ← c u, and the same ray is (u, c z): d1 + d2 s + d3 s² in the new s.
    """
    if divisor is None:
        return f, d
    scale = f / divisor
    for c in _chunks(len(u)):
        u[c] *= scale[cam[c], None]
    return divisor, d * scale[:, None] ** [1, -1, -3]


def _info(path: PathLike, intrinsics: Intrinsics) -> dict[str, Any]:
    return {"source": Path(path).name, "intrinsics": intrinsics, "world_sign": -1}


def _paper_intrinsics(f: Floats, k: Floats) -> Floats:
    return np.column_stack([np.ones_like(f), k[:, 0] * f**2, k[:, 1] * f**4])


def _camera_records(parameters: Floats, d: Floats) -> Floats:
    R, t = rotation_matrices(parameters[:, :3]), parameters[:, 3:6]  # world to camera
    return camera_records(R.transpose(0, 2, 1), np.einsum("cji,cj->ci", R, t), d)


def _read(path: PathLike, begin: Callable[[int], Sink]) -> tuple[Floats, Floats]:
    """Camera parameters (C,9) and points as in the file. Observations go, a few rows (camera,
    point, x, y) at a time, where `begin` says, which is told how many will come."""
    try:
        with open_input(path) as stream:
            return _read_stream(stream, path, begin)
    except _MisfitError:
        raise explain(path) from None


def _read_stream(
    stream: IO[bytes], path: PathLike, begin: Callable[[int], Sink]
) -> tuple[Floats, Floats]:
    header = stream.readline(1000)
    while header and not header.strip():
        header = stream.readline(1000)
    try:
        C, P, K = parse_header(header)
    except DabaError:
        raise _MisfitError from None
    _check_size(stream, 4 * K + 9 * C + 3 * P)
    try:
        keep, tail = begin(K), np.empty(9 * C + 3 * P)
    except (MemoryError, ValueError):
        raise DabaError(
            f"{Path(path).name}: not enough memory for the {C} cameras, {P} points and {K} "
            "observations that its first line announces"
        ) from None
    k = n = 0  # observations and numbers after them, so far
    rest = np.empty(0)
    for values in _numbers(stream):
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
            raise _MisfitError
        tail[n : n + len(values)] = values
        n += len(values)
    if k < K or n < len(tail) or not np.isfinite(tail).all():
        raise _MisfitError
    parameters = tail[: 9 * C].reshape(C, 9)
    if not (parameters[:, 6] > 0).all():
        raise _MisfitError
    return parameters, tail[9 * C :].reshape(P, 3).copy()


def _check_size(stream: IO[bytes], numbers: int) -> None:
    """Refuse counts that the file is too small for before memory is asked for them."""
    if isinstance(stream, io.BufferedReader):  # not compressed
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_size < 2 * numbers:
            raise _MisfitError


def _check_rows(rows: Floats, C: int, P: int) -> None:
    index = rows[:, :2]
    fits = (index >= 0) & (index < [C, P]) & (index == np.floor(index))
    if not (fits.all() and np.isfinite(rows[:, 2:]).all()):
        raise _MisfitError


def _numbers(stream: IO[bytes]) -> Iterator[Floats]:
    """The numbers of a text, block by block; lines with # may follow at the end."""
    rest = b""
    while True:
        block = stream.read(_BLOCK)
        text = rest + block
        # Cut after white space, so that no number is torn; at the end there is nothing to cut.
        cut = max(map(text.rfind, (b"\n", b" ", b"\t"))) + 1 if block else len(text)
        text, rest = text[:cut], text[cut:]
        if len(rest) > _BLOCK:  # no white space in millions of bytes: not text
            raise _MisfitError
        text, mark, comment = text.partition(b"#")
        text = text.strip()
        if text:  # NumPy reads a number out of nothing but white space
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")  # NumPy 1 only warns of what it cannot read
                    values = np.fromstring(text, sep=" ")
            except (ValueError, DeprecationWarning):
                raise _MisfitError from None
            yield values
        if mark:
            lines = (mark + comment + rest + stream.read()).splitlines()
            if not all(line.startswith(b"#") or not line.strip() for line in lines):
                raise _MisfitError
            return
        if not block:
            return


def _write_rows(out: IO[bytes], row: str, columns: list[np.ndarray]) -> None:
    """Format one row for each entry of the columns; one call of `%` for all is fastest."""
    count, width = len(columns[0]), len(columns)
    values: list[float] = [0] * (count * width)
    for i, column in enumerate(columns):
        values[i::width] = column.tolist()
    out.write(((row * count) % tuple(values)).encode("ascii"))


def _chunks(count: int) -> Iterator[slice]:
    for start in range(0, count, _CHUNK):
        yield slice(start, start + _CHUNK)


def _stem(path: PathLike) -> str:
    name = Path(path).name
    for suffix in (".bz2", ".gz", ".txt", ".bal"):
        name = name.removesuffix(suffix)
    return name or "problem"
