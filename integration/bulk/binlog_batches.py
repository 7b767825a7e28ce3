"""A change stream of Spark's without its Java: the driver's part and a task, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from bulk.binlog_source import Reader, rows_of, schema
from integration.servers.private_mysql import Server

Row = dict[str, Any]


class Query:
    """`start`: the offset that a checkpoint would have."""

    def __init__(self, url: str, start: dict[str, Any] | None, options: dict[str, str]) -> None:
        self.options = {"startingPosition": "latest", **options}
        self.reader = Reader(url, self.options, schema(url, self.options))
        self.start = start if start is not None else self.reader.initial()

    def end(self, all_of_it: bool = False) -> dict[str, Any]:
        """Where the next batch ends."""
        return self.reader.latest(self.start, ReadAllAvailable() if all_of_it else ReadMaxBytes(1))

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        """Of the batch between two offsets."""
        batches = [batch for piece in self.reader.pieces(start, end) for batch in rows_of(piece)]
        return [row for batch in batches for row in batch.to_pylist()]

    def batch(self) -> list[Row]:
        """The rows of the next batch."""
        start, self.start = self.start, self.end()
        return self.rows(start, self.start)

    def all(self) -> list[Row]:
        """The rows of all batches until there is nothing new."""
        found: list[Row] = []
        while (end := self.end()) != self.start:
            found += self.rows(self.start, end)
            self.start = end
        return found


@contextmanager
def query(server: Server | str, start: dict[str, Any] | None = None, **options: str) -> Iterator[Query]:
    """A query on the server, which begins at its latest position if nothing else is said."""
    found = Query(server if isinstance(server, str) else server.url, start, options)
    try:
        yield found
    finally:
        found.reader.close()


def changes(rows: list[Row]) -> list[tuple[str, tuple[Any, ...] | None, tuple[Any, ...] | None]]:
    """(operation, before, after) of rows in typed columns."""
    return [(row["operation"], _values(row["before"]), _values(row["after"])) for row in rows]


def _values(image: Row | None) -> tuple[Any, ...] | None:
    return None if image is None else tuple(image.values())
