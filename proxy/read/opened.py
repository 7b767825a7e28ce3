"""An open cache, as what it hands reads to knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Binding
from proxy.cache.named_cache import NamedCache
from proxy.checking.given_hit import GivenHit
from proxy.port.api import ParameterValue
from proxy.read.look import Look
from proxy.read.planned import Planned
from sqltypes.errors import Fault
from sqltypes.expression import Key


class Opened(Protocol):
    """What `OpenCache` gives to misses, batches, reads by moments, and to the comparison of what was told."""

    plan: Planned

    @property
    def named(self) -> NamedCache: ...

    @property
    def generation(self) -> int: ...

    def renew(self) -> None:
        """Takes up another plan, if there is one. Raises UnknownCache."""

    def ready(self) -> ReaderNode | None:
        """The reader to ask; None while there is none. Raises UnknownCache, SourceDown."""

    def look(self, parameters: Sequence[ParameterValue]) -> Look:
        """What the read finds. Raises UnknownCache, SourceDown, BadParameters."""

    def look_further(self, parameters: Sequence[ParameterValue], reader: ReaderNode) -> Look:
        """As `look`, where it is known that nothing is at hand."""

    def bound(self, parameters: Sequence[ParameterValue]) -> Key | None:
        """The one key that the parameters give, if its answer is stored."""

    def given(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> GivenHit: ...

    def compare_behind(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> None:
        """An answer that was due is being given."""

    def fault(self, error: Exception, *given: object) -> Fault:
        """Notes a fault; the key, if it can be told, is dropped."""
