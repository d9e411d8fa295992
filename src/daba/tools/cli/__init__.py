"""The command `daba`: finds the command, runs it, and turns errors into exit codes.

Each command is a module here with `run(argv) -> exit code`, imported only when it is run.

    0  done        2  bad input or an impossible request, said in one line on stderr
    1  a bug       130  interrupted, 143 terminated: a solve has written what it reached, other
                        commands have left nothing behind
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module

from daba.core.errors import DabaError, DabaWarning
from daba.core.text import printable
from daba.distributed.comm.launcher import abort_others, launched_rank
from daba.runtime.observers import Terminated, unwinding

PATIENCE = 2.0
"""Seconds for which another rank leaves it to rank 0 to tell of an error they share."""

COMMANDS = {
    "solve": "Solve a problem and write the solution.",
    "info": "Count, measure and check a problem before solving it.",
    "partition": "Show how a problem would be shared between devices.",
    "convert": "Read a problem in one format and write it in another.",
    "synth": "Make a synthetic scene with known truth.",
    "download": "Fetch a problem of the BAL collection, or list them.",
    "view": "Look at a problem, a solution or a recorded solve in the browser.",
    "report": "Make a page that shows how solves went.",
    "bench": "Compare methods as the paper does, and write a report.",
    "warmup": "Compile what solves will need, before the first of them.",
}

ALONE = ("solve", "partition", "convert")
"""Commands for which BLAS starts no threads."""

EXAMPLES = """\
  daba solve sparse/0 -o sparse/better            a COLMAP model, made better
  daba view sparse/0 sparse/better                before and after, in the browser
  daba synth city.txt --cameras 100 --points 10000
  daba solve city.txt -o solution.txt --devices 8 --report how.html"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code. Without one it is that of this process."""
    if argv is not None:
        return _run(list(argv))
    _make_streams_safe()
    code = _run(sys.argv[1:])
    gc.freeze()  # the process ends: there is no need to look for cycles, which takes 10 ms
    return code


def _make_streams_safe() -> None:
    """What is printed may go nowhere, or to where some characters are not known: neither ends a
    solve."""
    nowhere = (launched_rank() or 0) > 0  # under MPI rank 0 prints
    if nowhere or sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _run(arguments: list[str]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("always", DabaWarning)
        warnings.showwarning = _show_warning
        try:
            with unwinding():
                code = _dispatch(arguments)
            sys.stdout.flush()  # here, where a closed pipe can still be handled
            return code
        except DabaError as error:
            return _fail(str(error), 2)
        except KeyboardInterrupt:
            return _fail("interrupted", 130)
        except Terminated as stop:
            return _fail(str(stop), 128 + stop.number)
        except BrokenPipeError:
            return _closed_pipe()
        except OSError as error:
            if error.filename is None and error.errno != errno.ENOSPC:
                return _bug()
            where = error.filename or "what is printed cannot be written"
            _leave_stdout()
            return _fail(f"{where}: {error.strerror}", 2)
        except MemoryError:
            return _fail("not enough memory", 1)
        except SystemExit as stop:  # after --help
            return stop.code if isinstance(stop.code, int) else 0
        except Exception:
            return _bug()


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if arguments[0] in ("--version", "version"):
        from daba.core.version import __version__

        print(f"daba {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        from daba.tools.cli.hints import unknown_command

        raise DabaError(unknown_command(name, rest, list(COMMANDS)))
    if name in ALONE and "numpy" not in sys.modules:
        # our kernels run BLAS on one thread each; to start threads of its own takes 60 ms, and they
        # would get the signals that a thread keeps waiting while it imports pycolmap
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    command = import_module(f"daba.tools.cli.{name}")
    return int(command.run(rest))


def _help() -> str:
    from daba.core.version import __version__

    commands = "\n".join(f"  {name:<11}{what}" for name, what in COMMANDS.items())
    return (
        f"daba {__version__}: decentralized and accelerated bundle adjustment\n\n"
        "usage: daba COMMAND ... [--help]\n\n"
        f"commands:\n{commands}\n"
        f"  {'version':<11}Print the version.\n\n"
        "Every command explains itself: daba solve --help\n\n"
        f"examples:\n{EXAMPLES}\n\n"
        "files: BAL (.txt or .bal) and Bundler (.out), also with .bz2 or .gz, folders with COLMAP\n"
        "models, daba's own .npz and stores, and .ply to look at"
    )


def _fail(message: str, code: int) -> int:
    """Say what went wrong. Under MPI the whole job ends; what all ranks find, rank 0 says."""
    rank = launched_rank()
    if rank:
        time.sleep(PATIENCE)
    try:
        where = "" if not rank else f" on rank {rank}"
        print(f"daba: error{where}: {printable(message)}", file=sys.stderr, flush=True)
    except BrokenPipeError:
        _closed_pipe()
    abort_others(code)
    return code


def _bug() -> int:
    """Show where, in the `except` clause of what happened."""
    import traceback

    print(printable(traceback.format_exc()), end="", file=sys.stderr)
    return _fail("this is a bug in daba; please report it with the lines above", 1)


def _closed_pipe() -> int:
    """Whoever read our output has gone, as in `daba info x | head`: leave in silence."""
    _leave_stdout()
    return 141


def _leave_stdout() -> None:
    """Send what cannot be written nowhere, or Python would complain when it flushes it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"daba: warning: {printable(message)}", file=sys.stderr)
