"""Numbers to colours."""

from __future__ import annotations

import numpy as np

from daba.problem.problem import Floats

DEVICES = np.array([
    [96, 165, 250], [251, 146, 60], [74, 222, 128], [192, 132, 252], [248, 113, 113],
    [34, 211, 238], [250, 204, 21], [244, 114, 182], [148, 163, 184], [163, 230, 53],
    [129, 140, 248], [45, 212, 191],
], np.uint8)  # fmt: skip
"""The hues of `daba.tools.plotting.COLOURS`, light enough for a dark page."""
RAMP = np.array([
    [49, 104, 214], [38, 166, 190], [94, 201, 98], [253, 220, 60], [247, 129, 45], [214, 40, 57],
])  # fmt: skip
"""From small to large errors."""
GREY = np.array([190, 198, 210], np.uint8)
"""Points without a colour of their own."""
CAMERA = np.array([251, 146, 60], np.uint8)
PICKED = np.array([255, 255, 255], np.uint8)


def by_device(device: np.ndarray) -> np.ndarray:
    return np.asarray(DEVICES[device % len(DEVICES)])


def by_error(errors: Floats, low: float, high: float) -> np.ndarray:
    """Colours on a logarithmic scale from low to high; what has no error is grey."""
    known = np.isfinite(errors)
    share = np.log(np.clip(np.where(known, errors, low), low, high) / low) / np.log(high / low)
    at = share * (len(RAMP) - 1)
    step = np.minimum(at.astype(int), len(RAMP) - 2)
    part = (at - step)[:, None]
    colours = np.rint((1 - part) * RAMP[step] + part * RAMP[step + 1]).astype(np.uint8)
    colours[np.isinf(errors)] = RAMP[-1]
    colours[np.isnan(errors)] = GREY
    return colours


def error_range(*errors: Floats) -> tuple[float, float]:
    """Nearly all of the errors, so that an outlier does not rule."""
    known = np.concatenate(errors)
    known = known[np.isfinite(known) & (known > 0)]
    if len(known) == 0:
        return 0.1, 1.0
    low, high = np.percentile(known, [5, 97])
    return float(low), float(max(high, 2 * low))


def lifted(colours: np.ndarray) -> np.ndarray:
    """Colours of images, so that black can be told from the dark page."""
    return np.rint(32 + colours * ((255 - 32) / 255)).astype(np.uint8)


def of_lines(colours: np.ndarray) -> np.ndarray:
    """Colours as the browser wants them: it takes those of lines for light, those of points not."""
    return np.rint(255.0 * (colours / 255.0) ** 2.2).astype(np.uint8)


def by_height(z: Floats, low: float, high: float) -> np.ndarray:
    """A quiet shade for points without colours: dark below, light above."""
    share = np.clip((np.nan_to_num(z) - low) / max(high - low, 1e-9), 0, 1)[:, None]
    return np.rint((0.55 + 0.45 * share) * GREY).astype(np.uint8)
