"""The running graph: arrangements shared between the readers of all plans.

Equal arrangements (by plan) exist once. Installing a plan adds what is missing; removing one takes out what no other
reader uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dataflow.changes.dispatch import TableNodes
from dataflow.graph.build import arrangement_node, reader_node
from dataflow.graph.wanted import wanted_columns
from dataflow.held.arrangement import Arrangement, Memory
from dataflow.losses import PLANNED_ANEW, emptied
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import Arrangement as ArrangementPlan
from planner.tree.plan import QueryPlan
from sqltypes.schema import Table

Wanted = dict[str, tuple[Table, frozenset[str]]]


class _Columns:
    """What the arrangements on one base table read of it: how many read a column, and each reading of the table, the
    latest last."""

    def __init__(self) -> None:
        self.tables: dict[int, tuple[Table, int]] = {}  # by identity, with how often it is used
        self.columns: Counter[str] = Counter()
        self.wanted: tuple[Table, frozenset[str]] | None = None

    def add(self, table: Table, columns: frozenset[str]) -> None:
        _, used = self.tables.get(id(table), (table, 0))
        self.tables[id(table)] = table, used + 1
        self.columns.update(columns)
        self._renew()

    def remove(self, table: Table, columns: frozenset[str]) -> None:
        _, used = self.tables[id(table)]
        if used > 1:
            self.tables[id(table)] = table, used - 1
        else:
            del self.tables[id(table)]
        for column in columns:
            self.columns[column] -= 1
            if not self.columns[column]:
                del self.columns[column]
        self._renew()

    def _renew(self) -> None:
        """The same object where nothing has changed, so that comparing costs nothing."""
        if not self.tables:
            self.wanted = None
            return
        table, _ = self.tables[next(reversed(self.tables))]
        if self.wanted is None or self.wanted[0] is not table or self.wanted[1] != self.columns.keys():
            self.wanted = table, frozenset(self.columns)


class Graph:
    """Arrangements by plan and by base table, readers by tag.

    Invariants:
    1. `by_table[t]` are exactly the arrangements whose `tables` contain t.
    2. An arrangement is in the graph iff a reader uses it.
    3. `_columns[t]` counts what the arrangements in the graph read of t.
    4. They read it by one definition (`Table.is_defined_as`).
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.by_plan: dict[ArrangementPlan, Arrangement] = {}
        self.by_table: dict[str, TableNodes] = {}
        self.readers: dict[int, ReaderNode] = {}
        self._columns: dict[str, _Columns] = {}
        self._numbers = 0
        self._tags = 0

    def install(self, plan: QueryPlan) -> ReaderNode:
        """Adds a reader for the plan, and the arrangements that are not there yet. Where they cannot be built, nothing
        is added."""
        self._tags += 1
        nodes: dict[ArrangementPlan, Arrangement] = {}
        try:
            for part in plan.arrangements:
                nodes[part] = self._arrangement(part)
            reader = reader_node(plan, self._tags, nodes, self.memory)
        except BaseException:
            for node in nodes.values():
                if not node.readers:
                    self._drop(node)
            raise
        self.readers[reader.tag] = reader
        for node in nodes.values():
            node.readers[reader] = None
        return reader

    def _arrangement(self, plan: ArrangementPlan) -> Arrangement:
        node = self.by_plan.get(plan)
        if node is None:
            self._numbers += 1
            node = self.by_plan[plan] = arrangement_node(plan, self._numbers, self.memory)
            for table in node.tables:
                self.by_table.setdefault(table, TableNodes()).add(node)
            for read, columns in wanted_columns(plan):
                self._columns.setdefault(read.qualified, _Columns()).add(read, columns)
        return node

    def remove(self, reader: ReaderNode) -> None:
        """Takes the reader out, and the arrangements that nobody uses any more."""
        with emptied(self.memory, PLANNED_ANEW):
            reader.clear()
            reader.installed = False
            del self.readers[reader.tag]
            for node in set(reader.nodes):
                del node.readers[reader]
                if not node.readers:
                    self._drop(node)

    def _drop(self, node: Arrangement) -> None:
        node.clear()
        del self.by_plan[node.plan]
        for table in node.tables:
            self.by_table[table].remove(node)
            if not self.by_table[table]:
                del self.by_table[table]
        for read, columns in wanted_columns(node.plan):
            counted = self._columns[read.qualified]
            counted.remove(read, columns)
            if counted.wanted is None:
                del self._columns[read.qualified]

    def table(self, name: str) -> Table | None:
        """The definition of the table `schema.name` that arrangements read; None: none reads it."""
        counted = self._columns.get(name)
        return counted.wanted[0] if counted is not None and counted.wanted is not None else None

    def wanted(self) -> Wanted:
        """What the change stream must deliver: for each table the columns that some arrangement reads."""
        return {name: counted.wanted for name, counted in self._columns.items() if counted.wanted is not None}

    def __iter__(self) -> Iterator[Arrangement]:
        return iter(list(self.by_plan.values()))

    def check_invariants(self) -> None:
        """Raises AssertionError where the graph, its arrangements and its readers disagree."""
        read: dict[str, set[str]] = {}
        for plan in self.by_plan:
            for base, columns in wanted_columns(plan):
                read.setdefault(base.qualified, set()).update(columns)
        assert read == {name: set(columns) for name, (_, columns) in self.wanted().items()}
        for counted in self._columns.values():
            first, *others = (table for table, _ in counted.tables.values())
            assert all(map(first.is_defined_as, others))
        used = 0
        for node in self:
            node.check_invariants()
            used += sum(entry.size for entry in (*node.entries.values(), *node.ahead.values()))
            for table in node.tables:
                assert node in self.by_table[table].nodes
        for reader in self.readers.values():
            reader.check_invariants()
            used += sum(held.size + held.body_size for held in reader.entries.values())
        used += self.memory.remains.size
        assert used == self.memory.used, f"{used} bytes are held, {self.memory.used} are counted"
