"""The running graph: arrangements shared between the readers of all plans.

Equal arrangements (by plan) exist once. Installing a plan adds what is missing; removing one takes out what no other
reader uses.
"""

from __future__ import annotations

from collections.abc import Iterator

from dataflow.arrangement import Arrangement, Memory
from dataflow.build import arrangement_node, reader_node, wanted_columns
from dataflow.dispatch import TableNodes
from dataflow.reader import ReaderNode
from planner.plan import Arrangement as ArrangementPlan
from planner.plan import QueryPlan
from sqltypes.schema import Table

Wanted = dict[str, tuple[Table, frozenset[str]]]


class Graph:
    """Arrangements by plan and by base table, readers by tag.

    Invariants:
    1. `by_table[t]` are exactly the arrangements whose `tables` contain t.
    2. An arrangement is in the graph iff a reader uses it.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.by_plan: dict[ArrangementPlan, Arrangement] = {}
        self.by_table: dict[str, TableNodes] = {}
        self.readers: dict[int, ReaderNode] = {}
        self._users: dict[Arrangement, int] = {}
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
                if node not in self._users:
                    self._drop(node)
            raise
        self.readers[reader.tag] = reader
        for node in nodes.values():
            self._users[node] = self._users.get(node, 0) + 1
        return reader

    def _arrangement(self, plan: ArrangementPlan) -> Arrangement:
        node = self.by_plan.get(plan)
        if node is None:
            self._numbers += 1
            node = self.by_plan[plan] = arrangement_node(plan, self._numbers, self.memory)
            for table in node.tables:
                self.by_table.setdefault(table, TableNodes()).add(node)
        return node

    def remove(self, reader: ReaderNode) -> None:
        """Takes the reader out, and the arrangements that nobody uses any more."""
        reader.clear()
        reader.installed = False
        del self.readers[reader.tag]
        for node in set(reader.nodes):
            self._users[node] -= 1
            if self._users[node] == 0:
                self._drop(node)

    def _drop(self, node: Arrangement) -> None:
        node.clear()
        self._users.pop(node, None)
        del self.by_plan[node.plan]
        for table in node.tables:
            self.by_table[table].remove(node)
            if not self.by_table[table]:
                del self.by_table[table]

    def wanted(self) -> Wanted:
        """What the change stream must deliver: for each table the columns that some arrangement reads."""
        wanted: Wanted = {}
        for plan in self.by_plan:
            for table, columns in wanted_columns(plan):
                held = wanted.get(table.qualified)
                wanted[table.qualified] = (table, columns if held is None else columns | held[1])
        return wanted

    def __iter__(self) -> Iterator[Arrangement]:
        return iter(list(self.by_plan.values()))

    def check_invariants(self) -> None:
        """Raises AssertionError where the graph, its arrangements and its readers disagree."""
        used = 0
        for node in self:
            node.check_invariants()
            used += sum(entry.size for entry in (*node.entries.values(), *node.ahead.values()))
            for table in node.tables:
                assert node in self.by_table[table]
        for reader in self.readers.values():
            for key, held in reader.entries.items():
                assert held.key == key and held.reader is reader and held.alive
                used += held.size + held.body_size
                if held.bodies is not None:
                    for entry in held.deps:
                        assert entry.owner.entries.get(entry.key) is entry, f"{key!r} shows what is no longer held"
        assert used == self.memory.used, f"{used} bytes are held, {self.memory.used} are counted"
