"""torch, where it is installed."""

from __future__ import annotations

from typing import Any

Tensor = Any
"""A torch.Tensor; torch has types, but Triton's kernels take what they are given."""
