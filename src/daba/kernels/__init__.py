"""The only code that knows a machine: formulas, the NumPy reference and the CPU kernels."""
