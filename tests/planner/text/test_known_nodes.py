"""What the planner does not read of the parser's tree never changes an answer."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from planner.api import plan_query
from planner.text import known_nodes
from planner.text.known_nodes import READ, unread
from planner.text.scan import scan
from planner.tree.plan import AnswerArrangement, Mode
from planner.tree.reasons import misread
from tests.support.goldens import PLANS, snapshot
from tests.support.parser_nodes import LISTED, listing, node_classes

ARGUMENTS = {class_.__name__: class_.arg_types for class_ in node_classes()}
UNREAD = sorted((name, argument) for name, read in READ.items() for argument in set(ARGUMENTS[name]) - read)


def test_the_parser_has_the_nodes_that_were_looked_through() -> None:
    mine, kept = listing().splitlines(), LISTED.read_text().splitlines()
    new, gone = sorted(set(mine) - set(kept)), sorted(set(kept) - set(mine))
    assert not new and not gone, (
        "another version of sqlglot: look at what each new argument means to the planner, put it into "
        f"planner/text/known_nodes.py if it is read, then write the list anew\nnew: {new}\ngone: {gone}"
    )


def test_what_is_said_to_be_read_exists() -> None:
    for name, arguments in READ.items():
        assert arguments <= set(ARGUMENTS[name]), name


@pytest.mark.parametrize(("name", "argument"), UNREAD, ids=lambda value: str(value))
def test_a_set_argument_that_is_not_read_is_told(name: str, argument: str) -> None:
    node = getattr(exp, name)()
    node.set(argument, exp.Null())
    assert unread(node) == f"{name}.{argument}"


def test_an_argument_that_is_not_read_gives_neither_a_plan_nor_a_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    database, schema = snapshot(PLANS / "rows.sql")
    sql = "SELECT id FROM orders WHERE customer_id = ? AND status NOT LIKE 'p%'"
    assert plan_query(sql, database, schema).mode is Mode.MAINTAIN
    monkeypatch.setattr(known_nodes, "READ", {**READ, "Like": READ["Like"] - {"negate"}})
    plan = plan_query(sql, database, schema)
    assert plan.mode is Mode.EVICT and "Like.negate" in plan.notes[0]
    assert isinstance(plan.reader.root, AnswerArrangement)
    (orders,) = plan.reader.root.inputs
    assert orders.filter is None and orders.key_columns == (None,) and len(orders.used) == len(orders.table.columns)


def test_a_node_in_no_table_is_told_unless_it_is_a_function() -> None:
    assert unread(exp.Pivot()) == "Pivot"
    assert unread(exp.Soundex(this=exp.Null())) == ""


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT a FROM t ORDER BY a, b DESC", ""),
        ("SELECT a FROM t ORDER BY a NULLS LAST", "Ordered.nulls_first"),
        ("SELECT a FROM t ORDER BY a DESC NULLS FIRST", "Ordered.nulls_first"),
        ("SELECT SQL_NO_CACHE STRAIGHT_JOIN a FROM t", ""),
        ("SELECT a NOT LIKE b FROM t WHERE a NOT IN (1) AND b IS NOT NULL", ""),
        ("SELECT a FROM t WHERE a BETWEEN SYMMETRIC 1 AND 2", "Between.symmetric"),
        ("SELECT a FROM t PARTITION (p)", ""),
        ("SELECT a FROM t FOR SYSTEM_TIME AS OF b", "Table.version"),
        ("SELECT /*+ NO_ICP(t) */ a->'$.x[1]' FROM t", ""),
        ("SELECT /*+ SET_VAR(sql_mode = '') */ a FROM t", "Hint.SET_VAR"),
        ("SELECT a FROM t QUALIFY a > 1", "Select.qualify"),
        ("SELECT a = b < c FROM t", "EQ.expression"),
        ("SELECT a <=> b < c FROM t", "NullSafeEQ.expression"),
        ("SELECT (a = b) = c, a = (b < c) FROM t", "EQ.expression"),
        ("SELECT a = b IN (1) AND NOT a = b + c * 2 OR a BETWEEN 1 AND b FROM t", ""),
        ("SELECT a BETWEEN 1 AND b BETWEEN 2 AND 3 FROM t", "Between.this"),
        ("SELECT -a ^ b, a | b & c << 1 + 2, a = (b OR c) AND d FROM t", "EQ.expression"),
        ("SELECT BINARY a = b, a COLLATE utf8mb4_bin = b, (a OR b) AND c FROM t", ""),
    ],
)
def test_texts(sql: str, told: str) -> None:
    tree = parse_one(sql, dialect="mysql")
    assert isinstance(tree, exp.Query)
    assert misread(tree, scan(sql)) == told


@pytest.mark.parametrize(
    "sql",
    [
        "(SELECT id FROM orders WHERE id = ?) ORDER BY IF((SELECT MAX(price) FROM products) > 5, id, -id) LIMIT 1",
        "SELECT id FROM orders WHERE id = ? UNION SELECT id FROM customers ORDER BY (SELECT MAX(price) FROM products)",
    ],
)
def test_a_table_where_no_select_is_visited_empties_the_answers(sql: str) -> None:
    """Without it no change of that table did."""
    plan = plan_query(sql, *snapshot(PLANS / "rows.sql"))
    assert isinstance(plan.reader.root, AnswerArrangement)
    products = [input_ for input_ in plan.reader.root.inputs if input_.table.name == "products"]
    assert [input_.key_columns for input_ in products] == [(None,)]
    assert {input_.table for input_ in plan.reader.root.inputs} == set(plan.tables)


def test_order_by_behind_brackets_may_read_any_column() -> None:
    database, schema = snapshot(PLANS / "rows.sql")
    plan = plan_query("(SELECT id FROM orders WHERE customer_id = ?) ORDER BY total LIMIT 1", database, schema)
    assert isinstance(plan.reader.root, AnswerArrangement)
    (orders,) = plan.reader.root.inputs
    assert orders.key_columns == ("customer_id",) and len(orders.used) == len(orders.table.columns)


def test_the_parser_does_not_write_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A path with `[last]` is MySQL's alone."""
    database, schema = snapshot(PLANS / "rows.sql")
    plan_query("SELECT id FROM orders WHERE id = ? AND JSON_EXTRACT(note, '$[last]') = 1", database, schema)
    assert not caplog.records
