"""Levenberg–Marquardt on a GPU."""
