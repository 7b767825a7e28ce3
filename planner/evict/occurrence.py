"""One base table of a query in evict mode: which of its rows matter, and what of them (`planner/evict/evict.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from planner.tree.plan import Cut, own
from sqltypes.expression import Expr, columns_of
from sqltypes.schema import Table


@dataclass
class Occurrence:
    """One base table in one FROM. `outer`: it may be the inner side of an outer join; `nested`: within brackets."""

    alias: str
    table: Table
    outer: bool
    nested: bool = False
    filter: list[Expr] = field(default_factory=list)
    tells: list[Expr] = field(default_factory=list)  # conditions on it and on parameters alone
    cut: Cut | None = None
    keys: dict[int, str] = field(default_factory=dict)  # parameter -> column
    used: dict[Expr, None] = field(default_factory=dict)

    def reads(self, name: str) -> bool:
        """Whether it is noted that the column, in lower case, is read."""
        noted = {column.name.lower() for expr in (*self.used, *self.filter) for column in columns_of(expr)}
        return name in noted or name in map(str.lower, self.keys.values())

    def use_all(self) -> None:
        for column in self.table.columns:
            self.used.setdefault(own(column.name, self.table))
