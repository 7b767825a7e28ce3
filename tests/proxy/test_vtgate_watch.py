"""vtgate is asked now and then from where it answers the tables that are cached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from dataflow.messages import Ddl
from external_upquery.vtgate_routes import explain, reads_table
from proxy.vtgate_watch import EVERY, RoutesWatch
from sqltypes.errors import SourceDown, SourceError, UpwellError
from tests.support.waiting import until


class Vtgate:
    """Answers each table from a keyspace, or with an error."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answers: dict[str, str | UpwellError] = {"t": "shop", "u": "shop"}
        self.wanted = ["shop.t", "shop.u", "other.v"]
        self.asked: list[str] = []
        self.told: list[Ddl] = []

    async def ask(self, question: str) -> tuple[Any, list[tuple[Any, ...]]]:
        (table,) = [name for name in self.answers if question == explain(reads_table("shop", name))]
        self.asked.append(table)
        answer = self.answers[table]
        if isinstance(answer, UpwellError):
            raise answer
        return (), [(json.dumps({"OperatorType": "Route", "Keyspace": {"Name": answer, "Sharded": True}}),)]

    async def look(self, watch: RoutesWatch) -> list[Ddl]:
        """One round; what was told in it."""
        before, told = len(self.asked), len(self.told)
        self.now += EVERY
        watch.tick()
        await until(lambda: not watch._round.running and len(self.asked) > before)
        return self.told[told:]


def run(scenario: Callable[[Vtgate, RoutesWatch], Coroutine[Any, Any, None]]) -> None:
    async def played() -> None:
        vtgate = Vtgate()
        watch = RoutesWatch("shop", vtgate.ask, lambda: vtgate.wanted, vtgate.told.append, lambda: vtgate.now)
        await scenario(vtgate, watch)
        await watch.close()

    asyncio.run(played())


def test_a_table_that_moves_and_comes_back() -> None:
    async def scenario(vtgate: Vtgate, watch: RoutesWatch) -> None:
        assert await vtgate.look(watch) == [] and vtgate.asked == ["t", "u"]
        watch.tick()
        assert vtgate.asked == ["t", "u"], "no more than once a second"
        vtgate.answers["t"] = "plain"
        (moved,) = await vtgate.look(watch)
        assert moved.tables == frozenset({"shop.t"}) and moved.schema and "plain" in moved.statement
        vtgate.wanted = ["shop.u"]  # its caches are closed
        assert await vtgate.look(watch) == [] and vtgate.asked[-2:] == ["t", "u"], "it may come back"
        vtgate.answers["t"] = "shop"
        (back,) = await vtgate.look(watch)
        assert back.tables == frozenset({"shop.t"})

    run(scenario)


def test_a_vtgate_that_is_not_there_tells_nothing() -> None:
    async def scenario(vtgate: Vtgate, watch: RoutesWatch) -> None:
        vtgate.answers["t"] = SourceDown("it is restarted")
        assert await vtgate.look(watch) == []
        vtgate.answers["t"] = SourceError(1146, "42S02", "no such table")
        (gone,) = await vtgate.look(watch)
        assert gone.tables == frozenset({"shop.t"})

    run(scenario)
