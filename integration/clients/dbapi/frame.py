"""What the steps of a synchronous Python driver stand on: the driver that was named, its sessions, what it shows."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from integration.clients.canonical import Step, address
from integration.clients.dbapi.drivers import DRIVERS, Connection, Driver

ADDRESS = address()
DRIVER: Driver = DRIVERS[sys.argv[1]](ADDRESS)
Error = DRIVER.errors


def into(steps: list[Step]) -> Callable[..., Callable[[Step], Step]]:
    """A decorator `step(needs="")` that puts functions into `steps`, but those for which the driver lacks the need."""

    def step(needs: str = "") -> Callable[[Step], Step]:
        def put(function: Step) -> Step:
            if not needs or needs in DRIVER.can:
                steps.append(function)
            return function

        return put

    return step


@contextlib.contextmanager
def session(**special: Any) -> Iterator[tuple[Connection, Any]]:
    """A connection as the driver makes it by default, and a cursor."""
    connection = DRIVER.connect(**special)
    try:
        yield connection, connection.cursor()
    finally:
        with contextlib.suppress(*Error):  # the server may have ended it
            connection.close()


def all_of(cursor: Any, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
    cursor.execute(sql, values) if values else cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()]


def described(cursor: Any) -> list[list[object]]:
    """What the driver tells of each column; DB-API's seven, and flags where it has them."""
    return [list(column) for column in cursor.description]


def tried(action: Callable[[], object]) -> object:
    """What `action` gives, or what the driver shows of the error that it ends in."""
    try:
        return action()
    except Error as error:
        return DRIVER.number_and_text(error)


def shown(action: Callable[[], object]) -> object:
    """What the driver shows of the error that `action` ends in."""

    def without_result() -> object:
        action()
        return "no error"

    return tried(without_result)


def all_rows(cursor: Any) -> list[Any]:
    return [tuple(row) for row in cursor.fetchall()]
