"""Adjusting pycolmap's own objects: the public door to `daba.tools.colmap`."""

from daba.io.colmap.memory import update
from daba.tools.colmap import BundleAdjustmentSummary, bundle_adjustment

__all__ = ["BundleAdjustmentSummary", "bundle_adjustment", "update"]
