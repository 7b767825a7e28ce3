"""A process that did not run for a while (SIGSTOP, `docker pause`, a suspended machine) gives no hit from before."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from examples.lobsters.proxy_process import ProxyProcess
from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from tests.support.waiting import until
from upwell.client import Client

SESSIONS = 30
READ = "SELECT v FROM t WHERE id = 1"
COM_QUERY = 3
OTHERS = [f"UPDATE t SET v = {change} WHERE id = 2" for change in range(1000)]
LONG = 1.5  # seconds of a freeze


def session(proxy: ProxyProcess, mysql: Server) -> Any:
    return pymysql.connect(
        host="127.0.0.1", port=proxy.mysql_port, user=mysql.user, password=mysql.password or "", database="shop",
        autocommit=True, read_timeout=60,
    )  # fmt: skip


def asked(connection: Any, sql: str) -> tuple[tuple[Any, ...], ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return tuple(cursor.fetchall())


def is_hit(connection: Any) -> bool:
    """The read, and then whether it was one."""
    asked(connection, READ)
    return bool(asked(connection, "EXPLAIN LAST STATEMENT")[0][0] == "hit")


@contextmanager
def frozen(proxy: ProxyProcess, mysql: Server) -> Iterator[None]:
    """The process does not run meanwhile, and for at least so long."""
    ((began,),) = mysql.execute("SELECT NOW(6)")
    os.kill(proxy.pid, signal.SIGSTOP)
    try:
        yield

        def is_over() -> bool:
            return bool((mysql.execute("SELECT NOW(6)")[0][0] - began).total_seconds() > LONG)

        asyncio.run(until(is_over))
    finally:
        os.kill(proxy.pid, signal.SIGCONT)


def test_no_session_is_shown_what_was_held_before_a_freeze(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """The reads are sent while the process does not run, so they are there when it does again, beside the stream."""
    mysql = own_mysql()
    mysql.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)")
    mysql.execute("INSERT INTO shop.t VALUES (1, 0), (2, 0)")
    with ExitStack() as stack:
        proxy = stack.enter_context(ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0))
        client: Client = stack.enter_context(proxy.wait_ready())
        client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database="shop")
        sessions = [session(proxy, mysql) for _ in range(SESSIONS)]
        for one in sessions:
            stack.callback(one.close)
        for value in (1, 2):
            for one in sessions:
                while not (is_hit(one) and is_hit(one)):
                    pass
                asked(one, READ)  # the quick way is open
            with frozen(proxy, mysql):
                mysql.execute("USE shop", *OTHERS, f"UPDATE t SET v = {value} WHERE id = 1")
                for one in sessions:
                    one._execute_command(COM_QUERY, READ)
            seen = []
            for one in sessions:
                one._read_query_result()
                seen.append(one._result.rows)
            assert set(seen) == {((value,),)}, seen
            asyncio.run(until(lambda: is_hit(sessions[0])))
            assert client.cache("by_id").get(1)[0][0] == value
