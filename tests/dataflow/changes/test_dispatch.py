"""A table's changes reach the arrangements on it, each judged by itself."""

from __future__ import annotations

from dataflow.changes.dispatch import TableNodes
from dataflow.graph.build import arrangement_node
from dataflow.held.arrangement import Arrangement, LinearArrangement, Memory
from dataflow.messages import Pair
from planner.tree.plan import Aggregate, AggregateArrangement, AggregateFunction, RowsArrangement, own
from planner.tree.plan import Arrangement as ArrangementPlan
from sqltypes.build import literal
from sqltypes.expression import Key, Row
from sqltypes.functions import call
from sqltypes.schema import BIGINT
from tests.support.mock_graph import int_table

TABLE = int_table("t", "id", "k", "g", "v")
BIG = 1 << 62
COUNT = (Aggregate(AggregateFunction.COUNT_STAR, None, BIGINT, "n"),)
OVERFLOWS = call(">", [call("*", [own("v", TABLE), own("v", TABLE)]), literal(0)])  # for large v


class Nodes:
    def __init__(self, *plans: ArrangementPlan) -> None:
        self.memory = Memory()
        self.table = TableNodes()
        self.nodes = [arrangement_node(plan, number, self.memory) for number, plan in enumerate(plans, 1)]
        for node in self.nodes:
            self.table.add(node)

    def fill(self, key: Key, *rows: Row) -> None:
        """Each node holds the key, with these rows (empty if none)."""
        for node in self.nodes:
            node.insert(node.load(key, list(rows)))

    def change(self, *pairs: Pair) -> None:
        self.table.process(TABLE.qualified, pairs)

    def rows(self, node: Arrangement, key: Key) -> list[Row] | None:
        entry = node.entries.get(key)
        return list(node.rows(entry.content)) if entry is not None else None


def test_arrangements_of_one_table_with_other_keys_each_get_the_change() -> None:
    by_k, by_g = RowsArrangement(TABLE, ("k",), ("id",)), AggregateArrangement(TABLE, ("g",), ("g",), COUNT)
    by_both = RowsArrangement(TABLE, ("k", "g"), ("v",))
    nodes = Nodes(by_k, by_g, by_both)
    k, g, both = nodes.nodes
    k.insert(k.load(1, []))
    g.insert(g.load(2, []))
    both.insert(both.load((1, 2), []))
    nodes.change((None, (7, 1, 2, 3)))
    assert [nodes.rows(k, 1), nodes.rows(g, 2), nodes.rows(both, (1, 2))] == [[(7,)], [(2, 1, 1)], [(3,)]]
    nodes.change(((7, 1, 2, 3), (7, 5, 2, 4)))
    assert [nodes.rows(k, 1), nodes.rows(g, 2), nodes.rows(both, (1, 2))] == [[], [(2, 1, 1)], []]
    nodes.change(((7, 5, 2, 4), None))
    assert [nodes.rows(k, 1), nodes.rows(g, 2), nodes.rows(both, (1, 2))] == [[], [], []]
    assert nodes.rows(k, 5) is None


def test_a_change_that_one_cannot_evaluate_empties_that_one_only() -> None:
    plain = RowsArrangement(TABLE, ("k",), ("id", "v"))
    strict = RowsArrangement(TABLE, ("k",), ("id", "v"), OVERFLOWS)
    nodes = Nodes(strict, plain)
    nodes.fill(1)
    nodes.fill(2)
    nodes.change((None, (7, 1, 0, BIG)), (None, (8, 2, 0, 3)))
    assert list(nodes.nodes[0]) == []
    assert nodes.rows(nodes.nodes[1], 1) == [(7, BIG)]
    assert nodes.rows(nodes.nodes[1], 2) == [(8, 3)]
    assert nodes.memory.counters["evaluation_failed"] == 1


def test_rows_are_located_once_for_all_with_the_same_key_and_filter() -> None:
    positive = call(">", [own("v", TABLE), literal(0)])
    first = RowsArrangement(TABLE, ("k",), ("id",), positive)
    second = AggregateArrangement(TABLE, ("k",), ("k",), COUNT, positive)
    nodes = Nodes(first, second)
    located: list[Row] = []
    for node in nodes.nodes:
        assert isinstance(node, LinearArrangement)
        node.locate = lambda row, locate=node.locate: located.append(row) or locate(row)  # type: ignore[misc,func-returns-value]  # None
    nodes.table = TableNodes()
    for node in nodes.nodes:
        nodes.table.add(node)
    nodes.fill(1)
    nodes.change((None, (7, 1, 0, 3)), (None, (8, 1, 0, -3)))
    assert located == [(7, 1, 0, 3), (8, 1, 0, -3)]
    assert [nodes.rows(node, 1) for node in nodes.nodes] == [[(7,)], [(1, 1, 1)]]


def test_a_removed_arrangement_gets_no_more_changes() -> None:
    nodes = Nodes(RowsArrangement(TABLE, ("k",), ("id",)), RowsArrangement(TABLE, ("k",), ("v",)))
    nodes.fill(1)
    nodes.table.remove(nodes.nodes[0])
    nodes.change((None, (7, 1, 0, 3)))
    assert [nodes.rows(node, 1) for node in nodes.nodes] == [[], [(3,)]]
