"""Plots of convergence and of scenes: the public door to `daba.tools.plotting`."""

from daba.tools.plotting import convergence, scene

__all__ = ["convergence", "scene"]
