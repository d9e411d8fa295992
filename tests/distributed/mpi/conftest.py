"""Every job finds its kernels compiled: on a cold cache its time limit would be spent on them."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _compiled(compiled: None) -> None:
    pass
