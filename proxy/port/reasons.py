"""Why reads were not answered by a cache, in a few words that can be counted. The whole reason of each read is in what
EXPLAIN LAST STATEMENT and SHOW PROXIED QUERIES tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache


class Reason(Enum):
    """Of a read that MySQL has answered."""

    SHAPE = "shape"  # no cache can be made for queries of its shape
    NOT_CACHED = "not worth it"  # no cache is made for it, as far as is known because it is asked too seldom
    SETTING = "session setting"
    RIGHTS = "rights"
    TRANSACTION = "transaction"
    PARAMETERS = "parameters"  # MySQL compares these values in another type than that of the column, or they are many
    COLUMNS = "columns"  # how MySQL announces them is learned from its answer
    LATE = "late"  # the stream has not brought what the session must be shown, or a fill did not come in time
    PLANNED_ANEW = "planned anew"
    BUSY = "busy"  # Upwell's processor is short, and the key of an automatic cache is not filled for that
    ASKED = "asked for"  # by a comment of the query
    OTHER = "other"  # an error, a fault, a limit


# The first that is found in the whole reason counts.
_FOUND = (
    (r"short of processor time", Reason.BUSY),
    (r"this session|of the text means|character sets?\b|has locked tables|temporary table", Reason.SETTING),
    (r"autocommit off", Reason.SETTING),
    (r"transaction|savepoint", Reason.TRANSACTION),
    (r"refuses the query to this account|may not read", Reason.RIGHTS),
    (r"announces|kind of client", Reason.COLUMNS),
    (r"compared_elsewhere|parameter|is bound|were bound|is given|a list of|lists that give", Reason.PARAMETERS),
    (r"cursor|executions|the statement was prepared|execution before|have lost digits", Reason.PARAMETERS),
    (r"stream|position|too_stale|shown the session|fill", Reason.LATE),
    (r"planned again|schema|rebuilding|not planned", Reason.PLANNED_ANEW),
    (r"asks to skip", Reason.ASKED),
    (r"no cache matches", Reason.NOT_CACHED),
)
_PATTERNS = tuple((re.compile(pattern), reason) for pattern, reason in _FOUND)


class PassedReads:
    """The reads of one cache that MySQL has answered, by reason. `before`: those of caches that had its name before."""

    __slots__ = ("_counts", "_last", "before")

    def __init__(self, before: Mapping[Reason, int] | None = None) -> None:
        self.before = before or {}
        self._counts: dict[Reason, int] = {}
        self._last: dict[Reason, str] = {}  # the whole reason of the last one

    def add(self, why: str) -> Reason:
        """MySQL has answered a read for this reason."""
        reason = reason_of(why)
        self._counts[reason] = self._counts.get(reason, 0) + 1
        self._last[reason] = why
        return reason

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    @property
    def ever(self) -> dict[Reason, int]:
        """How many there were for each reason, those of caches that had the name before included."""
        every = dict(self.before)
        for reason, count in self._counts.items():
            every[reason] = every.get(reason, 0) + count
        return every

    @property
    def top(self) -> tuple[str, str]:
        """The most frequent reason: in the word that is counted, and the whole reason of its last read."""
        if not self._counts:
            return "", ""
        reason = max(self._counts, key=lambda one: self._counts[one])
        return reason.value, self._last[reason]


@lru_cache(1000)
def reason_of(why: str) -> Reason:
    """Of the reason for which MySQL has answered a read."""
    return next((reason for pattern, reason in _PATTERNS if pattern.search(why)), Reason.OTHER)
