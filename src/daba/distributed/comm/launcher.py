"""How this process was started: on its own, or as one of many under MPI."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daba.distributed.comm.base import Communicator

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
"""Set by whatever starts a process under MPI."""
_made: list[Communicator] = []


def by_torchrun() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "").isdigit()


def launched_rank() -> int | None:
    """The rank that whatever started this process has given it, without asking MPI."""
    if by_torchrun():
        return int(os.environ["RANK"])
    for name in _RANKS:
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return None


def communicator() -> Communicator:
    """That of torchrun or MPI if this process was started by one of them, else that of a process on
    its own."""
    if not _made:
        if launched_rank() is None:
            from daba.distributed.comm.base import Communicator

            _made.append(Communicator())
        elif by_torchrun():
            from daba.distributed.comm.torch import TorchCommunicator

            _made.append(TorchCommunicator())
        else:
            from daba.distributed.comm.mpi import MpiCommunicator

            _made.append(MpiCommunicator())
    return _made[0]


def abort_others(code: int) -> None:
    """End the whole job after a failure here: the others would wait for this process forever."""
    if _made and _made[0].size > 1:
        _made[0].abort(code)
