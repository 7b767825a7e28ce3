"""Whether evaluating a condition may end in an error, by the values of a row."""

from __future__ import annotations

import pytest
from sqlglot import exp

from planner.refusals.raising import may_raise
from planner.text.parse import parse
from sqltypes.schema import SchemaSnapshot


def raises(condition: str) -> bool:
    tree = parse(f"SELECT 1 FROM t WHERE {condition}", SchemaSnapshot().server_version).tree
    where = tree.find(exp.Where)
    assert where is not None
    return may_raise(where.this, lambda column: column.name == "doc")


@pytest.mark.parametrize(
    "condition",
    [
        "s LIKE CONCAT('%', ?, '%')",
        "FIND_IN_SET(?, s) > 0 AND NOT (a <=> NULL)",
        "doc->'$.a' = 1 AND doc->>'$.b' = ? AND JSON_EXTRACT(doc, '$.c') IS NULL",
        "s REGEXP '^a'",
        "YEAR(d) = ? OR d > DATE_SUB(?, INTERVAL 1 DAY)",
        "COALESCE(s, '') = ? AND CAST(s AS UNSIGNED) > 5 AND a = -1",
        "(a, b) IN ((1, 2), (3, 4))",
        "MATCH (s) AGAINST (?)",
    ],
)
def test_most_conditions_raise_for_no_row(condition: str) -> None:
    assert not raises(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "JSON_PRETTY(a)",
        "JSON_CONTAINS(doc, ?)",
        "s->'$.a' = 1",
        "JSON_EXTRACT(s, '$.a') = 1",
        "JSON_VALUE(s, '$.a') = 1",
        "1 MEMBER OF (s)",
        "UUID_TO_BIN(s) = ?",
        "s REGEXP b",
        "CAST(s AS JSON) = 1",
        "a - b > ?",
        "EXP(a) > ?",
        "ST_X(ST_GeomFromText(s)) = 1",
    ],
)
def test_these_may(condition: str) -> None:
    assert raises(condition)
