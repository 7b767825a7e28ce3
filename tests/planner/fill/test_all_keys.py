"""The SELECT that lists a plan's keys, and why there is none."""

from __future__ import annotations

import pytest

from planner.api import plan_query
from planner.fill.all_keys import NO_KEYS_OF_EVICT, OTHER_PARAMETERS, listing_sql, why_not_listed
from planner.tree.plan import QueryPlan
from sqltypes.schema import Column, SchemaSnapshot, SqlType, Table

BIG = SqlType("bigint")
REAL = SqlType("float")
T = Table(
    "d", "t",
    (Column("id", BIG, False, 0), Column("k", BIG, True, 1), Column("v", BIG, True, 2), Column("f", REAL, True, 3)),
    ("id",),
)  # fmt: skip


def planned(sql: str) -> QueryPlan:
    return plan_query(sql, "d", SchemaSnapshot({("d", "t"): T}, (9, 7, 0)))


@pytest.mark.parametrize(
    ("sql", "listing"),
    [
        (
            "SELECT id FROM t WHERE k = ?",
            "SELECT `k`, COUNT(*) AS `rows` FROM `d`.`t` WHERE `k` IS NOT NULL GROUP BY `k` ORDER BY `k`",
        ),
        ("SELECT id FROM t WHERE k <=> ?", "SELECT `k`, COUNT(*) AS `rows` FROM `d`.`t` GROUP BY `k` ORDER BY `k`"),
        (
            "SELECT COUNT(*) FROM t WHERE k = ?",
            "SELECT `k`, 1 AS `rows` FROM `d`.`t` WHERE `k` IS NOT NULL GROUP BY `k` ORDER BY `k`",
        ),
        (
            "SELECT v, COUNT(*) FROM t WHERE k = ? GROUP BY v",
            "SELECT `k`, GREATEST(COUNT(DISTINCT `v`), 1) AS `rows` FROM `d`.`t` WHERE `k` IS NOT NULL"
            " GROUP BY `k` ORDER BY `k`",
        ),
        (
            "SELECT id FROM t WHERE k = ? ORDER BY v, id LIMIT 2",
            "SELECT `k`, LEAST(COUNT(*), 11) AS `rows` FROM `d`.`t` WHERE `k` IS NOT NULL GROUP BY `k` ORDER BY `k`",
        ),
        ("SELECT COUNT(*) FROM t", "SELECT COUNT(*) AS `rows` FROM `d`.`t`"),
    ],
)
def test_keys_with_how_many_rows_each_brings(sql: str, listing: str) -> None:
    plan = planned(sql)
    assert why_not_listed(plan) == ""
    assert listing_sql(plan) == listing


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT COUNT(*) FROM t WHERE k IN (?)", NO_KEYS_OF_EVICT),
        ("SELECT id FROM t WHERE v > ?", OTHER_PARAMETERS),
        ("SELECT id FROM t WHERE k = ? ORDER BY id LIMIT ?", OTHER_PARAMETERS),
        ("SELECT a.id FROM t a JOIN t b ON b.id = a.v WHERE a.k = ? AND b.k = ?", OTHER_PARAMETERS),
    ],
)
def test_keys_that_cannot_be_listed(sql: str, why: str) -> None:
    assert why_not_listed(planned(sql)) == why
