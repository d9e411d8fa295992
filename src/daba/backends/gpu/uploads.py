"""Arrays on their way to a GPU while others are still read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from typing import Any

import numpy as np
import torch

from daba.backends.gpu.tensors import Tensor

PIECE = 1 << 24
"""Bytes copied at a time: pinning memory takes long, and two pieces keep the bus busy."""


class Uploads:
    """A thread copies arrays piece by piece into pinned memory, from where a stream of their own
    takes them. Reading a file, its checksum, and looking through it go on meanwhile: none of them
    holds Python's lock for long."""

    def __init__(self, device: torch.device) -> None:
        """In tests also the CPU."""
        self.device, self.on_gpu = device, device.type == "cuda"
        self.thread = ThreadPoolExecutor(1, "uploads")
        self.stream = torch.cuda.Stream(device) if self.on_gpu else None
        self.pieces: Iterator[_Piece] | None = None

    def start(self, array: np.ndarray) -> Coming:
        """Begin with an array, which must not change until it is there."""
        return Coming(self.thread.submit(self._send, array), self.on_gpu)

    def _send(self, array: np.ndarray) -> tuple[Tensor, Any]:
        if self.pieces is None:
            self.pieces = cycle([_Piece(self.on_gpu), _Piece(self.on_gpu)])
        given = np.ascontiguousarray(array)
        with torch.cuda.stream(self.stream):  # none on the CPU
            kind = torch.from_numpy(np.empty(0, given.dtype)).dtype
            there = torch.empty(given.shape, dtype=kind, device=self.device)
            source = given.reshape(-1).view(np.uint8)
            into = there.view(-1).view(torch.uint8)
            for first in range(0, len(source), PIECE):
                part = slice(first, first + PIECE)
                next(self.pieces).send(source[part], into[part])
            return there, self.stream.record_event() if self.stream is not None else None


class Coming:
    """An array that is on its way."""

    def __init__(self, sent: Future[tuple[Tensor, Any]], on_gpu: bool) -> None:
        self._sent, self._on_gpu = sent, on_gpu

    def arrived(self) -> Tensor:
        """The tensor: what uses it on the stream at hand waits for it."""
        there, event = self._sent.result()
        if self._on_gpu:
            here = torch.cuda.current_stream(there.device)
            here.wait_event(event)
            there.record_stream(here)
        return there


class _Piece:
    """Pinned memory, and the copy that reads it."""

    def __init__(self, on_gpu: bool) -> None:
        self.memory = torch.empty(PIECE, dtype=torch.uint8, pin_memory=on_gpu)
        self.read = torch.cuda.Event() if on_gpu else None

    def send(self, source: np.ndarray, into: Tensor) -> None:
        if self.read is not None:
            self.read.synchronize()
        np.copyto(self.memory.numpy()[: len(source)], source)
        into.copy_(self.memory[: len(source)], non_blocking=True)
        if self.read is not None:
            self.read.record()
