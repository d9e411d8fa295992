"""What commands write: refused before the work is done rather than after, and written by `daba
solve`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from daba.core.errors import DabaError
from daba.tools.cli.console import to_json

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator
    from daba.problem.problem import Problem
    from daba.runtime.result import Result
    from daba.tools.cli.solve import SolveCommand


def check_problem_target(path: Path, source: Path | None = None, overwrite: bool = False) -> None:
    """Raise `DabaError` if `daba.save` cannot write there, be it a file or a folder; its suffix
    must be known, or `source`, what is read, be a COLMAP model."""
    from daba.io.colmap.writing import check_target as check_model
    from daba.io.files import file_target, split_suffix
    from daba.io.folders import check_folder
    from daba.io.formats import FORMATS, must_exist, target_format

    model = None if source is None else colmap_folder(source)
    if model is not None and target_format(path, True).name == "colmap":
        return check_model(path, model, overwrite)
    suffix, compression = split_suffix(path)
    known = [form for form in FORMATS if form.save is not None]
    if not any(suffix in form.suffixes and (form.compressed or not compression) for form in known):
        if source is not None:
            must_exist(source)  # a folder may be meant, and what is read would say so
        suffixes = ", ".join(s for form in known for s in form.suffixes)
        raise DabaError(
            f"{path}: unknown kind of file '{suffix + compression}'; known are {suffixes} "
            "(.txt, .bal and .out also with .bz2 or .gz), and folders if a COLMAP model is read"
        )
    if suffix == ".daba":
        check_folder(path)
    else:
        file_target(path)


def colmap_folder(source: Path) -> str | None:
    """The folder of the COLMAP model that is read, be it from a store; None if it is none."""
    from daba.io.colmap import is_model
    from daba.io.folders import is_store

    if is_store(source):
        from daba.io.store.store import Store

        about = Store(source).info.get("colmap")
        return None if about is None else about.get("path")
    return str(source) if is_model(source) else None


def check_outputs(command: SolveCommand) -> None:
    """Refuse what cannot be written now rather than after an hour."""
    from daba.io.files import file_target, folder_target

    for path in command.output:
        check_problem_target(path, command.input, command.overwrite)
    for target in (command.history, command.report):
        if target is not None:
            file_target(target)
    if command.plot is not None:
        from daba.tools.plotting import check_suffix

        check_suffix(command.plot)
        file_target(command.plot)
    if command.log is not None:
        folder_target(command.log, "a log", in_place=True)
    if command.record is not None:
        from daba.runtime.recording import check_folder

        check_folder(command.record)
    paths = [*command.output, command.history, command.plot, command.report]
    files = [path for path in paths if path is not None]
    folders = [command.log, command.record, command.checkpoint]
    check_distinct(files, [folder for folder in folders if folder is not None])


def check_distinct(files: Sequence[Path], folders: Sequence[Path] = ()) -> None:
    """Raise `DabaError` if two files have one name, or a file that of a folder or of one above."""
    known = [os.path.realpath(path) for path in files]
    for path in known:
        if known.count(path) > 1:
            raise DabaError(f"{path} is to be written twice; give every file a name of its own")
    for folder in folders:
        real = Path(os.path.realpath(folder))
        for path in known:
            if Path(path) in (real, *real.parents):
                raise DabaError(f"{folder} is to be a folder, and {path} is written there, too")


def check_shared(command: SolveCommand, problem: Problem) -> None:
    """Images that have one camera in a COLMAP model cannot be written there with several."""
    from daba.io.formats import target_format

    if "colmap" not in problem.info or problem.shared is not None:
        return
    for path in command.output:
        if target_format(path, True).name == "colmap":
            raise DabaError(
                f"cannot write {path}: a COLMAP model has one camera for images that share it, so "
                "--share-intrinsics none needs another format"
            )


def write_outputs(
    command: SolveCommand, result: Result, comm: Communicator, only_about: bool = False
) -> tuple[list[Path], list[str]]:
    """Write every file that can be written; returns those, and what went wrong with others. All
    processes write a store; rank 0 writes the rest, and gathers the solution for that. Not even a
    bug in writing one of them costs the others. `only_about`: history, report and plot, not the
    solution itself."""
    from daba.io.files import open_output
    from daba.io.folders import is_store
    from daba.runtime.gather import gather, save_store

    written: list[Path] = []
    errors: list[str] = []
    bugs: list[Exception] = []

    def attempt(path: Path | None, write: Callable[[Path], object]) -> None:
        if path is not None:
            try:
                write(path)
                written.append(path)
            except DabaError as error:
                errors.append(str(error))
            except Exception as error:
                bugs.append(error)

    def write_history(path: Path) -> None:
        with open_output(path) as out:
            out.write(to_json(recorded).encode() + b"\n")

    def write_page(path: Path) -> None:
        from daba.tools.report.run_report import write_report

        write_report([cast("dict[str, Any]", recorded)], path)

    def write_plot(path: Path) -> None:
        from daba.tools.plotting import convergence

        convergence(result, path)

    wanted_outputs = () if only_about else command.output
    stores = [path for path in wanted_outputs if path.suffix == ".daba" or is_store(path)]
    files = [path for path in wanted_outputs if path not in stores]
    for path in stores:
        attempt(path, lambda path: save_store(result, path, comm))
    whole = gather(result, comm) if files else None
    for path in files if comm.rank == 0 else ():
        attempt(path, lambda path: _save(command, cast("Problem", whole), path))
    recorded = None
    if command.history is not None or command.report is not None:
        from daba.tools.report.overview import record

        recorded = record(result, comm)
    if comm.rank == 0:
        attempt(command.history, write_history)
        attempt(command.report, write_page)
        attempt(command.plot, write_plot)
    if bugs:
        raise bugs[0]
    return written, errors if comm.rank == 0 else []


def _save(command: SolveCommand, solution: Problem, path: Path) -> None:
    from daba.io.formats import save

    save(solution, path, kind=command.kind, overwrite=command.overwrite)
