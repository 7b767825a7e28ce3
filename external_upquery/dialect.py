"""The statements that a kind of source needs around an upquery, and the meaning of its answers.

A dialect holds no connection. `Executor` sends what it makes, and gives it the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dataflow.messages import OwnAnswer, UpqueryRequest
from external_upquery import passed, snapshot
from external_upquery.passed import Passed
from external_upquery.protocol import Answer, Prepared, ResultSet
from external_upquery.snapshot import HISTORY, LOWER, BracketReader
from gtid_tracker.bracket import Bracket, History
from gtid_tracker.gtid import GtidSet, parse_owned
from sqltypes.errors import SourceDown, SourceError

Bracketed = tuple[Bracket, tuple[ResultSet, ...]] | SourceError | SourceDown
Position = tuple[History, GtidSet, GtidSet, str]
"""Whose history is answered from, which GTIDs are owned, what is executed by then, and the settings on which rights
depend."""


class Sending(Protocol):
    """Commands of an upquery, `count` of them, in one piece. `restoring`: so many of the last ones leave the connection
    as it was."""

    @property
    def packets(self) -> bytes: ...

    @property
    def count(self) -> int: ...

    @property
    def restoring(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Commands:
    packets: bytes
    count: int
    restoring: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class Asked(Commands):
    """`told` gets the answers; errors are among them."""

    told: Callable[[Sequence[Answer]], None]


@dataclass(frozen=True, slots=True)
class Describing:
    """Commands, those at `prepared` of COM_STMT_PREPARE. `shards`: which are asked, where there are such. `restoring`:
    as `Sending` has it."""

    packets: bytes
    count: int
    prepared: tuple[int, ...]
    shards: tuple[str, ...] = ()
    restoring: int = 0


class Dialect(Protocol):
    """`database`: for statements that name none; "": no default. `locks`: exact fills are possible. `waits`: a read can
    wait at the source until that has executed given GTIDs. `one_server`: a connection leads to one server while it
    lasts."""

    @property
    def one_server(self) -> bool: ...

    def spoils(self, error: SourceError) -> bool:
        """Whether a connection that has given this error may give it again and again, where a new one would not."""
        ...

    @property
    def database(self) -> str: ...

    @property
    def locks(self) -> bool: ...

    @property
    def waits(self) -> bool: ...

    @property
    def before(self) -> Callable[[UpqueryRequest], Asked | None] | None:
        """What must be asked before the request can be made a `Sending`; None: nothing, of any request or of one."""

    def upquery(self, request: UpqueryRequest) -> Sending: ...

    def reached(self, shards: Sequence[str] | None) -> Sequence[str]:
        """The shards that are waited for where these are asked, or None: all; none where there is one at most."""
        ...

    def waits_for(self, sending: Any) -> Sequence[str]:
        """Likewise, for what `upquery`, `read` or `describing` has made. None with `one_server`."""
        ...

    def bracketed(self, sending: Any, answers: Sequence[Answer]) -> Bracketed:
        """The bracket and what each statement gave, or the first error among the answers but the checks'."""
        ...

    def own_answers(self, sending: Any, answers: Sequence[Answer]) -> tuple[OwnAnswer | SourceError, ...]:
        """To the request's checks. Requires: `bracketed` found no error."""
        ...

    def refused(self, sending: Any, answers: Sequence[Answer]) -> SourceError | None:
        """Why exact fills are refused at all; None if nothing says so."""
        ...

    def read(self, sql: str, database: str, after: GtidSet | None, patience: float) -> Sending:
        """One statement between two readings of the executed GTIDs. `database`: the one to select. `after`: GTIDs that
        the source must have executed before, within `patience` seconds; None without `waits`."""
        ...

    def passed(self, sending: Any, answers: Sequence[Answer]) -> Passed:
        """What the answers to `read` say. Raises SourceError, SourceDown."""
        ...

    def describing(self, sql: str) -> Describing: ...

    def described(self, sending: Describing, answers: Sequence[Answer]) -> Prepared | SourceError:
        """The statement's columns, or why it is refused."""
        ...

    def position(self) -> Sequence[bytes]: ...

    def positioned(self, answers: Sequence[Answer]) -> Position:
        """What the answers to `position` say. Requires: none is an error. Raises SourceDown where they cannot be
        read."""
        ...

    def executed(self) -> Sequence[bytes]: ...

    def executed_by(self, answers: Sequence[Answer]) -> GtidSet:
        """What the answers to `executed` say. As `positioned`."""
        ...


class MysqlDialect:
    """One server's: `snapshot.py`, `passed.py`."""

    database = ""
    locks = waits = one_server = True
    before = None
    upquery = staticmethod(snapshot.plan)

    def __init__(self) -> None:
        self.bracketed = BracketReader().read

    def spoils(self, error: SourceError) -> bool:
        return False

    def reached(self, shards: Sequence[str] | None) -> Sequence[str]:
        return ()

    def waits_for(self, sending: Any) -> Sequence[str]:
        return ()

    def own_answers(self, sending: snapshot.Plan, answers: Sequence[Answer]) -> tuple[OwnAnswer | SourceError, ...]:
        return snapshot.own_answers(sending.checks, answers)

    def refused(self, sending: snapshot.Plan, answers: Sequence[Answer]) -> SourceError | None:
        return snapshot.refused(sending, answers)

    def read(self, sql: str, database: str, after: GtidSet | None, patience: float) -> Commands:
        packets = passed.commands(sql, after, patience)
        return Commands(b"".join(packets), len(packets), restoring=2)

    def passed(self, sending: Commands, answers: Sequence[Answer]) -> Passed:
        for answer in answers:
            if isinstance(answer, SourceError):
                raise answer
        return passed.passed(answers)

    def describing(self, sql: str) -> Describing:
        packets, at = snapshot.describing(sql)
        return Describing(b"".join(packets), len(packets), (at,), restoring=2)

    def described(self, sending: Describing, answers: Sequence[Answer]) -> Prepared | SourceError:
        for error in answers:
            if isinstance(error, SourceError):
                return error
        answer = answers[sending.prepared[0]]
        assert isinstance(answer, Prepared)
        return answer

    def position(self) -> Sequence[bytes]:
        return (HISTORY,)

    def positioned(self, answers: Sequence[Answer]) -> Position:
        (answer,) = answers
        assert isinstance(answer, ResultSet), "a variable has a value"
        ((server, owned, executed, rights),) = answer.rows
        return str(server).lower(), parse_owned(str(owned)), GtidSet.parse(str(executed)), str(rights)

    def executed(self) -> Sequence[bytes]:
        return (LOWER,)

    def executed_by(self, answers: Sequence[Answer]) -> GtidSet:
        (answer,) = answers
        assert isinstance(answer, ResultSet), "a variable has a value"
        return GtidSet.parse(str(answer.rows[0][0]))
