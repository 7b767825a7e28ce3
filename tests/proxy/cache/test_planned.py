"""Plans outlive the process as bytes, and count where what they were made from is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from planner.fill.whole import SMALL_TABLE
from proxy.cache.planned import Planned, alike, planned_of
from proxy.fills.snapshot_file import pickled, unpickled
from proxy.planning.worker import Job, Thought, thought
from sqltypes.errors import UpwellError
from sqltypes.schema import BIGINT, Column, SchemaSnapshot, Table, View
from tests.support.goldens import PLANS, cases, snapshot

COLUMNS = (Column("id", BIGINT, False, 0), Column("n", BIGINT, True, 1))
TABLE = Table("d", "t", COLUMNS, ("id",), (), (("id",),), rows_estimate=500)
VIEW = View("d", "v", "select `d`.`t`.`id` AS `id` from `d`.`t`", ("id",))
SCHEMA = SchemaSnapshot({("d", "t"): TABLE, ("d", "v"): VIEW}, (8, 4, 0), 0)


def thoughts() -> Iterator[tuple[Thought, SchemaSnapshot]]:
    for file in sorted(PLANS.glob("*.sql")):
        database, schema = snapshot(file)
        for case in cases(file):
            with suppress(UpwellError):
                yield thought(Job(case.sql, database, schema)), schema


def test_each_kind_of_plan_is_read_as_it_was_written() -> None:
    """Whatever a plan names, a snapshot may name."""
    count = 0
    for one, schema in thoughts():
        relations = frozenset((table.schema, table.name) for table in one.plan.tables)
        used = replace(schema, relations={name: schema.relations[name] for name in relations})
        planned = Planned(one.plan, (), relations, one.needs, one.fingerprint, one.outline, used)
        parts = planned.parts()
        assert parts is not None and planned_of(unpickled(pickled(parts))) == planned
        count += 1
    assert count > 50


def test_a_plan_of_a_query_that_was_distrusted_is_not_made_use_of_again() -> None:
    one, _ = next(thoughts())
    assert Planned(one.plan, (), frozenset(), one.needs, one.fingerprint, one.outline).parts() is None


def with_rows(count: int) -> SchemaSnapshot:
    return replace(SCHEMA, relations={("d", "t"): replace(TABLE, rows_estimate=count), ("d", "v"): VIEW})


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (SCHEMA, True),
        (with_rows(900), True),
        (with_rows(0), False),
        (with_rows(SMALL_TABLE), False),
        (replace(SCHEMA, server_version=(9, 0, 0)), False),
        (replace(SCHEMA, lower_case_table_names=1), False),
        (replace(SCHEMA, relations={("d", "t"): TABLE}), False),
        (replace(SCHEMA, relations={("d", "t"): VIEW, ("d", "v"): VIEW}), False),
        (replace(SCHEMA, relations={("d", "t"): TABLE, ("d", "v"): replace(VIEW, definition="select 1")}), False),
        (replace(SCHEMA, relations={("d", "t"): replace(TABLE, primary_key=()), ("d", "v"): VIEW}), False),
    ],
)
def test_definitions_are_alike_where_a_text_has_the_same_plan(other: SchemaSnapshot, expected: bool) -> None:
    assert alike(SCHEMA, other) is alike(other, SCHEMA) is expected
