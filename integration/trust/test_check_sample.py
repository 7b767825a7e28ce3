"""The always-on sample on a real MySQL: under writers nothing differs, and what is spoilt is found and forgotten."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import structlog

import proxy.read.lookups
from integration.grpc.test_concurrent_reads import CACHES, LISTS, MOVED
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.numbered_writers import NumberedWriter, numbered_writers
from proxy.grpc.rows import FORMAT
from proxy.read.open_cache import OpenCache
from sqltypes.expression import Row
from tests.support.waiting import turns, until

WRITERS, TRANSACTIONS = 3, 1000


@pytest.fixture(autouse=True)
def every_fourth_hit_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.read.lookups, "SAMPLE", 4)


async def read(rng: random.Random, proxy: Proxy, opened: dict[str, OpenCache], writer: NumberedWriter) -> None:
    """A few reads of one cache, most of them hits."""
    name = rng.choice(list(opened))
    cache = opened[name]
    if name in LISTS or name == "moved":
        await cache.read((tuple(rng.sample(writer.keys, 3)),))
        return
    keys = [(rng.choice(writer.keys),) * CACHES[name].count("?") for _ in range(8)]
    if rng.random() < 0.5:
        await cache.hit_batch(keys)
    for key in keys:
        await cache.read(key)
    if rng.random() < 0.01:
        for held in list(rng.choice(list(proxy.app.engine.graph.readers.values())).entries.values()):
            held.reader.drop(held)


def test_no_hit_differs_from_mysql_while_others_write(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        rng = random.Random(1)
        async with proxy_beside(mysql, database, tmp_path, check_sample="1", verify_new_caches="32") as proxy:
            sampler = proxy.app.router.sampler
            sampler.pause = 0.0
            found = proxy.app.router.earning.counters
            with numbered_writers(mysql, database, WRITERS) as writers:
                for name, sql in {**CACHES, **LISTS, "moved": MOVED}.items():
                    await proxy.client.create_cache(sql, name=name, database=database)
                opened = {name: proxy.app.router.caches.open(name, FORMAT) for name in (*CACHES, *LISTS, "moved")}
                while not (
                    all(writer.written >= TRANSACTIONS for writer in writers)
                    and sampler.counters["sample_equal"]
                    and found["trust_agrees"] > 100
                ):
                    assert all(writer.is_alive() for writer in writers)
                    await read(rng, proxy, opened, rng.choice(writers))
                    await turns(1)  # hits alone would let nothing else go on
            print(dict(sampler.counters), dict(found))
            assert not sampler.counters["sample_different"]
            assert not found["trust_differs"] and not found["caches_distrusted"]

    run(scenario)


async def sampled(proxy: Proxy, cache: OpenCache, key: int, outcome: str) -> None:
    """Hits until a sample has this outcome."""
    sampler = proxy.app.router.sampler
    before = sampler.counters[outcome]

    def came() -> bool:
        cache.hit((key,))
        return sampler.counters[outcome] > before

    await until(came, between=0.0)


@pytest.mark.parametrize("what", ["bytes", "entry"])
def test_what_is_spoilt_is_found_and_forgotten(mysql: Server, database: str, tmp_path: Path, what: str) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, check_sample="1") as proxy:
            await proxy.write(
                "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(20), KEY (k))",
                "INSERT INTO t VALUES (1, 7, 'one'), (2, 7, 'two')",
            )
            await proxy.caught_up()
            proxy.app.router.sampler.pause = 0.0
            await proxy.client.create_cache("SELECT id, v FROM t WHERE k = ?", name="rows", database=database)
            await proxy.caught_up()
            cache = proxy.app.router.caches.open("rows", FORMAT)
            await cache.read((7,))
            await proxy.caught_up()
            await sampled(proxy, cache, 7, "sample_equal")

            (reader,) = proxy.app.engine.graph.readers.values()
            held = reader.entries[7]
            spoilt: list[Row] = [(1, "one"), (2, "too")]
            if what == "bytes":
                assert held.bodies is not None
                held.bodies[0] = reader.encodings.encoders[0](spoilt)
            else:
                (entry,) = held.deps
                entry.content = reader.nodes[0].load(7, list(spoilt)).content
                held.stale()
            assert [tuple(row) for row in await proxy.client.cache("rows").get(7)] == spoilt
            with structlog.testing.capture_logs() as logs:
                await sampled(proxy, cache, 7, "sample_different")

            (line,) = [line for line in logs if line["event"] == "sample_different"]
            assert (line["cache"], line["parameters"], line["database"]) == ("rows", "(7,)", database)
            assert line["sql"] == "SELECT id, v FROM t WHERE k = 7"
            assert line["rows_of_mysql"] == ["(1, 'one')", "(2, 'two')"]
            assert line["bytes_are_of_the_rows"] == (what == "entry")
            assert 7 not in reader.entries
            answer = await proxy.client.cache("rows").get(7)
            assert (answer.served, [tuple(row) for row in answer]) == ("miss", [(1, "one"), (2, "two")])
            assert (await proxy.client.status()).counters["sample_different"] == 1
            proxy.app.engine.check_invariants()

    run(scenario)
