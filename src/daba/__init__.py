"""daba: decentralized and accelerated bundle adjustment.

    import daba

    problem = daba.load("problem-49-7776-pre.txt.bz2")
    result = daba.solve(problem, devices=8, loss=daba.Huber(32.0), iterations=1000)
    print(result.summary())
    daba.save(result.problem, "solution.txt")

Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_HOME = {
    "daba.io.constraint_options": ["ConstraintOptions", "constrain"],
    "daba.runtime.checkpoint": ["Checkpoints"],
    "daba.core.errors": ["DabaError", "DabaWarning"],
    "daba.core.version": ["__version__"],
    "daba.problem.outliers": ["Dropped", "filter_outliers"],
    "daba.runtime.gather": ["gather", "save_store"],
    "daba.problem.diagnostics": ["inspect"],
    "daba.problem.intrinsics": ["forward_model"],
    "daba.problem.pixel_errors": ["PixelError", "pixel_error", "pixel_errors"],
    "daba.io.formats": ["load", "save"],
    "daba.io.store.store": ["Store"],
    "daba.distributed.comm.launcher": ["communicator"],
    "daba.core.losses": [
        "Cauchy", "GemanMcClure", "Huber", "Loss", "SoftL1", "Trivial", "Welsch", "make_loss",
    ],
    "daba.core.options": ["Options"],
    "daba.partition.partition": ["Partition", "make_partition", "partition_from_arrays"],
    "daba.problem.priors": ["Priors", "Targets"],
    "daba.problem.problem": ["Problem"],
    "daba.runtime.result": ["Iteration", "Result"],
    "daba.runtime.recording": ["Recorder"],
    "daba.tools.report.run_report": ["write_report"],
    "daba.runtime.solve": ["solve"],
    "daba.tools.synthetic": ["SceneOptions", "generate"],
}  # fmt: skip
_RENAMED = {"Asked": "ConstraintOptions"}
"""What version 0.1 called some of them."""
_DOORS = ("colmap", "plot")
"""Modules that users reach through the package."""
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)

if TYPE_CHECKING:
    from daba.core.errors import DabaError, DabaWarning
    from daba.core.losses import (
        Cauchy,
        GemanMcClure,
        Huber,
        Loss,
        SoftL1,
        Trivial,
        Welsch,
        make_loss,
    )
    from daba.core.options import Options
    from daba.core.version import __version__
    from daba.distributed.comm.launcher import communicator
    from daba.io.constraint_options import ConstraintOptions, constrain
    from daba.io.formats import load, save
    from daba.io.store.store import Store
    from daba.partition.partition import Partition, make_partition, partition_from_arrays
    from daba.problem.diagnostics import inspect
    from daba.problem.intrinsics import forward_model
    from daba.problem.outliers import Dropped, filter_outliers
    from daba.problem.pixel_errors import PixelError, pixel_error, pixel_errors
    from daba.problem.priors import Priors, Targets
    from daba.problem.problem import Problem
    from daba.runtime.checkpoint import Checkpoints
    from daba.runtime.gather import gather, save_store
    from daba.runtime.recording import Recorder
    from daba.runtime.result import Iteration, Result
    from daba.runtime.solve import solve
    from daba.tools.report.run_report import write_report
    from daba.tools.synthetic import SceneOptions, generate


def __getattr__(name: str) -> Any:
    # names are imported when first used, so that `import daba` is quick
    name = _RENAMED.get(name, name)
    if name in _MODULE:
        from importlib import import_module

        value = getattr(import_module(_MODULE[name]), name)
        globals()[name] = value
        return value
    if name in _DOORS:
        from importlib import import_module

        return import_module(f"daba.{name}")
    raise AttributeError(f"module 'daba' has no attribute '{name}'")
