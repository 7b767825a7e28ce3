"""The tables that a statement announces, and whether its rows have come. Pure.

A statement announces its tables, then come its rows. The last of them say that they are. Under LOCK TABLES MySQL can
commit changes of which its binlog has the tables only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vstream.binlog.decode import MappedTable


@dataclass(slots=True)
class Announced:
    """Of the statement that is being read."""

    tables: list[MappedTable] = field(default_factory=list)
    rows_end: int | None = None  # whether the last rows said that they are; None: there are none yet

    def end(self) -> list[MappedTable]:
        """The statement has ended. The tables of which rows may be missing."""
        tables, ended = self.tables, self.rows_end
        self.clear()
        return tables if not ended or (len(tables) > 1 and announced_twice(tables)) else []

    def clear(self) -> None:
        self.tables, self.rows_end = [], None


def announced_twice(tables: list[MappedTable]) -> bool:
    """Whether the tables announced before the rows belong to several statements with the same tables. Then the rows of
    all but the last statement are missing. That happens under LOCK TABLES: each statement announces all locked tables.
    """
    count = len(tables)
    if len({mapped.name for mapped in tables}) * 2 > count:
        return False
    return any(tables[size:] == tables[:-size] for size in range(1, count // 2 + 1) if count % size == 0)
