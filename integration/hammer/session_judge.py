"""What a session over MySQL's protocol may be shown, one answer after the other: judged beyond what `judge.py` says of
each answer alone. Nothing here does I/O.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gtid_tracker.gtid import GtidSet
from integration.hammer.judge import BACK, MIX, STALE, Finding, Group, History, Seen, parse

NOT_COUNTED, LOCKED, RIGHTS = "not counted", "locked", "rights"
FROM_CACHES = frozenset({"hit", "miss"})


def shown_by(seen: Seen) -> dict[Group, int]:
    """The one version that it shows of each group; groups of which it shows a mix are left out."""
    versions: dict[Group, set[object]] = {}
    for group, version in seen.shown:
        versions.setdefault(group, set()).add(version)
    return {
        group: version
        for group, found in versions.items()
        if len(found) == 1 and isinstance(version := next(iter(found)), int)
    }


@dataclass
class Floor:
    """What cached reads have shown a session, whoever answered them: `position` surely, and these versions. No later
    answer is older.

    `newest`: versions that anything has shown it. A hit may be older than what the client itself asked MySQL for.
    """

    position: GtidSet = field(default_factory=GtidSet.empty)
    shown: dict[Group, int] = field(default_factory=dict)
    newest: dict[Group, int] = field(default_factory=dict)
    trail: deque[str] = field(default_factory=lambda: deque(maxlen=6))  # the answers before, for a finding

    def judge(self, history: History, seen: Seen, tally: Counter[str]) -> list[Finding]:
        """What is wrong with the session's next answer; then it counts for those that follow."""
        found = []
        before = "; ".join(self.trail)
        self.trail.append(f"{seen.served} {seen.cache} {shown_by(seen)} chosen={seen.chosen} at {seen.position[-12:]}")
        for group, version in shown_by(seen).items():
            least = max(min(history.at(group, self.position)), self.shown.get(group, 0))
            if version < least:
                what = f"group {group} shows {version}, the session was shown {least} before. Its answers: {before}"
                found.append(Finding(BACK, what, seen))
            elif version < self.newest.get(group, 0):
                tally["hits behind what the client asked MySQL for (not promised)"] += 1
            self.newest[group] = max(version, self.newest.get(group, 0))
            if not seen.chosen:
                self.shown[group] = max(version, self.shown.get(group, 0))
        if seen.served in FROM_CACHES:
            self.position = self.position.union(parse(seen.position))
        return found


@dataclass
class OneState:
    """The answers of one REPEATABLE READ transaction.

    `hits`: versions that caches have shown it; `passed`: that MySQL has. `answers`: what caches have answered. `since`:
    what was committed before its first answer was asked for: MySQL's snapshot may be opened behind a first hit, and is
    older than its first own answer then. `changed`: a group's version had changed at the proxy's position when MySQL
    was asked.
    """

    hits: dict[Group, int] = field(default_factory=dict)
    passed: dict[Group, int] = field(default_factory=dict)
    answers: dict[tuple[object, ...], Sequence[object]] = field(default_factory=dict)
    opened: bool = False  # MySQL has a snapshot
    mixed: bool = False
    changed: bool = False
    since: Mapping[Group, int] | None = None

    @property
    def must_count(self) -> bool:
        """Whether the proxy must have counted that it has seen two states. Where MySQL had opened its snapshot before
        what hits have shown has changed, it has seen one."""
        return self.mixed and self.changed

    def before_passing(self, history: History, position: str) -> None:
        """MySQL is about to be asked, and the proxy is at this position or beyond it."""
        if not self.opened:
            at = parse(position)
            self.changed |= any(min(history.at(group, at)) > version for group, version in self.hits.items())

    def has_told(self, seen: Seen) -> bool:
        """Whether a cache has told the transaction just this before, and MySQL has its snapshot since. It is then
        told again, as MySQL would repeat itself, whatever else the session has seen of that snapshot, which may be
        newer. As long as only caches have answered all that they tell is one state, and no session goes back."""
        return self.opened and seen.served in FROM_CACHES and self.answers.get(_asked(seen)) == seen.rows

    def judge(self, history: History, seen: Seen) -> list[Finding]:
        """What is wrong with the next answer."""
        if self.since is None:
            self.since = seen.before
        shown = shown_by(seen)
        asked = _asked(seen)
        before = self.answers.get(asked)
        found = []
        if before is not None and before != seen.rows and not seen.chosen:
            found.append(Finding(MIX, f"it was answered otherwise before: {before}", seen))
        if seen.served in FROM_CACHES:
            if before is None and self.opened:
                found.append(Finding(MIX, "a cache answers after MySQL has its snapshot", seen))
            self.answers[asked] = seen.rows
            self.hits |= shown
            return found + self._one_prefix(history, seen)
        self.opened = True
        found += stale(seen, self.since)
        for group, version in shown.items():
            if version != self.passed.setdefault(group, version):
                what = f"MySQL shows {version} of group {group}, and {self.passed[group]} before"
                found.append(Finding(MIX, what, seen))
            held = self.hits.get(group, version)
            self.mixed |= held != version
            if version < held:
                found.append(Finding(BACK, f"MySQL shows {version} of group {group}, a hit {held} before", seen))
        return found

    def _one_prefix(self, history: History, seen: Seen) -> list[Finding]:
        """All that hits have shown must be the state at the position of the last of them."""
        at = parse(seen.position)
        return [
            Finding(MIX, f"group {group} was shown at {version}, at the position it is {sorted(may)}", seen)
            for group, version in self.hits.items()
            if version not in (may := history.at(group, at))
        ]


def _asked(seen: Seen) -> tuple[object, ...]:
    """The read itself, in the form in which it was sent."""
    return seen.cache, seen.prepared, repr(seen.parameters)


def stale(seen: Seen, before: Mapping[Group, int]) -> list[Finding]:
    """What MySQL answers must have what was committed before it was asked, or, in a transaction that keeps its
    snapshot, before the transaction was given its first answer."""
    return [
        Finding(STALE, f"group {group} shows {version}, {before[group]} was committed before", seen)
        for group, version in shown_by(seen).items()
        if version < before.get(group, 0)
    ]
