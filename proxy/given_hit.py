"""A hit that a client was just given, for those who compare it with MySQL's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dataflow.held.reader import ReaderNode
from proxy.api import ParameterValue
from proxy.keys import Binding

if TYPE_CHECKING:
    from proxy.named_cache import NamedCache


class GivenHit(NamedTuple):
    """`body`: its rows, as they are encoded in the wire format of this number. `together`: they are derived from all
    keys at once, and not stored by key."""

    cache: NamedCache
    reader: ReaderNode
    binding: Binding
    parameters: Sequence[ParameterValue]
    format: int
    body: bytes
    together: bool
