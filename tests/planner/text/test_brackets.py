"""Joins in brackets become the plain ones where that is the same."""

from __future__ import annotations

import pytest
import sqlglot

from planner.text.brackets import without_brackets


def without(sql: str) -> str:
    tree = sqlglot.parse_one(f"SELECT * FROM {sql}", dialect="mysql")
    without_brackets(tree)
    return tree.sql("mysql").removeprefix("SELECT * FROM ")


@pytest.mark.parametrize(
    ("sql", "plain"),
    [
        ("(a JOIN b ON a.x = b.x)", "a JOIN b ON a.x = b.x"),
        ("((a LEFT JOIN b ON x = y) JOIN c ON y = z) LEFT JOIN d USING (z)",
         "a LEFT JOIN b ON x = y JOIN c ON y = z LEFT JOIN d USING (z)"),
        ("(a), (b)", "a, b"),
        ("(a, b) JOIN c", "a, b, c"),
        ("((a)) LEFT JOIN ((b)) ON x = y", "a LEFT JOIN b ON x = y"),
        ("a JOIN (b JOIN c ON b.y = c.y OR b.z) ON a.x = b.x OR a.z",
         "a, b JOIN c ON (b.y = c.y OR b.z) AND (a.x = b.x OR a.z)"),
        ("a JOIN b JOIN c ON b.y = c.y ON a.x = b.x", "a, b JOIN c ON (b.y = c.y) AND (a.x = b.x)"),
        ("a JOIN (b AS e JOIN s.c ON e.y = s.c.y) ON a.x = e.x", "a, b AS e JOIN s.c ON (e.y = s.c.y) AND (a.x = e.x)"),
        ("a JOIN (b, (c JOIN d)) ON a.x = c.x", "a, b, c JOIN d ON a.x = c.x"),
        ("((SELECT 1 AS z) q JOIN b ON b.z = q.z)", "(SELECT 1 AS z) AS q JOIN b ON b.z = q.z"),
        ("t WHERE x IN (SELECT y FROM (a JOIN b))", "t WHERE x IN (SELECT y FROM a, b)"),
    ],
)  # fmt: skip
def test_what_becomes_plain(sql: str, plain: str) -> None:
    assert without(sql).replace(" INNER JOIN", " JOIN").replace(" CROSS JOIN", " JOIN") == plain


@pytest.mark.parametrize(
    "sql",
    [
        "a LEFT JOIN (b JOIN c ON b.y = c.y) ON a.x = b.x",  # a row without both is there once
        "a JOIN (b LEFT JOIN c ON b.y = c.y) ON a.x = b.x",
        "a JOIN (b JOIN c ON y = b.y) ON a.x = b.x",  # of which table is y, where there are more?
        "a JOIN (b JOIN c USING (y)) ON a.x = b.x",
        "a JOIN (b JOIN c ON b.y = a.y) ON a.x = b.x",  # a of a query around this one
        "a JOIN (b JOIN c ON EXISTS (SELECT 1 FROM d WHERE d.y = a.y)) ON a.x = b.x",
        "a JOIN (b JOIN c ON s.b.y = c.y) ON a.x = b.x",  # of which database is b?
        "a JOIN (b, LATERAL (SELECT a.y) AS l) ON a.x = b.x",
        "a NATURAL JOIN (b JOIN c ON b.y = c.y)",
        "a RIGHT JOIN (b JOIN c ON b.y = c.y) ON a.x = b.x",
        "(SELECT 1 AS x) AS q JOIN (SELECT 2 AS x) AS r ON q.x = r.x",
    ],
)
def test_what_stays(sql: str) -> None:
    assert without(sql) == sqlglot.parse_one(f"SELECT * FROM {sql}", dialect="mysql").sql("mysql").removeprefix(
        "SELECT * FROM "
    )
