"""What the doctor calls an error `serve` does not pass over: at its start, and where the source comes back changed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.lobsters.proxy_process import ROOT, ProxyProcess
from integration.servers.private_mysql import PrivateMySQL, Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from upwell.errors import SourceDown, UpwellError

OwnMySQL = Callable[..., Server]
TABLE = ("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)", "INSERT INTO shop.t VALUES (1, 10)")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--binlog-ignore-db=shop",), "Binlog_Ignore_DB=shop (no filter: remove binlog-do-db and binlog-ignore-db"),
        (("--gtid-mode=OFF", "--skip-log-bin"), "log_bin=OFF (log_bin=ON: remove skip-log-bin"),
    ],
    ids=["filtered", "no binlog"],
)
def test_it_does_not_start_where_changes_would_be_missing(
    own_mysql: OwnMySQL, tmp_path: Path, flags: tuple[str, ...], told: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "upwell", "serve", "--grpc-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0",
         "--mysql-listen=127.0.0.1:0", f"--state-dir={tmp_path}"],
        cwd=ROOT, env={**os.environ, "UPWELL_UPSTREAM": own_mysql(*flags).url}, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert told in ran.stderr


def test_a_source_whose_every_write_empties_its_keys_is_told_of_loudly(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql("--binlog-row-image=MINIMAL", "--binlog-format=STATEMENT")
    with ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        log = proxy.log.read_text()
        for setting in ("binlog_row_image = FULL", "binlog_format = ROW"):
            assert f"SET PERSIST {setting}" in log


def test_a_source_that_comes_back_with_a_filter_gives_no_hits_until_it_is_gone(
    own_mysql: OwnMySQL, tmp_path: Path
) -> None:
    mysql = own_mysql()
    assert isinstance(mysql, PrivateMySQL)
    mysql.execute(*TABLE)

    async def restarted(*flags: str) -> None:
        await asyncio.to_thread(mysql.halt_at_once)
        mysql.flags = flags
        await asyncio.to_thread(mysql.start)

    async def refused(proxy: Proxy) -> None:
        while True:
            try:
                await proxy.client.cache("by_id").get(1, timeout=5)
            except SourceDown as error:
                if "Binlog_Ignore_DB=shop" in str(error):
                    return
            except UpwellError:
                pass

    async def scenario() -> None:
        async with proxy_beside(mysql, "shop", tmp_path) as proxy:
            await proxy.client.create_cache("SELECT v FROM t WHERE id = ?", name="by_id", database="shop")
            cache = proxy.client.cache("by_id")
            while (await cache.get(1)).served != "hit":
                pass
            await restarted("--binlog-ignore-db=shop")
            await refused(proxy)
            await proxy.write("UPDATE t SET v = 11 WHERE id = 1")  # which no binlog will ever have
            assert proxy.app.system.not_ready()
            await restarted()
            while proxy.app.system.not_ready():
                await asyncio.to_thread(lambda: None)
            assert await cache.get(1) == [(11,)]

    run(scenario)
