"""What is needed to judge a time, and nothing that names the machine."""

from __future__ import annotations

import os
import platform
from datetime import date
from typing import Any


def machine() -> dict[str, Any]:
    from importlib.metadata import version

    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {
        "date": date.today().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": load,
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
    }
