"""`daba` on a runtime whose MPI is older than 4: it has no persistent collectives."""

import sys
from typing import Any

import daba.distributed.comm.mpi
from daba.tools.cli import main


def missing(graph: Any, ends: tuple[Any, Any]) -> Any:
    raise NotImplementedError("as mpi4py says it")


daba.distributed.comm.mpi.persistent_request = missing
sys.exit(main())
