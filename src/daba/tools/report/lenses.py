"""Intrinsics before and after a solve: which camera changed, and by how much."""

from __future__ import annotations

from typing import Any

import numpy as np

from daba.core.camera_models import BY_ID
from daba.core.types import Floats
from daba.problem.problem import Problem

MOST = 12
"""Cameras listed: those that changed most."""


def lens_changes(start: Problem, solution: Problem) -> list[dict[str, Any]]:
    """The parameters of cameras that have changed, in the names of their models, before and after;
    nothing, where none has."""
    if start.given_optics is None and np.array_equal(start.intrinsics, solution.intrinsics):
        return []  # these are fitted to observations, of which a filter may have left fewer
    was, now = start.optics, solution.optics
    cameras, image, images = np.unique(now.camera, return_index=True, return_counts=True)
    before, after = was.params[was.camera[image]], now.params[cameras]
    ids = start.info.get("camera_ids", np.arange(len(was.model)))
    models = [BY_ID[number] for number in now.model[cameras].tolist()]
    focal = np.arange(before.shape[1]) < np.array([[model.focals] for model in models])
    moved = np.flatnonzero((before != after).any(axis=1))
    order = np.lexsort((-_rest(before, after, focal), -_zoom(before, after, focal)))
    found = []
    for n in order[np.isin(order, moved)][:MOST].tolist():
        changed = np.flatnonzero(before[n] != after[n]).tolist()
        found.append(
            {
                "camera": int(ids[was.camera[image[n]]]),
                "model": models[n].name,
                "images": int(images[n]),
                "parameters": [models[n].parameters[p] for p in changed],
                "start": before[n, changed].tolist(),
                "solution": after[n, changed].tolist(),
            }
        )
    return found


def _zoom(before: Floats, after: Floats, focal: np.ndarray) -> Floats:
    """The largest share by which a focal length of each camera has changed."""
    share = np.divide(after, before, out=np.ones_like(after), where=focal & (before != 0)) - 1.0
    return np.asarray(np.abs(share).max(axis=1))


def _rest(before: Floats, after: Floats, focal: np.ndarray) -> Floats:
    """The largest change of what is no focal length, for cameras that keep theirs."""
    return np.asarray(np.where(focal, 0.0, np.abs(after - before)).max(axis=1))
