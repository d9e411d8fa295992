"""Every format there is: a small example, how it is mutated, and the commands that read it."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import fields
import mutators
import numpy as np

import daba
from daba.problem.priors import Priors, Targets

Commands = list[list[str]]
Change = Callable[[bytes, Random], bytes]
SOLVE = ["solve", "IN", "--devices", "2", "--iterations", "2", "--output", "OUT.npz"]
READERS: Commands = [
    ["info", "IN"],
    ["convert", "IN", "OUT.npz"],
    ["convert", "IN", "OUT.ply"],
    ["partition", "IN", "--devices", "2"],
    ["partition", "IN", "--devices", "2", "--output", "OUT.daba"],
    SOLVE,
    [*SOLVE, "--history", "OUT.json", "--output", "OUT.out", "--record", "OUT.film"],
]
"""IN is the example, OUT a new name; one is drawn for each mutant."""


@dataclass(frozen=True)
class Subject:
    """One format."""

    make: Callable[[Path], Path]
    """Write an example into a folder, and say what commands are given of it."""
    mutate: Callable[[Path, Random], str]
    """Change the example in place; the name of what was changed."""
    commands: tuple[list[str], ...] = tuple(READERS)


def problem(constrained: bool = False) -> daba.Problem:
    options = daba.SceneOptions(scene="orbit", cameras=6, points=40, seed=1)
    scene = daba.generate(options).start
    colors = np.arange(120).reshape(40, 3).astype(np.uint8)
    images = [f"image {i}.jpg" for i in range(6)]
    scene = replace(scene, name="scene", info=scene.info | {"colors": colors, "images": images})
    if not constrained:
        return scene
    free = np.ones((6, 9), bool)
    free[0] = False
    priors = Priors(
        positions=Targets.make([1, 2], scene.centers[1:3], sigma=0.1),
        points=Targets.make([3], scene.points[3:4], sigma=0.1),
    )
    return replace(
        scene, free_cameras=free, free_points=np.arange(40) > 2, priors=priors,
        shared=np.array([0, 0, 1, 1, 2, 2]), cameras=_shared(scene.cameras),
        focal=np.full(6, scene.focal[0]),
    ).validated()  # fmt: skip


def _shared(cameras: np.ndarray) -> np.ndarray:
    cameras = cameras.copy()
    cameras[:, 12:] = cameras[0, 12:]
    return cameras


def _file(name: str, constrained: bool = False) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        daba.save(problem(constrained), folder / name)
        return folder / name

    return make


def _of_bytes(change: Change) -> Callable[[Path, Random], str]:
    def mutate(path: Path, draw: Random) -> str:
        path.write_bytes(change(path.read_bytes(), draw))
        return path.name

    return mutate


def _compressed(
    pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]
) -> Callable[[bytes, Random], bytes]:
    def change(data: bytes, draw: Random) -> bytes:
        if draw.random() < 0.5:
            return mutators.mutate_bytes(data, draw)
        return pack(mutators.mutate_text(unpack(data), draw))

    return change


def _one_of(
    folder: Path, draw: Random, change: Callable[[bytes, Random], bytes], suffix: str
) -> str:
    path = draw.choice(sorted(folder.glob(f"*{suffix}")))
    if draw.random() < 0.03:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes(), draw))
    return folder.name


def _model(kind: str, sensors: int = 1) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from colmap_models import synthetic

        target = folder / "model"
        target.mkdir()
        made = synthetic(cameras=1, sensors=sensors, images=5, points=40)
        (made.write_text if kind == "text" else made.write_binary)(os.fspath(target))
        return target

    return make


def _mutate_model(path: Path, draw: Random) -> str:
    """One field of one file, or a folder or nothing at all in its place."""
    file = draw.choice(sorted(path.iterdir()))
    kind = draw.randrange(25)
    if kind == 0:
        file.unlink()
        file.mkdir()
    elif kind == 1:
        file.unlink()
        file.symlink_to(file.name)
    elif kind == 2:
        file.write_bytes(draw.choice(sorted(path.iterdir())).read_bytes())
    elif file.suffix == ".bin":
        file.write_bytes(fields.mutate_binary(file.stem, file.read_bytes(), draw))
    else:
        file.write_bytes(fields.mutate_words(file.read_bytes(), draw))
    return path.name


def _store(constrained: bool) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from daba.io.store import writing

        writing.save(problem(constrained), folder / "scene.daba", 2)
        return folder / "scene.daba"

    return make


def _mutate_store(path: Path, draw: Random) -> str:
    """Files with new checksums, three times out of four: what a checksum finds is found."""
    manifest = path / "manifest.json"
    kind = draw.randrange(8)
    if kind == 0:
        manifest.write_bytes(mutators.mutate_bytes(manifest.read_bytes(), draw))
        return path.name
    head = json.loads(manifest.read_text())
    if kind == 1:
        manifest.write_text(json.dumps(mutators.mutate_json(head, draw)))
        return path.name
    for _ in range(draw.choice((1, 1, 2))):
        file = draw.choice(sorted(path.rglob("*.npy")))
        array = mutators.mutate_array(np.load(file), draw)
        np.save(file, array)
        if kind == 2:
            continue
        here = file.parent.name
        entries = (
            head["parts"][int(here[-4:])]["arrays"] if here != path.name else head["info_arrays"]
        )
        name = file.stem if here != path.name else file.stem.removeprefix("info-")
        entries[name] = {
            "dtype": str(array.dtype), "shape": list(array.shape),
            "crc32": f"{zlib.crc32(file.read_bytes()):08x}",
        }  # fmt: skip
    manifest.write_text(json.dumps(head))
    return path.name


def _make_checkpoint(folder: Path) -> Path:
    from daba.runtime.checkpoint import Checkpoints

    daba.save(problem(), folder / "scene.npz")
    daba.solve(
        daba.load(folder / "scene.npz"), devices=2, iterations=2, method="daba",
        checkpoints=Checkpoints(folder / "saved"),
    )  # fmt: skip
    return folder / "saved"


def _mutate_checkpoint(path: Path, draw: Random) -> str:
    here = next(path.glob("iteration-*"))
    manifest = here / "manifest.json"
    kind = draw.randrange(6)
    if kind == 0:
        return _one_of(here, draw, mutators.mutate_bytes, "") and path.name
    content = json.loads(manifest.read_text())["checkpoint"]
    if kind < 4:
        content = mutators.mutate_json(content, draw)
    else:
        file = draw.choice(sorted(here.glob("*.npz")))
        file.write_bytes(mutators.mutate_npz(file.read_bytes(), draw))
        content["files"][file.name] = zlib.crc32(file.read_bytes())
    body = json.dumps(content, indent=1)
    manifest.write_text(f'{{"crc32": {zlib.crc32(body.encode())},\n"checkpoint": {body}}}\n')
    return path.name


def _table(text: str, name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        daba.save(problem(), folder / "scene.npz")
        (folder / name).write_text(text)
        return folder / name

    return make


def _make_database(folder: Path) -> Path:
    import pycolmap

    options = pycolmap.SyntheticDatasetOptions()
    options.prior_position, options.num_points3D = True, 40
    noise = pycolmap.SyntheticNoiseOptions()
    noise.prior_position_stddev = 0.1
    with pycolmap.Database.open(str(folder / "priors.db")) as database:
        made = pycolmap.synthesize_dataset(options, database)
        pycolmap.synthesize_noise(noise, made, database)
    (folder / "model").mkdir()
    made.write(str(folder / "model"))
    return folder / "priors.db"


def _make_history(folder: Path) -> Path:
    from daba.tools.cli import main

    daba.save(problem(), folder / "scene.npz")
    path = folder / "history.json"
    main(
        [
            *map(
                str,
                ("solve", folder / "scene.npz", "--iterations", "2", "--quiet", "--history", path),
            )
        ]
    )
    return path


def _mutate_json_file(data: bytes, draw: Random) -> bytes:
    if draw.random() < 0.3:
        return mutators.mutate_bytes(data, draw)
    return json.dumps(mutators.mutate_json(json.loads(data), draw)).encode()


def _make_film(folder: Path) -> Path:
    from daba.runtime.recording import Recorder

    daba.solve(problem(), iterations=2, recorder=Recorder(folder / "film"))
    return folder / "film"


def _make_weighted(folder: Path) -> Path:
    scene = problem()
    cameras = scene.cameras.copy()
    cameras[:, 12] = 1.1
    daba.save(replace(scene, cameras=cameras), folder / "scene.txt")
    return folder / "scene.txt"


def _mutate_weights(path: Path, draw: Random) -> str:
    beside = path.with_name(path.name + ".weights.json")
    beside.write_bytes(_mutate_json_file(beside.read_bytes(), draw))
    return path.name


def _mutate_manifest(path: Path, draw: Random) -> str:
    manifest = path / "manifest.json"
    manifest.write_bytes(fields.mutate_document(manifest.read_bytes(), draw))
    return path.name


def _mutate_sealed(path: Path, draw: Random) -> str:
    """The manifest of a checkpoint, with the right checksum where it still is JSON."""
    manifest = next(path.glob("iteration-*")) / "manifest.json"
    content = json.dumps(json.loads(manifest.read_text())["checkpoint"]).encode()
    body = fields.mutate_document(content, draw)
    with contextlib.suppress(ValueError, RecursionError):
        body = json.dumps(json.loads(body), indent=1).encode()
    manifest.write_bytes(b'{"crc32": %d,\n"checkpoint": %b}\n' % (zlib.crc32(body), body))
    return path.name


def _mutate_head(data: bytes, draw: Random) -> bytes:
    """The JSON in an archive, the archive being right."""
    with np.load(io.BytesIO(data)) as archive:
        entries = {name: archive[name] for name in archive.files}
    text = fields.mutate_document(entries["head"].tobytes(), draw)
    entries["head"] = np.frombuffer(text, np.uint8)
    out = io.BytesIO()
    np.savez(out, **entries)
    return out.getvalue()


def _mutate_bundler(path: Path, draw: Random) -> str:
    beside = path.with_name("list.txt")
    if draw.random() < 0.2:
        beside.write_bytes(mutators.mutate_text(beside.read_bytes(), draw))
    else:
        path.write_bytes(mutators.mutate_text(path.read_bytes(), draw))
    return path.name


POSITIONS = "image,x,y,z,sigma\n" + "".join(f"image {i}.jpg,{i},0.5,-1e-3,0.1\n" for i in range(6))
CONTROL = "point,x,y,z,cxx,cxy,cxz,cyy,cyz,czz\n" + "".join(
    f"{i},{i},0,1,1,0,0,1,0,1\n" for i in range(4)
)
LIST = "5 # the first\n2, 3\n4\n"
STANDARD = ["--intrinsics", "standard"]

SOLVE_BESIDE = ["solve", "BESIDE/scene.npz", "--iterations", "2"]
RESUME = ["solve", "BESIDE/scene.npz", "--devices", "2", "--method", "daba", "--iterations", "4"]
_mutate_text = _of_bytes(mutators.mutate_text)
_mutate_npz = _of_bytes(lambda data, draw: mutators.mutate_npz(data, draw, "head.npy"))

SUBJECTS: dict[str, Subject] = {
    "bal": Subject(_file("scene.txt"), _mutate_text),
    "bal-standard": Subject(
        _file("scene.txt"), _mutate_text, tuple([*command, *STANDARD] for command in READERS)
    ),
    "bal-gz": Subject(
        _file("scene.txt.gz"), _of_bytes(_compressed(gzip.compress, gzip.decompress))
    ),
    "bal-bz2": Subject(
        _file("scene.txt.bz2"), _of_bytes(_compressed(bz2.compress, bz2.decompress))
    ),
    "bal-weights": Subject(
        _make_weighted,
        _mutate_weights,
        (["info", "IN", *STANDARD], ["convert", "IN", "OUT.npz", *STANDARD]),
    ),
    "bundler": Subject(_file("scene.out"), _mutate_bundler),
    "npz": Subject(_file("scene.npz"), _mutate_npz),
    "npz-constrained": Subject(_file("scene.npz", True), _mutate_npz),
    "colmap-text": Subject(
        _model("text"), lambda path, draw: _one_of(path, draw, mutators.mutate_text, ".txt")
    ),
    "colmap-binary": Subject(
        _model("binary"), lambda path, draw: _one_of(path, draw, mutators.mutate_bytes, ".bin")
    ),
    "bal-words": Subject(_file("scene.txt"), _of_bytes(fields.mutate_words)),
    "bundler-words": Subject(_file("scene.out"), _of_bytes(fields.mutate_words)),
    "colmap-text-fields": Subject(_model("text", 2), _mutate_model),
    "colmap-binary-fields": Subject(_model("binary", 2), _mutate_model),
    "npz-head": Subject(_file("scene.npz", True), _of_bytes(_mutate_head)),
    "manifest": Subject(_store(True), _mutate_manifest),
    "checkpoint-manifest": Subject(
        _make_checkpoint, _mutate_sealed, ([*RESUME, "--resume", "IN"],)
    ),
    "history-values": Subject(
        _make_history,
        _of_bytes(fields.mutate_document),
        (["report", "IN", "--output", "OUT.html"],),
    ),
    "positions-words": Subject(
        _table(POSITIONS.replace(",", ", "), "gnss.csv"),
        _of_bytes(fields.mutate_words),
        ([*SOLVE_BESIDE, "--position-priors", "IN"],),
    ),
    "store": Subject(_store(False), _mutate_store),
    "store-constrained": Subject(_store(True), _mutate_store),
    "checkpoint": Subject(_make_checkpoint, _mutate_checkpoint, ([*RESUME, "--resume", "IN"],)),
    "positions": Subject(
        _table(POSITIONS, "gnss.csv"), _mutate_text, ([*SOLVE_BESIDE, "--position-priors", "IN"],)
    ),
    "control-points": Subject(
        _table(CONTROL, "gcp.csv"), _mutate_text, ([*SOLVE_BESIDE, "--control-points", "IN"],)
    ),
    "list": Subject(
        _table(LIST, "fixed.txt"),
        _mutate_text,
        ([*SOLVE_BESIDE, "--fix", "poses:IN"], [*SOLVE_BESIDE, "--fix", "points:IN"]),
    ),
    "database": Subject(
        _make_database,
        _of_bytes(mutators.mutate_bytes),
        (["solve", "BESIDE/model", "--iterations", "2", "--position-priors", "IN"],),
    ),
    "history": Subject(
        _make_history, _of_bytes(_mutate_json_file), (["report", "IN", "--output", "OUT.html"],)
    ),
    "recording": Subject(
        _make_film,
        lambda path, draw: _one_of(path, draw, mutators.mutate_npz, ".npz"),
        (["read-recording", "IN"],),
    ),
}
"""Every format, by its name."""


def fresh(example: Path, folder: Path) -> None:
    """The example's folder, copied."""
    shutil.copytree(example, folder, dirs_exist_ok=True)
