"""Keys that are written so often that their fills are dropped: when is an exact one worth its locks?

An ordinary fill of a key is dropped if a transaction of Q touches it. That may happen to any key once; where it happens
again and again, an upquery that locks what it reads (`UpqueryRequest.exact`) gets the key held, and then its changes
keep it current.
"""

from __future__ import annotations

from collections.abc import Iterable

from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import AnswerArrangement
from sqltypes.expression import Key

CONFLICTS = 3  # fills of one key that were dropped because of Q before an exact one is sent
MOST_APART = 64  # dropped fills between two exact ones of one key
MOST_KEYS = 256  # of one reader
LONGEST = 0.05  # seconds: a reader whose upqueries take longer would lock for long


class HotKeys:
    """By reader and key how often its fill was dropped, and how often before an exact one is sent: CONFLICTS times,
    then twice as often each time.

    Invariants:
    1. Of one reader at most MOST_KEYS keys are remembered, those of the latest conflicts.
    """

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.by_reader: dict[ReaderNode, dict[Key, tuple[int, int]]] = {}

    def dropped(self, reader: ReaderNode, key: Key) -> None:
        """A fill of the key could not be cut: a transaction of Q touches it."""
        if not self.enabled or isinstance(reader.plan.reader.root, AnswerArrangement):
            return  # an answer goes with the next change anyway
        keys = self.by_reader.setdefault(reader, {})
        count, due = keys.pop(key, (0, CONFLICTS))
        keys[key] = (count + 1, due)
        if len(keys) > MOST_KEYS:
            del keys[next(iter(keys))]

    def held(self, reader: ReaderNode, key: Key) -> None:
        keys = self.by_reader.get(reader)
        if keys and keys.pop(key, None) is not None and not keys:
            del self.by_reader[reader]

    def forget(self, reader: ReaderNode) -> None:
        self.by_reader.pop(reader, None)

    def due(self, reader: ReaderNode, keys: Iterable[Key]) -> bool:
        """Is one of the keys to be filled by an exact upquery?"""
        remembered = self.by_reader.get(reader)
        return self.enabled and remembered is not None and any(_due(remembered.get(key)) for key in keys)

    def batches(
        self, reader: ReaderNode, keys: dict[Key, Params], most: int, seconds: float
    ) -> list[tuple[dict[Key, Params], bool]]:
        """The keys in batches of one upquery, and whether that is to be exact. `seconds`: what the reader's take."""
        hot: dict[Key, Params] = {}
        remembered = self.by_reader.get(reader)
        if self.enabled and remembered and seconds <= LONGEST:
            hot = {key: params for key, params in keys.items() if _due(remembered.get(key))}
            for key in hot:
                count, _ = remembered[key]
                remembered[key] = (count, count + min(count, MOST_APART))
        found: list[tuple[dict[Key, Params], bool]] = []
        for wanted, exact in (
            (hot, True),
            ({key: keys[key] for key in keys if key not in hot} if hot else keys, False),
        ):
            if len(wanted) > most:
                items = list(wanted.items())
                found += [(dict(items[at : at + most]), exact) for at in range(0, len(items), most)]
            elif wanted:
                found.append((wanted, exact))
        return found


def _due(remembered: tuple[int, int] | None) -> bool:
    return remembered is not None and remembered[0] >= remembered[1]
