"""A connection of our own that takes on the variables of a client's session, to hear what MySQL tells that session.

    L, the snapshot, O, X     as `external_upquery/snapshot.py` has it, before the session's variables are set
    SET ...                   what the session has set otherwise than the connections that fill caches
    the client's text         as its session sent it; or prepared, and executed with what it has bound
    COMMIT, COM_RESET_CONNECTION, SET NAMES, the pins

After that the connection is as at its login. If one of the last four fails, or anything hangs, it is closed. It fills
no cache, and it is the only connection that takes on a session's variables.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import structlog

from external_upquery.address import Upstream
from external_upquery.columns import RawColumn
from external_upquery.connection import Connection, settling
from external_upquery.login import PIN_SESSION, Login, log_in
from external_upquery.protocol import COM_STMT_PREPARE, Answer, Prepared, ResultSet, command, query
from external_upquery.snapshot import COMMIT, LOWER, SNAPSHOT, UPPER, BracketReader, Plan
from gtid_tracker.bracket import Bracket
from sqltypes.errors import DeadlinePassed, Fault, Overloaded, SourceDown, SourceError, UpwellError

log = structlog.get_logger("upwell")

COM_RESET_CONNECTION, COM_STMT_EXECUTE = 0x1F, 0x17
RESTORE = (COMMIT, command(COM_RESET_CONNECTION), query("SET NAMES utf8mb4"), query(PIN_SESSION))
LIMITS = "SET max_execution_time={}, lock_wait_timeout={}"
GRACE = 1.0  # seconds beyond those that a statement may take, until the connection is given up
LARGEST = 1 << 20  # bytes of an answer
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_PLAIN = re.compile(r"[\w\x20+,./:-]*", re.ASCII)


class Settings:
    """What a session has set otherwise than the connections that fill caches. Compared by identity, and shared by the
    sessions that are alike. `needed`: variables without which MySQL's answer would be another session's; `others`:
    those that our account may not be allowed to set."""

    __slots__ = ("needed", "others")

    def __init__(self, needed: tuple[tuple[str, str], ...], others: tuple[tuple[str, str], ...]) -> None:
        self.needed = needed
        self.others = others

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in (*self.needed, *self.others))

    @property
    def can_be_set(self) -> bool:
        """Whether each value can be written in a statement as it is."""
        return all(_PLAIN.fullmatch(value) for _, value in (*self.needed, *self.others))


@dataclass(frozen=True, slots=True)
class Question:
    """`text`: as the session sent it. `execution`: the bytes after the statement's id in COM_STMT_EXECUTE; b"" for a
    text. `database`: the selected one; "": any. `tables`: those it reads. `seconds`: the longest time that MySQL may
    take."""

    settings: Settings
    text: bytes
    execution: bytes
    database: str
    tables: Sequence[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Told:
    """MySQL's answer. `rows`: the payloads of their packets; or an error that MySQL has told."""

    bracket: Bracket
    columns: Sequence[RawColumn]
    rows: list[bytes] | SourceError
    seconds: float


