"""Puts a table's hint (`Table.hint`) into a text as a client wrote it: `IGNORE VINDEX (...)` before vtgate.

vtgate looks rows up by a vindex that is a table of its own, and whose rows no stream tells. The texts that are made
here have the hint (`sql_text.from_table`). Clients' own texts get it where each table stands in FROM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.text.from_entries import entries
from planner.text.scan import scan
from sqltypes.errors import ParseError
from sqltypes.schema import Table

Hints = Mapping[str, str]


def hints_of(tables: Iterable[Table]) -> dict[str, str]:
    """The hints of those that have one, by their names in lower case."""
    return {table.name.lower(): table.hint for table in tables if table.hint}


def with_hints(text: str, hints: Hints, expected: int | None = None) -> str | None:
    """The text in which each of these tables has its hint; None where their places are not found. `expected`: how
    often the text names such tables; None: at least once."""
    try:
        found = [(entry.end, entry.name.lower()) for entry in entries(scan(text))]
    except ParseError:
        return None
    places = [(end, name) for end, name in found if name in hints]
    if not places or (expected is not None and len(places) != expected):
        return None
    for at, name in reversed(places):
        text = text[:at] + hints[name] + text[at:]
    return text


def as_asked(text: str, tables: Iterable[Table]) -> str:
    """A client's text as the source is asked it. Requires: a text like it had a place for each hint."""
    hints = hints_of(tables)
    return (with_hints(text, hints) or text) if hints else text
