"""The VSchema changes without a DDL statement, and routing rules do: every answer is vtgate's all the same."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pymysql
import pytest

from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import PLAIN, SHARDED, TABLES, VSCHEMA
from proxy.source.route_watch import RoutesWatch
from proxy.source.vitess import VitessSource
from tests.support.waiting import until
from upwell.errors import UnsupportedQuery, UpwellError

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it
KEYS = range(20)
BY_ID = "SELECT id, n FROM spot WHERE id = ?"
BY_N = "SELECT id, n FROM spot WHERE n = ? ORDER BY id"
COUNTED = "SELECT COUNT(*) FROM spot WHERE n < ?"
CACHES = {"by_id": (BY_ID, KEYS), "by_n": (BY_N, range(4)), "counted": (COUNTED, (1, 3))}


def vschema(kind: str, *, entry: Mapping[str, Any] | None = None, without: bool = False) -> dict[str, Any]:
    """`spot` is distributed by a vindex of this type, or is `entry`, or is not in it."""
    by = {"column_vindexes": [{"column": "id", "name": "where"}]} if entry is None else entry
    tables = TABLES if without else {**TABLES, "spot": by, "spot_too": {"column_vindexes": by.get("column_vindexes")}}
    if not by.get("column_vindexes"):
        tables.pop("spot_too", None)
    return {**VSCHEMA, "vindexes": {**VSCHEMA["vindexes"], "where": {"type": kind}}, "tables": tables}  # type: ignore[dict-item]


def apply(vitess: Cluster, wanted: Mapping[str, Any]) -> None:
    """Returns when vtgate goes by it."""

    def known() -> bool:
        told = {row[1]: row[2] for row in vitess.shown("SHOW VSCHEMA VINDEXES", SHARDED) if row[0] == SHARDED}
        tables = {row[0] for row in vitess.shown("SHOW VSCHEMA TABLES", SHARDED)}
        entry = wanted["tables"].get("spot", {})
        by = vitess.shown("SHOW VSCHEMA VINDEXES ON spot", SHARDED)
        return (
            told == {name: each["type"] for name, each in wanted["vindexes"].items()}
            and tables.issuperset(wanted["tables"])
            and [row[0] for row in by] == [each["column"] for each in entry.get("column_vindexes", ())]
        )

    vitess.control("ApplyVSchema", "--vschema", json.dumps(wanted), SHARDED)
    vitess.until("vtgate", known)


def route(vitess: Cluster, *rules: tuple[str, str]) -> None:
    found = [{"from_table": name, "to_tables": [to]} for name, to in rules]
    vitess.control("ApplyRoutingRules", "--rules", json.dumps({"rules": found}))


def route_keyspace(vitess: Cluster, *rules: tuple[str, str]) -> None:
    found = [{"from_keyspace": name, "to_keyspace": to} for name, to in rules]
    vitess.control("ApplyKeyspaceRoutingRules", "--rules", json.dumps({"rules": found}))


@contextmanager
def spots(vitess: Cluster) -> Iterator[None]:
    """A table with a row of each key, and others of the same columns elsewhere, which have other rows."""
    vitess.control("ApplyVSchema", "--vschema", json.dumps(vschema("xxhash")), SHARDED)
    apply(vitess, vschema("xxhash"))
    columns = "(id BIGINT PRIMARY KEY, n INT)"
    vitess.execute(SHARDED, f"CREATE TABLE spot {columns}", f"CREATE TABLE spot_too {columns}")
    vitess.execute(PLAIN, f"CREATE TABLE spot {columns}")
    try:
        rows = ", ".join(f"({key}, {key % 4})" for key in KEYS)
        vitess.execute(SHARDED, f"INSERT INTO spot (id, n) VALUES {rows}")
        vitess.execute(SHARDED, "INSERT INTO spot_too (id, n) VALUES (1, 2), (100, 1)")
        vitess.execute(PLAIN, "INSERT INTO spot (id, n) VALUES (2, 3), (200, 1)")
        yield
    finally:
        route(vitess)
        route_keyspace(vitess)
        apply(vitess, vschema("xxhash"))
        vitess.execute(PLAIN, "DROP TABLE spot")
        vitess.execute(SHARDED, "DROP TABLE spot, spot_too")
        vitess.control("ApplyVSchema", "--vschema", json.dumps(VSCHEMA), SHARDED)


@asynccontextmanager
async def spots_cached(vitess: Cluster, tmp_path: Path) -> AsyncIterator[VitessProxy]:
    with spots(vitess):
        async with proxy_before(vitess, SHARDED, tmp_path, verify_new_caches="off", check_sample="off") as proxy:
            for name, (sql, _) in CACHES.items():
                await proxy.client.create_cache(sql, name=name)
            yield proxy


async def differences(proxy: VitessProxy) -> tuple[list[Any], Counter[str]]:
    """Answers that are not vtgate's, of each question the second one; and how they were served."""
    wrong, served = [], Counter[str]()
    for name, (sql, keys) in CACHES.items():
        for key in keys:
            found: Any
            expected: Any
            try:
                await proxy.client.cache(name).get(key)
                answer = await proxy.client.cache(name).get(key)
                found = sorted(map(tuple, answer))
                served[answer.served] += 1
            except UpwellError as error:
                found = type(error).__name__
            try:
                expected = sorted(await proxy.asked(sql.replace("?", str(key))))
            except pymysql.err.MySQLError:
                expected = "SourceError"
            if found != expected:
                wrong.append((name, key, found, expected))
    return wrong, served


