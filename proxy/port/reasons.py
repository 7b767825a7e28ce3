"""Why reads were not answered by a cache, in a few words that can be counted. The whole reason of each read is in what
EXPLAIN LAST STATEMENT and SHOW PROXIED QUERIES tell."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from sqltypes.errors import BadParameters, ComparedElsewhere, SourceDown, TooStale, UnknownCache, UpwellError


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

    def why(self, text: str, *, other_state: bool = False) -> Why:
        """This reason, in whole."""
        return Why(self, text, other_state=other_state)


class Why(str):
    """Why MySQL answers a read, in a sentence. "": nothing says that it must.

    `reason`: what is counted. `other_state`: MySQL's answer may be of another state than what the transaction was shown
    before; where it was shown the answer to the same command, it is shown that again.
    """

    __slots__ = ("other_state", "reason")
    reason: Reason
    other_state: bool

    def __new__(cls, reason: Reason, text: str, *, other_state: bool = False) -> Why:
        self = super().__new__(cls, text)
        self.reason, self.other_state = reason, other_state
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Why._again, (self.reason, str(self), self.other_state)

    @classmethod
    def _again(cls, reason: Reason, text: str, other_state: bool) -> Why:
        return cls(reason, text, other_state=other_state)


NO_REASON = Why(Reason.OTHER, "")

OF_ERRORS: tuple[tuple[type[UpwellError], Reason], ...] = (
    (ComparedElsewhere, Reason.PARAMETERS),
    (BadParameters, Reason.PARAMETERS),
    (TooStale, Reason.LATE),
    (SourceDown, Reason.LATE),
    (UnknownCache, Reason.PLANNED_ANEW),
)
"""What reads count as that one of our errors leaves to MySQL; Reason.OTHER if none of these."""


def of_error(error: UpwellError) -> Why:
    reason = next((reason for kind, reason in OF_ERRORS if isinstance(error, kind)), Reason.OTHER)
    return reason.why(error.told)


class PassedReads:
    """The reads of one cache that MySQL has answered, by reason. `before`: those of caches that had its name before."""

    __slots__ = ("_counts", "_last", "before")

    def __init__(self, before: Mapping[Reason, int] | None = None) -> None:
        self.before = before or {}
        self._counts: dict[Reason, int] = {}
        self._last: dict[Reason, str] = {}  # the whole reason of the last one

    def add(self, why: Why) -> None:
        """MySQL has answered a read for this reason."""
        reason = why.reason
        self._counts[reason] = self._counts.get(reason, 0) + 1
        self._last[reason] = why

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    @property
    def counts(self) -> Mapping[Reason, int]:
        """How many of this cache there were for each reason."""
        return self._counts

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
