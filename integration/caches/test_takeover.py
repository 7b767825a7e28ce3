"""One `upwell serve` takes over from another: nobody is refused, nothing old is read, what is held stays held."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

import pymysql
import pytest

from examples.lobsters.proxy_process import ProxyFailed, ProxyProcess
from external_upquery.address import parse_upstream
from integration.servers.mysql_server import Server
from integration.support.visitors import (
    PREPARED,
    SHARED,
    SQL,
    GrpcVisitor,
    SqlVisitor,
    Visitor,
    Writer,
    made,
    more_visits,
    visiting,
)
from proxy.takeover.channel import SOCKET, connected, network
from proxy.takeover.protocol import LARGEST, Hello, encoded, encoded_hello
from upwell.client import Client
from upwell.errors import UpwellError

CLIENTS = 4
PATIENCE = 90.0  # seconds
LONG = "--takeover-drain=300s"


@pytest.fixture
def proxy(mysql: Server, database: str, tmp_path: Path) -> Iterator[ProxyProcess]:
    made(mysql, database, CLIENTS)
    options = ["--snapshot=5m", "--verify-new-caches=off", "--check-sample=off", "--check", LONG]
    url = f"{mysql.url}/{database}"
    with ProxyProcess(url, tmp_path, options=options, grpc_port=0, http_port=0, mysql_port=0) as process:
        with process.wait_ready() as client:
            client.create_cache(PREPARED, name="counter", database=database)
            held(client, range(CLIENTS + 1))
        yield process
    assert "Traceback" not in process.log.read_text()


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    pause, deadline = threading.Event(), monotonic() + seconds
    while not condition():
        assert monotonic() < deadline, "not in time"
        pause.wait(0.01)


def held(client: Client, keys: Iterable[int]) -> None:
    """Returns when they are hits."""
    for key in keys:
        until(partial(lambda key: client.cache("counter").get(key).served == "hit", key))


def session(proxy: ProxyProcess, database: str) -> pymysql.Connection:
    return pymysql.connect(host="127.0.0.1", port=proxy.mysql_port, user="root", database=database, autocommit=True)


def asked(connection: pymysql.Connection, *statements: str) -> object:
    """The first value of the last one's answer."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        rows = cursor.fetchall()
    return rows[0][0] if rows else None


