"""What runs on one connection at a time: the commands of an upquery, or of a read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from external_upquery.connection import Connection
from external_upquery.protocol import Answer
from sqltypes.errors import UpwellError

DEFAULT_ANSWER_LIMIT = 256 << 20  # bytes of rows on the wire

Outcome = list[Answer] | UpwellError


@dataclass(slots=True, eq=False)
class Job:
    """Commands to run on one connection. `finished` is called once, unless the job is abandoned."""

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
    place: int = 0  # in the queue
    locks: bool = False  # it has a turn to lock, or waits for one
