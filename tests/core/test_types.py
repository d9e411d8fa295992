"""`frozen` does what `dataclass(frozen=True)` does."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace
from functools import cached_property

import pytest

from daba.core.types import frozen


@frozen
class Ours:
    """A class."""

    a: int
    b: tuple[int, ...] = ()
    note: str = field(default="", compare=False)
    hidden: list[int] = field(default_factory=list, repr=False, compare=False)

    @cached_property
    def double(self) -> int:
        return 2 * self.a


@dataclass(frozen=True)
class Theirs:
    """The same by the standard library."""

    a: int
    b: tuple[int, ...] = ()
    note: str = field(default="", compare=False)
    hidden: list[int] = field(default_factory=list, repr=False, compare=False)


def test_as_the_standard_library_has_it() -> None:
    ours, theirs = Ours(1, (2, 3), hidden=[4]), Theirs(1, (2, 3), hidden=[4])
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert asdict(ours) == asdict(theirs)
    assert inspect.signature(Ours) == inspect.signature(Theirs)
    assert Ours.__match_args__ == Theirs.__match_args__
    assert hash(ours) == hash(theirs)


def test_equality_is_by_fields_of_one_class() -> None:
    assert Ours(1, note="x") == Ours(1)
    assert Ours(1) != Ours(2)
    assert Ours(1) != Theirs(1)
    assert len({Ours(1), Ours(1, note="x"), Ours(2)}) == 2


def test_fields_are_set_once() -> None:
    ours = Ours(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        ours.a = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        del ours.a
    assert ours.double == 2
    assert replace(ours, a=3).a == 3


def test_copies() -> None:
    ours = Ours(1, (2,), "x", [3])
    for other in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert other == ours
        assert other is not ours
        assert other.hidden == [3]


def test_what_a_class_writes_itself_stays() -> None:
    @frozen
    class Quiet:
        a: int

        def __repr__(self) -> str:
            return "quiet"

    assert repr(Quiet(1)) == "quiet"
