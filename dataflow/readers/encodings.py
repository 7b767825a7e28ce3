"""What a reader's rows are encoded by, in each wire format.

Invariants:
1. `encoded` has of each format one key more than MOST_ENCODED at most. A format that it lacks keeps its encoder.
2. A key has a place for the encoding of each format that had an encoder when its first one was stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataflow.entries import Held, shared
from dataflow.held.arrangement import Memory
from sqltypes.expression import Key, Row

Encode = Callable[[Sequence[Row]], bytes]
MOST_ENCODED = 1000  # keys of one format that are remembered until its encoder stays
BODIES_BYTES, BODY_BYTES = 110, 41  # a list with a place for each wire format; a bytes object without its bytes


class Encodings:
    """Of one reader, which they do not hold."""

    def __init__(self, memory: Memory) -> None:
        self.encoders: list[Encode] = []  # by wire format
        self.joins: list[Callable[[Sequence[bytes]], bytes]] = []  # one encoding of several; none: b"".join
        # By wire format whose encoder may still become another one, the keys with rows that were encoded by it. Where
        # there is one more than MOST_ENCODED, any key may have been.
        self.encoded: dict[int, set[Key]] = {}
        self._memory = memory

    def note(self, held: Held, format_: int) -> None:
        """The key's rows are encoded in the format as it is now."""
        keys = self.encoded.get(format_)
        if keys is not None and len(keys) <= MOST_ENCODED:
            keys.add(held.key)

    def store(self, held: Held, format_: int, encoded: bytes) -> None:
        """Keeps the encoding. Requires: it is of the answer as it is, and is not stored."""
        assert held.version is not None
        bodies = held.bodies
        others = held.body_size
        if bodies is None:
            bodies = held.bodies = [None] * len(self.encoders)
            others = BODIES_BYTES
        if format_ >= len(bodies):
            bodies += [None] * (format_ + 1 - len(bodies))
        bodies[format_] = encoded
        size = others + len(encoded) + BODY_BYTES
        self._memory.used += size - held.body_size
        held.body_size = shared(size)

    def are_of(self, held: Held, rows: list[Row]) -> bool:
        """Whether the key's stored encodings are of these rows, in whatever order."""
        for encode, body in zip(self.encoders, held.bodies or (), strict=False):
            if body is not None and (encoded := encode(rows)) != body and sorted(encoded) != sorted(body):
                return False
        return True

    def check_invariants(self) -> None:
        """Raises AssertionError where one does not hold."""
        for format_, keys in self.encoded.items():
            assert format_ < len(self.encoders) and len(keys) <= MOST_ENCODED + 1, f"format {format_}"
