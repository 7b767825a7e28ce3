"""A job: the commands that run on one connection at a time, of an upquery or of a read, and the meaning of their
answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from external_upquery.connection import Connection
from external_upquery.protocol import COM_STMT_CLOSE, Answer, Prepared, ResultSet, command
from external_upquery.shares import ANY, Kind
from sqltypes.errors import SourceError, UpwellError
from sqltypes.expression import Row

DEFAULT_ANSWER_LIMIT = 256 << 20  # bytes of rows on the wire

Outcome = list[Answer] | UpwellError


@dataclass(slots=True, eq=False)
class Job:
    """Commands to run on one connection. `finished` is called once, unless the job is abandoned. `restoring`: how many
    of the last commands put the connection back as it was."""

    packets: bytes
    count: int
    finished: Callable[[Outcome], None]
    database: str = ""
    prepared: tuple[int, ...] = ()
    answer_limit: int = DEFAULT_ANSWER_LIMIT
    largest_row: int = 0  # bytes, 0: any
    deadline: float | None = None
    no_database: bool = False  # needs a connection on which no database is selected
    before_release: Callable[[Connection, list[Answer]], None] | None = None
    connection: Connection | None = None
    retried: bool = False
    ended: bool = False
    read: bool = False  # of a client: such take a part of the connections at most
    kind: Kind = ANY  # what it asks for: jobs for one table or shard take a part of the connections at most
    restoring: int = 0
    place: int = 0  # in the queue
    lent: bool = False  # it runs beyond its share
    locks: bool = False  # it has a turn to lock, or waits for one

    def release(self, connection: Connection, outcome: Outcome, spoils: Callable[[SourceError], bool]) -> None:
        """The connection is to be another job's. It is closed where it was not left as it was: it may be in a
        transaction yet, or at a shard. `spoils`: as `Dialect` has it."""
        if isinstance(outcome, UpwellError):
            return
        if self.before_release is not None:
            self.before_release(connection, outcome)
        last = len(outcome) - self.restoring
        for at, answer in enumerate(outcome):
            if isinstance(answer, SourceError) and (at >= last or spoils(answer)):
                connection.close()
                return


def checked(answers: list[Answer], index: int) -> Answer:
    """The answer of that index. Raises the first SourceError among all."""
    for answer in answers:
        if isinstance(answer, SourceError):
            raise answer
    return answers[index]


def rows_of(answers: list[Answer]) -> list[Row]:
    """Of the only answer."""
    (answer,) = answers
    assert isinstance(answer, ResultSet)
    return answer.rows


def close_statements(connection: Connection, answers: list[Answer]) -> None:
    """Those that were prepared."""
    for answer in answers:
        if isinstance(answer, Prepared):
            connection.send_unanswered(command(COM_STMT_CLOSE, answer.statement_id.to_bytes(4, "little")))
