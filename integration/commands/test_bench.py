"""`upwell bench --mysql` beside a real MySQL: it asks what it is told to, and tells what the servers saw."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bulk import bench_load
from bulk.bench import Control
from bulk.bench_load import Asker
from bulk.server_process import server_pid
from external_upquery.address import parse_upstream
from integration.servers.mysql_server import Server
from integration.support.proxy_process import Serving, serving
from tests.support.waiting import until
from upwell.spread import Key

BY_ID = "SELECT id, name FROM item WHERE id = ?"


@dataclass(frozen=True)
class Place:
    mysql: Server
    proxy: Serving
    database: str

    @property
    def direct(self) -> str:
        return f"{self.mysql.url.partition('?')[0].rstrip('/')}/{self.database}"

    @property
    def through(self) -> str:
        return f"mysql://root@127.0.0.1:{self.proxy.port}/{self.database}"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "upwell", "bench", *arguments],
            cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def bench(self, *arguments: str) -> dict[str, Any]:
        process = self.start("--seconds=0.3", "--warm-up=0.2", "--connections=3", "--json", *arguments)
        out, err = process.communicate()
        assert process.returncode == 0, err
        told: dict[str, Any] = json.loads(out)
        return told


@pytest.fixture(scope="module")
def place(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    database = f"t{os.getpid()}_bench"
    mysql.execute(
        f"CREATE DATABASE `{database}`",
        f"USE `{database}`",
        "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(5,2), made DATE, KEY (name))",
        "INSERT INTO item VALUES " + ", ".join(f"({n}, 'item {n}', {n}.5, '2026-01-0{n}')" for n in range(1, 10)),
    )
    with serving(mysql, database, tmp_path_factory.mktemp("state")) as proxy:
        with closing(proxy.client()) as client:
            client.query(f"CREATE CACHE by_id_ FROM {BY_ID}")
        yield Place(mysql, proxy, database)
    mysql.execute(f"DROP DATABASE `{database}`")


def executions(mysql: Server) -> int:
    rows = mysql.execute("SHOW GLOBAL STATUS WHERE variable_name IN ('Com_stmt_execute', 'Com_select')")
    return sum(int(count) for _, count in rows)


@pytest.mark.parametrize("how", ["--text", "--processes=2"])
def test_both_sides_are_asked_and_the_proxy_tells_of_its_hits(place: Place, how: str) -> None:
    before = executions(place.mysql)
    told = place.bench("--mysql", place.through, "--direct", place.direct, "--keys=1..9", how, BY_ID)
    asked = executions(place.mysql) - before
    through, direct = told["through"], told["direct"]
    assert told["cache"] == "by_id_" and told["hits"] > 0.9 * through["answers"] > 0
    assert told["hits"] + told["misses"] + told["passed"] == through["answers"]
    assert 0 < direct["answers"] <= asked and through["errors"] == direct["errors"] == 0
    assert direct["p50_ms"] <= direct["p95_ms"] <= direct["p99_ms"] <= direct["p99.9_ms"] <= direct["max_ms"]
    if place.mysql.pid is not None:
        assert direct["mysql_cpu_us"] > through["mysql_cpu_us"] >= 0


def test_a_statement_without_a_cache_says_why(place: Place) -> None:
    told = place.bench(
        "--mysql", place.through, "--sample", "SELECT name FROM item", "SELECT id FROM item WHERE name = ?"
    )
    assert (told["keys"], told["cache"], told["hits"]) == (9, None, 0)
    assert told["passed"] >= told["through"]["answers"] > 0
    assert "no cache answers this statement: no cache matches" in told["notes"][0]


def test_mysql_alone_can_be_asked(place: Place) -> None:
    told = place.bench("--mysql", place.direct, "--key", "[1, 2.5]", "--key", '[null, "a"]', "SELECT ?, ?")
    assert told["through"]["answers"] > 0 and told["hit_rate"] is None and "is no Upwell" in told["notes"][0]


def test_the_process_of_a_mysql_here_is_found(place: Place) -> None:
    if place.mysql.pid is None:
        pytest.skip("this MySQL is not the tests' own")
    for url in (place.direct, place.through):
        with closing(Control(parse_upstream(url))) as control:
            assert server_pid(control.values) == place.mysql.pid


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--keys=1..9", "SELECT * FROM nosuch WHERE id = ?"], 2, "upwell: the statement is refused: Table "),
        (["--sample", "SELECT x", "SELECT ?"], 2, "upwell: --sample is refused: Unknown column 'x'"),
        (["SELECT ?"], 2, "upwell: no keys: --keys, --key, --keys-file or --sample"),
        (["DELETE FROM item"], 2, "upwell: 'DELETE FROM item': a SELECT is accepted, with ? for its parameters"),
        (["--direct=mysql://nobody@127.0.0.1:1", "SELECT 1"], 3, "upwell: no connection to mysql://nobody@127.0.0.1:1"),
        (["--direct=here", "SELECT 1"], 2, "upwell: --direct: the server's address does not begin with mysql://"),
    ],
)
def test_what_is_wrong_is_one_line(place: Place, arguments: list[str], status: int, line: str) -> None:
    process = place.start("--mysql", place.through, *arguments)
    out, err = process.communicate()
    assert (process.returncode, out) == (status, "") and err.startswith(line) and err.count("\n") == 1


def sessions(place: Place) -> list[int]:
    rows = place.mysql.execute(
        "SELECT id FROM performance_schema.processlist"
        " JOIN performance_schema.session_connect_attrs ON processlist_id = id"
        f" WHERE db = '{place.database}' AND attr_name = 'program_name' AND attr_value = 'upwell'"
        " AND command IN ('Execute', 'Query')"
    )
    return [int(number) for (number,) in rows]


def test_ctrl_c_tells_what_was_measured_until_then(place: Place) -> None:
    process = place.start("--mysql", place.direct, "--seconds=600", "--warm-up=0", "--json", "SELECT SLEEP(0.01)")
    asyncio.run(until(lambda: len(sessions(place)) >= 8, between=0.05))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err.splitlines()[-1].startswith(
        "upwell: interrupted: these figures are of what"
    )
    told = json.loads(out)
    assert told["interrupted"] and told["through"]["answers"] > 0 and told["through"]["seconds"] < 300


def test_reads_are_counted_where_idle_sessions_are_ended(place: Place) -> None:
    """That which counts says nothing while others ask."""
    with closing(place.proxy.client()) as client:
        client.query("SET UPWELL mysql-idle-timeout = 200ms")
    try:
        told = place.bench("--mysql", place.through, "--key=1", "--seconds=1.5", BY_ID)
    finally:
        with closing(place.proxy.client()) as client:
            client.query("SET UPWELL mysql-idle-timeout = DEFAULT")
    assert told["hits"] > 0, told


def test_lost_connections_are_counted(place: Place) -> None:
    process = place.start("--mysql", place.direct, "--seconds=4", "--warm-up=0", "--json", "SELECT SLEEP(0.01)")
    asyncio.run(until(lambda: len(sessions(place)) >= 8, between=0.05))
    for number in sessions(place):
        place.mysql.execute(f"KILL {number}")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["through"]["errors"] >= 1


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
def test_every_kind_of_answer_is_taken_whole(place: Place, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """However it comes in pieces: the answer behind it is its own, or the sequence would be lost."""
    monkeypatch.setattr(bench_load, "CHUNK", chunk)
    keys: list[Key] = [(1,), ("item 2",), (None,), (2.5,), (-3,), ("x" * 300,), ("y" * 70_000,)]
    upstream = parse_upstream(place.direct)
    many = ", ".join(f"'{n}' AS c{n}" for n in range(300))
    statements = {
        "SELECT ?": "",
        "SELECT * FROM item WHERE id = ? OR 1": "",
        f"SELECT {many}, ?": "",
        "SELECT id FROM item WHERE id = ? AND 0": "",
        "SELECT (SELECT 1 UNION SELECT 2), ?": "Subquery returns more than 1 row (1242)",
        "SELECT id, IF(id < 5, 1, (SELECT id FROM item)), ? FROM item": "Subquery returns more than 1 row (1242)",
    }
    random = Random(chunk)
    for statement, error in statements.items():
        for prepared in (True, False):
            asker = Asker(upstream, tuple(statement.split("?")), prepared=prepared)
            with closing(asker.socket):
                for key in random.choices(keys, k=6 if chunk > 1 else 2):
                    asker.ask(key)
                    asker.socket.settimeout(30)
                    while not asker.answered():
                        pass
                    assert asker.error == error, (statement, key)
