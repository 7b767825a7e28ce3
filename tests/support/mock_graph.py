"""One operator on a table in memory: seed it, change it, evict from it, and compare what it holds with recomputation.

graph = MockGraph(plan, TABLE)
graph.seed([(1, 7, 3), ...])
graph.fill(7)
graph.change(None, (2, 7, 5))
assert graph.rows(7) == [...]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from dataflow.changes.dispatch import TableNodes
from dataflow.graph.build import arrangement_node
from dataflow.held.arrangement import Arrangement, Memory
from dataflow.messages import Pair
from planner.tree.plan import Arrangement as ArrangementPlan
from sqltypes.expression import Key, Row
from sqltypes.schema import Column, SqlType, Table

INT = SqlType("int")

# (upquery's rows for a key, key columns cut off) from all rows of the table
Answer = Callable[[Iterable[Row], Key], list[Row]]


def int_table(name: str, *columns: str) -> Table:
    """A table of INT columns; the first is the primary key, the others may be NULL."""
    made = tuple(Column(column, INT, at > 0, at) for at, column in enumerate(columns))
    return Table("test", name, made, primary_key=(columns[0],), indexes=((columns[0],),))


class MockGraph:
    """An arrangement's node and the table that it stands on. `answer` is what MySQL would return for a key."""

    def __init__(self, plan: ArrangementPlan, table: Table, answer: Answer) -> None:
        self.memory = Memory()
        self.node: Arrangement = arrangement_node(plan, 1, self.memory)
        self.table = table
        self.base: dict[object, Row] = {}
        self._answer = answer

    def seed(self, rows: Iterable[Row]) -> None:
        self.base.update((row[0], row) for row in rows)

    def fill(self, key: Key) -> None:
        """What an upquery's answer at the position would do."""
        if key not in self.node.entries:
            self.node.insert(self.node.load(key, self._answer(self.base.values(), key)))

    def change(self, *pairs: Pair) -> None:
        """One transaction."""
        for before, after in pairs:
            if before is not None:
                del self.base[before[0]]
            if after is not None:
                self.base[after[0]] = after
        self.process(*pairs)
        self.node.check_invariants()

    def process(self, *pairs: Pair) -> None:
        """Gives the node changes of which the table need not know."""
        nodes = TableNodes()
        nodes.add(self.node)
        nodes.process(self.table.qualified, pairs)

    def evict(self, key: Key) -> None:
        entry = self.node.entries.get(key)
        if entry is not None:
            self.node.discard(entry)

    def rows(self, key: Key) -> list[Row] | None:
        """What the key's entry gives upwards, in no order; None for a hole."""
        entry = self.node.entries.get(key)
        return sorted(self.node.rows(entry.content), key=repr) if entry is not None else None

    def random_change(self, rng: random.Random, row: Callable[[random.Random, int], Row], ids: int = 12) -> None:
        """A random insert, update or delete of one row out of `ids`."""
        number = rng.randrange(ids)
        before = self.base.get(number)
        after = None if before is not None and rng.random() < 0.35 else row(rng, number)
        if before is not None or after is not None:
            self.change((before, after))

    def check_against(self, truth: Callable[[Iterable[Row], Key], list[Row]]) -> None:
        """Every held key gives exactly what recomputation gives."""
        for key in list(self.node.entries):
            expected = sorted(truth(self.base.values(), key), key=repr)
            assert self.rows(key) == expected, f"key {key!r}"
        assert self.memory.used == sum(entry.size for entry in self.node.entries.values())
