"""The sample beside a MySQL and an Upwell that run already, as compose.yaml starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from examples.lobsters.proxy_process import ProxyProcess
from examples.lobsters.traffic import is_away, through_restarts
from integration.servers.private_mysql import ExistingServer, Server
from upwell.errors import NotPermitted, SourceError, Unavailable

ROOT = Path(__file__).resolve().parent.parent.parent
ACCOUNTS = ROOT / "examples/lobsters/accounts.sql"


def composed(own_mysql: Callable[..., Server]) -> tuple[ExistingServer, ExistingServer]:
    """A MySQL with the accounts that compose.yaml makes, as Upwell sees it and as the sample does."""
    server = own_mysql()
    statements = re.sub(r"^--.*", "", ACCOUNTS.read_text(), flags=re.M).split(";")
    server.execute(*(statement for statement in statements if statement.strip()))
    here = ExistingServer(server.host, server.port, database="lobsters")
    return replace(here, user="upwell", password="upwell"), replace(here, user="sample", password="sample")


@contextmanager
def sample_beside(upstream: Server, proxy: ProxyProcess) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"UPSTREAM": upstream.url, "UPWELL_GRPC": proxy.target, "SCALE": "tiny"}
    command = [sys.executable, "-m", "examples.lobsters.traffic"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as sample:
        try:
            yield sample
        finally:
            sample.terminate()


def test_sample_loads_creates_its_caches_and_outlives_a_restart(
    own_mysql: Callable[..., Server], tmp_path: Path
) -> None:
    upwells, samples = composed(own_mysql)
    with ProxyProcess(upwells.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0) as proxy:
        proxy.wait_ready().close()
        with sample_beside(samples, proxy) as sample:
            assert sample.stdout is not None
            loaded, caches = sample.stdout.readline(), sample.stdout.readline()
            assert loaded.startswith("loaded set tiny: ")
            assert int(caches.split()[0]) >= 50
            proxy.stop()
            assert sample.stdout.readline().startswith("waiting: ")
            port = proxy.grpc_port
            with ProxyProcess(upwells.url, tmp_path, grpc_port=port, http_port=0, mysql_port=0) as again:
                again.wait_ready().close()
                lines = iter(sample.stdout.readline, "")
                assert int(next(line for line in lines if "caches" in line).split()[0]) >= 50
                sample.terminate()
                assert sample.wait(60) == 0


def test_what_does_not_come_back_by_itself_is_not_waited_for() -> None:
    assert is_away(Unavailable("gone")) and is_away(SourceError("lost", errno=2013))
    assert is_away(pymysql.err.OperationalError(2006, "gone"))
    assert not is_away(pymysql.err.ProgrammingError(1146, "no such table")) and not is_away(NotPermitted("no"))

    def refused() -> None:
        raise NotPermitted("no")

    with pytest.raises(NotPermitted):
        through_restarts(refused, lambda seconds: None)


def test_each_reason_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    ends = iter([Unavailable("one"), Unavailable("one"), Unavailable("two")])

    def visits() -> None:
        for error in ends:
            raise error

    waited: list[float] = []
    through_restarts(visits, waited.append)
    assert capsys.readouterr().out == "waiting: one\nwaiting: two\n" and len(waited) == 3
