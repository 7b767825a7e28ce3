"""Fills that no read asks for: parts of large fills, and audits, which compare what is held.

A read of one of their keys does not wait for them, for they may take long: it has an upquery of its own.

Invariants:
1. A fill in `ended` has ended, and no `Filled` was told of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from dataflow.entries import Entry
from dataflow.fills.fill import Fill, Unasked
from dataflow.fills.missing import missing, params_of
from dataflow.fills.state import State
from dataflow.fills.under_way import FillsUnderWay
from dataflow.messages import Effect, Filled, UpqueryRequest
from dataflow.readers.derivation import Params
from dataflow.readers.in_steps import Holes
from dataflow.readers.memory_limit import MemoryLimit
from dataflow.readers.reader import ReaderNode
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key


class UnaskedFills:
    """They and what comes of them."""

    def __init__(self, state: State, fills: FillsUnderWay, limit: MemoryLimit) -> None:
        self._state = state
        self._fills = fills
        self._limit = limit
        self.ended: list[Fill] = []  # fills of which `Filled` is still to be told

    def fill(self, reader: ReaderNode, keys: dict[Key, Params]) -> UpqueryRequest | None:
        """An upquery for what of these keys is not held; `Filled` comes when it has ended. None: all is held, or the
        reader is closed."""
        if not reader.installed:
            return None
        whole, partial = missing(reader, keys, long_is_whole=True)
        for key, params in keys.items():
            if key not in reader.entries and key not in whole and key not in partial:
                with suppress(EvaluationError):  # MySQL says what comes of it
                    self._state.sieve.hold(reader, key, params)  # all of it is there for other readers
        self._limit.keep()  # keys were taken up
        if not whole and not partial:
            return None
        return self._request(reader, whole, params_of(partial, keys), partial, audits=False)

    def audit(self, reader: ReaderNode, keys: dict[Key, Params]) -> UpqueryRequest | None:
        """An upquery for keys that are held, to compare them with; `Filled` tells which are different. None: the reader
        is closed."""
        return self._request(reader, dict(keys), {}, {}, audits=True) if reader.installed and keys else None

    def _request(
        self, reader: ReaderNode, whole: dict[Key, Params], partial: dict[Key, Params], holes: Holes, audits: bool
    ) -> UpqueryRequest:
        fill = self._fills.new(reader, whole, partial, holes, Unasked(audits, self.ended))
        request = fill.request(slow=True)
        request.shards = self._fills.where(reader, [*whole.items(), *partial.items()])
        self._fills.begin(fill)
        memory = self._state.memory
        memory.count("unasked_upqueries")
        memory.count("unasked_keys", len(whole) + len(partial))
        return request

    def repair(self, reader: ReaderNode, keys: Iterable[Key]) -> int:
        """Makes holes of these keys, and of all that their answers are made of. Returns how many were held. Each takes
        some microseconds."""
        repaired = 0
        for key in keys:
            if (held := reader.entries.get(key)) is not None:
                repaired += 1
                deps: Iterable[Entry] = held.deps
                if held.version is None:  # it may be linked to others than it is made of now
                    with suppress(EvaluationError):
                        deps = dict.fromkeys((*deps, *reader.derive(reader.params_of(held), reader.held_levels).deps))
                reader.drop(held)
                for entry in deps:
                    if entry.content is not None:
                        entry.owner.discard(entry)
        if repaired:
            self._state.doubt()
        return repaired

    def drop(self, numbers: Iterable[int]) -> None:
        """Nobody wants to know any more what comes of these fills: they end, and nothing is told of them. To free the
        keys of one takes tens of microseconds."""
        fills, gone = self._fills, set(numbers)
        for number in gone & fills.by_number.keys():
            fills.end(fills.by_number[number])
        self.ended[:] = [fill for fill in self.ended if fill.id not in gone]

    def told(self) -> list[Effect]:
        """What came of those that have ended since the last call."""
        told: list[Effect] = [_filled(fill) for fill in self.ended]
        self.ended.clear()
        return told

    def check_invariants(self) -> None:
        """Raises AssertionError where one does not hold."""
        for fill in self.ended:
            assert fill.ended and fill.unasked is not None and fill.id not in self._fills.by_number, fill.id


def _filled(fill: Fill) -> Filled:
    asked = {**fill.whole, **fill.partial}
    holes = [(key, params) for key, params in asked.items() if not fill.kept.get(key, False)]
    unasked = fill.unasked
    assert unasked is not None
    return Filled(fill.id, len(asked), holes, unasked.rows, unasked.different, fill.error)
