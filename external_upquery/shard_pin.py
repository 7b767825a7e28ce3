"""Pins a session of vtgate. vtgate asks a shard about most variables before it takes them: any one, another one for
each, where the session is at none. So no login would end while one shard hangs. Here a session is at one shard
meanwhile, and where that does not answer, a new one is at another.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from time import monotonic
from typing import Any

SOON = 1.0  # seconds in which a shard tells what variables are
MOST_TRIED = 3  # shards, before one is given all the time that there is
REMEMBERED = 30.0  # seconds for which a shard that did not answer is tried last

Row = tuple[Any, ...]


def shards_question(keyspace: str) -> str:
    """Of vtgate, which asks no shard for it."""
    return f"SHOW VITESS_SHARDS LIKE '{keyspace}/%'"


def shards_told(keyspace: str, rows: Iterable[Row]) -> list[str]:
    """The shards of each keyspace, by the answer; empty for a name that is no keyspace."""
    names = [str(row[0]).partition("/") for row in rows]
    return [shard for of, _, shard in names if of == keyspace]


class Order:
    """In which order shards are tried. Used by threads."""

    def __init__(self) -> None:
        self._late: dict[str, float] = {}  # target: when it did not answer

    def of(self, targets: Iterable[str]) -> list[tuple[str, bool]]:
        """Those to try one after the other, and whether each must answer soon: the last one need not."""
        now = monotonic()
        shuffled = random.sample(found := list(targets), len(found))
        ordered = sorted(shuffled, key=lambda target: self._late.get(target, 0.0) > now - REMEMBERED)[:MOST_TRIED]
        return [*((target, True) for target in ordered), *((target, False) for target in ordered[:1])]

    def was_late(self, target: str) -> None:
        self._late[target] = monotonic()


ORDER = Order()
