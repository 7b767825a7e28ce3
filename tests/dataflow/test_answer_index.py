"""Which answers a change concerns, where their keys have lists: it is found without going over what cannot be."""

from __future__ import annotations

import random

import pytest

import dataflow.operators.answer_index
from dataflow.entries import Entries
from dataflow.fills.read import Read
from dataflow.operators.answer import AnswerNode
from dataflow.operators.answer_index import ANY, MOST_COMBINATIONS
from sqltypes.expression import Key, Row
from tests.support.engine_rig import Rig

BOTH = "SELECT id, ROW_NUMBER() OVER (ORDER BY v) AS r FROM t WHERE k IN (?) AND id IN (?)"
APART = "SELECT id FROM t WHERE k IN (?) UNION ALL SELECT id FROM w WHERE k IN (?)"
WORDS = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS r FROM s WHERE word IN (?)"


def node_of(query: str) -> AnswerNode:
    (node,) = Rig(query).readers[0].nodes
    assert isinstance(node, AnswerNode)
    return node


def hold(node: AnswerNode, *keys: Key) -> None:
    for key in keys:
        node.insert(node.load(key, [(1, 1)]))
    node.check_invariants()


def places(node: AnswerNode) -> list[int]:
    return sorted(len(index.by_value) for index in node._index.values())


def change(node: AnswerNode, row: Row, table: str = "test.t") -> None:
    node.apply(table, [(None, row)], node.entries)
    node.check_invariants()


def test_an_answer_with_lists_of_many_combinations_is_emptied_by_each_change_and_costs_no_index() -> None:
    """All combinations of two such lists would be 25 million."""
    node, numbers = node_of(BOTH), tuple(range(5000))
    hold(node, (numbers, numbers))
    assert [list(index.by_value) for index in node._index.values()] == [[ANY]]
    change(node, (-1, -1, -1))
    assert not node.entries and places(node) == [0] and not node.memory.remains


def test_only_values_that_a_table_tells_are_combined() -> None:
    node, numbers = node_of(APART), tuple(range(3000))
    hold(node, (numbers, numbers))
    assert places(node) == [3000, 3000], "9 million of both would be needed by nobody"
    change(node, (1, 3000, 1))
    change(node, (1, 3000, 1), "test.w")
    assert node.entries
    change(node, (1, 2999, 1), "test.w")
    assert not node.entries
    node.memory.remains.take_apart(10_000)
    assert places(node) == [0, 0]


def test_values_that_compare_alike_are_one_place() -> None:
    node = node_of(WORDS)
    hold(node, (("A", "a", "b"),))
    assert places(node) == [2]
    change(node, (1, "B"), "test.s")
    assert not node.entries


def test_the_index_of_lists_counts() -> None:
    """In bytes, against what is measured of dictionaries with as many places."""
    node = node_of(BOTH)
    used = node.memory.used
    hold(node, (tuple(range(50)), tuple(range(60))))
    assert places(node) == [3000]
    assert 100 * 3000 < node.memory.used - used < 200 * 3000
    change(node, (0, 0, 0))
    assert node.memory.used == used


def test_as_many_combinations_as_may_be_are_told_apart() -> None:
    node, numbers = node_of(BOTH), tuple(range(MOST_COMBINATIONS))
    hold(node, (numbers, (1,)))
    change(node, (2, 1, 1))
    assert node.entries
    change(node, (1, 1, 1))
    assert not node.entries


def test_answers_that_share_a_value_all_go_and_the_others_stay() -> None:
    node = node_of(BOTH)
    hold(node, ((1, 2), (7,)), ((2, 3), (7, 8)), ((2,), (8,)), ((3,), (7,)))
    change(node, (7, 2, 0))
    assert set(node.entries) == {((2,), (8,)), ((3,), (7,))}


def test_an_answer_that_goes_is_taken_out_of_the_index_a_little_at_a_time() -> None:
    """However many answers a change concerns, it goes over none of their values."""
    node, numbers = node_of(BOTH), tuple(range(1000))
    keys: list[Key] = [((at, *range(1000, 1999)), (7,)) for at in range(3)]
    hold(node, *keys)
    change(node, (7, 1001, 0))
    assert not node.entries and node.memory.used == 0
    hold(node, keys[1], (numbers, (8,)))
    steps = 0
    while node.memory.remains:
        node.memory.remains.take_apart(100)
        node.check_invariants()
        steps += 1
    assert steps >= 30 and places(node) == [2000]
    change(node, (7, 2, 0))
    assert len(node.entries) == 2
    change(node, (7, 1, 0))
    change(node, (8, 999, 0))
    assert not node.entries


def test_lists_weigh_as_much_as_they_are_work() -> None:
    """So that a flush asks for about as much as it can in a step, and an upquery brings as much."""
    rig = Rig(BOTH)
    node = rig.readers[0]
    for number in range(30):
        params = tuple(range(number, number + 500)), (1, 2, 3)
        rig.engine.reads.read(Read(number, node, [(node.key_of(params), params)]))
    asked = []
    while rig.engine.reads.pending:
        asked.append([len(request.statements) for request in rig.asked()])
    assert asked == [[4]] * 7 + [[2]], "each is 500 values in the text, and 1,500 in the index"


@pytest.mark.parametrize("seed", range(20))
def test_held_answers_and_those_that_are_brought_forward_are_concerned_alike(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And as a look at each key says. Some keys have more combinations than are entered."""
    most = 6
    monkeypatch.setattr(dataflow.operators.answer_index, "MOST_COMBINATIONS", most)
    rng = random.Random(seed)
    node = node_of(BOTH)
    for _ in range(100):
        key = (rng_list(rng), rng_list(rng))
        if key in node.entries:
            node.discard(node.entries[key])
        else:
            hold(node, key)
        row = (rng.randrange(6), rng.randrange(6), 0)
        pairs = [(None, row)]
        loaded: Entries = {held: node.load(held, []) for held in node.entries}
        expected = {
            held
            for held in loaded
            if isinstance(held, tuple)
            and (len(held[0]) * len(held[1]) > most or (row[1] in held[0] and row[0] in held[1]))
        }
        assert set(node.touched("test.t", pairs, node.entries)) == expected
        assert set(node.touched("test.t", pairs, loaded)) == expected
        if rng.random() < 0.2:
            change(node, row)


def rng_list(rng: random.Random) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(6), rng.randrange(1, 4))))
