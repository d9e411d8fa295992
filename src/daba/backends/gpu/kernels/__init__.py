"""GPU kernels: Triton, one program per camera or per slice of points, sums in a fixed order."""
