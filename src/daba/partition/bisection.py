"""A partition without METIS: cameras are cut in two, again and again, by where they look."""

from __future__ import annotations

import numpy as np

from daba.problem.problem import Floats, Ints


def centroids_seen(points: Floats, camera: Ints, point: Ints, cameras: int) -> Floats:
    """The centroid of what each camera sees: the mean of its points, each pulled to within the
    scene, for a distant point says little of where a camera looks."""
    low, high = np.quantile(points, [0.02, 0.98], axis=0)
    points = np.clip(points, low, high)
    count = np.maximum(np.bincount(camera, minlength=cameras), 1)
    return np.stack(
        [
            np.bincount(camera, weights=points[point, x], minlength=cameras) / count
            for x in range(3)
        ],
        axis=1,
    )


def bisect_cameras(positions: Floats, load: np.ndarray, devices: int) -> Ints:
    """Device of each camera: along the axis of largest extent, at the share of the load that
    goes to each half."""
    out = np.zeros(len(positions), dtype=np.int32)

    def split(chosen: np.ndarray, first: int, count: int) -> None:
        if count == 1:
            out[chosen] = first
            return
        left = count // 2
        x = positions[chosen] - positions[chosen].mean(axis=0)
        axis = np.linalg.eigh(x.T @ x)[1][:, -1]
        axis = axis * np.sign(axis[np.abs(axis).argmax()])  # the same on every machine
        order = np.argsort(x @ axis, kind="stable")
        done = np.cumsum(np.maximum(load[chosen[order]], 1))
        cut = int(np.searchsorted(done, done[-1] * left / count)) + 1
        cut = min(max(cut, left), len(chosen) - (count - left))  # a camera for every device
        split(chosen[order[:cut]], first, left)
        split(chosen[order[cut:]], first + left, count - left)

    split(np.arange(len(positions)), 0, devices)
    return out