async def right(proxy: VitessProxy, *served: str) -> None:
    """Soon all answers are vtgate's, and all are given in this way."""
    seen: list[Any] = []

    async def so() -> bool:
        seen[:] = await differences(proxy)
        return not seen[0] and (not served or seen[1].keys() <= set(served))

    try:
        await until(so, 15)
    except TimeoutError:
        pytest.fail(str(seen))


async def passed(proxy: VitessProxy) -> bool:
    return (await differences(proxy))[1].keys() == {"passed"}


def test_rows_are_distributed_by_another_vindex(vitess: Cluster, tmp_path: Path) -> None:
    """It has the name of the one before. Rows that are where the one before wanted them are not found by their keys."""

    async def scenario() -> None:
        async with spots_cached(vitess, tmp_path) as proxy:
            await right(proxy, "hit")
            await asyncio.to_thread(apply, vitess, vschema("reverse_bits"))
            lost = [key for key in KEYS if not await proxy.asked(BY_ID.replace("?", str(key)))]
            assert 3 < len(lost) < 17
            await right(proxy, "hit")
            rows = ", ".join(f"({key + 1000}, {key % 4})" for key in KEYS)
            await proxy.write(f"INSERT INTO spot (id, n) VALUES {rows}")
            await right(proxy, "hit")
            await proxy.write("DELETE FROM spot WHERE id >= 1000")
            await asyncio.to_thread(apply, vitess, vschema("xxhash"))
            await right(proxy, "hit")

    run(scenario)


def test_who_reflects_a_table_finds_its_new_route_before_the_watch_does(vitess: Cluster, tmp_path: Path) -> None:
    """What is held of it is held no more, though the watch finds nothing new any more."""

    async def scenario() -> None:
        async with spots_cached(vitess, tmp_path) as proxy:
            await right(proxy, "hit")
            with patch.object(RoutesWatch, "tick", lambda self: None):
                await asyncio.to_thread(route, vitess, (f"{SHARDED}.spot", f"{PLAIN}.spot"), ("spot", f"{PLAIN}.spot"))
                await until(lambda: is_empty(proxy, 1))
                with pytest.raises(UnsupportedQuery, match="answered from plain"):
                    await proxy.client.create_cache("SELECT n FROM spot WHERE id = ?", name="another")
                await right(proxy, "passed")
                await asyncio.to_thread(route, vitess)
            await right(proxy, "hit")

    run(scenario)


async def is_empty(proxy: VitessProxy, key: int) -> bool:
    """At vtgate."""
    return not await proxy.asked(BY_ID.replace("?", str(key)))


CHANGES = {
    "another keyspace": (lambda to: route(to, (f"{SHARDED}.spot", f"{PLAIN}.spot"), ("spot", f"{PLAIN}.spot"))),
    "another table": (
        lambda to: route(to, (f"{SHARDED}.spot", f"{SHARDED}.spot_too"), ("spot", f"{SHARDED}.spot_too"))
    ),
    "all of the keyspace": (lambda to: route_keyspace(to, (SHARDED, PLAIN))),
    "out of the VSchema": (lambda to: apply(to, vschema("xxhash", without=True))),
    "a reference table": (lambda to: apply(to, vschema("xxhash", entry={"type": "reference"}))),
    "a copy of another keyspace's": (
        lambda to: apply(to, vschema("xxhash", entry={"type": "reference", "source": f"{PLAIN}.spot"}))
    ),
    "by its other column": (
        lambda to: apply(to, vschema("xxhash", entry={"column_vindexes": [{"column": "n", "name": "where"}]}))
    ),
}
KEPT = {"by its other column"}
ANY_SHARD = {"a reference table", "a copy of another keyspace's"}  # vtgate itself answers with the rows of any one


