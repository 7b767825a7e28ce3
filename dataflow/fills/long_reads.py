"""Reads of answers that are long to derive (`dataflow/readers/in_steps.py`), once nothing is missing for them any
more."""

from __future__ import annotations

from dataflow.fills.read import Read
from dataflow.readers.in_steps import RowsAt, Steps
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import EvaluationError

TRIES = 3  # to answer one whose rows change meanwhile


class LongRead:
    """A read that is answered from what is held, in steps. `position`: the one that `found` is of. `met`: was the
    read's demand met there? `error`: why there is no answer."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.error: EvaluationError | None = None
        self.met = True
        self.tries = 0
        self._steps: Steps[None] | None = None

    def go_on(self, position: GtidSet) -> bool:
        """One step. Whether it has come to an end."""
        if self._steps is None:
            self.tries += 1
            self.position = position
            self.met = self.read.demand is None or self.read.demand.met()
            self.found = RowsAt(self.read.reader, self.read.keys)
            self._steps = self.found.steps()
        if not self.met:
            return True
        try:
            for _ in self._steps:
                return False
        except EvaluationError as error:
            self.error = error
            return True
        if self.found.rows is None and not self.found.holes and self.tries < TRIES:
            self._steps = None  # a change has come
            return False
        return True

    def is_told(self, other: Read) -> bool:
        """Whether another read, of the same keys, may be told the same. (Its demand may be met only now.)"""
        alike = other.reader is self.read.reader and other.keys == self.read.keys and other.demand is None
        return alike and other.since is not None and other.since.issubset(self.position)


class LongReads:
    """All of them, in `reads`, by waiter."""

    def __init__(self) -> None:
        self.reads: dict[int, LongRead] = {}

    def add(self, read: Read) -> None:
        self.reads[read.waiter] = LongRead(read)

    def drop(self, waiter: int) -> None:
        """The caller went away, or was told otherwise."""
        self.reads.pop(waiter, None)

    def go_on(self, position: GtidSet) -> list[tuple[Read, LongRead]]:
        """One step of the first one. Which reads have come to an end with it: it itself, and others that are told the
        same."""
        if not self.reads:
            return []
        waiter, long = next(iter(self.reads.items()))
        try:
            ended = long.go_on(position)
        except BaseException:
            del self.reads[waiter]
            raise
        if not ended:
            return []
        del self.reads[waiter]
        told = [(long.read, long)]
        if long.met and long.error is None and long.found.rows is not None:
            for other in [other.read for other in self.reads.values() if long.is_told(other.read)]:
                del self.reads[other.waiter]
                told.append((other, long))
        return told

    def __contains__(self, waiter: int) -> bool:
        return waiter in self.reads
