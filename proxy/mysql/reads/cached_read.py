"""A command that a cache may answer, with what is found out about it on its way. Pure."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from planner.text.clock import MAY_HAVE
from proxy.mysql.reads.announced import Announced
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.routes import Route, Target
from proxy.mysql.text.text_cuts import cut
from proxy.port.api import ParameterValue
from proxy.port.reasons import NO_REASON, Reason, Why
from proxy.port.session import SessionCache
from sqltypes.errors import UpwellError
from sqltypes.expression import Value

_ODD_NUMBER = re.compile(rb"(?!['\"])(?!(?:0|[1-9]\d*)(?:\.\d+)?\Z)")
"""A number that can be written in fewer digits, or with others: MySQL counts those of the text."""
_FRACTION = re.compile(rb"(?<![\w$@`.\x80-\xff])\.\d")  # that no number stands before


@dataclass(slots=True, eq=False)
class CachedRead:
    """A command that a cache may answer. `version`: of all caches, as of which it was found; `generation`: of its own.
    `announced`: what stands before the rows, once the session is known to be one that may be given a hit. `route` and
    `data`: for MySQL, if it is to answer. `text`: as a session that fills caches would be sent it; `sent`: as it was
    sent, if otherwise. `database`: where unqualified names are of."""

    data: bytes
    version: int
    cache: SessionCache
    values: Sequence[ParameterValue]
    text: bytes
    database: str
    route: Route
    kind: Route | PreparedStatement  # what reads that are hits in the same way have in common
    target: Target | None = None  # of a prepared statement
    given: tuple[Value, ...] = ()  # what the client has bound to it
    sent: bytes = b""
    marks: bytes = b""  # that were read as the session's sql_mode has it, and are written otherwise in `text`
    announced: Announced | None = None
    head: bytes = b""  # of the answer that is given
    shown: bytes = b""  # that answer, in the session's character set of results
    body: bytes | None = None  # the answer of a REPEATABLE READ transaction that does not stand at the position
    rule: str = ""  # by which it is that
    forced: bool = False  # an error where MySQL would have to answer
    waited: bool = False  # for the session's own writes, in vain
    behind: bool = False  # what the session was shown was waited for, in vain
    asked: bool = False  # MySQL was asked what its answers have shown
    hidden: str = ""  # the temporary table that hides one of the query's
    refused: Why = NO_REASON  # what MySQL has said of the text
    upto: Sequence[ParameterValue] | None = None  # the clock is between `values` and these; None: it is known
    found: int | None = None  # what FOUND_ROWS() is behind the answer, of a query that counts
    # The text that might have a cache in the session's sql_mode, and its route.
    wanted: tuple[bytes, Route] | None = None
    converted: bool = False  # the values are not the text's: they are in UTC
    generation: int = field(init=False)

    def __post_init__(self) -> None:
        self.generation = self.cache.generation
        self.sent = self.sent or self.text

    @property
    def by_clock(self) -> bool:
        """Whether the same command may ask for another answer a moment later."""
        return MAY_HAVE.search(self.sent) is not None

    @property
    def is_of_now(self) -> bool:
        """Whether what the clock says stands in the place of functions of what was sent."""
        if isinstance(self.kind, PreparedStatement):
            return self.target is not self.kind.target
        return self.sent is not self.text and self.by_clock

    @property
    def replanned(self) -> bool:
        """Whether its cache has another plan than when the read came, or none. What becomes of others is no matter."""
        return self.generation != self.cache.generation

    def to_utc(self) -> Why:
        """Turns what the clocks of the session say into instants. Why MySQL must answer, "" if it need not."""
        try:
            values = self.cache.moments.in_utc(self.values)
            upto = None if self.upto is None else self.cache.moments.in_utc(self.upto)
        except UpwellError as error:
            return Reason.PARAMETERS.why(f"{error.reason}: {error.message}")
        self.converted = values is not self.values
        self.values, self.upto = values, upto
        return NO_REASON

    def itself(self) -> bytes:
        """Tells it from reads of other texts or values."""
        values = repr(tuple(self.values)).encode(errors="backslashreplace")
        return blake2b(b"%d %b%b" % (len(self.text), self.text, values), digest_size=16).digest()

    def shows(self) -> Hashable:
        """What of that which it is given tells how MySQL announces its columns; None: nothing."""
        at = self.cache.tells
        if not at:
            return None
        if self.target is not None and isinstance(self.kind, PreparedStatement):
            return self.target.told_types(self.kind)
        parts = cut(self.text)
        if any(map(_ODD_NUMBER.match, parts[1::2])) or any(map(_FRACTION.search, parts[::2])):
            return self.itself()
        return repr([self.values[one] for one in at])

    def own_text(self) -> str:
        """The text that the client sent, "" where its values stand elsewhere, or it is no text."""
        if isinstance(self.kind, PreparedStatement) or self.converted:
            return ""
        try:
            return self.text.decode()
        except UnicodeDecodeError:
            return ""
