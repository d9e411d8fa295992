"""CPU kernels: Numba, parallel over points and cameras, same bits for any number of threads."""
