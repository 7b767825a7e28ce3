"""Why keys went away: of each reader how many, by cause and table; and how often that was needless.

A key is lost once, when its answer can no longer be told from what is held, and again only after it was filled again.
Who makes holes says why beforehand (`Memory.because`): nothing is handed through the calls between.

Invariants: 1. `Cause` is the only list of causes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol


class Cause(StrEnum):
    """Why a key went away: the word that is shown, and the sentence that explains it."""

    CHANGE = "change", "a change of the table concerned the answer, or could not be computed from what was held"
    LARGE = "large change", "one transaction changed so many keys of the table that all were emptied"
    MEMORY = "memory", "memory was short, and the key was not read lately"
    SCHEMA = "ddl", "a DDL statement on a table, or a statement that may be one"
    UNREAD_ROWS = "rows not read", "a transaction whose rows the stream does not tell"
    FLUSH = "flush", "FLUSH CACHE"
    PLANNED_ANEW = "planned anew", "the cache was planned anew"
    CLOCK = "time passed", "the key was for a moment that has passed, and nobody read it any more"
    HISTORY = "history lost", "the source's history was lost, or another server answers"
    RESTART = "source restarted", "the source was started anew, and may have lost what the key reflected"
    FAULT = "fault", "a fault of Upwell's: what may be wrong was emptied"
    DOUBT = "doubt", "a comparison with MySQL differed, or the cache's answers are not believed"

    text: str

    def __new__(cls, word: str, text: str) -> Cause:
        made = str.__new__(cls, word)
        made._value_, made.text = word, text
        return made


CHANGE, LARGE = Cause.CHANGE, Cause.LARGE  # of each transaction: to take a member from its class is slow
Because = tuple[Cause, str]  # and the table (`schema.name`) whose change it was; "" where no table is
MEMORY, FLUSH, FAULT, DOUBT = (Cause.MEMORY, ""), (Cause.FLUSH, ""), (Cause.FAULT, ""), (Cause.DOUBT, "")
HISTORY, RESTART, CLOCK = (Cause.HISTORY, ""), (Cause.RESTART, ""), (Cause.CLOCK, "")
PLANNED_ANEW = (Cause.PLANNED_ANEW, "")


class Emptying(Protocol):
    """`because`: of the holes that are made now. None: what goes is replaced."""

    because: Because | None


@contextmanager
def emptied(memory: Emptying, because: Because | None) -> Iterator[None]:
    """Holes that are made inside are made for this. Requires: nothing is awaited inside."""
    before, memory.because = memory.because, because
    try:
        yield
    finally:
        memory.because = before


class Losses:
    """Of one cache, whatever readers it has one after the other. `counts`: keys lost. `compared`: by table, of answers
    that a change has emptied and that were filled again, how many were compared with the old one, and how many of
    these were equal. `before`: of caches that had the name before."""

    __slots__ = ("before", "compared", "counts")

    def __init__(self, before: Losses | None = None) -> None:
        self.before = before
        self.counts: dict[Because, int] = {}
        self.compared: dict[str, tuple[int, int]] = {}

    @property
    def retired(self) -> Losses | None:
        """Of a cache that is dropped: for the next one of its name. None: nothing was ever lost."""
        counts, compared = self.ever
        if not counts:
            return None
        made = Losses()
        made.counts, made.compared = dict(counts), dict(compared)
        return made

    def add(self, because: Because | None, keys: int = 1) -> None:
        """Keys have gone."""
        if because is not None and keys:
            self.counts[because] = self.counts.get(because, 0) + keys

    def compare(self, table: str, *, equal: bool) -> None:
        """A key that a change of the table had emptied was filled again."""
        compared, equals = self.compared.get(table, (0, 0))
        self.compared[table] = compared + 1, equals + equal

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def needless(self) -> tuple[int, int]:
        """How many answers were compared, and how many of these were equal, of all tables."""
        return sum(one for one, _ in self.compared.values()), sum(equal for _, equal in self.compared.values())

    @property
    def told(self) -> str:
        """What emptied the most keys first, and what share of that was needless, where it is known."""
        return ", ".join(
            f"{self._named(because)} {keys}{self._share(because[1])}"
            for because, keys in sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        )

    @staticmethod
    def _named(because: Because) -> str:
        cause, table = because
        return table if cause is Cause.CHANGE else f"{table} ({cause})" if table else cause

    def _share(self, table: str) -> str:
        compared, equal = self.compared.get(table, (0, 0))
        return f" ({100 * equal // compared}% needlessly)" if compared else ""

    @property
    def ever(self) -> tuple[Mapping[Because, int], Mapping[str, tuple[int, int]]]:
        """`counts` and `compared`, those of caches that had the name before included."""
        if self.before is None:
            return self.counts, self.compared
        counts_before, compared_before = self.before.ever
        counts, compared = dict(counts_before), dict(compared_before)
        for because, keys in self.counts.items():
            counts[because] = counts.get(because, 0) + keys
        for table, (one, equal) in self.compared.items():
            before, equals = compared.get(table, (0, 0))
            compared[table] = before + one, equals + equal
        return counts, compared
