"""What a solve runs on, without naming the machine."""

from __future__ import annotations

import os
import platform
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from typing import Any


def environment() -> dict[str, Any]:
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {
        "date": date.today().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numba", "numpy", "scipy")},
    }


def gpu(backend: str) -> dict[str, Any]:
    """The GPU of a run on one."""
    if backend != "gpu":
        return {}
    import torch

    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}


def _version(name: str) -> str | None:
    """None where it is not installed: a GPU needs little of it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
