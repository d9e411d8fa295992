"""What workers are asked to do in the tests of the compiler: functions and kernels that can be
found by name in another process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from daba.backends.cpu.kernels.binding import factory, serial
from daba.core.types import Floats, Int32, Matrix, Tasks


def leave_word(folder: str, name: str, seconds: float = 0.0) -> None:
    """Append this process to a file."""
    with (Path(folder) / name).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(seconds)


def fail() -> None:
    raise ValueError("it went wrong")


def die() -> None:
    os._exit(3)


@serial
def everything(
    a: Floats,
    b: Matrix,
    c: Tasks,
    d: int,
    e: float,
    f: bool,
    g: Int32 | None,
    h: tuple[Floats, int],
) -> float:
    """Of each kind of argument one."""
    return a[0] + b[0, 0] + c.ptr[0] + d + e + f + h[0][0] + (0.0 if g is None else g[0])


@serial
def twice(x: Floats) -> Floats:
    """Returns an array, which Numba has to make."""
    return 2.0 * x


@factory
def adder(count: int) -> Callable[[np.ndarray], float]:
    """A kernel made for a number."""

    @serial
    def add(x: Floats) -> float:
        total = 0.0
        for _ in range(count):
            total += x[0]
        return total

    return add
