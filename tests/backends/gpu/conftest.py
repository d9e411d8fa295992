"""Where there is no GPU, kernels are interpreted."""

from __future__ import annotations

import importlib.util
import os

from quick_interpreter import quicken

if os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton"):
    quicken()
