"""A session's last hit, which MySQL has not seen, for statements that ask about the one before them. Pure.

MySQL is told of it before FOUND_ROWS(), SHOW WARNINGS and their like; the client does not see that. (Most texts that
ask for nothing but FOUND_ROWS() do not go to MySQL: `questions.py` answers them by `found`.)

 the client sent after the hit                  | `command`       | `rows` | what MySQL runs before FOUND_ROWS()
------------------------------------------------+-----------------+--------+-------------------------------------
 nothing                                        | the hit's       | kept   | a SELECT that finds as many rows
 nothing, and the hit has a LIMIT with an offset | the hit's      | kept   | `command`: MySQL counts what it left out
 nothing, and the hit was shown again           | `other`         | kept   | a SELECT that finds as many rows
 COMMIT or ROLLBACK, answered without MySQL     | it, and `other` | kept   | a SELECT that finds as many rows
 a statement that leaves FOUND_ROWS() alone     | b""             | kept   | a SELECT that finds as many rows
 a command that is no statement, but COM_PING   | b""             | kept   | a SELECT that finds as many rows
 a new session on the connection                | b""             | kept   | a SELECT that finds as many rows
 any of these, and the hit has an offset        | b""             | b""    | nothing: it tells of what it has seen last
 another statement, then BEGIN and COMMIT here  | `other`         | b""    | nothing: MySQL knows, `behind_hit` is False
 another statement                              | b""             | b""    | nothing: MySQL knows

A hit that has SQL_CALC_FOUND_ROWS is held with its number: `rows` is a `Counted`, and no LIMIT of it matters.
In a session that begins MySQL was asked what it is like, so that its FOUND_ROWS() is 1, not 0. It is told of none
before a statement that may leave it so, or ask for it among others: CALL, EXECUTE, several statements, what asks about
the statement before it.

SHOW WARNINGS and the others ask about nothing but the last command: before them MySQL runs `command`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.mysql.reads.routes import Route
from proxy.mysql.text.statement_kind import Kind
from proxy.mysql.wire.packets import count_packets
from proxy.port.position import Moment
from proxy.port.session import SessionCache

NO_MOMENT = Moment(0, 0)
NO_ROWS = bytes(4)  # an answer's end alone
MOST_COUNTED = 1 << 16  # rows of which MySQL is told by a SELECT that finds as many
MOST_FOUND = 1 << 16  # bytes of an answer whose rows FOUND_ROWS() tells of
_OFFSET = re.compile(rb"\bLIMIT\b.*?(?:,|\bOFFSET\b)", re.DOTALL)
FOUND_NONE = "SELECT 1 LIMIT 0"
COUNTS_NONE = "SET SESSION sql_buffer_result = @@SESSION.sql_buffer_result"
"""Changes nothing, leaves FOUND_ROWS() alone, and behind it ROW_COUNT() is 0."""
_FOUND = (
    "1 FROM JSON_TABLE(CONVERT(CONCAT('[', REPEAT('0,', {more}), '0]') USING utf8mb4),"
    " _utf8mb4'$[*]' COLUMNS (a INT PATH _utf8mb4'$')) AS t"
)
FOUND = f"SELECT SQL_CALC_FOUND_ROWS {_FOUND} LIMIT 1"
FOUND_BY_VTGATE = (
    "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 256)"
    " SELECT 1 FROM t AS a, t AS b LIMIT {rows}"
)
"""vtgate counts the rows that it has sent, and knows no JSON_TABLE."""
NONE_BY_VTGATE = "SHOW VITESS_SHARDS LIKE 'none'"  # each has a slash in its name
"""Without a shard: one may refuse the variables that the session has set."""


GIVES_NO_ROWS = frozenset({
    Kind.WRITE, Kind.BEGIN, Kind.COMMIT, Kind.ROLLBACK, Kind.SAVEPOINT, Kind.SET, Kind.USE, Kind.LOCK_TABLES,
    Kind.UNLOCK_TABLES, Kind.DDL, Kind.TEMPORARY, Kind.PREPARE, Kind.DEALLOCATE,
})  # fmt: skip
_MAY_LEAVE = frozenset({Kind.CALL, Kind.EXECUTE, Kind.SEVERAL})


class Counted(bytes):
    """In the place of the rows of an answer that was held with its FOUND_ROWS()."""

    number: int

    @classmethod
    def of(cls, count: int) -> Counted:
        made = cls(NO_ROWS)
        made.number = count
        return made


class Warned(bytes):
    """The rows of an answer that counts warnings. Those of caches count none."""


def _may_have_offset(text: bytes) -> bool:
    text = text.upper()
    return b"LIMIT" in text and _OFFSET.search(text) is not None


@dataclass(slots=True)
class LastHit:
    """Of the bytes, b"" where there are none. A quick hit sets all but `other` itself."""

    cache: SessionCache | None = None  # that answered the last statement, where it was a quick hit
    moment: Moment = NO_MOMENT  # the position then
    command: bytes = b""  # the last command, its packet, while MySQL has not seen it
    other: bytes = b""  # what stands in `command` where that is not the command that found `rows`
    # Packets of its answer, behind the columns, while FOUND_ROWS() is about them; not of a long one. In a session that
    # begins nothing was found, though MySQL has been asked about it.
    rows: bytes = NO_ROWS
    begins: bool = True  # the session: MySQL has answered nothing but SET in it
    behind_hit: bool = True  # `other` is: else it stands behind a statement that MySQL has answered

    def hit(self, command: bytes, body: bytes, found: int | None = None) -> None:
        """A cache has answered the command. `found`: FOUND_ROWS(), of one that counts."""
        self.command = command
        if found is not None:
            self.rows = Counted.of(found)
        else:
            self.rows = body if len(body) <= MOST_FOUND else b""

    @property
    def warned(self) -> bool:
        """Whether the client was told of warnings with the answer to `command`."""
        return self.command != b"" and isinstance(self.rows, Warned)

    def shown_again(self, harmless: bytes, text: bytes) -> None:
        """The hit's command may find other rows at MySQL, or no table: it is not run there. `text`: of that command."""
        self.let_go(text)
        self.command = self.other = harmless
        self.behind_hit = True

    def let_go(self, text: bytes) -> None:
        """MySQL is not to run `command` any more, whose text this is. How many rows stood before an offset nobody here
        knows then."""
        known = isinstance(self.rows, Counted) or self.command in (b"", self.other)
        if not known and _may_have_offset(text):
            self.rows = b""
        self.command = b""

    @property
    def is_unseen(self) -> bool:
        """Whether MySQL has not seen the last hit, nor anything since."""
        return self.command != b"" and (self.behind_hit or self.command != self.other)

    def ended_here(self, command: bytes, text: bytes) -> None:
        """A command that leaves FOUND_ROWS() alone was answered without a cache and without MySQL. `text`: of the one
        before."""
        self.behind_hit = self.is_unseen
        self.let_go(text)
        self.command = self.other = command

    def asked_by(self, route: Route) -> bool:
        """Whether MySQL must be told something before a statement that it is to answer."""
        if self.command != b"":
            return True
        if route.statement.of_found and self.rows != b"":
            return True
        return self.begins and self.may_leave_none(route)

    def may_leave_none(self, route: Route) -> bool:
        """Whether FOUND_ROWS() may still be 0 behind the first statement of a session."""
        statement = route.statement
        asks = statement.of_last and not (statement.of_found or statement.keeps_found)
        return (asks or statement.kind in _MAY_LEAVE) and self.begins and self.rows is NO_ROWS and not self.command

    def found(self, text: bytes) -> int | None:
        """What FOUND_ROWS() is now; None where MySQL must say. `text`: of `command`."""
        if isinstance(self.rows, Counted):
            return self.rows.number
        if not self.rows or (self.command not in (b"", self.other) and _may_have_offset(text)):
            return None
        return count_packets(self.rows) - 1

    def found_text(self, text: bytes, found: str = FOUND, none: str = FOUND_NONE) -> str:
        """A statement that leaves FOUND_ROWS() as the hit's would, whatever has become of its rows; "" where that is
        for `command` to do, or MySQL knows. `text`: of `command`. `found`: the form of such a statement, `none`: one
        that finds nothing."""
        count = self.found(text)
        if count is None or count > MOST_COUNTED:
            return ""
        return found.format(more=count - 1, rows=count) if count else none

    def passed(self, route: Route, *, failed: bool, several: bool, by_vtgate: bool = False) -> None:
        """MySQL has answered a statement. `several`: a text may hold several statements. `by_vtgate`: which counts the
        rows of each answer, none of an OK; the error of a single statement leaves what it has counted."""
        self.begins &= route.statement.kind is Kind.SET and not failed
        if by_vtgate:
            if not failed:
                self.rows = Counted.of(0) if route.statement.kind in GIVES_NO_ROWS else b""
            elif not route.effects.single:  # those before the one that has failed were answered
                self.rows = b""
            return
        kept = route.effects.single or (route.effects.several and not several)  # which is an error of syntax
        if not (kept if failed else route.statement.keeps_found):
            self.rows = b""

    def begun_anew(self) -> None:
        """MySQL has begun a new session on the connection, in which FOUND_ROWS() goes on telling of the one before."""
        self.let_go(self.command)
