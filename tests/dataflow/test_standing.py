"""Of which other keys an answer is the answer, too."""

from __future__ import annotations

import operator as operators
import random
from contextlib import closing

import pytest

from dataflow.operators.answer import AnswerNode
from dataflow.operators.answer_index import AnswerEntry
from dataflow.operators.standing import Reach, reach
from planner.tree.plan import Crossing
from sqltypes.expression import Row, Value
from tests.simulation.thresholds import Thresholds
from tests.support.engine_rig import Rig

QUERY = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS r FROM t WHERE k = ? AND v > ?"
OPERATORS = {"<": operators.lt, "<=": operators.le, ">": operators.gt, ">=": operators.ge}
T = "2024-03-01 00:00:0"


@pytest.mark.parametrize(
    ("first", "value", "end", "has"),
    [
        (5, 5, 5, True),  # that is the key itself
        (5, 7, 8, True),
        (5, 8, 8, False),
        (5, 4, 8, False),
        (5, 2**70, None, True),
        (None, None, None, False),
        (None, 5, None, False),
        (5, None, None, False),
        (5, "7", 8, False),
        (f"{T}1", f"{T}2", f"{T}3", True),
        (f"{T}1", f"{T}2.999999", f"{T}3", True),
        (f"{T}1.5", f"{T}1.500", None, False),  # not the same key, and not later
        (f"{T}1", f"{T}3", f"{T}3.000", False),
        (f"{T}1", f"{T}3.0001", f"{T}3.000", False),
        ("2024-03-01", f"{T}1", f"{T}2", True),
        (f"{T}1", "2024-03-02", f"{T}2", False),
        (f"{T}1", f"{T}2", "0000-00-00 00:00:00", False),
        (f"{T}1", "soon", None, False),
    ],
)
def test_how_far_it_reaches(first: Value, value: Value, end: Value, has: bool) -> None:
    assert Reach((first,), {0: end}).has((value,)) is has


def test_of_several_ends_the_first_counts() -> None:
    crossings = [Crossing(at, "") for at in (0, 1, 1, 1)]
    found = reach(crossings, (1, 1), (None, 9, None, 5))
    assert found.ends == {0: None, 1: 5}
    assert found.has((100, 4)) and not found.has((100, 5)) and not found.has((0, 4))


@pytest.fixture
def node() -> AnswerNode:
    (node,) = Rig(QUERY).readers[0].nodes
    assert isinstance(node, AnswerNode)
    node.ask_reaches()
    assert node.crossings
    return node


def hold(node: AnswerNode, values: Row, end: Value) -> AnswerEntry:
    entry = node.load(values, [(1, 1)])
    assert isinstance(entry, AnswerEntry)
    entry.reach_to(Reach(values, {1: end}))
    node.insert(entry)
    node.check_invariants()
    return entry


def test_the_last_answer_stands_for_later_keys_until_it_goes(node: AnswerNode) -> None:
    hold(node, (1, 10), 20)
    hold(node, (2, 10), None)
    assert node.standing((1, 15), (1, 15)) == (1, 10)
    assert node.standing((1, 20), (1, 20)) is None
    assert node.standing((2, 99), (2, 99)) == (2, 10)
    assert node.standing((3, 15), (3, 15)) is None
    last = hold(node, (1, 20), 30)
    assert node.standing((1, 25), (1, 25)) == (1, 20)
    node.discard(last)
    node.check_invariants()
    assert node.standing((1, 25), (1, 25)) is None


def test_an_answer_reaches_from_one_key_to_another(node: AnswerNode) -> None:
    hold(node, (1, 10), 20)
    assert node.reached((1, 10), (1, 10), (1, 19)) and node.reached((1, 12), (1, 12), (1, 15))
    assert not node.reached((1, 12), (1, 12), (1, 20)) and not node.reached((1, 9), (1, 9), (1, 12))
    assert not node.reached((1, 12), (1, 12), (2, 15)), "the other parts are to be equal"
    assert not node.reached((2, 12), (2, 12), (2, 15))


