"""Whether a change emptied an answer needlessly: MySQL gives the same one again.

Of some answers that changes empty a hash is kept. When the key is filled again the new answer is compared. That tells
what share of the emptied answers had to go, of those that somebody asked for again.

Costs: of a change at most `Memory.hashed` answers are hashed, each of `MOST_BYTES` at most; an arrangement keeps KEPT
hashes, about 10 KB. Once it has as many, one of `EVERY` emptied answers takes the place of the oldest: then the keys
that are asked for again late have their turn, too.

Invariants: 1. At most KEPT answers are kept.
"""

from __future__ import annotations

from marshal import dumps

from dataflow.entries import Entry
from sqltypes.expression import Key

KEPT, EVERY = 64, 8
MOST_BYTES = 16 << 10  # of an answer that is hashed, by estimate: 40 microseconds
PLAIN = 2  # the format in which nothing tells which objects are the same: a third of the time of `repr`
AT_ONCE = 16  # of many answers that go at once, those that are hashed


class OldAnswers:
    """Of one arrangement of answers."""

    __slots__ = ("_seen", "kept")

    def __init__(self) -> None:
        self.kept: dict[Key, tuple[int, str]] = {}  # the answer's hash, and the table whose change emptied it
        self._seen = 0

    def note(self, entry: Entry, table: str) -> bool:
        """A change of the table is about to empty the answer. Whether it was hashed."""
        self._seen += 1
        kept = self.kept
        if entry.size > MOST_BYTES:
            return False
        if len(kept) >= KEPT:
            if self._seen % EVERY:
                return False
            del kept[next(iter(kept))]
        kept[entry.key] = _hash(entry), table
        return True

    def compare(self, entry: Entry) -> tuple[str, bool] | None:
        """A key is filled: the table whose change had emptied it, and whether the answer is as it was. None: its old
        answer was not kept."""
        old = self.kept.pop(entry.key, None)
        if old is None:
            return None
        hashed, table = old
        return table, entry.size <= MOST_BYTES and hashed == _hash(entry)


def _hash(entry: Entry) -> int:
    """Of the rows in their order, as they are written: 1 and 1.0 are two, which are equal to Python."""
    try:
        return hash(dumps(entry.content, PLAIN))
    except ValueError:  # there are decimals
        return hash(repr(entry.content))
