"""Kernels of Levenberg–Marquardt, compiled for the kind of problem at hand.

The files here are templates: `binding.kernels(kind)` runs them, in the order of `TEMPLATES`, in one
namespace in which names such as B (parameters of a frame's own block) are constants of that kind.
"""
