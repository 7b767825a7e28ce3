"""Many caches of an earlier run: it listens at once, passes reads on, and says when all are there."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pymysql

from examples.lobsters.proxy_process import ProxyProcess
from external_upquery.address import parse_upstream
from integration.servers.mysql_server import Server
from proxy.catalog.definition_file import StateStore
from proxy.port.made_by import BY_GRPC
from proxy.settings.config import CacheDefinition

CACHES = 120


def readiness(proxy: ProxyProcess) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{proxy.http_port}/readyz", timeout=60) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        with error:
            return error.read().decode()


def test_reads_are_passed_on_until_all_are_planned(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10)")
    texts = {f"c{n:04}": f"SELECT v + {n} AS sum FROM t WHERE id = ?" for n in range(CACHES)}
    store = StateStore(tmp_path / "state", parse_upstream(mysql.url).redacted)
    store._write({name: CacheDefinition(name, sql, database, BY_GRPC) for name, sql in texts.items()})
    with ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy._wait_listening()
        first = readiness(proxy)
        assert re.search(r"not ready: \d+ caches of the settings or of an earlier run are still to be planned", first)
        connection = pymysql.connect(
            host="127.0.0.1", port=proxy.mysql_port, user="root", database=database, autocommit=True
        )
        with connection, connection.cursor() as cursor:
            last = texts[f"c{CACHES - 1:04}"].replace("?", "1")
            cursor.execute(last)
            assert cursor.fetchall() == ((10 + CACHES - 1,),)
            proxy.wait_ready().close()
            served = ""
            while served != "hit":
                cursor.execute(last)
                assert cursor.fetchall() == ((10 + CACHES - 1,),)
                cursor.execute("EXPLAIN LAST STATEMENT")
                (row,) = cursor.fetchall()
                served = row[0]
        log = proxy.log.read_text()
        assert f"count={CACHES}" in log and "c0000, c0001, c0002, c0003, c0004 and 115 more" in log


def test_the_end_does_not_wait_for_plans(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    store = StateStore(tmp_path / "state", parse_upstream(mysql.url).redacted)
    texts = {f"c{n}": f"SELECT v + {n} AS sum FROM t WHERE id = ?" for n in range(CACHES)}
    store._write({name: CacheDefinition(name, sql, database, BY_GRPC) for name, sql in texts.items()})
    proxy = ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0)
    try:
        proxy._wait_listening()
    finally:
        assert proxy.stop() == 0
    assert "Traceback" not in proxy.log.read_text()
