"""What becomes of plans while DDL statements come."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataflow.messages import Ddl
from planner.matcher import QueryMatcher
from proxy.catalog import Catalog, Planned
from tests.support.engine_rig import Rig


def catalog() -> tuple[Catalog, list[object]]:
    """And the events that it gives to the engine."""
    events: list[object] = []
    pump, nobody = cast(Any, SimpleNamespace(on_stream=events.append)), cast(Any, None)
    return Catalog(Rig().engine, pump, nobody, nobody, nobody, QueryMatcher(), nobody), events


@pytest.mark.parametrize("changes", [0, 1, 3])
def test_a_plan_made_across_ddl_is_made_again_until_none_comes(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan may be of the tables as they were before, and no cache is there yet that could be told."""
    made, _ = catalog()
    plans: list[Planned] = []

    async def plan_once(sql: str, database: str) -> Planned:
        await asyncio.sleep(0)
        if len(plans) < changes:
            made.schema_changed(frozenset({"d.t"}))
        plans.append(cast(Planned, object()))
        return plans[-1]

    monkeypatch.setattr(made, "_plan_once", plan_once)
    assert asyncio.run(made.plan("SELECT 1", "d")) is plans[changes]
    assert len(plans) == changes + 1


@pytest.mark.parametrize("schema", [True, False])
def test_what_was_written_without_a_binlog_may_be_anything(schema: bool) -> None:
    made, events = catalog()
    judged = made._schema_changes
    made.written_unlogged("a@b", schema=schema)
    (event,) = events
    assert isinstance(event, Ddl)
    assert (event.gtid, event.tables, event.schema) == (None, None, schema)
    assert (made._schema_changes > judged) == schema
