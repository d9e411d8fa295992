"""From a file to a store, with memory for cameras and points but not for observations.

Observations are read in chunks and sorted on the disk, three times: by point, where all that
see a point are needed at once (`points`); by the point's index in device order, as devices keep
their intra and inter observations; and by the camera's, as they keep their outer ones
(`devices`). Each step is the one that `make_partition` and `lay_out` take for a problem in
memory, and the store is the same, bit for bit.
"""

from __future__ import annotations

import shutil

from daba.io.files import PathLike
from daba.io.folders import output_folder
from daba.io.formats import open_source
from daba.io.forward import Intrinsics
from daba.io.info import split_info
from daba.io.store.manifest import Manifest, write_manifest
from daba.io.store.streaming.devices import sort_by_device, write_devices
from daba.io.store.streaming.points import find_order, gather_by_point
from daba.io.store.writing import write_info, write_into
from daba.partition.ordering import lay_out
from daba.partition.partition import check_devices, make_partition
from daba.partition.statistics import PartitionStatistics, statistics
from daba.problem.problem import Problem

__all__ = ["partition_to_store"]

_ROWS = 1 << 17  # observations sorted at once, at least


def partition_to_store(
    path: PathLike, devices: int, seed: int, out: PathLike, intrinsics: Intrinsics = "auto"
) -> PartitionStatistics:
    """Read a problem from a file, partition it, and write it as a store, whole or not at all.

    A problem with constraints, or cameras as their file describes them, is partitioned in memory:
    they belong to variables, not to what is read chunk by chunk, and its formats are read as a
    whole anyway."""
    with output_folder(out) as folder:
        scratch = folder / "scratch"
        scratch.mkdir()
        source = open_source(path, intrinsics, scratch)
        if source.whole is not None and _needs_memory(source.whole):
            partition = make_partition(source.whole, devices, seed)
            shutil.rmtree(scratch)
            write_into(lay_out(source.whole, partition), folder)
            return statistics(source.whole, partition)
        C, P, K = len(source.cameras), len(source.points), source.observations
        check_devices(devices, C)
        limit = max(_ROWS, P // 8)  # with many points there is memory, and buckets stay few
        by_point = gather_by_point(source, scratch, limit)
        order = find_order(by_point, devices, seed, K)
        by_device = sort_by_device(by_point, order, scratch, limit)
        by_point.buckets.remove()
        parts = write_devices(source, order, by_device, folder)
        info, arrays = split_info(source.info)
        info_arrays = write_info(folder, arrays)
        write_manifest(folder, Manifest(source.name, C, P, K, info, info_arrays, parts))
        shutil.rmtree(scratch)
    return by_device.statistics


def _needs_memory(problem: Problem) -> bool:
    return problem.given_optics is not None or not problem.plain
