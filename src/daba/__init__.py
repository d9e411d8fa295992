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

__version__ = "0.1.0"

_HOME = {
    "daba.asking": ["Asked", "constrain"],
    "daba.checkpoint": ["Checkpoints"],
    "daba.errors": ["DabaError", "DabaWarning"],
    "daba.filtering": ["Dropped", "filter_outliers"],
    "daba.gathering": ["gather", "save_store"],
    "daba.oddities": ["inspect"],
    "daba.intrinsics": ["PixelError", "forward_model", "pixel_error", "pixel_errors"],
    "daba.io": ["load", "save"],
    "daba.io.store": ["Store"],
    "daba.launch": ["communicator"],
    "daba.losses": [
        "Cauchy", "GemanMcClure", "Huber", "Loss", "SoftL1", "Trivial", "Welsch", "make_loss",
    ],
    "daba.options": ["Options"],
    "daba.partition": ["Partition", "make_partition", "partition_from_arrays"],
    "daba.priors": ["Priors", "Targets"],
    "daba.problem": ["Problem"],
    "daba.result": ["Iteration", "Result"],
    "daba.recording": ["Recorder"],
    "daba.report.run_report": ["write_report"],
    "daba.run": ["solve"],
    "daba.synthetic": ["SceneOptions", "generate"],
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted([*_MODULE, "__version__"])

if TYPE_CHECKING:
    from daba.asking import Asked, constrain
    from daba.checkpoint import Checkpoints
    from daba.errors import DabaError, DabaWarning
    from daba.filtering import Dropped, filter_outliers
    from daba.gathering import gather, save_store
    from daba.intrinsics import PixelError, forward_model, pixel_error, pixel_errors
    from daba.io import load, save
    from daba.io.store import Store
    from daba.launch import communicator
    from daba.losses import (
        Cauchy,
        GemanMcClure,
        Huber,
        Loss,
        SoftL1,
        Trivial,
        Welsch,
        make_loss,
    )
    from daba.oddities import inspect
    from daba.options import Options
    from daba.partition import Partition, make_partition, partition_from_arrays
    from daba.priors import Priors, Targets
    from daba.problem import Problem
    from daba.recording import Recorder
    from daba.report.run_report import write_report
    from daba.result import Iteration, Result
    from daba.run import solve
    from daba.synthetic import SceneOptions, generate


def __getattr__(name: str) -> Any:
    # names are imported when first used, so that `import daba` is quick
    if name in _MODULE:
        from importlib import import_module

        value = getattr(import_module(_MODULE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'daba' has no attribute '{name}'")
