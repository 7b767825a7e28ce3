"""A read that waits for what it has missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataflow.fills.demand import Demand
from dataflow.messages import Check
from dataflow.readers.derivation import Params
from dataflow.readers.in_steps import Holes
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from sqltypes.expression import Key


@dataclass(slots=True, eq=False)
class Read:
    """A read that waits. `keys`: all of an IN-list's, each with its parameters. `check`: what its answer must pass
    first. `doubted`: it has no check, and what is filled for it is to be compared before anybody else is given it.
    `group`: an upquery that it shared with others was refused, which has not to be about its keys; those of one number
    share another. `splits`: how often that was so."""

    waiter: int
    reader: ReaderNode
    keys: list[tuple[Key, Params]]
    fills: set[int] = field(default_factory=set)
    attempts: int = 0
    since: GtidSet | None = None  # the position when it began: it is told nothing older
    demand: Demand | None = None
    check: Check | None = None
    doubted: bool = False
    group: int = 0
    splits: int = 0
    holes: Holes = field(default_factory=dict)  # found in steps: what was missing below keys that are long to derive

    def covers(self, keys: Sequence[Key]) -> bool:
        """Whether it asks for all of these."""
        return len(self.keys) >= len(keys) and {key for key, _ in self.keys}.issuperset(keys)
