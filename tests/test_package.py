"""The wheel and the sdist install and solve, beside nothing but the dependencies they name."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from places import ROOT

import daba

pytest.importorskip("hatchling")
pytestmark = pytest.mark.slow


KERNEL = """
import numpy as np
from daba.backends.cpu.kernels.state import choose
from daba.core.types import State, Tasks

x, y = (State(number * np.ones((2, 15)), number * np.ones((2, 3))) for number in (1.0, 0.0))
tasks = Tasks(np.array([0, 2]), np.zeros(1, np.int32), np.array([0, 1]))
choose(np.ones(1, bool), x, tasks, tasks, *y)
print(y.cameras.sum(), y.points.sum())
"""
"""One, compiled by a worker and loaded; so small a problem is solved without."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=ROOT)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_what_is_in_them(built: tuple[Path, Path]) -> None:
    wheel, sdist = built
    assert wheel.name == f"daba-{daba.__version__}-py3-none-any.whl"
    assert sdist.name == f"daba-{daba.__version__}.tar.gz"
    sources = ROOT / "src"
    package = {
        path.relative_to(sources).as_posix()
        for path in (sources / "daba").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("daba/")}
    assert inside == package
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names > {f"src/{name}" for name in package}
    assert names > {"LICENSE", "CITATION.cff", "pyproject.toml", "tests/test_package.py"}


def test_the_wheel_solves(built: tuple[Path, Path], tmp_path: Path) -> None:
    python = environment(tmp_path / "env", "daba")
    pip(python, "install", "--no-index", str(built[0]))
    command = str(python.with_name("daba"))
    assert run(command, "--version", cwd=tmp_path) == f"daba {daba.__version__}\n"
    where = run(str(python), "-c", "import daba; print(daba.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    run(command, "synth", "start.txt", "--cameras", "8", "--points", "60", cwd=tmp_path)
    run(command, "partition", "start.txt", "--devices", "2", cwd=tmp_path)
    told = run(command, "solve", "start.txt", "--iterations", "5",
               "--output", "solution.txt", "--report", "report.html", cwd=tmp_path)  # fmt: skip
    assert "5 iterations" in told
    assert run(str(python), "-c", KERNEL, cwd=tmp_path) == "30.0 6.0\n"
    assert list(tmp_path.rglob("daba/*/*/*.nbc"))
    solved = daba.load(tmp_path / "solution.txt", intrinsics="standard")
    start = daba.load(tmp_path / "start.txt")
    assert daba.pixel_error(solved).rms < 0.5 * daba.pixel_error(start).rms


def test_the_sdist_is_the_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    """What is built from the sdist, where there is no git, is what is built from the checkout."""
    python = environment(tmp_path / "env", "hatchling")
    pip(python, "wheel", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(built[1]))
    again = zipfile.ZipFile(next(tmp_path.glob("*.whl")))
    wheel = zipfile.ZipFile(built[0])
    assert sorted(again.namelist()) == sorted(wheel.namelist())
    assert all(again.read(name) == wheel.read(name) for name in wheel.namelist())


def environment(folder: Path, package: str) -> Path:
    """The Python of an environment that has what the package depends on, and nothing else.

    Installing takes minutes; what is installed where the tests run is linked instead."""
    venv.create(folder, symlinks=True, with_pip=False)
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for name in needed(package) | ({package} - {"daba"}):
        found = distribution(name)
        for top in {Path(file).parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            target = site / top
            if not target.exists():
                target.symlink_to(Path(str(found.locate_file(top))))
    return folder / "bin" / "python"


def needed(package: str) -> set[str]:
    """Names of all that a package depends on, without extras."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        for text in distribution(waiting.pop()).requires or []:
            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            if requirement.name not in found:
                found.add(requirement.name)
                waiting.append(requirement.name)
    return found


def pip(python: Path, action: str, *options: str) -> None:
    """pip of the tests' environment, at work on another."""
    command = [sys.executable, "-m", "pip", "--python", str(python), action]
    run(*command, "--quiet", "--no-deps", *options, cwd=python.parent)


def run(*command: str, cwd: Path) -> str:
    """What a command prints; the checkout and the compiled kernels are out of its sight."""
    env = os.environ | {"NUMBA_CACHE_DIR": str(cwd)}
    env.pop("PYTHONPATH", None)
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
