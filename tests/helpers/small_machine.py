"""An environment in which a small machine runs more processes than it has cores, also where MPI
would refuse them."""

from __future__ import annotations

from pathlib import Path

import daba

SMALL_MACHINE = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(daba.__file__).parents[1]),
}
