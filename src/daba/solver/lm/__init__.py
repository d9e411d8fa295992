"""Levenberg–Marquardt on any number of devices, for rays and pixels."""
