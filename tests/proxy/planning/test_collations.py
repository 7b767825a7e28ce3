"""Weights of collations are there before a plan is installed that needs them."""

from __future__ import annotations

import asyncio

import pytest

from planner.api import plan_query
from planner.tree.plan import QueryPlan
from proxy.planning import collations
from sqltypes import collation
from sqltypes.collation_tables import load
from sqltypes.schema import BIGINT, Column, SchemaSnapshot, SqlType, Table

TYPES = ("utf8mb4_0900_ai_ci", "ascii_general_ci", "latin1_swedish_ci", "utf8mb4_bin", "a_strange_ci")


def plan(sql: str) -> QueryPlan:
    strings = tuple(
        Column(f"c{at}", SqlType("varchar", length=9, collation=name), False, at) for at, name in enumerate(TYPES, 1)
    )
    table = Table("d", "t", (Column("id", BIGINT, False, 0), *strings), ("id",), (), (("id",),))
    return plan_query(sql, "d", SchemaSnapshot({("d", "t"): table}, (9, 7, 0)))


def test_those_of_what_is_read_and_of_parameters() -> None:
    assert collations.collations_of(plan("SELECT c2 FROM t WHERE id = ?")) == {"ascii_general_ci"}
    assert collations.collations_of(plan("SELECT id FROM t WHERE c1 = ? AND id > 3")) == {"utf8mb4_0900_ai_ci"}
    assert collations.collations_of(plan("SELECT id FROM t WHERE id = ?")) == frozenset()
    assert collations.collations_of(plan("SELECT c5, c4 FROM t WHERE id = ?")) == {"utf8mb4_bin"}


@pytest.mark.parametrize("column", [2, 3])
def test_nothing_is_left_to_load_for_who_compares_or_sorts(column: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collations, "_loaded", set[str]())
    for cached in (load, collation.key_function, collation.sort_key):
        cached.cache_clear()
    asyncio.run(collations.load_collations(plan(f"SELECT id FROM t WHERE c{column} = ? ORDER BY c{column}, id")))
    loaded, name = load.cache_info().misses, TYPES[column - 1]
    assert {"_key_spelling", "_sort_spelling"} <= vars(load(name)).keys() and collations._loaded == {name}
    collation.key_function(name)("a")
    collation.sort_key(name)("a")
    assert load.cache_info().misses == loaded == 1
