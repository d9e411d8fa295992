"""Dataclasses whose fields are set once."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Class) -> Class:
    """As `dataclass(frozen=True)`, which writes and compiles six functions for each class: 10 ms of
    every command. Here one is compiled, `__init__`, and all classes share the others."""
    dataclass(eq=False, repr=False)(cls)
    for name in ("__setattr__", "__delattr__", "__eq__", "__hash__", "__repr__"):
        if name not in vars(cls):
            setattr(cls, name, vars(_Frozen)[name])
    return cls


class _Frozen:
    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self: Any) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, f.name) for f in fields(self) if f.compare)