def undo(vitess: Cluster) -> None:
    route(vitess)
    route_keyspace(vitess)
    apply(vitess, vschema("xxhash"))


def test_a_table_is_answered_otherwise_for_a_while(vitess: Cluster, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with spots_cached(vitess, tmp_path) as proxy:
            await right(proxy, "hit")
            for name, change in CHANGES.items():
                await asyncio.to_thread(change, vitess)
                if name in ANY_SHARD:
                    await until(lambda: passed(proxy))
                else:
                    await right(proxy, "hit" if name in KEPT else "passed")
                await asyncio.to_thread(undo, vitess)
                await right(proxy, "hit")

    run(scenario)


@contextmanager
def nobody_sees() -> Iterator[None]:
    """Neither is there a round of the watch, nor does anybody else hear of what an upquery has found."""
    with patch.object(RoutesWatch, "tick"), patch.object(VitessSource, "_astray"):
        yield


def test_what_an_upquery_finds_out_counts_for_all_that_is_held(vitess: Cluster, tmp_path: Path) -> None:
    async def scenario() -> None:
        with patch.object(RoutesWatch, "tick"):
            async with spots_cached(vitess, tmp_path) as proxy:
                await right(proxy, "hit")
                await asyncio.to_thread(apply, vitess, vschema("reverse_bits"))
                assert (await proxy.client.cache("by_id").get(0)).served == "hit"
                assert (await proxy.client.cache("by_id").get(5000)).served == "passed"
                await right(proxy, "hit")

    run(scenario)


@pytest.mark.parametrize("change", ["another vindex", "another keyspace", "another table"])
def test_what_nobody_has_seen_change_is_not_held(vitess: Cluster, tmp_path: Path, change: str) -> None:
    """The VSchema is another one for a moment, in which no round of the watch is. What is asked in that moment is not
    held. Where vtgate is asked on which shard a key is, that is not remembered."""

    async def scenario() -> None:
        with nobody_sees():
            async with spots_cached(vitess, tmp_path) as proxy:
                by_id, by_n, counted = (proxy.client.cache(name) for name in CACHES)
                assert [tuple(row) for row in await by_id.get(0)] == [(0, 0)]
                if change == "another vindex":
                    await asyncio.to_thread(apply, vitess, vschema("reverse_bits"))
                else:
                    await asyncio.to_thread(CHANGES[change], vitess)
                    await until(lambda: len(vitess.execute(SHARDED, "SELECT id FROM spot")) == 2)
                for _ in range(2):
                    for key in KEYS[1:]:
                        await by_id.get(key)
                    await by_n.get(2)
                    await counted.get(3)
                await asyncio.to_thread(undo, vitess)
                await until(lambda: len(vitess.execute(SHARDED, "SELECT id FROM spot")) == len(KEYS))
                wrong, served = await differences(proxy)
                assert not wrong and served == {"hit": served.total()}

    run(scenario)


def enough(served: Counter[str], goal: int) -> bool:
    return served.total() >= goal


def test_the_vschema_changes_again_and_again_while_keys_are_asked(vitess: Cluster, tmp_path: Path) -> None:
    """No round of the watch is in that time, either."""
    many = range(1000, 3000)

    async def scenario() -> None:
        with nobody_sees():
            async with spots_cached(vitess, tmp_path) as proxy:
                await proxy.write(f"INSERT INTO spot (id, n) VALUES {', '.join(f'({key}, 7)' for key in many)}")
                cache, keys, asked = proxy.client.cache("by_id"), iter(many), []
                served, ended = Counter[str](), asyncio.Event()

                async def asks() -> None:
                    for key in keys:
                        asked.append(key)
                        served[(await cache.get(key)).served] += 1
                        if ended.is_set():
                            return

                tasks = [asyncio.create_task(asks()) for _ in range(4)]
                for number in range(6):
                    await asyncio.to_thread(apply, vitess, vschema("xxhash" if number % 2 else "reverse_bits"))
                    goal = served.total() + 50
                    await until(partial(enough, served, goal))
                ended.set()
                await asyncio.gather(*tasks)
                expected = [(key, 7) for key in asked]
                assert [tuple(row) for key in asked for row in await cache.get(key)] == expected
                assert served["miss"] > 100 < served["passed"]

    run(scenario)
