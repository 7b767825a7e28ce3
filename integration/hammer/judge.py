"""Which version each transaction wrote, under which GTID, and so what an answer may show.

A group is what the same transactions write: every transaction on it writes one new version into all of its rows. So an
answer that shows two versions of a group is a mix, one that shows a version that nobody has sent a COMMIT for is
impossible, and one that shows less than the transactions in its position wrote is stale. Nothing here does I/O.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from gtid_tracker.gtid import Gtid, GtidSet

Group = int
SWAPS: Group = -1  # the group whose version says how often the two swapped tables were renamed
MIX, IMPOSSIBLE, STALE, AHEAD, BACK, SHAPE = "mix", "impossible", "stale", "ahead", "back", "shape"

parse = lru_cache(maxsize=512)(GtidSet.parse)
MUST_COUNT = "mixed snapshots that must be counted"


class Outcome(Enum):
    BEGUN = "begun"  # its COMMIT has not been sent: nobody may see it
    COMMITTING = "committing"  # sent, not answered
    COMMITTED = "committed"
    GONE = "rolled back"
    UNKNOWN = "unknown"  # the connection ended before the COMMIT was answered


VISIBLE = frozenset({Outcome.COMMITTING, Outcome.COMMITTED, Outcome.UNKNOWN})


@dataclass(slots=True)
class Version:
    """`gtid` None: not known yet, or never (the connection died with the answer)."""

    outcome: Outcome
    gtid: Gtid | None = None


class History:
    """The versions of each group, numbered in the order of their commits. Used by all threads.

    Invariants: 1. version 0 of each group was there before everything. 2. Of the versions above the last committed one
    at most one is not GONE, for a writer takes its number under the lock of the group's first row.
    """

    def __init__(self, groups: Iterable[Group]) -> None:
        self._lock = threading.Lock()
        self._versions = {group: [Version(Outcome.COMMITTED)] for group in groups}

    def begin(self, group: Group, found: int, gtid: Gtid | None = None) -> int:
        """The next version's number. Requires: the caller holds the lock of the group, under which it read the version
        `found`; so whatever was in doubt is settled.

        Raises AssertionError where MySQL has lost a commit that it had confirmed.
        """
        with self._lock:
            versions = self._versions[group]
            assert 0 <= found < len(versions), f"MySQL has version {found} of group {group}, {len(versions)} are known"
            for number, version in enumerate(versions[found + 1 :], found + 1):
                assert version.outcome is not Outcome.COMMITTED, f"MySQL lost version {number} of group {group}"
                version.outcome = Outcome.GONE
            versions[found].outcome = Outcome.COMMITTED
            versions.append(Version(Outcome.BEGUN, gtid))
            return len(versions) - 1

    def last(self, group: Group) -> int:
        """The highest version known to be committed."""
        with self._lock:
            versions = self._versions[group]
            return next(n for n in range(len(versions) - 1, -1, -1) if versions[n].outcome is Outcome.COMMITTED)

    def newest(self, group: Group) -> int:
        """The highest version that was begun."""
        with self._lock:
            return len(self._versions[group]) - 1

    def committing(self, group: Group, number: int) -> None:
        with self._lock:
            self._versions[group][number].outcome = Outcome.COMMITTING

    def committed(self, group: Group, number: int, gtid: Gtid) -> None:
        with self._lock:
            version = self._versions[group][number]
            assert version.outcome is not Outcome.GONE, f"version {number} of group {group} was lost while committed"
            version.outcome, version.gtid = Outcome.COMMITTED, gtid

    def rolled_back(self, group: Group, number: int) -> None:
        with self._lock:
            self._versions[group][number].outcome = Outcome.GONE

    def lost_sight(self, group: Group, number: int) -> None:
        """The connection ended: a version whose COMMIT was sent may be there, one that was only begun is not. If it is
        not, the GTID that its writer had chosen is given to another transaction."""
        with self._lock:
            version = self._versions[group][number]
            if version.outcome is Outcome.COMMITTING:
                version.outcome, version.gtid = Outcome.UNKNOWN, None
            elif version.outcome is Outcome.BEGUN:
                version.outcome = Outcome.GONE

    def visible(self, group: Group, number: int) -> bool:
        """Whether anybody can have seen that version."""
        with self._lock:
            versions = self._versions[group]
            return 0 <= number < len(versions) and versions[number].outcome in VISIBLE

    def at(self, group: Group, position: GtidSet) -> set[int]:
        """The versions that the state at `position` may show: one, or more where a GTID is not known. The least is a
        lower bound of every state that contains `position`."""
        may: set[int] = set()
        with self._lock:
            versions = self._versions[group]
            for number in range(len(versions) - 1, 0, -1):
                version = versions[number]
                if version.outcome not in VISIBLE:
                    continue
                if version.gtid is None:
                    may.add(number)
                elif version.gtid in position:
                    may.add(number)
                    return may
        may.add(0)
        return may

    def between(self, group: Group, least: int, most: int) -> set[int]:
        """The versions from `least` to `most` that may have been seen."""
        with self._lock:
            versions = self._versions[group]
            return {number for number in range(least, most + 1) if versions[number].outcome in VISIBLE}

    def count(self) -> int:
        with self._lock:
            return sum(v.outcome is Outcome.COMMITTED for versions in self._versions.values() for v in versions[1:])


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer, as far as it is judged.

    `shown`: (group, version) of each place in it where a version stands; one that is no integer (a SUM that does not
    divide) is a mix. `sides`: which of two swapped tables each row is from.
    `before`: what was committed for sure before it was asked for. `position` and `horizon`: all of the one is in it,
    nothing but what is in the other. `floor`: a position that its own must contain if it is a hit, "" for none.
    `bounded` False: the horizon was not told. `chosen`: the client itself sent the read to MySQL.
    `prepared`: it was asked for by a prepared statement.
    """

    cache: str
    parameters: tuple[object, ...]
    served: str
    position: str
    shown: Sequence[tuple[Group, object]]
    sides: Collection[int] = ()
    wrong: str = ""  # what is wrong with it whatever the versions are
    before: Mapping[Group, int] = field(default_factory=dict)
    horizon: str = ""  # "": the position
    floor: str = ""
    rows: Sequence[Any] = ()
    bounded: bool = True
    chosen: bool = False
    prepared: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be."""

    kind: str
    what: str
    seen: Seen | None = None

    def __str__(self) -> str:
        seen = self.seen
        if seen is None:
            return f"{self.kind}: {self.what}"
        return (
            f"{self.kind}: {self.what}\n  cache {seen.cache}, parameters {seen.parameters!r}, {seen.served}\n"
            f"  position {seen.position!r}\n  horizon {seen.horizon!r}\n  floor {seen.floor!r}\n"
            f"  rows {list(map(tuple, seen.rows))}"
        )


def judge(history: History, seen: Seen) -> list[Finding]:
    """What is wrong with an answer; judged when it has come, against what has been written until now."""
    found = [(SHAPE, seen.wrong)] if seen.wrong else []
    versions: dict[Group, set[object]] = {}
    for group, version in seen.shown:
        versions.setdefault(group, set()).add(version)
    for group, shown in versions.items():
        if len(shown) > 1 or not all(isinstance(version, int) for version in shown):
            found.append((MIX, f"group {group} shows {sorted(map(str, shown))}"))
            continue
        (version,) = shown
        assert isinstance(version, int)
        found += _judge_version(history, seen, group, version)
    if seen.sides:
        found += _judge_side(history, seen)
    if seen.served == "hit" and seen.floor not in ("", seen.position):
        lost = parse(seen.floor).difference(parse(seen.position))
        if lost:
            found.append((BACK, f"an earlier hit was at a position that contained {lost}"))
    return [Finding(kind, what, seen) for kind, what in found]


def _judge_version(history: History, seen: Seen, group: Group, version: int) -> list[tuple[str, str]]:
    if not history.visible(group, version):
        return [(IMPOSSIBLE, f"group {group} shows {version}, which was never committed")]
    if seen.served == "passed" and version < (known := seen.before.get(group, 0)):
        return [(STALE, f"group {group} shows {version}, {known} was committed before it was asked for")]
    least = min(history.at(group, parse(seen.position)))
    if version < least:
        return [(STALE, f"group {group} shows {version}, the position has {least}")]
    most = max(history.at(group, parse(seen.horizon or seen.position)))
    if seen.bounded and version > most:
        return [(AHEAD, f"group {group} shows {version}, the horizon has {most}")]
    return []


def _judge_side(history: History, seen: Seen) -> list[tuple[str, str]]:
    sides = set(seen.sides)
    if len(sides) > 1:
        return [(MIX, f"rows of both sides of a RENAME: {sorted(sides)}")]
    least = min(history.at(SWAPS, parse(seen.position)))
    if seen.served == "passed":
        least = max(least, seen.before.get(SWAPS, 0))
    most = max(history.at(SWAPS, parse(seen.horizon or seen.position))) if seen.bounded else history.newest(SWAPS)
    may = history.between(SWAPS, least, most)
    if not any(number % 2 == side for number in may for side in sides):
        return [(STALE, f"side {sides} is shown, where there had been {sorted(may)} swaps")]
    return []