def test_a_change_takes_what_it_stands_for(node: AnswerNode) -> None:
    for key in (1, 2, 3):
        hold(node, (key, 10), None)
    node.apply("test.t", [(None, (9, 1, 50))], node.entries)
    node.check_invariants()
    assert [node.standing((key, 15), (key, 15)) for key in (1, 2, 3)] == [None, (2, 10), (3, 10)]
    node.let_go_of([(2, 10)])
    node.check_invariants()
    assert node.standing((2, 15), (2, 15)) is None and node.standing((3, 15), (3, 15)) == (3, 10)
    node.let_go()
    node.check_invariants()
    assert node.standing((3, 15), (3, 15)) is None


def test_nothing_stands_where_nobody_asked_how_far_it_reaches() -> None:
    (reader,) = Rig(QUERY).readers
    node = reader.nodes[0]
    assert isinstance(node, AnswerNode) and not node.crossings
    node.insert(node.load((1, 10), [(1, 1)]))
    assert reader.alike.standing((1, 15)) is None
    assert node.standing((1, 15), (1, 15)) is None
    without = Rig("SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS r FROM t WHERE k = ?").readers[0].nodes[0]
    assert isinstance(without, AnswerNode)
    without.ask_reaches()
    assert not without.crossings


@pytest.mark.parametrize("by_clock", [True, False])
def test_what_stands_for_a_key_is_its_answer_whatever_has_changed(by_clock: bool) -> None:
    """Random rows, changes, reads whose second parameter grows, but for some that come late, and evictions."""
    stood = 0
    for seed in range(30):
        rng = random.Random(seed)
        rig = Rig(QUERY)
        (reader,), (node,) = rig.readers, rig.readers[0].nodes
        assert isinstance(node, AnswerNode)
        if by_clock:
            node.ask_reaches()
        rows: dict[int, tuple[int, int, int]] = {}
        now = 0
        for _ in range(120):
            kind = rng.random()
            if kind < 0.25:
                number = rng.randrange(12)
                before = rows.pop(number, None)
                if before is None or rng.random() < 0.5:
                    rows[number] = (number, rng.randrange(2), rng.randrange(now - 5, now + 20))
                rig.change(rig.next_gtid(), (before, rows.get(number)))
            elif kind < 0.3 and reader.entries:
                reader.drop(rng.choice(list(reader.entries.values())))
            else:
                now += rng.randrange(3)
                params = (rng.randrange(2), now - (rng.randrange(5) if rng.random() < 0.1 else 0))
                own = answer_of(rows, *params)
                standing = reader.alike.standing(params)
                if standing is not None:
                    stood += standing != params
                    assert reader.answer([(reader.key_of(standing), standing)]) == own, (seed, params, standing)
                else:
                    filled(rig, rows, *params)
                    assert rig.held(*params) == own
            rig.engine.check_invariants()
    assert stood > (500 if by_clock else 350), stood


MONTHS = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS r FROM t WHERE v <= ? AND v >= ? AND k = ?"


def test_only_of_what_grows_it_is_asked_how_far_an_answer_reaches() -> None:
    """A month of what is public by now: its begin is one of several, over and over."""
    rng = random.Random(1)
    rig = Rig(MONTHS)
    (reader,), (node,) = rig.readers, rig.readers[0].nodes
    assert isinstance(node, AnswerNode)
    filled_times = 0
    for now in range(100, 300):
        params = (now, 10 * rng.randrange(8), 1)
        if reader.alike.standing(params) is None:
            filled_times += 1
            rig.read(*params)
            for request in rig.asked():
                ends: list[list[Row]] = [[(None,)] for _ in request.statements[1:]]
                rig.answer(request, [(1, 1)], *ends, lower=rig.engine.state.ring.position.freeze())
        rig.engine.check_invariants()
    assert [each.position for each in node.crossings] == [0]
    assert filled_times < 25, "one for each month, once it is known what grows"


def answer_of(rows: dict[int, tuple[int, int, int]], key: int, least: int) -> list[Row]:
    found = sorted(number for number, k, v in rows.values() if k == key and v > least)
    return [(number, at) for at, number in enumerate(found, 1)]


