"""What has ended is freed by its reference count: in a served process the collector of cycles looks at young objects
only, and a session may live for hours."""

from __future__ import annotations

import asyncio
import gc
import struct
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from external_upquery.job import Job
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from integration.support.raw_client import RawClient, bound
from tests.support.waiting import until
from upwell.client import Client

LONGLONG = 8
SESSIONS = 6
PARTS = ("context", "quick", "relay", "upstream", "passing", "reads")


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def work(number: int, client: RawClient) -> None:
    """What sessions do, some of it by each."""
    for _ in range(3):
        client.query(f"SELECT id, v FROM t WHERE id = {number}")
    made = client.prepare("SELECT id, v FROM t WHERE id = ?")
    for _ in range(3):
        client.execute(made.id, bound((LONGLONG,), [struct.pack("<q", number)]))
    for text in (
        "BEGIN",
        f"SELECT id, v FROM t WHERE id = {number}",
        "UPDATE t SET v = v + 1",
        "COMMIT",
        "SHOW CACHES",
    ):
        client.query(text)
    if number % 3 == 1:
        client.prepare("SELECT v + ? FROM t")
        client.query("SELECT nonsense")
    if number % 3 == 2:
        client.query("SET @a = 1")
        client.query("SELECT SLEEP(0.01), @a")


async def sessions(proxy: Proxy) -> list[weakref.ref[Any]]:
    """Those of clients that have come, worked, and gone, one of them in the middle of a command."""
    account: dict[str, Any] = {"user": proxy.mysql.user, "password": proxy.mysql.password, "database": proxy.database}
    listener = proxy.app.mysql
    assert listener is not None
    clients = [
        await asyncio.to_thread(RawClient, "127.0.0.1", proxy.app.mysql_port, **account) for _ in range(SESSIONS)
    ]
    for number, client in enumerate(clients):
        await asyncio.to_thread(work, number, client)
    # A session alone is what a relay forgets: its parts are what may stay.
    found = [
        weakref.ref(one)
        for session in listener.shared.sessions
        for one in (session, *(getattr(session, part) for part in PARTS))
    ]
    await asyncio.to_thread(clients[0].write, b"\x11\0\0\0\3SELECT SLEEP(60)")
    for client in clients:
        client.close()
    await until(lambda: not (listener.shared.sessions or listener.shared.sessions.closing))
    return found


def run(loop: str, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    (uvloop.run if loop == "uvloop" else asyncio.run)(asyncio.wait_for(scenario(), 270))


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_session_that_has_ended_is_freed_at_once(mysql: Server, database: str, tmp_path: Path, loop: str) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(
                "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (0, 0), (1, 1), (2, 2)"
            )
            await proxy.client.create_cache("SELECT id, v FROM t WHERE id = ?", name="t", database=database)
            found = await sessions(proxy)
            assert len(found) == SESSIONS * (1 + len(PARTS))
            # What a session was asked in its last moment comes to its end.
            await until(lambda: all(session() is None for session in found))

    run(loop, scenario)


def jobs() -> set[Job]:
    return {one for one in gc.get_objects() if isinstance(one, Job)}


@pytest.mark.usefixtures("uncollected")
def test_an_upquery_that_is_answered_is_freed_at_once(mysql: Server, database: str, tmp_path: Path) -> None:
    def ask(proxy: Proxy) -> None:
        with Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as client:
            for key in range(50):
                client.cache("t").get(key)
                client.query(f"SELECT v + {key} FROM t", database=database)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
            await proxy.client.create_cache("SELECT id, v FROM t WHERE id = ?", name="t", database=database)
            before = jobs()  # of other tests in this process, which their errors may hold
            await asyncio.to_thread(ask, proxy)
            left = len(jobs() - before)
            assert left <= 8, "as many as there are connections may be the last ones"

    run("asyncio", scenario)
