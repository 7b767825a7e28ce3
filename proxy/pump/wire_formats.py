"""The wire formats in which listeners answer, by number."""

from __future__ import annotations

from proxy.loop.slices import Encoder, Join
from proxy.port.api import EncoderFor, WireFormat
from sqltypes.schema import ResultColumn


class WireFormats:
    """Each list has an item for each format, in order: `wires`; what makes their encoders (a reader's slots); and what
    joins pieces of an answer. Readers keep the lists.

    Invariants: 1. All have the same length.
    """

    def __init__(self) -> None:
        self.wires: list[WireFormat] = []
        self.encoders_for: list[EncoderFor] = []
        self.joins: list[Join] = []
        self._numbers: dict[str, int] = {}

    def check_invariants(self) -> None:
        assert len(self.wires) == len(self.encoders_for) == len(self.joins) == len(self._numbers), "formats differ"

    def register(self, name: str, wire: WireFormat) -> None:
        """A reader has places for the formats that were there as it was installed; `Encoding.provide` makes others."""
        if name in self._numbers:
            return
        self._numbers[name] = len(self.wires)
        self.wires.append(wire)
        self.encoders_for.append(wire.encoder_for)
        self.joins.append(wire.join)

    def number(self, name: str) -> int:
        return self._numbers[name]

    def encoder(self, number: int, columns: tuple[ResultColumn, ...]) -> Encoder:
        return self.encoders_for[number](columns)
