"""Each read over MySQL's protocol counts once, by how it was answered: in the status, in /metrics, and of its cache."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pymysql.cursors import DictCursor

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from proxy.http.metrics import Metrics

TABLES = (
    "CREATE TABLE stories (id BIGINT PRIMARY KEY, author INT NOT NULL, title VARCHAR(100), INDEX (author))",
    "INSERT INTO stories VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 2, NULL)",
)
BY_ID = "SELECT title FROM stories WHERE id = {}"
CACHE = "CREATE CACHE by_id FROM SELECT title FROM stories WHERE id = ?"
PASSED = {  # reads that MySQL answers, by the reason that is counted
    "not worth it": [
        f"SELECT COUNT(*) FROM stories WHERE author <> {number} LIMIT {number + 1}" for number in range(37)
    ],
    "asked for": ["SELECT /*upwell:skip*/ title FROM stories WHERE id = 1"] * 3,
    "transaction": ["SELECT title FROM stories WHERE id = 2"] * 5,  # in one that has written
}


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    state: Path = tmp_path_factory.mktemp("state")
    with beside_database(mysql, "passed_counted", state, *TABLES, admin_users="root") as found:
        yield found


def connect(beside: Beside) -> pymysql.Connection[DictCursor]:
    return pymysql.connect(
        host="127.0.0.1", port=beside.port, user="root", database=beside.proxy.database, autocommit=True,
        cursorclass=DictCursor,
    )  # fmt: skip


def asked(client: pymysql.Connection[DictCursor], sql: str) -> list[dict[str, Any]]:
    with client.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def figures(beside: Beside, watching: pymysql.Connection[DictCursor]) -> dict[str, float]:
    """Of the status, and what /metrics has: by name, that of a label behind it."""
    status = {row["name"]: row["value"] for row in asked(watching, "SHOW UPWELL STATUS")}
    found = {name: float(status[name]) for name in ("hits", "misses", "passed", "hit_rate")}
    metrics = Metrics(beside.proxy.app.router)
    text = asyncio.run_coroutine_threadsafe(metrics.text(), beside.loop).result(60).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in ("upwell_passed_total", "upwell_reads_passed_total", "upwell_cache_passed_total"):
                found[sample.name + sample.labels.get("reason", "")] = sample.value
    return found


def test_each_read_counts_once_by_how_it_was_answered(beside: Beside) -> None:
    counted: Counter[str] = Counter()
    with closing(connect(beside)) as client, closing(connect(beside)) as watching:
        asked(client, CACHE)

        def read(sql: str) -> None:
            asked(client, sql)
            (last,) = asked(client, "EXPLAIN LAST STATEMENT")
            counted[last["served"]] += 1

        before = figures(beside, watching)
        for number in (1, 2, 1, 1, 3):
            read(BY_ID.format(number))
        for number in (11, 12, 11):
            asked(client, "BEGIN")
            read(BY_ID.format(number))
            asked(client, "COMMIT")
        beside.until(lambda: not beside.shared.fills)
        warm = figures(beside, watching)
        for sql in PASSED["not worth it"] + PASSED["asked for"]:
            read(sql)
        asked(client, "BEGIN")
        asked(client, "INSERT INTO stories VALUES (9, 9, 'nine')")
        for sql in PASSED["transaction"]:
            read(sql)
        asked(client, "ROLLBACK")
        after = figures(beside, watching)
        (shown,) = asked(watching, "SHOW CACHES LIKE 'by_id'")
    # A read that MySQL answers at first is filled beside it: that fill is no second read.
    told = {name: after[name] - before[name] for name in ("hits", "misses", "passed")}
    assert told["passed"] == counted["passed"] and told["hits"] == counted["hit"] and told["misses"] == counted["miss"]
    assert min(counted[served] for served in ("hit", "miss", "passed")) > 2, counted
    assert after["passed"] == after["upwell_passed_total"]
    for reason, texts in PASSED.items():
        name = f"upwell_reads_passed_total{reason}"
        assert after[name] - warm[name] == len(texts), (reason, warm, after)
    reads = after["hits"] + after["misses"] + after["passed"]
    assert after["hit_rate"] == pytest.approx(after["hits"] / reads, abs=1e-4)
    of_cache = {name: count for name, count in after.items() if name.startswith("upwell_cache_passed_total")}
    assert of_cache["upwell_cache_passed_totaltransaction"] == len(PASSED["transaction"])
    assert shown["passed"] == sum(of_cache.values())
    assert "transaction" in shown["passed_reason"]
