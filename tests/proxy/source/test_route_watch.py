"""vtgate is asked now and then from where it answers the tables that are cached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pymysql.constants import FIELD_TYPE

from dataflow.messages import Ddl
from external_upquery.protocol import Answer, Answers, Done, query
from external_upquery.vitess.routes import ALL_VINDEXES, Route, Routes, explain, no_rows_of, reads_table
from external_upquery.vitess.snapshot import use
from proxy.source.route_watch import EVERY, RoutesWatch
from sqltypes.errors import SourceDown, SourceError, UpwellError
from tests.support import mysql_packets as server
from tests.support.waiting import until


def rows(*values: str, of: str = ".") -> Answer:
    """One row, if there are values; its columns are of this table."""
    columns = [server.column("c", FIELD_TYPE.VAR_STRING, server.UTF8MB4, of=of) for _ in values or "c"]
    decoder = Answers(deprecate_eof=True)
    decoder.expect(1)
    (found,) = decoder.feed(server.result_set(columns, [[value.encode() for value in values]] if values else []))
    return found


class Vtgate:
    """Answers each table from a keyspace, or with an error; each shard, too."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answers: dict[str, str | UpwellError] = {"t": "shop", "u": "shop"}
        self.hash = "xxhash"
        self.shards = {"-80": "shop", "80-": "shop"}
        self.wanted = ["shop.t", "shop.u", "other.v"]
        self.asked: list[str] = []
        self.told: list[Ddl] = []
        self._at = ""
        self.refuses: set[str] = set()  # to lead to these shards
        self.shards_answer = asyncio.Event()
        self.shards_answer.set()

    async def ask(self, commands: Sequence[bytes], shards: Sequence[str]) -> Sequence[Answer]:
        if commands[0].endswith(use("shop:-80")[4:]):
            await self.shards_answer.wait()
        return [self._answer(command) for command in commands]

    def _answer(self, command: bytes) -> Answer:
        for table, answer in self.answers.items():
            plan = query(explain(reads_table("shop", table)))
            if command == plan:
                self.asked.append(table)
            if command in (plan, query(no_rows_of(table))) and isinstance(answer, UpwellError):
                if isinstance(answer, SourceError):
                    return answer
                raise answer
            if command == plan:
                return rows(json.dumps({"OperatorType": "Route", "Keyspace": {"Name": answer, "Sharded": True}}))
            if command == query(no_rows_of(table)):
                return rows(of=f"{self.shards[self._at]}.{table}")
        if command == query(ALL_VINDEXES):
            return rows("shop", "hash", self.hash, "", "")
        for shard in self.shards:
            if command == use(f"shop:{shard}"):
                if shard in self.refuses:
                    return SourceError(1105, "HY000", "no")
                self._at = shard
        return Done(0, 0, 0, 0)

    async def look(self, watch: RoutesWatch) -> list[Ddl]:
        """One round; what was told in it."""
        before, told = len(self.asked), len(self.told)
        self.now += EVERY
        watch.tick()
        await until(lambda: not (watch._round.running or watch._shards_round.running) and len(self.asked) > before)
        return self.told[told:]


def run(scenario: Callable[[Vtgate, RoutesWatch], Coroutine[Any, Any, None]]) -> None:
    async def played() -> None:
        vtgate = Vtgate()
        watch = RoutesWatch(
            *("shop", Routes("shop"), vtgate.ask, lambda: vtgate.wanted, lambda: tuple(vtgate.shards)),
            *(vtgate.told.append, lambda: vtgate.now),
        )
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


def test_a_vindex_that_is_another_one() -> None:
    async def scenario(vtgate: Vtgate, watch: RoutesWatch) -> None:
        distributed = Route("", (("id", "hash", "xxhash", "", ""),))
        watch._routes.reflected("u", distributed, refused=False)
        assert len(await vtgate.look(watch)) == 1, "it has a plan"
        assert await vtgate.look(watch) == []
        vtgate.hash = "reverse_bits"
        (changed,) = await vtgate.look(watch)
        assert changed.tables == frozenset({"shop.u"}) and await vtgate.look(watch) == []

    run(scenario)


def test_a_shard_that_moves_and_comes_back() -> None:
    async def scenario(vtgate: Vtgate, watch: RoutesWatch) -> None:
        assert await vtgate.look(watch) == []
        vtgate.shards["80-"] = "archive"
        (moved,) = await vtgate.look(watch)
        assert (
            moved.tables == frozenset({"shop.t", "shop.u"}) and "shard 80- is answered from archive" in moved.statement
        )
        assert await vtgate.look(watch) == []
        vtgate.shards["80-"] = "shop"
        (back,) = await vtgate.look(watch)
        assert back.tables == moved.tables

    run(scenario)


def test_a_shard_to_which_nothing_leads_is_where_it_was() -> None:
    """What is asked then is answered by another one."""

    async def scenario(vtgate: Vtgate, watch: RoutesWatch) -> None:
        vtgate.shards["80-"] = "archive"
        await vtgate.look(watch)
        assert len(await vtgate.look(watch)) == len(vtgate.told) - 1
        told = len(vtgate.told)
        vtgate.refuses = {"80-"}
        for _ in range(3):
            assert await vtgate.look(watch) == [] and len(vtgate.told) == told

    run(scenario)


def test_the_next_round_is_soon_where_an_answer_was_astray() -> None:
    async def scenario(vtgate: Vtgate, watch: RoutesWatch) -> None:
        assert await vtgate.look(watch) == []
        before = len(vtgate.asked)
        watch.soon()
        watch.tick()
        await until(lambda: len(vtgate.asked) > before)

    run(scenario)


def test_a_shard_that_does_nothing_hides_no_table() -> None:
    async def scenario(vtgate: Vtgate, watch: RoutesWatch) -> None:
        assert await vtgate.look(watch) == []
        vtgate.shards_answer.clear()
        vtgate.answers["t"] = "plain"
        for number in (1, 2):
            vtgate.now += EVERY
            watch.tick()
            await until(lambda: not watch._round.running)
            assert len(vtgate.told) == number and watch._shards_round.running
            vtgate.answers["t"] = "shop"

    run(scenario)
