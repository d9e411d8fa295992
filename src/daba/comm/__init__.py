"""How processes talk: one small interface, `Communicator`, and those who speak it.

Only `mpi.py` knows of MPI. A solver asks for sums, and for an `Exchange` with neighbours.
"""

from daba.comm.serial import Communicator, Exchange, Traffic, deal

__all__ = ["Communicator", "Exchange", "Traffic", "deal"]
