"""The solver on a GPU: torch tensors, Triton kernels, iterations as CUDA graphs."""
