"""Repeated reads as an application makes them: `python -m integration.clients.dbapi.reads DRIVER [--explain]`.

A request takes a connection as the driver makes it, reads, and commits; ten requests share a connection, as in a pool.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

from integration.clients.canonical import EXPLAIN, ROUNDS, Reads, served_in
from integration.clients.dbapi.frame import ADDRESS, DRIVER
from integration.clients.statements import READS

REQUESTS_A_CONNECTION = 10


def main() -> None:
    reads = Reads()
    rounds = iter(range(ROUNDS))
    while requests := list(itertools.islice(rounds, REQUESTS_A_CONNECTION)):
        with contextlib.closing(DRIVER.connect(database=ADDRESS.data)) as connection:
            # A prepared statement lives as long as its cursor.
            prepared = {read.name: DRIVER.prepared(connection) for read in READS} if "prepared" in DRIVER.can else {}
            for number in requests:
                request(connection, prepared, number, reads)
    reads.emit()


def request(connection: Any, prepared: dict[str, Any], number: int, reads: Reads) -> None:
    for read in READS:
        cursors = {"text": connection.cursor()}
        if prepared:
            cursors["prepared"] = prepared[read.name]
        for way, cursor in cursors.items():
            key = read.key(number, prepared=way == "prepared")
            cursor.execute(read.sql, key)
            rows = read.ordered(cursor.fetchall())
            reads.note(f"{read.name}, {way}", key, rows, served(connection) if reads.explain else None)
        cursors["text"].close()
    connection.commit()


def served(connection: Any) -> tuple[str, str]:
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(EXPLAIN)
        (row,) = cursor.fetchall()
        return served_in([column[0] for column in cursor.description], row)


if __name__ == "__main__":
    main()
