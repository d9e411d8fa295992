"""Sums over tasks, in an order that no number of threads changes."""

from daba.backends.cpu.kernels.binding import inline


@inline
def sum_tasks(partial, tasks, out):
    """Sum what the tasks of each device found, in the order of the tasks."""
    for a in range(len(out)):
        for t in range(tasks.device_ptr[a], tasks.device_ptr[a + 1]):
            out[a] += partial[t]