class OtherSession:
    """Lives on one event loop. One question at a time.

    Invariants:
    1. While nothing is asked, the connection, if there is one, is as at its login.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._connection: Connection | None = None
        self._asking: asyncio.Task[None] | None = None
        self._opening: asyncio.Future[Login] | None = None
        self._brackets = BracketReader()

    def ask(self, question: Question, deliver: Callable[[Told | UpwellError], None]) -> None:
        """`deliver` gets the answer, or why there is none, later. Requires: `question.settings.can_be_set`."""
        loop = asyncio.get_running_loop()
        if self._asking is not None:
            loop.call_soon(deliver, Overloaded("another session's variables are in use"))
            return
        self._asking = loop.create_task(self._asked(question, deliver))

    async def _asked(self, question: Question, deliver: Callable[[Told | UpwellError], None]) -> None:
        try:
            async with asyncio.timeout(question.seconds + GRACE):
                answer: Told | UpwellError = await self._told(question)
        except TimeoutError:
            answer = DeadlinePassed("the deadline passed before the source answered")
        except UpwellError as error:
            answer = error
        except Exception as error:  # an edge: who has asked waits for an answer
            log.exception("other_session_failed", sql=repr(question.text[:2000]))
            answer = Fault(f"asking under a session's variables has failed: {error!r}")
        finally:
            self._asking = None
            if self._connection is not None and self._connection.busy:
                self._abort()
        deliver(answer)

    async def _told(self, question: Question) -> Told:
        """Raises UpwellError."""
        connection = await self._connected()
        started = monotonic()
        try:
            opening = _opening(question)
            answers = await _run(
                connection, opening.packets, database=question.database, prepares=bool(question.execution)
            )
            read = self._brackets.read(opening.plan, answers)
            if isinstance(read, UpwellError):  # also where a variable cannot be set that is needed
                raise read
            bracket, asked = read[0], query(question.text)
            if question.execution:
                statement = answers[-1]
                if not isinstance(statement, Prepared):
                    rows = statement if isinstance(statement, SourceError) else SourceError(0, "", "not prepared")
                    return Told(bracket, (), rows, monotonic() - started)
                asked = command(COM_STMT_EXECUTE, statement.statement_id.to_bytes(4, "little") + question.execution)
            (answer,) = await _run(connection, (asked,), raw=True)
            seconds = monotonic() - started
            if isinstance(answer, ResultSet):
                payloads = [bytes(row[0]) for row in answer.rows]  # type: ignore[arg-type]  # raw
                return Told(bracket, answer.layout.columns, payloads, seconds)
            error = answer if isinstance(answer, SourceError) else SourceError(0, "", "no rows")
            return Told(bracket, (), error, seconds)
        finally:
            if connection.alive and not connection.busy:
                await self._restore(connection)

    async def _connected(self) -> Connection:
        if self._connection is None or not self._connection.alive:
            loop = asyncio.get_running_loop()
            opening = self._opening
            if opening is None:
                opening = self._opening = loop.run_in_executor(None, log_in, self._upstream)
            try:
                login = await asyncio.shield(opening)  # in a thread, which ends when it likes
            except UpwellError:
                self._opening = None
                raise
            self._opening, self._connection = None, Connection(login, loop)
        return self._connection

    async def _restore(self, connection: Connection) -> None:
        try:
            answers = await _run(connection, RESTORE)
        except UpwellError:
            return  # it is lost
        if any(isinstance(answer, SourceError) for answer in answers):
            connection.close()

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking
        if self._opening is not None:
            with suppress(UpwellError):
                (await self._opening).socket.close()
        if self._connection is not None:
            self._connection.close()


@dataclass(frozen=True, slots=True)
class _Opening:
    """The commands before the client's own. The last one prepares that, if it is an execution."""

    packets: Sequence[bytes]
    plan: Plan


def _opening(question: Question) -> _Opening:
    packets = [LOWER, SNAPSHOT]
    if question.tables:
        packets.append(query("DO " + ", ".join(f"(SELECT 1 FROM {table} LIMIT 0)" for table in question.tables)))
    upper, seconds = len(packets), max(1, int(question.seconds))
    packets += [UPPER, query(LIMITS.format(seconds * 1000, seconds))]
    others = [query(_set((one,))) for one in question.settings.others]
    may_fail = [*range(len(packets), len(packets) + len(others))]
    packets += others
    if question.settings.needed:
        packets.append(query(_set(question.settings.needed)))
    if question.execution:
        may_fail.append(len(packets))
        packets.append(command(COM_STMT_PREPARE, question.text))
    return _Opening(packets, Plan(b"", len(packets), (), upper, checks=tuple(may_fail)))


def _set(values: Sequence[tuple[str, str]]) -> str:
    return "SET " + ", ".join(f"SESSION {name}={_literal(name, value)}" for name, value in values)


def _literal(name: str, value: str) -> str:
    if not value and name == "character_set_results":  # as MySQL tells NULL
        return "NULL"
    return value if _NUMBER.fullmatch(value) else f"'{value}'"


async def _run(
    connection: Connection, packets: Sequence[bytes], *, database: str = "", prepares: bool = False, raw: bool = False
) -> list[Answer]:
    """Raises UpwellError."""
    future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()

    if not connection.alive:
        raise SourceDown("the connection to the source was lost")
    prepared = (len(packets) - 1,) if prepares else ()
    connection.run(
        b"".join(packets),
        len(packets),
        settling(future),
        database=database,
        prepared=prepared,
        row_limit=LARGEST,
        raw=raw,
    )
    return await future
