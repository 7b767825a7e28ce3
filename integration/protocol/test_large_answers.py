"""Answers of thousands of rows are derived, compared and encoded in several steps of the loop: each is of one state all
the same, and no session goes back, while all of their rows change again and again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from upwell.client import Client, Session

ROWS = 3_000
CHANGES = 12
QUERIES = {
    "rows": "SELECT id, version FROM big WHERE owner = %s",
    "ordered": "SELECT id, version FROM big WHERE owner = %s ORDER BY word, id",
    "joined": "SELECT b.id, b.version FROM big b JOIN small s ON s.id = b.owner WHERE b.owner = %s",
}


def tables(database: str) -> tuple[str, ...]:
    digits = " UNION ALL ".join(f"SELECT {digit}" for digit in range(10))
    return (
        "CREATE TABLE big (id INT PRIMARY KEY, owner INT NOT NULL, version INT NOT NULL, word VARCHAR(9), KEY (owner))",
        f"INSERT INTO big WITH d (d) AS ({digits}) SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d, 1, 0,"
        " CONCAT('w', a.d) FROM d a, d b, d c, d e WHERE e.d < 3",
        "CREATE TABLE small (id INT PRIMARY KEY)",
        "INSERT INTO small VALUES (1)",
    )


class Reader:
    """A client that reads one query until it is told to stop; `wrong`: what was amiss."""

    def __init__(self, name: str, read: Callable[[], list[tuple[Any, ...]]], stop: threading.Event) -> None:
        self.name, self.read, self.stop = name, read, stop
        self.seen: list[int] = []
        self.wrong = ""

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.look()
            self.look()
        except Exception as error:  # noqa: BLE001 - a thread's top level
            self.wrong = repr(error)

    def look(self) -> None:
        rows = self.read()
        versions = {row[1] for row in rows}
        assert len(rows) == ROWS and len({row[0] for row in rows}) == ROWS, f"{len(rows)} rows"
        assert len(versions) == 1, f"of several states: {sorted(versions)}"
        (version,) = versions
        assert not self.seen or version >= self.seen[-1], f"{version} after {self.seen[-1]}"
        self.seen.append(version)


def read_all(proxy: Proxy, mysql: Server) -> list[Reader]:
    stop = threading.Event()
    account: dict[str, Any] = {"user": mysql.user, "password": mysql.password, "database": proxy.database}
    sessions = [pymysql.connect(host="127.0.0.1", port=proxy.app.mysql_port, **account) for _ in QUERIES]
    writer = pymysql.connect(host=mysql.host, port=mysql.port, autocommit=True, **account)
    with Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as client:
        readers = []
        for (name, sql), session in zip(QUERIES.items(), sessions, strict=True):
            cursor, fresh = session.cursor(), client.session()
            session.autocommit(True)

            def by_text(cursor: Any = cursor, sql: str = sql) -> list[tuple[Any, ...]]:
                cursor.execute(sql, (1,))
                return list(cursor.fetchall())

            def by_name(name: str = name, fresh: Session = fresh) -> list[tuple[Any, ...]]:
                return [tuple(row) for row in fresh.get(name, 1, timeout=120)]

            readers += [Reader(f"{name}, text", by_text, stop), Reader(f"{name}, gRPC", by_name, stop)]
        threads = [threading.Thread(target=reader.run) for reader in readers]
        for thread in threads:
            thread.start()
        with writer.cursor() as cursor:
            for _ in range(CHANGES):
                cursor.execute("UPDATE big SET version = version + 1")
                seen = [len(reader.seen) for reader in readers]
                while any(
                    len(reader.seen) <= before and not reader.wrong
                    for reader, before in zip(readers, seen, strict=True)
                ):
                    stop.wait(0.001)
        stop.set()
        for thread in threads:
            thread.join()
    for session in (*sessions, writer):
        session.close()
    return readers


@pytest.mark.parametrize("verified", ["off", "32"])
def test_large_answers_are_of_one_state_while_all_of_it_changes(
    mysql: Server, database: str, tmp_path: Path, verified: str
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches=verified) as proxy:
            await proxy.write(*tables(database))
            for name, sql in QUERIES.items():
                await proxy.client.create_cache(sql.replace("%s", "?"), name=name, database=database)
            readers = await asyncio.to_thread(read_all, proxy, mysql)
            assert {reader.name: reader.wrong for reader in readers if reader.wrong} == {}
            await proxy.caught_up()
            for name in QUERIES:
                while (answer := await proxy.client.cache(name).get(1)).served != "hit":
                    pass
                assert {row[1] for row in answer} == {CHANGES}
            status = await proxy.client.status()
            assert status.counters["trust_differs"] == 0 and not status.counters.get("faults", 0)

    run(scenario)
