"""The reads that were no hits, told one by one to whoever watches: `upwell top`, `GET /v1/reads`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ReadView:
    """`at`: seconds since 1970. `outcome`: miss or passed. `cache`: "" where none is for it. `reason`: the word that is
    counted. `us`: microseconds. `times`: for how many reads it stands; of texts that differ in literals only a sample
    is looked at. The last three are for those who may read texts: the query, the read's key as JSON ("" where it is not
    known), and the whole reason."""

    at: float
    outcome: str
    cache: str
    reason: str
    us: float
    times: int
    query: str
    key: str
    why: str


TEXTS = ("query", "key", "why")
"""What of a ReadView is for those who may read texts."""


class Watcher(Protocol):
    """Somebody who watches."""

    def take(self) -> tuple[int, Sequence[ReadView]]:
        """What has come since the last call, the oldest first; before it how many more there were."""
        ...


class Watching(Protocol):
    """Tells of reads, while somebody watches."""

    def watched(self, cache: str = "", outcome: str = "") -> AbstractContextManager[Watcher]:
        """Watches the reads of one cache, or with one outcome; "": of all."""
        ...
