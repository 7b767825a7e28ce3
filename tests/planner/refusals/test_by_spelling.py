"""Queries whose answers at vtgate depend on how a value is spelled are held as vtgate answered them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.api import plan_evict, plan_query
from planner.text.scan import DEFAULT_VERSION
from planner.tree.plan import Mode
from sqltypes.errors import UnsupportedQuery
from sqltypes.schema import BIGINT, Column, SchemaSnapshot, SqlType, Table

TEXT = SqlType("varchar", length=36, collation="utf8mb4_0900_ai_ci")
COLUMNS = (Column("uuid", TEXT, False, 0), Column("n", BIGINT, True, 1), Column("name", TEXT, True, 2))
PERSON = Table("shop", "person", COLUMNS, (), indexes=(("uuid",), ("n",)), spelled=frozenset({"uuid"}))
OTHER = replace(PERSON, name="other", spelled=frozenset())


def snapshot(type_: SqlType = TEXT) -> SchemaSnapshot:
    person = replace(PERSON, columns=(replace(COLUMNS[0], type=type_), *COLUMNS[1:]))
    return SchemaSnapshot({("shop", "person"): person, ("shop", "other"): OTHER}, DEFAULT_VERSION, 0)


SHOWN = """
SELECT * FROM person WHERE n = ?
SELECT uuid, n FROM person WHERE n = ?
SELECT p.uuid AS u FROM person p WHERE n = ? ORDER BY (p.uuid) DESC
SELECT p.uuid, o.name FROM person p JOIN other o ON o.n = p.n WHERE p.n = ?
SELECT COUNT(*) FROM person WHERE n = ?
SELECT n, COUNT(*) FROM person WHERE n = ? GROUP BY n
""".strip().splitlines()
BY_SPELLING = """
SELECT n FROM person WHERE uuid = ?
SELECT n FROM person WHERE UUID IN (?)
SELECT n FROM person p WHERE n = ? AND p.uuid = 'a'
SELECT n FROM person WHERE n = ? AND uuid LIKE 'a%'
SELECT DISTINCT uuid FROM person WHERE n = ?
SELECT uuid, COUNT(*) FROM person WHERE n = ? GROUP BY uuid
SELECT COUNT(DISTINCT uuid) FROM person WHERE n = ?
SELECT o.n FROM other o JOIN person p ON p.uuid = o.name WHERE o.n = ?
SELECT o.n FROM other o JOIN person p USING (uuid) WHERE o.n = ?
SELECT n FROM person WHERE n = ? ORDER BY uuid = 'a'
SELECT n FROM (SELECT * FROM person) AS d WHERE n = ?
SELECT n FROM person WHERE n = ? UNION SELECT uuid FROM person
SELECT MAX(uuid) FROM person WHERE n = ?
""".strip().splitlines()


@pytest.mark.parametrize("sql", SHOWN)
def test_what_only_shows_it_is_maintained(sql: str) -> None:
    plan = plan_query(sql, "shop", snapshot())
    assert plan.mode is Mode.MAINTAIN and not any(parameter.plain for parameter in plan.parameters)


@pytest.mark.parametrize("sql", BY_SPELLING)
def test_what_does_more_is_held(sql: str) -> None:
    plan = plan_query(sql, "shop", snapshot())
    assert plan.mode is Mode.EVICT and "by_spelling" in plan.notes[0]
    assert [parameter.plain for parameter in plan.parameters] == [
        parameter.type.is_string for parameter in plan.parameters
    ]


def test_where_that_was_asked_for_parameters_are_plain_too() -> None:
    assert [each.plain for each in plan_evict(BY_SPELLING[0], "shop", snapshot()).parameters] == [True]


UNKNOWN = [SqlType("varchar", length=9, collation="utf8mb4_hu_0900_ai_ci"), SqlType("datetime"), SqlType("decimal")]


@pytest.mark.parametrize("type_", UNKNOWN, ids=lambda one: one.name)
def test_of_other_types_it_is_refused(type_: SqlType) -> None:
    with pytest.raises(UnsupportedQuery, match=r"person\.uuid"):
        plan_query(BY_SPELLING[0], "shop", snapshot(type_))
    assert plan_query(SHOWN[1], "shop", snapshot(type_)).mode is Mode.MAINTAIN


def test_bytes_equal_nothing_but_themselves() -> None:
    plan = plan_query(BY_SPELLING[0], "shop", snapshot(SqlType("binary", length=16)))
    assert plan.mode is Mode.EVICT and not plan.parameters[0].plain
