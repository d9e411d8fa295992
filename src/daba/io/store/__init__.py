"""Stores: folders with one part for each device, written and read in parts."""

from daba.io.store.store import Store, load, save

__all__ = ["Store", "load", "save"]
