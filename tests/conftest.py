"""What all tests share: how Hypothesis draws, how threads wait, and where the real data are."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from places import DATA

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # on a GPU machine, which has what tests/gpu needs and little else
    settings = None  # type: ignore[assignment, misc]

import daba
from daba.backends.cpu.threads import SPIN
from daba.problem.problem import Problem

pytest.register_assert_rewrite("helpers")
if settings is not None:
    settings.register_profile(
        "daba",
        deadline=None,
        derandomize=True,
        database=None,
        max_examples=50,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.load_profile("daba")
if not Path("/dev/nvidiactl").exists():  # no GPU: Triton's kernels are interpreted, and it must be
    os.environ.setdefault("TRITON_INTERPRET", "1")  # told so before anything imports them
if "OMP_WAIT_POLICY" not in os.environ:  # before Numba starts: threads that wait must not spin
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell, under nohup
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

FILES = {
    "ladybug-49": "ladybug-49-7776-pre.txt.bz2",
    "trafalgar-21": "trafalgar-21-11315-pre.txt.bz2",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that no process ends long after the others."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def compiled() -> Iterator[None]:
    """Kernels compiled, and BLAS on one thread, as `daba.solve` has it."""
    from daba.backends.cpu.threads import one_blas_thread
    from daba.runtime.compile import compile_kernels

    compile_kernels()
    with one_blas_thread():
        yield


@pytest.fixture(scope="session")
def real_file() -> Callable[[str], Path]:
    """Files of real problems; they are no part of the project, so a test of them is skipped where
    they are not."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"no real data: ../shared/data/{name} is not beside this checkout")
        return path

    return find


@pytest.fixture(scope="session")
def real(compiled: None, real_file: Callable[[str], Path]) -> Callable[[str], Problem]:
    """Real problems by name, each read once."""
    loaded: dict[str, Problem] = {}

    def load(name: str) -> Problem:
        if name not in loaded:
            loaded[name] = daba.load(real_file(FILES[name]))
        return loaded[name]

    return load
