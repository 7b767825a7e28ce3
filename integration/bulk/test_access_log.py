"""The access log of a known load over both protocols: ranked as it was, by pyarrow and by Spark, and filled again."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from integration.bulk.access_load import (
    CACHES,
    TABLES,
    Load,
    logging_proxy,
    make_caches,
    read_over_grpc,
    read_over_mysql,
)
from integration.bulk.filler import needs_spark
from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run
from integration.support.proxy_process import ROOT, serving
from integration.support.proxy_thread import Beside
from integration.support.served import last_served, read_until_hit
from tests.bulk.test_rank_direct import changed
from tests.support.http_calls import call
from tests.support.waiting import until
from upwell.__main__ import run as upwell
from upwell.client import Client
from upwell.key_text import read

pytest.importorskip("pyarrow")

import pyarrow
import pyarrow.parquet

TYPED = {
    "code": ("SELECT id FROM item WHERE code = ?", b"\x00\x05\xff"),
    "price": ("SELECT id FROM item WHERE price = ?", Decimal("2.25")),
    "day": ("SELECT id FROM item WHERE day = ?", date(2024, 1, 6)),
    "null": ("SELECT id FROM item WHERE note <=> ?", None),
    "weight": ("SELECT id FROM item WHERE weight > ? ORDER BY id LIMIT 2", 27.5),  # held in evict mode
    "listed": ("SELECT COUNT(*) FROM item WHERE id IN (?)", [3, 1, 2]),
    "words": ("SELECT id FROM item WHERE word = ? AND grp = ?", ("caf\u00e9 '\"\\ \U0001f600", 3)),
}


def rows_in(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("access-*.parquet")):
        found += pyarrow.parquet.read_table(path).to_pylist()
    return found


def client_of(beside: Beside) -> Client:
    return Client(f"127.0.0.1:{beside.proxy.app.grpc_port}", token=beside.proxy.app.grpc_token)


@dataclass
class Logged:
    """Two proxies have written into the folder, one after the other."""

    mysql: Server
    database: str
    folder: Path
    load: Load


@pytest.fixture(scope="module")
def logged(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    database, folder, load = "access_log", tmp_path_factory.mktemp("logs") / "with [odd] {letters}, and spaces", Load()
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLES)
    rng = random.Random(7)
    for number in range(2):
        state = tmp_path_factory.mktemp("state")
        with logging_proxy(mysql, database, state, folder) as beside, client_of(beside) as client:
            make_caches(beside, client)
            with beside.client() as session:
                if number == 0:
                    read_over_mysql(session, load, rng, 300)
            if number == 1:
                read_over_grpc(client, load, rng, 300)
    yield Logged(mysql, database, folder, load)
    mysql.execute(f"DROP DATABASE {database}")


def ranking(logged: Logged, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert upwell(["rank", str(logged.folder), "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def in_a_process(folder: Path, *options: str) -> dict[str, Any]:
    """The same, in a process of its own, with which Java ends. Java compiles little: half of its time."""
    done = subprocess.run(
        [sys.executable, "-m", "upwell", "rank", str(folder), "--json", *options], cwd=ROOT, text=True, timeout=240,
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def asked_for(key: str) -> object:
    values = read(key)
    return values[0] if len(values) == 1 else values


def test_each_read_is_ranked_as_often_as_it_was_made(logged: Logged, capsys: pytest.CaptureFixture[str]) -> None:
    found = ranking(logged, capsys, "--by", "direct")
    caches = {cache["name"]: cache for cache in found["caches"]}
    assert caches.keys() == CACHES.keys() and len(found["proxies"]) == 2
    for name, asked in logged.load.asked.items():
        told = Counter({asked_for(hot["key"]): round(hot["reads"]) for hot in caches[name]["keys"]})
        if name == "by_list":  # of the keys of a read one stands for all
            assert sum(told.values()) == sum(asked.values()) and told[0] > asked[0] / 2
            assert told.most_common(1)[0][0] == 0
            continue
        # MySQL answers the first read of a kind, to show its columns, and the cache is filled beside it.
        difference = (told - asked) + (asked - told)
        assert sum(difference.values()) <= 4, (name, difference)
        assert told.most_common(1)[0][0] == asked.most_common(1)[0][0]
    assert caches["by_id"]["hits"] > 10 * caches["by_id"]["passed"]
    assert (caches["never"]["reads"], caches["never"]["why"]) == (0, "never read")
    (costly,) = [one for one in found["queries"] if "SUM(price)" in one["query"]]
    assert round(costly["reads"]) == logged.load.costly and costly["database"] == logged.database
    assert costly["statement"].startswith("CREATE CACHE FROM SELECT grp") and costly["saved"] > 0


def test_what_the_ranking_says_to_cache_can_be_cached(
    logged: Logged, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = ranking(logged, capsys, "--by", "direct")
    (statement,) = [one["statement"] for one in found["queries"] if "SUM(price)" in one["query"]]
    with logging_proxy(logged.mysql, logged.database, tmp_path, tmp_path / "log") as beside, beside.client() as session:
        session.query(statement)
        read_until_hit(beside, session, session.query, statement.removeprefix("CREATE CACHE FROM ").replace("?", "1"))


def test_spark_adds_up_what_pyarrow_does(logged: Logged, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    needs_spark()
    folder = tmp_path / "some [more] {logs}"
    shutil.copytree(logged.folder, folder)
    first, *_ = sorted(folder.iterdir())
    shutil.copy(first, folder / "access-0.parquet")
    changed(folder / "access-0.parquet", "spoilt")
    found = {by: in_a_process(folder, "--half-life", "0.001", "--hours", "1", "--top", "20", "--by", by)
             for by in ("direct", "spark")}  # fmt: skip
    told = {by: one.pop("by") for by, one in found.items()}
    assert told["direct"] == "directly" and told["spark"].startswith("by Spark 4")
    assert found["spark"] == found["direct"] and found["direct"]["rows"] > 1000
    assert max(len(cache["keys"]) for cache in found["direct"]["caches"]) == 20
    assert upwell(["rank", str(folder), "--by", "direct"]) == 0
    assert "access-0.parquet: it cannot be read" in capsys.readouterr().err


def test_keys_of_every_type_are_logged_ranked_and_filled(
    mysql: Server, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mysql.execute(f"USE {database}", *TABLES, "ALTER TABLE item ADD note VARCHAR(9), ADD KEY (note)")
    folder, out = tmp_path / "log", tmp_path / "out"

    def make(client: Client) -> None:
        for name, (sql, _) in TYPED.items():
            client.create_cache(sql, name=name, database=database)

    def get(client: Client, name: str) -> str:
        key = TYPED[name][1]
        return client.cache(name).get(*(key if isinstance(key, tuple) else (key,))).served

    with logging_proxy(mysql, database, tmp_path / "one", folder) as beside, client_of(beside) as client:
        make(client)
        assert {name: get(client, name) for name in TYPED} == dict.fromkeys(TYPED, "miss")
    assert upwell(["rank", str(folder), "--out", str(out)]) == 0
    with logging_proxy(mysql, database, tmp_path / "two", folder) as beside, client_of(beside) as client:
        make(client)
        token = tmp_path / "token"
        token.write_text(str(beside.proxy.app.grpc_token))
        target = f"127.0.0.1:{beside.proxy.app.grpc_port}"
        for name in TYPED:
            filled = [
                "fill",
                name,
                "--keys",
                str(out / f"keys-{name}.jsonl"),
                "--grpc",
                target,
                "--token-file",
                str(token),
            ]
            assert upwell(filled) == 0, capsys.readouterr()
        assert {name: get(client, name) for name in TYPED} == dict.fromkeys(TYPED, "hit")


def test_a_small_sample_says_how_much_was_read(mysql: Server, database: str, tmp_path: Path) -> None:
    """Hits that are as quick as without a log, over both protocols and in batches."""
    mysql.execute(f"USE {database}", *TABLES)
    folder, reads = tmp_path / "log", 6000
    with (
        logging_proxy(mysql, database, tmp_path, folder, access_log_sample="0.05") as beside,
        client_of(beside) as client,
    ):
        make_caches(beside, client)
        with beside.client() as session:
            texts = [CACHES["by_id"].replace("?", str(key)) for key in range(8)]
            for text in texts:
                read_until_hit(beside, session, session.query, text)
            for number in range(reads):
                session.query(texts[number % 8])
        client.cache("by_two").get_many([(1, "w1"), (2, "w2")])
        for _ in range(reads // 100):
            client.cache("by_two").get_many([(1, "w1"), (2, "w2")] * 50)
    for name in ("by_id", "by_two"):
        hits = [row for row in rows_in(folder) if (row["cache"], row["outcome"]) == (name, "hit")]
        assert abs(sum(row["weight"] for row in hits) / reads - 1) < 0.35, name
        assert {row["key"] for row in hits} == ({f"[{key}]" for key in range(8)} if name == "by_id" else
                                                {'[1, "w1"]', '[2, "w2"]'})  # fmt: skip


def test_hits_of_long_lists_and_of_transactions_are_logged(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE {database}", *TABLES)
    folder = tmp_path / "log"
    with logging_proxy(mysql, database, tmp_path, folder) as beside, client_of(beside) as client:
        make_caches(beside, client)
        for first in range(0, 1500, 500):
            client.cache("by_list").get(list(range(first, first + 500)))
        assert client.cache("by_list").get(list(range(1500))).served == "hit"
        with beside.client() as session:
            text = CACHES["by_id"].replace("?", "3")
            read_until_hit(beside, session, session.query, text)
            session.query("START TRANSACTION")
            session.query(text)
            mysql.execute(f"UPDATE {database}.item SET word = 'other' WHERE id = 3")
            beside.caught_up()
            session.query(text)
            assert last_served(beside, session).startswith("hit"), "where the transaction stands"
    rows = rows_in(folder)
    assert [row["keys"] for row in rows if row["keys"] > 1000] == [1500]
    hits = [row for row in rows if (row["cache"], row["outcome"]) == ("by_id", "hit")]
    assert sum(row["us"] == 0 for row in hits) == 1, "what was shown before is not looked up"


def test_the_page_is_told_what_the_log_says(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE {database}", *TABLES)

    async def scenario() -> None:
        options = {"access_log": str(tmp_path / "log"), "access_log_sample": "1", "access_log_rotate": "10ms"}
        async with proxy_beside(mysql, database, tmp_path / "state", **options) as proxy:
            port, router = proxy.app.http_port, proxy.app.router
            assert (await call(port, "GET", "/v1/overview"))[1]["access_log"] == 1.0
            await proxy.client.create_cache(CACHES["by_id"], name="by_id", database=database)
            for key in (1, 1, 1, 2):
                await proxy.client.cache("by_id").get(key)
            await until(lambda: router.status().counters["access_log_rows"] >= 5)  # and that the cache is there
            status, told = await call(port, "GET", "/v1/access?hours=1")
            assert status == 200 and told["rows"] == 4
            (cache,) = told["caches"]
            assert (cache["name"], cache["hits"] + cache["misses"]) == ("by_id", 4)
            assert [(one["key"], one["reads"]) for one in told["keys"]] == [("[1]", 3), ("[2]", 1)]
            reads = sum(told["every"] * (hits + misses) for _, hits, misses, _ in told["reads"])
            assert round(reads) == 4

    run(scenario)


def test_a_folder_that_goes_away_costs_rows_and_no_reads(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE {database}", *TABLES)
    (tmp_path / "file").touch()

    async def scenario() -> None:
        options = {"access_log": str(tmp_path / "file" / "log"), "access_log_sample": "1", "access_log_rotate": "10ms"}
        async with proxy_beside(mysql, database, tmp_path / "state", **options) as proxy:
            await proxy.client.create_cache(CACHES["by_id"], name="by_id", database=database)
            router = proxy.app.router
            await proxy.client.cache("by_id").get(1)
            await until(lambda: router.status().counters["access_log_dropped"] > 0)
            (tmp_path / "file").unlink()
            assert len(await proxy.client.cache("by_id").get(1)) == 1
            await until(lambda: router.status().counters["access_log_rows"] > 0)
            await asyncio.to_thread(shutil.rmtree, tmp_path / "file")
            written = router.status().counters["access_log_rows"]
            await proxy.client.cache("by_id").get(1)
            await until(lambda: router.status().counters["access_log_rows"] > written)
            assert router.reads.access_log is not None and router.reads.access_log.writer.pid is not None
        assert any(row["key"] == "[1]" for row in rows_in(tmp_path / "file" / "log"))

    run(scenario)


def test_a_proxy_that_is_told_to_end_writes_what_it_has(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE {database}", *TABLES)
    folder = tmp_path / "log"
    options = (f"--access-log={folder}", "--access-log-sample=1", "--verify-new-caches=off", "--warm-up=off")
    with serving(mysql, database, tmp_path / "state", *options) as proxy, proxy.client() as client:
        client.query(f"CREATE CACHE by_id FROM {CACHES['by_id']}")
        for _ in range(20):
            client.query(CACHES["by_id"].replace("?", "3"))
    assert not [line for line in proxy.log if "access_log" in line]
    (path,) = folder.iterdir()
    assert path.match("access-*.parquet") and sum(row["key"] == "[3]" for row in rows_in(folder)) >= 20


def test_without_pyarrow_serving_goes_on(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyarrow" else found(name, *more)
    )
    mysql.execute(f"USE {database}", *TABLES)
    with logging_proxy(mysql, database, tmp_path / "state", tmp_path / "log") as beside, client_of(beside) as client:
        make_caches(beside, client)
        assert len(client.cache("by_id").get(3)) == 1
    assert not (tmp_path / "log").exists()
    assert "no_access_log" in (told := capfd.readouterr().out) and "run `make spark` in" in told
