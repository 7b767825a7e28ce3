"""An open cache, as what it hands reads to knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Binding
from proxy.cache.named_cache import NamedCache
from proxy.checking.given_hit import GivenHit
from proxy.port.api import ParameterValue
from proxy.port.reasons import Why
from proxy.read.held_answers import HeldAnswers
from proxy.read.look import Look, Seen
from sqltypes.errors import Fault


class Opened(Protocol):
    """What `OpenCache` gives to a read's miss, and to the comparison of what was told."""

    held: HeldAnswers
    reader: ReaderNode | None

    @property
    def named(self) -> NamedCache: ...

    @property
    def generation(self) -> int: ...

    def ready(self) -> ReaderNode | None:
        """The reader to ask; None while there is none. Raises UnknownCache, SourceDown."""

    def too_many(self, parameters: Sequence[ParameterValue]) -> Why:
        """Why there are more keys than can be looked at; empty if there are not."""

    def bind(self, parameters: Sequence[ParameterValue]) -> Binding: ...

    def bind_held(self, reader: ReaderNode, parameters: Sequence[ParameterValue]) -> Binding:
        """As `bind`, for a hit: of another key where the answer held for that is this key's, too."""

    def look(self, parameters: Sequence[ParameterValue]) -> Look:
        """What the read finds. Raises UnknownCache, SourceDown, BadParameters."""

    def only_look(self, reader: ReaderNode, binding: Binding) -> Seen:
        """What is held for these keys; nobody is given it."""

    def is_whole(self, binding: Binding) -> bool:
        """Is the answer derived from all keys together, and not stored?"""

    def given(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> GivenHit: ...

    def compare_behind(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], body: bytes
    ) -> None:
        """An answer that was due is being given."""

    def fault(self, error: Exception, *given: object) -> Fault:
        """Notes a fault; the key, if it can be told, is dropped."""
