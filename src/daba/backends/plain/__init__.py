"""Plain NumPy: slow, obvious, and there at once. It solves problems that are too small for anything
to be worth compiling or loading, and the kernels' results are tested against it."""
