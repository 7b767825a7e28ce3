"""Whether two plans are one, which were made of two readings of the schema."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from sqltypes.schema import Table


def same(one: Any, other: Any) -> bool:
    """Are these equal, but for how many rows the tables were thought to have?"""
    if one is other:
        return True
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, Table):
        return one.is_defined_as(other)
    if is_dataclass(one):
        return all(same(getattr(one, name), getattr(other, name)) for name in _compared(one.__class__))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


_names: dict[type, tuple[str, ...]] = {}


def _compared(type_: type) -> tuple[str, ...]:
    names = _names.get(type_)
    if names is None:
        names = _names[type_] = tuple(one.name for one in fields(type_) if one.compare)
    return names
