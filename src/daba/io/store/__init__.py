"""Stores: folders with one part for each device, written and read in parts."""

from daba.io.store.store import Store, load
from daba.io.store.writing import save

__all__ = ["Store", "load", "save"]
