"""Hints stand behind each table that has one, in texts of ours and in those of clients."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import plan_evict, plan_query
from planner.fill.upquery_sql import answer_sql, fill_template, semijoin_sql
from planner.text.scan import DEFAULT_VERSION
from planner.text.vindex_hints import as_asked, with_hints
from planner.tree.plan import AnswerArrangement, QueryPlan
from sqltypes.errors import UnsupportedQuery
from sqltypes.schema import BIGINT, Column, SchemaSnapshot, Table

HINT = " IGNORE VINDEX (`by_n`)"
HINTS = {"bill": HINT}
COLUMNS = (Column("id", BIGINT, False, 0), Column("n", BIGINT, True, 1))
BILL = Table("shop", "bill", COLUMNS, ("id",), indexes=(("id",), ("n",)), hint=HINT)
ITEM = replace(BILL, name="item", hint="")
SNAPSHOT = SchemaSnapshot({("shop", "bill"): BILL, ("shop", "item"): ITEM}, DEFAULT_VERSION, 0)

PLACES = """
SELECT * FROM bill#
SELECT n FROM bill# WHERE n = ?
SELECT n FROM `shop`.`bill`# WHERE n = 1
SELECT b.n FROM shop . bill b# WHERE b.n = 1
SELECT n FROM Bill AS `from`# ORDER BY n
SELECT 1 FROM item, bill#, bill b#
SELECT 1 FROM (item, bill#)
SELECT 1 FROM (bill# JOIN bill AS c# ON c.id = bill.id) LEFT JOIN bill d# USING (id)
SELECT 1 FROM item i JOIN bill b# ON i.id IN (1, b.id), bill#
SELECT 1 FROM bill b# STRAIGHT_JOIN (SELECT bill.id, bill.n FROM bill#) AS d
SELECT bill, (SELECT COUNT(*) FROM bill#) FROM item WHERE EXISTS (SELECT 1 FROM bill x#)
(SELECT n FROM bill#) UNION ALL (SELECT n FROM bill# FOR SHARE)
WITH c AS (SELECT n FROM bill#), d AS (SELECT 1) SELECT 1 FROM c, LATERAL (SELECT n FROM bill# WHERE n = c.n) AS e
SELECT 1 FROM bill# USE INDEX (n) WHERE n = 'FROM bill'
""".strip().splitlines()


@pytest.mark.parametrize("text", PLACES)
def test_places(text: str) -> None:
    assert with_hints(text.replace("#", ""), HINTS, text.count("#")) == text.replace("#", HINT)


@pytest.mark.parametrize("text", ["TABLE bill", "SELECT TRIM('a' FROM bill), bill.n FROM bill", "SELECT 'bill"])
def test_no_place(text: str) -> None:
    assert with_hints(text, HINTS, 1) is None


def plans() -> list[QueryPlan]:
    texts = (
        "SELECT id FROM bill WHERE n = ?",
        "SELECT n, COUNT(*) FROM bill WHERE n = ? GROUP BY n",
        "SELECT id FROM bill WHERE n = ? ORDER BY id LIMIT 3",
        "SELECT i.id, b.id FROM item i JOIN bill b ON b.n = i.n WHERE i.id = ?",
        "SELECT b.id, c.id FROM bill b JOIN bill c ON c.n = b.id WHERE b.id = ? AND b.n > 3",
    )
    return [plan_query(text, "shop", SNAPSHOT) for text in texts]


def test_every_text_of_a_plan_has_them() -> None:
    for plan in plans():
        arrangements = (plan.reader.root, *(lookup.arrangement for lookup in plan.reader.lookups))
        texts = [fill_template(one) for one in arrangements]
        texts += [semijoin_sql(plan, at, [(1,)]) for at in range(len(plan.reader.lookups))]
        for text in texts:
            assert "`bill`" not in text.replace(f"`bill`{HINT}", "").replace(f"`bill` AS `b`{HINT}", ""), text
        assert any(HINT in text for text in texts)


def test_a_held_text_has_them() -> None:
    plan = plan_evict("SELECT id, '{' FROM bill b WHERE n = ? UNION SELECT 1, '' FROM item", "shop", SNAPSHOT)
    assert isinstance(plan.reader.root, AnswerArrangement)
    assert answer_sql(plan.reader.root, (5,)).sql == (
        f"SELECT id, '{{' FROM bill b{HINT} WHERE n = 5 UNION SELECT 1, '' FROM item"
    )


def test_a_text_without_a_place_is_refused() -> None:
    with pytest.raises(UnsupportedQuery, match="look rows up"):
        plan_query("TABLE bill", "shop", SNAPSHOT)
    plan_query("TABLE item", "shop", SNAPSHOT)


def test_what_is_compared_is_asked_likewise() -> None:
    assert as_asked("SELECT id FROM bill WHERE n = 5", (BILL, ITEM)) == f"SELECT id FROM bill{HINT} WHERE n = 5"
    assert as_asked("SELECT id FROM item WHERE n = 5", (ITEM,)) == "SELECT id FROM item WHERE n = 5"
