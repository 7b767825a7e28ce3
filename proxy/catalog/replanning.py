"""Which caches are planned again, and when. After a DDL event: at once. After a passing failure (the helper process
could not start, MySQL was shutting down): after a pause that doubles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from time import monotonic

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0  # seconds
REMEMBERED = 256  # changes of the schema


class SchemaChanges:
    """The latest changes of the schema. It tells what has changed since a given one."""

    def __init__(self) -> None:
        self.count = 0
        self._last: deque[frozenset[str] | None] = deque(maxlen=REMEMBERED)

    def add(self, changed: frozenset[str] | None) -> None:
        """`changed`: names in lower case; None: any may have."""
        self.count += 1
        self._last.append(changed)

    def concern(self, names: frozenset[str], since: int) -> bool:
        """Whether one of these has changed since the count was that. No names: any counts."""
        news = self.count - since
        if news > len(self._last) or (news and not names):
            return True
        return any(changed is None or not changed.isdisjoint(names) for changed in islice(reversed(self._last), news))


class PlannedAgain:
    """Names of caches; each is due, or waits, or neither. `due`: to be read only."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self.due: set[str] = set()
        self._waiting: dict[str, float] = {}  # until when
        self._pauses: dict[str, float] = {}  # how long the next pause is; forgotten when the name is done with

    def __contains__(self, name: str) -> bool:
        """Whether it is due."""
        return name in self.due

    def __bool__(self) -> bool:
        """Whether any is due."""
        return bool(self.due)

    def at_once(self, name: str) -> None:
        self._waiting.pop(name, None)
        self.due.add(name)

    def later(self, name: str) -> float:
        """It is due after a pause, twice as long as its last one. How long that is, in seconds."""
        pause = self._pauses.get(name, FIRST_PAUSE)
        self._pauses[name] = min(2 * pause, LONGEST_PAUSE)
        self.due.discard(name)
        self._waiting[name] = self._clock() + pause
        return pause

    def take(self) -> str:
        """One that is due, which then is not. Requires: there is one."""
        name = min(self.due)
        self.due.discard(name)
        return name

    def done(self, name: str) -> None:
        """It has its plan, or will never have one, or is gone."""
        self.due.discard(name)
        self._waiting.pop(name, None)
        self._pauses.pop(name, None)

    def ripen(self) -> bool:
        """Those whose pause is over are due. Whether any is due now."""
        now = self._clock()
        for name in [name for name, until in self._waiting.items() if until <= now]:
            self.at_once(name)
        return bool(self.due)

    def check_invariants(self) -> None:
        assert self.due.isdisjoint(self._waiting)
        assert self._waiting.keys() <= self._pauses.keys()
