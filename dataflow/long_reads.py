"""Reads of answers that are long to derive (`dataflow/large_answers.py`), once nothing is missing for them any more."""

from __future__ import annotations

from dataflow.fill import Read
from dataflow.large_answers import RowsAt, Steps
from gtid_tracker.gtid import GtidSet


class LongRead:
    """A read that is answered from what is held, in steps. `position`: the one that `found` is of."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.steps: Steps[None] | None = None
        self.tries = 0

    def begin(self, position: GtidSet) -> None:
        self.tries += 1
        self.position = position
        self.found = RowsAt(self.read.reader, self.read.keys)
        self.steps = self.found.steps()
