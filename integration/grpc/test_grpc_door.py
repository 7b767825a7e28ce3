"""gRPC is no door for strangers: on loopback, too, a caller shows the token that only the proxy's user can read."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from examples.lobsters.proxy_process import ROOT, ProxyProcess
from integration.servers.mysql_server import Server
from upwell import aio, errors
from upwell.client import Client
from upwell.token_file import token_path

TABLE = ("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)")
QUERY = "SELECT v FROM t WHERE id = ?"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's state directory of the test's own; the proxy's own folder is another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("UPWELL_STATE_DIR", raising=False)
    return tmp_path / "home" / "upwell"


def started(mysql: Server, folder: Path, *options: str) -> ProxyProcess:
    return ProxyProcess(mysql.url, folder, options=options, grpc_port=0, http_port=0, mysql_port=0)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_another_user_gets_nothing_and_is_told_why(
    mysql: Server, database: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql.execute(f"USE `{database}`", *TABLE)
    with started(mysql, tmp_path) as proxy, proxy.wait_ready() as own:
        own.create_cache(QUERY, name="by_id", database=database)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))  # what another user's home is
        with Client(proxy.target) as stranger:
            for call in (
                lambda: stranger.query(f"SELECT v FROM `{database}`.t"),
                lambda: stranger.create_cache(QUERY, database=database),
                lambda: stranger.cache("by_id").get(1),
                lambda: stranger.cache("by_id").get_many([1, 2]),
                lambda: list(stranger.cache("by_id").stream([1])),
                lambda: next(stranger.cache("by_id").subscribe(1)),
                lambda: stranger.drop_cache("by_id"),
                stranger.caches,
                stranger.status,
            ):
                with pytest.raises(errors.Unauthenticated, match="no token: it is in ") as refused:
                    call()
        # The file that the message names has it.
        named = str(refused.value).partition("it is in ")[2].partition(", which the proxy's user can read")[0]
        with Client(proxy.target, token=Path(named).read_text().strip()) as friend:
            friend.status()
        wrong = pytest.raises(errors.Unauthenticated, match="the token is not this proxy's")
        with Client(proxy.target, token="guess") as stranger, wrong:
            stranger.status()
        ran = upwell("cache", "ls", "--grpc", proxy.target)
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
        assert "(unauthenticated)" in ran.stderr


def test_the_users_own_clients_find_the_token_and_nobody_else_can_read_it(
    mysql: Server, database: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql.execute(f"USE `{database}`", *TABLE)
    with started(mysql, tmp_path) as proxy:
        with proxy.wait_ready() as client:
            client.create_cache(QUERY, name="by_id", database=database)
            assert client.cache("by_id").get(1) == [(10,)]
        assert asyncio.run(of_asyncio(proxy.target))
        places = [token_path(folder, proxy.grpc_port) for folder in (home, tmp_path / "state")]
        for place in places:
            assert (mode(place), mode(place.parent)) == (0o600, 0o700)
            if os.geteuid() == 0:
                assert not readable_by_nobody(place)
        assert "by_id" in upwell("cache", "ls", "--grpc", proxy.target).stdout
        # The proxy's own state directory will do, too.
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("UPWELL_STATE_DIR", str(tmp_path / "state"))
        assert "by_id" in upwell("cache", "ls", "--grpc", proxy.target).stdout
    assert not any(place.exists() for place in places), "what a stopped proxy leaves would be told to whoever follows"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda end: str(end.name))
def test_a_client_outlives_a_restart_of_its_proxy(
    mysql: Server, tmp_path: Path, home: Path, end: signal.Signals
) -> None:
    with started(mysql, tmp_path) as proxy, proxy.wait_ready() as client:
        port = proxy.grpc_port
        left = token_path(home, port)
        old = left.read_text()
        os.kill(proxy.pid, end)
        assert proxy.wait(30) is not None
        assert left.exists() is (end is signal.SIGKILL)
        with pytest.raises(errors.Unavailable, match=f"no proxy answers at 127.0.0.1:{port}"):
            client.status()
        again = ProxyProcess(mysql.url, tmp_path, grpc_port=port, http_port=0, mysql_port=0)
        with again, again.wait_ready():
            assert again.grpc_port == port
            assert client.status().source_up
            assert left.read_text() != old and mode(left) == 0o600


def test_without_a_place_for_the_token_it_serves_and_says_so(
    mysql: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc")  # where nobody can make a folder, root neither
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "grpc").touch()  # in the place of the tokens' folder
    proxy = started(mysql, tmp_path, f"--state-dir={tmp_path / 'state'}")
    with proxy:
        proxy._wait_listening()
        with Client(proxy.target) as client, pytest.raises(errors.Unauthenticated):
            client.status()
        assert "nobody can call gRPC: give --grpc-token-file or --state-dir" in proxy.log.read_text()


@pytest.mark.parametrize("options", [("--grpc-insecure",), ("--grpc-token-file=TOKEN",)], ids=["opened", "own token"])
def test_what_the_settings_say_goes_before(mysql: Server, tmp_path: Path, home: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "token").write_text("for everybody here\n")
    given = [option.replace("TOKEN", str(tmp_path / "token")) for option in options]
    proxy = started(mysql, tmp_path, *given)
    with proxy:
        proxy._wait_listening()
        assert not (home / "grpc").exists()
        with Client(proxy.target, token="for everybody here") as client:
            assert client.status().source_up
        if "--grpc-insecure" in options:
            with Client(proxy.target) as client:
                assert client.status().source_up
        else:
            with Client(proxy.target) as client, pytest.raises(errors.Unauthenticated):
                client.status()
            ran = upwell("cache", "ls", "--grpc", proxy.target, "--token-file", str(tmp_path / "token"))
            assert ran.returncode == 0, ran.stderr


def test_callers_can_be_kept_to_the_caches_that_exist(mysql: Server, database: str, tmp_path: Path, home: Path) -> None:
    mysql.execute(f"USE `{database}`", *TABLE)
    settings = tmp_path / "upwell.toml"
    settings.write_text(f'[[cache]]\nname = "by_id"\nsql = "{QUERY}"\ndatabase = "{database}"\n')
    with started(mysql, tmp_path, "--grpc-query=off", f"--config={settings}") as proxy, proxy.wait_ready() as client:
        assert client.cache("by_id").get(2) == [(20,)]
        assert client.explain("by_id").text
        for call in (
            lambda: client.query("SELECT 1"),
            lambda: client.create_cache("SELECT COUNT(*) FROM t", database=database),
            lambda: client.explain(sql="SELECT COUNT(*) FROM t", database=database),
            lambda: client.drop_cache("by_id"),
        ):
            with pytest.raises(errors.NotPermitted, match="--grpc-query=off"):
                call()


async def of_asyncio(target: str) -> bool:
    async with aio.Client(target) as client:
        return (await client.status()).source_up


def readable_by_nobody(path: Path) -> bool:
    ran = subprocess.run(["cat", str(path)], user=65534, group=65534, capture_output=True, check=False)
    return ran.returncode == 0


def upwell(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "upwell", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
