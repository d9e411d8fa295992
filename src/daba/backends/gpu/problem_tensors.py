"""Problems whose arrays live on a GPU: brought to the host to be laid out, and taken back."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from daba.problem.problem import Problem


def to_host(problem: Any) -> tuple[Any, Any]:
    """A problem with NumPy's arrays, and the torch device its estimate was on, None if on none."""
    if not isinstance(problem, Problem):
        return problem, None
    changes: dict[str, Any] = {}
    device = None
    for field in fields(problem):
        value: Any = getattr(problem, field.name)
        if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor
            kind = np.int32 if field.name.endswith("_index") else np.float64
            changes[field.name] = np.ascontiguousarray(value.detach().cpu().numpy(), dtype=kind)
            if field.name == "cameras":
                device = value.device
    return (replace(problem, **changes) if changes else problem), device


def to_device(solution: Problem, given: Problem, device: Any) -> Problem:
    """The solution as the problem was given: its estimate on the device, all else untouched."""
    import torch

    return given.with_estimate(
        torch.from_numpy(solution.cameras).to(device),  # type: ignore[arg-type]
        torch.from_numpy(solution.points).to(device),  # type: ignore[arg-type]
    )
