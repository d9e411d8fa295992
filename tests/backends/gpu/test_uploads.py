"""Arrays of a store on their way to a GPU, here to the CPU's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scene_for_gpu import tiny_problem

import daba
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.scatter import make_setup
from daba.io.store.store import Store
from daba.io.store.writing import write_store
from daba.partition.ordering import lay_out

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from daba.backends.gpu import uploads  # noqa: E402
from daba.backends.gpu.setting_up import TorchArrays  # noqa: E402


def test_arrays_arrive_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces, in any order, also those that are empty, of one byte, or not to be written."""
    monkeypatch.setattr(uploads, "PIECE", 56)
    random = np.random.default_rng(0)
    given: list[np.ndarray] = [
        random.normal(size=(50, 2)), np.arange(31, dtype=np.int32), np.empty((0, 3)),
        np.ones(1, np.int8), random.normal(size=(20, 6))[:, ::2], np.arange(7),
    ]  # fmt: skip
    given[1].flags.writeable = False
    here = uploads.Uploads(torch.device("cpu"))
    coming = [here.start(array) for array in given]
    for sent, array in reversed(list(zip(coming, given, strict=True))):
        found = sent.arrived().numpy()
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_what_goes_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(uploads._Piece, "send", fail)
    sent = uploads.Uploads(torch.device("cpu")).start(np.arange(3))
    with pytest.raises(MemoryError, match="no room"):
        sent.arrived()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    problem = tiny_problem(6, 40)
    partition = daba.partition_from_arrays(problem, np.arange(6) // 2)
    write_store(lay_out(problem, partition), tmp_path / "tiny.daba")
    return Store(tmp_path / "tiny.daba")


@pytest.mark.parametrize("error", ["ray", "pixel"])
def test_the_same_shard(error: Any, store: Store) -> None:
    """And each array is sent before the next file is looked through."""
    order = []

    class Told(TorchArrays):
        def start(self, array: Any) -> Any:
            order.append("sent")
            return super().start(array)

    class Watched(Store):
        def sound(self, device: int, name: str) -> np.ndarray:
            order.append(name)
            return super().sound(device, name)

    options, comm = Options(method="lm", error=error, devices=3), Communicator()
    expected = make_setup(store, options, None, comm).shard
    found = make_setup(Watched(store.path), options, None, comm, Told("cpu")).shard
    assert isinstance(found.intra.u, torch.Tensor)
    for kind in ("intra", "inter"):
        one, other = getattr(found.on_host(), kind), getattr(expected, kind)
        for what, array in other._asdict().items():
            np.testing.assert_array_equal(getattr(one, what), array, err_msg=what)
    assert order.count("sent") == 3 * 3 * 4
    first = order.index("intra-camera")
    assert order[first : first + 4] == ["intra-camera", "sent", "intra-point", "sent"]