@contextmanager
def starting(proxy: ProxyProcess, at: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that takes over, when the log says so much of it. In the end `proxy` is whichever serves."""
    before = proxy._process
    start = proxy.log.stat().st_size
    other = proxy._start({"grpc": proxy.grpc_port, "http": proxy.http_port, "mysql": proxy.mysql_port})
    until(lambda: at in proxy.log.read_bytes()[start:].decode())
    yield other
    if other.poll() is None:
        proxy._process = other
        assert before.wait(PATIENCE) == 0
    else:
        proxy._process = before


def said(proxy: ProxyProcess, what: str) -> int:
    return proxy.log.read_text().count(what)


def test_nobody_is_refused_and_nothing_old_is_read(proxy: ProxyProcess, mysql: Server, database: str) -> None:
    """Twice, while a writer writes and clients of both protocols connect over and over."""
    writer = Writer(mysql, database)
    clients: list[Visitor] = [SqlVisitor(proxy.mysql_port, database, 1 + n, writer) for n in range(CLIENTS)]
    clients.append(GrpcVisitor(proxy.target, writer, mysql))
    try:
        with visiting([writer, *clients]):
            for _ in range(2):
                more_visits(clients, 5)
                before = proxy.succeed()
                more_visits(clients, 5)
                assert before.wait(PATIENCE) == 0
                until(lambda: (proxy.log.parent / "state" / SOCKET).exists())
            with Client(proxy.target) as client:
                assert client.status().hits > 0
    except (AssertionError, ProxyFailed) as error:
        raise AssertionError(f"{error}\n{proxy.log.read_text()}") from error
    assert said(proxy, "handed_over") == 2


def test_what_is_held_stays_held(proxy: ProxyProcess, mysql: Server, database: str) -> None:
    mysql.execute(f"UPDATE `{database}`.counter SET n = id + 100")
    before = proxy.succeed()
    with proxy.wait_ready() as client:
        for key in range(CLIENTS + 1):
            answer = client.cache("counter").get(key)
            assert [tuple(row) for row in answer] == [(key + 100,)]
        assert client.status().hits >= CLIENTS
        assert client.status().counters["source_upqueries"] <= CLIENTS, "rows that have changed at most"
    assert before.wait(PATIENCE) == 0


def test_a_transaction_ends_where_it_began(proxy: ProxyProcess, database: str) -> None:
    with closing(session(proxy, database)) as early:
        asked(early, "BEGIN", "UPDATE counter SET n = 7 WHERE id = 1")
        before = proxy.succeed()
        with closing(session(proxy, database)) as late:
            assert asked(early, SQL.format(1)) == 7
            assert asked(late, SQL.format(1)) == 0
            asked(early, "COMMIT")
            until(lambda: asked(late, SQL.format(1)) == 7)
            assert asked(early, SQL.format(1)) == 7
            with pytest.raises(pymysql.err.MySQLError, match=rf"the process {proxy.pid} takes over from this proxy"):
                asked(early, "CREATE CACHE other FROM SELECT n FROM counter WHERE n = ?")
            asked(late, "CREATE CACHE other FROM SELECT n FROM counter WHERE n = ?")
            asked(late, "DROP CACHE other")
        assert before.poll() is None, "it serves as long as it has a session"
    assert before.wait(PATIENCE) == 0


def test_a_session_that_stays_is_ended_after_a_while(proxy: ProxyProcess, database: str) -> None:
    with closing(session(proxy, database)) as early:
        asked(early, "SET UPWELL `takeover-drain` = '1s'")
        before = proxy.succeed()
        assert before.wait(PATIENCE) == 0
        with pytest.raises(pymysql.err.MySQLError):
            asked(early, "DO 0")


def test_what_no_binlog_tells_is_forgotten_by_both(proxy: ProxyProcess, database: str) -> None:
    with closing(session(proxy, database)) as early:
        asked(early, "SET sql_log_bin = 0")
        before = proxy.succeed()
        with closing(session(proxy, database)) as late:
            until(lambda: proxy.wait_ready().cache("counter").get(1).served == "hit")
            asked(early, "UPDATE counter SET n = 55 WHERE id = 1")
            until(lambda: asked(late, SQL.format(1)) == 55)
    assert before.wait(PATIENCE) == 0


def test_the_one_before_forgets_what_the_new_one_knows(proxy: ProxyProcess, database: str) -> None:
    """Also through one in the middle, which has nothing else to do any more."""
    with closing(session(proxy, database)) as early:
        assert asked(early, SQL.format(1)) == 0
        chain = [proxy.succeed()]
        for n in (56, 57):
            with closing(session(proxy, database)) as late:
                asked(late, "SET sql_log_bin = 0")
                asked(late, f"UPDATE counter SET n = {n} WHERE id = 1")
                until(lambda n=n: asked(early, SQL.format(1)) == n, 10)  # type: ignore[misc]
            if len(chain) == 1:
                until(lambda: (proxy.log.parent / "state" / SOCKET).exists() and said(proxy, "taken_over"))
                chain.append(proxy.succeed())
        assert [before.poll() for before in chain] == [None, None], "one that serves, and one that it hears through"
    assert [before.wait(PATIENCE) for before in chain] == [0, 0]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_when_the_new_one_ends_the_old_one_does_so_soon(
    end: signal.Signals, proxy: ProxyProcess, database: str
) -> None:
    """Else nobody could start in this directory for as long as a drain may last."""
    with closing(session(proxy, database)) as early:
        assert asked(early, SQL.format(1)) == 0
        before = proxy.succeed()
        os.kill(proxy.pid, end)
        proxy._process.wait(PATIENCE)
        assert before.wait(PATIENCE) == 0, "not after the five minutes of its drain"
    proxy.again()
    with closing(session(proxy, database)) as late:
        assert asked(late, SQL.format(1)) == 0


@pytest.mark.parametrize("at", ["handing_over", "listening"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_one_that_ends_before_it_is_ready_changes_nothing(
    at: str, end: signal.Signals, proxy: ProxyProcess, database: str
) -> None:
    serving = proxy.pid
    with closing(session(proxy, database)) as early:
        with starting(proxy, at) as other:
            os.kill(other.pid, end)
            other.wait(PATIENCE)
        if "taken_over" not in proxy.log.read_text():
            until(lambda: said(proxy, "not_handed_over"))
            assert proxy.pid == serving
            with closing(session(proxy, database)) as late:
                asked(late, "CREATE CACHE other FROM SELECT n FROM counter WHERE n = ?")
                assert asked(early, SQL.format(1)) == asked(late, SQL.format(1)) == 0
    before = proxy.succeed()
    assert before.wait(PATIENCE) == 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
@pytest.mark.parametrize("at", ["handing_over", "listening"])
def test_the_old_one_ends_in_the_middle(at: str, end: signal.Signals, proxy: ProxyProcess, database: str) -> None:
    before = proxy._process
    other = proxy._start({"grpc": proxy.grpc_port, "http": proxy.http_port, "mysql": proxy.mysql_port})
    start = proxy._log_start
    until(lambda: at in proxy.log.read_bytes()[start:].decode())
    os.kill(before.pid, end)
    proxy._process = other
    before.wait(PATIENCE)
    with proxy.wait_ready() as client, closing(session(proxy, database)) as late:
        assert asked(late, SQL.format(1)) == 0
        until(lambda: client.cache("counter").get(1).served == "hit")
        asked(late, "CREATE CACHE other FROM SELECT n FROM counter WHERE n = ?")
    assert proxy.succeed().wait(PATIENCE) == 0


def refused(proxy: ProxyProcess, mysql: Server, *options: str, **environment: str) -> str:
    """What an `upwell serve` says that cannot take over: one line."""
    ran = subprocess.run(
        [sys.executable, "-m", "upwell", "serve", f"--upstream={mysql.url}",
         f"--state-dir={proxy.log.parent / 'state'}",
         f"--mysql-listen=127.0.0.1:{proxy.mysql_port}", f"--grpc-listen=127.0.0.1:{proxy.grpc_port}",
         f"--http-listen=127.0.0.1:{proxy.http_port}", *options],
        capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **environment},
    )  # fmt: skip
    lines = [line for line in ran.stderr.splitlines() if not re.search(r"taking_over|following the binlog", line)]
    assert ran.returncode == 2 and len(lines) == 1, ran
    return lines[0]


def test_who_cannot_take_over_is_told_why(proxy: ProxyProcess, mysql: Server) -> None:
    own = rf"is in use by the process {proxy.pid}, which serves .*; it does not hand over to this one: "
    other = refused(proxy, mysql, "--upstream=mysql://root@127.0.0.1:1")
    assert re.search(own + r"it serves mysql://.*, and this one mysql://root@127.0.0.1:1", other)
    port = refused(proxy, mysql, f"--upstream={proxy._upstream}", "--mysql-listen=127.0.0.1:1")
    assert re.search(own + rf"its mysql-listen is 127.0.0.1:{proxy.mysql_port}, and this one's 127.0.0.1:1$", port)
    (proxy.log.parent / "state" / SOCKET).unlink()
    old = refused(proxy, mysql, f"--upstream={proxy._upstream}")
    assert re.search(rf"is in use by the process {proxy.pid}, .*: give each proxy a directory of its own$", old)


def test_one_with_another_state_directory_does_not_share_the_port_of_grpc(
    proxy: ProxyProcess, mysql: Server, tmp_path: Path
) -> None:
    elsewhere = f"--state-dir={tmp_path / 'elsewhere'}"
    assert "cannot listen for gRPC" in refused(proxy, mysql, elsewhere, "--mysql-listen=127.0.0.1:0")


def test_bad_words_harm_nobody(proxy: ProxyProcess, database: str) -> None:
    folder = proxy.log.parent / "state"
    silent = [connected(folder) for _ in range(3)]
    for said_ in (b"\0\xff", b"[]", b"{}", encoded("hello"), encoded("ready"), b"[" * 60_000, b"x" * LARGEST):
        channel = connected(folder)
        channel.tell(said_)
        channel._socket.setblocking(True)
        assert b"it has not understood" in channel._socket.recv(LARGEST)
        channel.close()
    with closing(session(proxy, database)) as late:
        assert asked(late, SQL.format(SHARED)) == 0
    before = proxy.succeed()
    for channel in silent:
        channel.close()
    assert before.wait(PATIENCE) == 0


def test_one_takes_over_at_a_time(proxy: ProxyProcess) -> None:
    """The other is told so, also where the one stands still."""
    with starting(proxy, "following the binlog") as one:
        os.kill(one.pid, signal.SIGSTOP)
        if "handed_over" not in proxy.log.read_text():
            with pytest.raises(ProxyFailed, match="it hands over to another process already"):
                proxy.succeed()
        os.kill(one.pid, signal.SIGCONT)
        until(lambda: said(proxy, "taken_over"))


def test_under_a_service_manager_it_is_that_which_restarts(mysql: Server, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        with ProxyProcess(mysql.url, tmp_path, grpc_port=0, http_port=0, mysql_port=0, environment=environment) as one:
            one.wait_ready().close()
            told = refused(one, mysql)
            assert told.endswith("to this one: a service manager watches over it, and restarts it (systemctl restart)")


def test_a_cache_that_is_made_over_grpc_meanwhile_is_refused_without_a_trace(
    proxy: ProxyProcess, database: str
) -> None:
    """`proxy` fails for a traceback."""
    with starting(proxy, "handing_over") as other, Client(proxy.target) as client:
        os.kill(other.pid, signal.SIGSTOP)

        def is_refused() -> bool:
            try:
                client.create_cache("SELECT n FROM counter WHERE n = ?", name="other", database=database)
                client.drop_cache("other")
            except UpwellError as error:
                return error.reason == "taken_over"
            return False

        if "handed_over" not in proxy.log.read_text():
            until(is_refused)
        os.kill(other.pid, signal.SIGCONT)
        until(lambda: said(proxy, "taken_over"))


def test_takeovers_that_fail_leave_nothing_open(proxy: ProxyProcess, database: str) -> None:
    """Ten each, before the other is ready and after; and clients are accepted all the while."""
    folder = proxy.log.parent / "state"
    ports = {"mysql-listen": proxy.mysql_port, "grpc-listen": proxy.grpc_port, "http-listen": proxy.http_port}
    at = {name: ("127.0.0.1", port) for name, port in ports.items()}
    asks = Hello(os.getpid(), parse_upstream(proxy._upstream).redacted, network(), at)

    async def failing(says: Sequence[str]) -> None:
        channel = connected(folder)
        channel.tell(encoded_hello(asks))
        message = await channel.read()
        assert message is not None and message.word == "take", message
        for word in says:
            channel.tell(encoded(word))
            message = await channel.read()
            assert message is not None and message.word == "yours", message
        channel.close()

    def files() -> int:
        return len(os.listdir(f"/proc/{proxy.pid}/fd"))

    def fails(count: int) -> None:
        before = said(proxy, "not_handed_over")
        for _ in range(count):
            for says in ((), ("ready",)):
                asyncio.run(failing(says))
                before += 1
                until(lambda least=before: said(proxy, "not_handed_over") >= least)  # type: ignore[misc]
        with closing(session(proxy, database)) as late:
            assert asked(late, SQL.format(1)) == 0

    fails(1)
    open_before = files()
    fails(10)
    until(lambda: files() <= open_before)
    assert proxy.succeed().wait(PATIENCE) == 0
