"""Values of a stream that take long to decode. Rows come with the raw values in their places, and are finished in
steps. Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from dataflow.messages import Pair
from sqltypes.expression import Row
from vstream.jsonb import json_steps, json_text

AT_ONCE = 4096  # bytes of a JSON document whose text is made at once: half a millisecond


class Late(bytes):
    """A JSON document, in MySQL's binary form."""

    __slots__ = ()

    def steps(self) -> Generator[None, None, str]:
        """The steps that make its text. Raises ValueError for bytes that are no document."""
        return json_steps(self)


def json_or_late(data: bytes) -> str | Late:
    """The document's text; of a large one what makes it later."""
    return json_text(data) if len(data) <= AT_ONCE else Late(data)


def finish(pairs: list[Pair], start: int) -> Iterator[None]:
    """Puts the texts where the documents are, from `start` on. Raises ValueError for what is not a document."""
    for number in range(start, len(pairs)):
        before, after = pairs[number]
        first = yield from _finished(before)
        second = yield from _finished(after)
        pairs[number] = first, second


def _finished(row: Row | None) -> Generator[None, None, Row | None]:
    if row is None or not any(isinstance(value, Late) for value in row):
        return row
    values = []
    for value in row:
        values.append((yield from value.steps()) if isinstance(value, Late) else value)
    return tuple(values)
