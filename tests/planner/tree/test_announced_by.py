"""Which parameters tell of what type a column is. `integration/prepared/test_shown_parameters.py` asks MySQL."""

from __future__ import annotations

import pytest

from planner.text.parse import parse
from planner.text.scan import DEFAULT_VERSION
from planner.tree.announced_by import tells_columns


@pytest.mark.parametrize(
    ("sql", "tells"),
    [
        ("SELECT ? AS x FROM t WHERE a = ?", {0}),
        ("SELECT a * ?, COALESCE(?, b) FROM t WHERE a = ? + 1", {0, 1}),
        ("SELECT IF(?, ?, a), CASE WHEN ? THEN ? END, CASE a WHEN ? THEN 1 ELSE ? END FROM t", {1, 3, 5}),
        ("SELECT a = ?, a IN (?), a BETWEEN ? AND ?, a LIKE ?, NOT ?, a AND ? FROM t", set()),
        ("SELECT DATEDIFF(a, ?), TIMESTAMPDIFF(DAY, ?, a), COUNT(?), SUM(a > ?), SUM(a + ?) FROM t", {4}),
        ("SELECT a FROM (SELECT ? AS a FROM t) d LIMIT ?", {0}),
        ("SELECT a FROM t UNION SELECT ? FROM t", {0}),
        ("SELECT a FROM t GROUP BY a HAVING MAX(b) > ? ORDER BY a", set()),
    ],
)
def test_only_what_is_shown_tells(sql: str, tells: set[int]) -> None:
    assert tells_columns(parse(sql, DEFAULT_VERSION).tree) == tells
