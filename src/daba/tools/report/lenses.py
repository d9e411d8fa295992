"""Intrinsics before and after a solve: which camera changed, and by how much."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.problem.intrinsics import forward_model
from daba.problem.problem import Problem

MOST = 12
"""Cameras listed: those whose focal length changed most."""


def lens_changes(start: Problem, solution: Problem) -> list[dict[str, Any]]:
    """f, k1 and k2 of cameras before and after; images that share intrinsics are one camera.
    Nothing, where no intrinsics have changed."""
    if np.array_equal(start.intrinsics, solution.intrinsics):
        return []
    groups = np.arange(start.num_cameras) if start.shared is None else start.shared
    numbers, first, images = np.unique(groups, return_index=True, return_counts=True)
    ids = np.asarray(start.info.get("lens_ids", numbers))
    before, after = forward_model(start)[first], forward_model(solution)[first]
    change = np.abs(after[:, 0] / before[:, 0] - 1.0)
    return [
        {
            "camera": int(ids[n]),
            "images": int(images[n]),
            "start": before[n].tolist(),
            "solution": after[n].tolist(),
        }
        for n in np.argsort(-change, kind="stable")[:MOST]
    ]
