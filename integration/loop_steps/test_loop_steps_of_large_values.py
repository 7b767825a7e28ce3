"""Values of many MB make no step of the event loop long, neither as they change nor as they are read, and what is
answered is what MySQL answers.

Measured is the processor's time of each step, as in `integration/loop_steps/test_loop_steps.py`.
"""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from integration.loop_steps.test_loop_steps_of_answers import Say
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from integration.support.raw_client import RawClient
from integration.support.short_steps import each_step_is_short
from tests.support.step_times import StepTimes

MB = 1 << 20
LIMIT = 0.05  # seconds: what takes longest takes 0.008; four changed rows of 40 MB took 9, before
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, s LONGTEXT, b LONGBLOB, j JSON, k INT NOT NULL, KEY (k))",
    "CREATE TABLE u (id INT PRIMARY KEY, n INT NOT NULL)",
    "INSERT INTO u VALUES (1, 1)",
)
QUERIES = (
    "SELECT n FROM t WHERE id = {}",
    "SELECT s FROM t WHERE id = {}",
    "SELECT id, b FROM t WHERE k = {} ORDER BY id",
    "SELECT j FROM t WHERE id = {}",
    "SELECT REPEAT(n, 9000000) FROM t WHERE id = {}",
    "SELECT MAX(s), COUNT(*) FROM t WHERE k = {}",
)
CHANGES = (
    "UPDATE t SET n = n + 1",
    "UPDATE t SET s = CONCAT('x', s), j = JSON_SET(j, '$.a', n)",
    "UPDATE t, u SET t.b = CONCAT(t.b, 'y'), u.n = u.n + 1",
    "DELETE FROM t WHERE id = 2",
)
SIZES = {"small": MB // 4, "of some MB": 3 * MB, "of many MB": 9 * MB}


def document(rng: random.Random, depth: int = 4) -> Any:
    """Of all kinds of values, and containers of all sizes."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(
            [None, True, -7, 70_000, 1 << 40, 1.5, 1e30, 'é "quoted"\n', "x" * rng.choice((1, 300, 9_000))]
        )
    if rng.random() < 0.5:
        return [document(rng, depth - 1) for _ in range(rng.randrange(12))]
    return {f"key {number}": document(rng, depth - 1) for number in range(rng.randrange(12))}


def documents() -> list[str]:
    rng = random.Random(5)
    large = {"a": 1, "list": list(range(20_000)), "of all kinds": [document(rng) for _ in range(30)]}
    return [json.dumps(one) for one in (large, [[[[document(rng) for _ in range(20)]]]], {"a": "y" * (MB + 1)}, {})]


def read_and_change(proxy: Proxy, loop: asyncio.AbstractEventLoop, size: int, say: Say) -> None:
    mysql = proxy.mysql
    account: dict[str, Any] = {"user": mysql.user, "password": mysql.password, "database": proxy.database}
    with (
        RawClient("127.0.0.1", proxy.app.mysql_port, **account) as through,
        RawClient(mysql.host, mysql.port, **account) as direct,
    ):
        for sql in QUERIES:
            through.query("CREATE CACHE FROM " + sql.format("?"))
        for change in ("", *CHANGES, CHANGES[0]):
            for compressed in ("OFF", "ON"):
                say(f"{change}, compression {compressed}")
                if change:
                    mysql.execute(
                        f"USE `{proxy.database}`", f"SET binlog_transaction_compression = {compressed}", change
                    )
                    asyncio.run_coroutine_threadsafe(proxy.caught_up(), loop).result(60)
                for sql in QUERIES:
                    say(f"{sql} after {change}, compression {compressed}")
                    for key in (1, 2, 4) if size < MB else (1,):
                        for _ in range(2):
                            assert through.query(sql.format(key)) == direct.query(sql.format(key)), (sql, key)
    say("")


async def scenario(mysql: Server, database: str, path: Path, size: int, found: StepTimes) -> None:
    def say(what: str) -> None:
        found.doing = what

    async with proxy_beside(mysql, database, path, check="false", memory_limit="1GiB") as proxy:
        await asyncio.to_thread(read_and_change, proxy, asyncio.get_running_loop(), size, say)
        await proxy.settled()


@pytest.mark.parametrize("name", list(SIZES))
def test_large_values(mysql: Server, database: str, tmp_path: Path, name: str) -> None:
    size = SIZES[name]

    def of(id_: int) -> int:
        return size if id_ <= 2 else 100  # the disk has its limits, too

    rows = ", ".join(
        f"({id_}, 1, REPEAT('{'aé'[id_ % 2]}', {of(id_)}), REPEAT('b', {of(id_)}), '{mysql_text(one)}', {id_ % 2})"
        for id_, one in enumerate(documents(), 1)
    )
    statements = [*TABLE, f"INSERT INTO t VALUES {rows}"]

    async def values(folder: Path, found: StepTimes) -> None:
        await scenario(mysql, database, folder, size, found)

    each_step_is_short(mysql, database, tmp_path, statements, values, lambda found: found.most >= LIMIT)


def mysql_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")
