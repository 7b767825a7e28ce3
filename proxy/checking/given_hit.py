"""A hit that a client was just given, for comparison with MySQL's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Binding
from proxy.port.api import ParameterValue

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache


class GivenHit(NamedTuple):
    """`body`: its rows, encoded in the wire format of this number. `together`: they are derived from all keys at once,
    and not stored by key."""

    cache: NamedCache
    reader: ReaderNode
    binding: Binding
    parameters: Sequence[ParameterValue]
    format: int
    body: bytes
    together: bool
