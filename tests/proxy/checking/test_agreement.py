"""When two answers are equal: only where MySQL has no choice may they not differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from dataflow.readers.in_steps import at_once
from proxy.checking.agreement import LARGE, Verdict, agreement, chooses_how_many, order_terms, ordered_totally
from sqltypes.expression import Row
from sqltypes.schema import BIGINT, ResultColumn, SqlType
from tests.support.engine_rig import ROWS, WORD, Rig

EQUAL, DIFFERENT, UNDECIDED = Verdict.EQUAL, Verdict.DIFFERENT, Verdict.UNDECIDED
TABLE: dict[int, Row] = {id: (id, 7, v) for id, v in ((1, 10), (2, 20), (3, 20), (4, 30))}


def verdict(query: str, source: Sequence[Row], *types: SqlType) -> Verdict:
    """Of what is held for key 7 of `TABLE`, against these rows of MySQL."""
    rig = Rig(query)
    rig.fill_from(TABLE, 7)
    held = rig.held(7)
    assert held is not None
    return compared(rig, held, source, *types)


def compared(rig: Rig, held: Sequence[Row], source: Sequence[Row], *types: SqlType) -> Verdict:
    reader = rig.readers[0]
    width = len((held or source)[0])
    columns = [ResultColumn(f"c{at}", type_, True) for at, type_ in enumerate(types or (BIGINT,) * width)]
    encode = reader.encodings.encoders[0]
    return at_once(agreement(reader, [(reader.key_of((7,)), (7,))], columns, encode, held, source))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(4, 30), (3, 20), (2, 20), (1, 10)], EQUAL),
        ([(4, 30), (3, 20), (2, 20)], DIFFERENT),
        ([(4, 30), (3, 20), (2, 20), (1, 11)], DIFFERENT),
        ([(4, 30), (3, 20), (3, 20), (1, 10)], DIFFERENT),
    ],
)
def test_without_order_an_answer_is_a_bag(rows: list[Row], expected: Verdict) -> None:
    assert verdict(ROWS, rows) is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, 10), (2, 20), (3, 20), (4, 30)], EQUAL),
        ([(1, 10), (3, 20), (2, 20), (4, 30)], EQUAL),
        ([(2, 20), (1, 10), (3, 20), (4, 30)], DIFFERENT),
        ([(1, 10), (2, 20), (3, 20)], DIFFERENT),
    ],
)
def test_rows_that_tie_may_change_places_and_no_others(rows: list[Row], expected: Verdict) -> None:
    assert verdict(ROWS + " ORDER BY v", rows) is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, 10), (2, 20)], EQUAL),
        ([(1, 10), (3, 20)], UNDECIDED),  # the LIMIT cuts through a tie
        ([(0, 10), (2, 20)], DIFFERENT),
        ([(1, 10)], DIFFERENT),
    ],
)
def test_a_limit_may_cut_through_a_tie(rows: list[Row], expected: Verdict) -> None:
    assert verdict(ROWS + " ORDER BY v LIMIT 2", rows) is expected


def test_a_limit_above_a_total_order_leaves_no_choice() -> None:
    query = ROWS + " ORDER BY v, id LIMIT 2"
    assert verdict(query, [(1, 10), (3, 20)]) is DIFFERENT
    assert verdict(query, [(1, 10), (2, 20)]) is EQUAL


def test_a_limit_that_cuts_nothing_off_leaves_no_choice() -> None:
    assert verdict(ROWS + " ORDER BY v LIMIT 5", [(1, 10), (2, 20), (3, 20), (9, 30)]) is DIFFERENT


@pytest.mark.parametrize(
    ("query", "total"),
    [
        (ROWS + " ORDER BY v DESC, id", True),
        (ROWS + " ORDER BY v DESC", False),
        (ROWS + " ORDER BY v, id + 1", False),
        ("SELECT a.v, b.id FROM t a JOIN w b ON b.k = a.v WHERE a.k = ? ORDER BY a.id, b.id", True),
        ("SELECT a.v, b.id FROM t a JOIN w b ON b.k = a.v WHERE a.k = ? ORDER BY a.id", False),
        ("SELECT a.v, COUNT(*) FROM t a JOIN w b ON b.k = a.v WHERE a.k = ? GROUP BY a.v ORDER BY a.v", True),
        ("SELECT a.v, COUNT(*) c FROM t a JOIN w b ON b.k = a.v WHERE a.k = ? GROUP BY a.v ORDER BY c", False),
    ],
)
def test_an_order_is_total_only_where_that_is_plain(query: str, total: bool) -> None:
    assert ordered_totally(Rig(query).readers[0].plan) is total


def test_of_a_group_any_of_the_equal_spellings_may_be_shown() -> None:
    held, source = [("a", 2)], [("A", 2)]
    assert compared(Rig("SELECT word, COUNT(*) FROM s GROUP BY word"), held, source, WORD, BIGINT) is EQUAL
    assert compared(Rig("SELECT word, id FROM s WHERE id = ?"), held, source, WORD, BIGINT) is DIFFERENT
    assert compared(Rig("SELECT word, COUNT(*) FROM s GROUP BY word"), held, [("b", 2)], WORD, BIGINT) is DIFFERENT
    assert compared(Rig("SELECT word, COUNT(*) FROM s GROUP BY word"), held, [("A", 3)], WORD, BIGINT) is DIFFERENT


def test_a_sum_of_doubles_depends_on_the_order_of_its_rows() -> None:
    grouped, double = Rig("SELECT MAX(v) FROM t WHERE k = ?"), SqlType("double")
    assert compared(grouped, [(0.30000000000000004,)], [(0.3,)], double) is EQUAL
    assert compared(grouped, [(0.3001,)], [(0.3,)], double) is DIFFERENT
    assert compared(Rig(ROWS), [(0.30000000000000004,)], [(0.3,)], double) is DIFFERENT


def test_mysql_writes_six_digits_of_a_float() -> None:
    float_, stored = SqlType("float"), 0.12345678955316544
    assert compared(Rig(ROWS), [(stored,)], [(0.12345699965953827,)], float_) is EQUAL
    assert compared(Rig(ROWS), [(stored,)], [(0.12346000224351883,)], float_) is DIFFERENT
    assert compared(Rig(ROWS), [(None,)], [(stored,)], float_) is DIFFERENT


def test_what_is_left_to_mysql_in_evict_mode_is_not_decided() -> None:
    chosen = Rig("SELECT v, ROW_NUMBER() OVER (ORDER BY v) FROM t WHERE k = ?")
    assert compared(chosen, [(1, 1)], [(2, 1)]) is UNDECIDED
    assert compared(chosen, [(1, 1)], [(1, 1)]) is EQUAL
    plain = Rig("SELECT COUNT(DISTINCT v) FROM t WHERE k = ?")
    assert compared(plain, [(1,)], [(2,)]) is DIFFERENT


@pytest.mark.parametrize(
    ("sql", "terms"),
    [
        ("SELECT a FROM t", 0),
        ("SELECT a FROM t ORDER BY a", 1),
        ("SELECT a FROM t ORDER BY f(a, b), 2 DESC LIMIT 3, 4", 2),
        ("SELECT ROW_NUMBER() OVER (ORDER BY a, b) FROM (SELECT 1 ORDER BY x, y, z) d", 0),
        ("SELECT `order` FROM t ORDER BY `by`, 'x, y', z FOR SHARE", 3),
    ],
)
def test_the_terms_of_the_querys_own_order(sql: str, terms: int) -> None:
    assert order_terms(sql) == terms


def test_a_term_that_the_plan_has_lost_makes_rows_that_change_places_a_difference() -> None:
    rig = Rig(ROWS + " ORDER BY v, id")
    rig.fill_from(TABLE, 7)
    reader = rig.readers[0]
    reader.plan = replace(reader.plan, reader=replace(reader.plan.reader, order=reader.plan.reader.order[:1]))
    held: list[Row] = [(1, 10), (3, 20), (2, 20), (4, 30)]
    assert compared(rig, held, held) is EQUAL
    assert compared(rig, held, [(1, 10), (2, 20), (3, 20), (4, 30)]) is DIFFERENT


@pytest.mark.parametrize(
    ("sql", "chooses"),
    [
        ("SELECT a, RANK() OVER (ORDER BY b) FROM t", False),
        ("SELECT a FROM t GROUP BY b", False),
        ("SELECT ANY_VALUE(a) x FROM t GROUP BY b HAVING x > 3", True),
        ("SELECT a FROM (SELECT a, ROW_NUMBER() OVER (ORDER BY b) n FROM t) d WHERE n = 1", True),
        ("SELECT DISTINCT a FROM t LIMIT 3", True),
    ],
)
def test_whether_mysql_chooses_how_many_rows_there_are(sql: str, chooses: bool) -> None:
    assert chooses_how_many(sql, frozenset(sql.upper().replace("(", " ").split())) is chooses


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda rows: rows, EQUAL),
        (lambda rows: rows[::-1], EQUAL),
        (lambda rows: rows[:-1], DIFFERENT),
        (lambda rows: [*rows[:-1], (9999, 8)], DIFFERENT),
        (lambda rows: [(id, Decimal(v)) for id, v in rows], DIFFERENT),
    ],
)
def test_large_answers(change: Callable[[list[Row]], list[Row]], expected: Verdict) -> None:
    rig = Rig(ROWS)
    rows: list[Row] = [(number, number % 7) for number in range(LARGE + 10)]
    assert compared(rig, rows, change(rows)) is expected


@pytest.mark.parametrize("query", [ROWS, ROWS + " ORDER BY v", "SELECT id, v FROM t WHERE k = ? UNION ALL SELECT 1, 2"])
@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        (1, 1, True),
        (None, None, True),
        (Decimal("1.5"), Decimal("1.5"), True),
        (1, 2, False),
        (1, "1", False),
        (Decimal("1.0"), Decimal("1.00"), False),
        (0.0, -0.0, False),
        (1, 1.0, False),
        (1, True, False),
        (None, 0, False),
    ],
)
def test_large_answers_in_another_order_are_compared_as_small_ones_are(
    query: str, mine: object, theirs: object, same: bool
) -> None:
    """And no row of them is encoded where they are equal."""
    rig = Rig(query)
    rig.readers[0].encodings.encoders[0] = lambda rows: repr(rows).encode()
    for count in (20, LARGE + 20):
        held: list[Row] = [(number, mine) for number in range(count)]
        source: list[Row] = [(number, theirs) for number in reversed(range(count))]
        found = compared(rig, held, source)
        if "ORDER" in query:
            assert found is not EQUAL
        elif "UNION" not in query:
            assert (found is EQUAL) == same, count
        assert (found is EQUAL) <= same
    assert compared(rig, held, [*source[1:], source[1]]) is not EQUAL
