"""Where results are kept: one file per case, written whole, in a folder that processes share."""

from __future__ import annotations

import fcntl
import json
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from daba.io.files import open_output, writing_folder
from daba.partition.partition import Partition, make_partition, partition_from_arrays
from daba.problem.problem import Problem
from daba.tools.bench.cases import Case
from daba.tools.bench.problems import BenchProblem
from daba.tools.bench.results import BenchRun, Results


class Folder:
    """Results of cases, and the partitions they were made with."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, case: Case) -> BenchRun | None:
        """The result of a case; None if there is none that can be read."""
        try:
            data = json.loads((self.path / case.file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        settings = case.settings()
        return BenchRun(settings, data) if data.get("case") == settings else None

    def write(self, case: Case, data: dict[str, Any]) -> BenchRun:
        with _writing(self.path / case.file) as out:
            whole = {"case": case.settings(), **data}
            out.write((json.dumps(whole, separators=(",", ":")) + "\n").encode())
        return BenchRun(case.settings(), data)

    def results(self, cases: Iterable[Case]) -> Results:
        """Results of all cases that have one; where a case has none, that of the other backend."""
        found = (self.read(case) or self.read(case.elsewhere) for case in cases)
        return Results(run for run in found if run is not None)

    def partition(self, source: BenchProblem, devices: int, problem: Problem) -> Partition:
        """Made once: all methods get the same, on whatever machine they run."""
        path = self.path / source.name / f"partition-{devices}-{source.checksum}.npz"
        with suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), path.open("rb") as file:
            kept = np.load(file)
            return partition_from_arrays(problem, kept["cameras"], kept["points"])
        made = make_partition(problem, devices)
        with _writing(path) as out:
            np.savez_compressed(out, cameras=made.camera_device, points=made.point_device)
        return made

    @contextmanager
    def claimed(self, case: Case) -> Iterator[bool]:
        """Whether this process may run a case: no other one that shares the folder is at it. A
        process that dies lets go of what it was at."""
        path = (self.path / case.file).with_suffix(".lock")
        with writing_folder(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = path.open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)


@contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    with writing_folder(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with open_output(path) as out:
        yield out
