"""A hit that a client was just given, for those who compare it with MySQL's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Binding
from proxy.port.api import ParameterValue

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache


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