def filled(rig: Rig, rows: dict[int, tuple[int, int, int]], key: int, least: int) -> None:
    """A read, and its upquery answered with the next `v` of these rows behind it."""
    rig.read(key, least)
    for request in rig.asked():
        answers = [answer_of(rows, key, least)]
        for crossing in request.statements[1:]:  # where it is asked
            assert crossing.sql == f"SELECT MIN(`v`) FROM `test`.`t` WHERE `v` > {least} AND `k` IN ({key})"
            answers.append([(min((v for _, k, v in rows.values() if k == key and v > least), default=None),)])
        rig.answer(request, *answers, lower=rig.engine.state.ring.position.freeze())


MAINTAINED = "SELECT COUNT(*) AS n, MAX(id) AS m FROM t WHERE k = ? AND NOT (v <= ? OR v = 3)"


def test_of_what_is_maintained_the_rows_tell_whether_moments_matter() -> None:
    """Whatever lies between two values of a parameter, the answer is the same, or nothing is told."""
    rng = random.Random(1)
    told = lately = 0
    for _ in range(40):
        rig = Rig(MAINTAINED)
        (reader,) = rig.readers
        rows: dict[int, tuple[int, int, int]] = {}
        for now in range(60):
            number = rng.randrange(8)
            before = rows.pop(number, None)
            rows[number] = (number, rng.randrange(2), now + rng.randrange(-3, 12))
            rig.change(rig.next_gtid(), (before, rows[number]))
            first, last = (1, now), (1, now + rng.randrange(4))
            if reader.alike.between(reader, first, last) is None:
                rig.fill_from(rows, *first)
            found = reader.alike.between(reader, first, last)
            answers = {repr(answer_to(rows, 1, value)) for value in range(now, last[1] + 1)}
            if found is not None:
                told += 1
                lately += found != first
                assert answers == {repr(reader.answer([(reader.key_of(found), found)]))}, (first, last, found)
            else:
                crossed = [v for _, k, v in rows.values() if k == 1 and now < v <= last[1]]
                assert crossed, "nothing lies between"
            rig.engine.check_invariants()
    assert told > 1000 and lately > 300, (told, lately)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_rows_that_are_looked_up_by_their_range_count_beyond_it(operator: str) -> None:
    """A row's moment lies between two values: the range of neither may leave it out."""
    with closing(Thresholds(1)):
        rig = Rig(f"SELECT COUNT(*) AS n FROM t WHERE k = ? AND v {operator} ?")
        (reader,) = rig.readers
        moments = [10 * number for number in range(12)]
        rig.fill_from({number: (number, 1, moment) for number, moment in enumerate(moments)}, 1, 0)
        for first in range(100):
            for last in (first, first + 1, first + 4, first + 12):
                found = reader.alike.between(reader, (1, first), (1, last))
                counts = {
                    sum(OPERATORS[operator](moment, value) for moment in moments) for value in range(first, last + 1)
                }
                assert (found is not None) == (len(counts) == 1), (first, last)
                if found is not None:
                    assert reader.answer([(reader.key_of(found), found)]) == [(counts.pop(),)], (first, last, found)


def answer_to(rows: dict[int, tuple[int, int, int]], key: int, least: int) -> list[Row]:
    found = [number for number, k, v in rows.values() if k == key and v > least and v != 3]
    return [(len(found), max(found, default=None))]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, v > ? AS x FROM t WHERE k = ?",
        "SELECT id FROM t WHERE k = ? AND v = ?",
        "SELECT id FROM t WHERE k = ? AND id > ? AND v > 1 LIMIT ?",
        "SELECT t.id FROM t LEFT JOIN w ON w.k = t.id AND w.v > ? WHERE t.k = ?",
    ],
)
def test_nothing_is_told_of_parameters_that_are_more_than_compared(query: str) -> None:
    rig = Rig(query)
    (reader,) = rig.readers
    for at in range(len(reader.plan.parameters)):
        first = (1,) * len(reader.plan.parameters)
        last = (*first[:at], 2, *first[at + 1 :])
        if at not in reader.program.compared:
            assert reader.alike.between(reader, first, last) is None
    assert len(reader.program.compared) == query.count("id > ?")
