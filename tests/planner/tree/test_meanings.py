"""What names mean: which columns of which base tables they are, through everything that gives them other names."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.text.parse import parse
from planner.tree.meanings import Meanings, meanings_of
from planner.tree.names import Catalogue
from planner.tree.pins import Pins
from planner.tree.resolved import ResolvedQuery
from tests.support.schema_text import snapshot_of

TABLES = """
CREATE TABLE t (id INT NOT NULL, a INT, b VARCHAR(9), PRIMARY KEY (id));
CREATE TABLE u (id INT NOT NULL, a INT, c INT, PRIMARY KEY (id));
"""
SCHEMA = snapshot_of(TABLES, "d", views={"v": "SELECT a AS x, b FROM d.t"})


def resolved(sql: str) -> ResolvedQuery:
    return ResolvedQuery(parse(sql, (9, 7, 0)), Catalogue(SCHEMA, "d"))


def bases(meanings: Meanings, node: exp.Expr) -> set[str]:
    """The base columns that the node is as they are: `t.a`."""
    return {f"{column.source.partition('#')[0]}.{column.name}" for column in meanings.bases(meanings.of(node))}


@pytest.mark.parametrize(
    ("sql", "column", "wanted"),
    [
        ("SELECT a FROM t", "a", {"t.a"}),
        ("SELECT p.a FROM t p JOIN t q ON p.id = q.a", "q.a", {"q.a"}),
        ("SELECT a FROM t JOIN u USING (a)", "a", {"t.a", "u.a"}),
        ("SELECT id FROM t NATURAL JOIN u", "id", {"t.id", "u.id"}),
        ("SELECT d.n FROM (SELECT a AS n FROM t) d", "d.n", {"t.a"}),
        ("SELECT d.n FROM (SELECT a FROM t UNION SELECT c FROM u) d (n)", "d.n", {"t.a", "u.c"}),
        ("SELECT d.n FROM (SELECT a + 1 AS n FROM t) d", "d.n", set()),
        ("SELECT w.x FROM v w", "w.x", {"t.a"}),
        ("WITH c AS (SELECT a FROM t) SELECT p.a, q.a FROM c p, c q", "q.a", {"t.a"}),
        ("WITH c (n) AS (SELECT a FROM t), e AS (SELECT n FROM c) SELECT e.n FROM e", "e.n", {"t.a"}),
        ("WITH RECURSIVE c AS (SELECT a FROM t UNION SELECT u.c FROM u, c) SELECT c.a FROM c", "u.c", {"u.c"}),
        ("SELECT b AS a FROM t HAVING a = 1", "a", {"t.a", "t.b"}),
        ("SELECT b AS z FROM t ORDER BY z", "z", {"t.b"}),
        ("SELECT a AS z FROM t UNION SELECT c FROM u ORDER BY z", "z", {"t.a", "u.c"}),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE c = b)", "b", {"t.b"}),
        ("SELECT l.z FROM t, LATERAL (SELECT t.a AS z) l", "l.z", {"t.a"}),
    ],
)  # fmt: skip
def test_a_name_is_followed_to_the_base_tables(sql: str, column: str, wanted: set[str]) -> None:
    query = resolved(sql)
    named = [node for node in query.tree.find_all(exp.Column) if node.sql() == column]
    assert named
    last = min(named, key=lambda node: node.depth)  # the outermost
    assert bases(query.meanings, last) == wanted


def test_a_query_of_a_with_that_names_itself_means_its_first_part_inside_and_both_outside() -> None:
    query = resolved(
        "WITH RECURSIVE c AS (SELECT a FROM t UNION SELECT c.a + u.c FROM u, c) SELECT z.a FROM c z WHERE z.a = 1"
    )
    inside, outside = (
        next(node for node in query.tree.find_all(exp.Column) if node.sql() == name) for name in ("c.a", "z.a")
    )
    assert bases(query.meanings, inside) == {"t.a"}
    reached = {one.name for one in query.meanings.reached(query.meanings.of(outside)) if not isinstance(one, exp.Expr)}
    assert reached == {"a", "c"}


def test_nested_names_are_followed_once_each() -> None:
    levels = "SELECT a AS n, a AS m FROM t"
    for _ in range(18):  # 2**18 ways lead from the outermost name to the table
        levels = f"SELECT n + m AS n, m + n AS m FROM ({levels}) d"
    query = resolved(levels)
    outermost = query.tree.find(exp.Column)
    assert outermost is not None
    assert sum(1 for _ in query.meanings.reached(query.meanings.of(outermost))) < 200
    assert query.kinds.column(outermost).value == "number"
    assert query.pins.kinds(outermost) == {"integer", "decimal"}


@pytest.mark.parametrize(
    ("condition", "alike"),
    [
        ("t.a = u.c", True),
        ("(t.id, t.a) = (1, u.c)", True),
        ("t.a IN (SELECT w.c FROM u w WHERE w.c = u.c)", True),
        ("t.a = ANY (SELECT w.c FROM u w WHERE w.c = u.c)", True),
        ("t.a = (SELECT MAX(w.c) FROM u w WHERE w.id = u.id)", False),
        ("t.id = u.id", False),
        ("t.a < u.c", False),
    ],
)
def test_columns_that_are_set_equal_have_one_root(condition: str, alike: bool) -> None:
    query = resolved(f"SELECT t.a, u.c FROM t, u WHERE {condition}")
    one, other = (item for item in query.tree.expressions)
    pins = Pins(query.trees, query.meanings)
    assert (pins.roots(one) == pins.roots(other)) is alike


def test_where_a_name_is_not_known_all_columns_may_be_one() -> None:
    query = resolved("SELECT t.a, u.c, nowhere FROM t, u")
    one, other, _ = query.tree.expressions
    assert query.pins.roots(one) == query.pins.roots(other)
    assert meanings_of(query.tree, query.catalogue).of(query.tree.expressions[2]) == ()
