"""The connection itself: pipelining, large packets and answers, TLS, logins, the pinned session."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import uvloop

from external_upquery.address import Upstream, parse_upstream
from external_upquery.connection import CHUNK, Connection, open_connection
from external_upquery.login import PINNED, log_in
from external_upquery.protocol import Answer, Answers, Done, ResultSet
from integration.servers.private_mysql import Server
from integration.support.certificates import certificate
from sqltypes.errors import ConfigError, SourceDown, SourceError
from sqltypes.expression import Row

T = TypeVar("T")
BOTH_WAYS = pytest.mark.parametrize("tls", ["disabled", "required"])
MEGABYTE = 1 << 20


def connected(upstream: Upstream, body: Callable[[Connection], Awaitable[T]], loop: str = "uvloop") -> T:
    async def whole() -> T:
        connection = await open_connection(partial(log_in, upstream))
        try:
            return await asyncio.wait_for(body(connection), 120)
        finally:
            connection.close()

    return uvloop.run(whole()) if loop == "uvloop" else asyncio.run(whole())


def source(server: Server, tls: str = "disabled") -> Upstream:
    return replace(parse_upstream(server.url), tls=tls)


def rows(answer: Answer) -> list[Row]:
    assert isinstance(answer, ResultSet), answer
    return answer.rows


@BOTH_WAYS
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_failing_statement_does_not_stop_the_ones_behind_it(mysql: Server, tls: str, loop: str) -> None:
    async def body(connection: Connection) -> None:
        first, second, third, fourth = await connection.submit([b"SELECT 1", b"SELECT nothing", b"DO 1", b"SELECT 2"])
        assert rows(first) == [(1,)]
        assert isinstance(second, SourceError) and second.errno == 1054
        assert isinstance(third, Done)
        assert rows(fourth) == [(2,)]
        assert connection.encrypted == (tls == "required")

    connected(source(mysql, tls), body, loop)


@BOTH_WAYS
def test_thousand_statements_in_one_piece(mysql: Server, tls: str) -> None:
    async def body(connection: Connection) -> None:
        answers = await connection.submit([f"SELECT {number}, REPEAT('x', 1000)".encode() for number in range(1000)])
        assert [rows(answer)[0][0] for answer in answers] == list(range(1000))

    connected(source(mysql, tls), body)


@BOTH_WAYS
def test_large_answer_leaves_the_loop_its_turns(mysql: Server, tls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fed, feed = [0], Answers.feed

    def counted(answers: Answers, data: bytes) -> list[Answer]:
        fed[-1] += 1
        return feed(answers, data)

    monkeypatch.setattr(Answers, "feed", counted)
    monkeypatch.setattr("external_upquery.connection.SLICE", 0.0)  # a look at the clock is its end
    count = 300_000
    sql = (
        f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1})"
        " SELECT /*+ SET_VAR(cte_max_recursion_depth=1000000) */ i, REPEAT(CHAR(97 + i % 26 USING utf8mb4), 95) FROM n"
    )

    async def body(connection: Connection) -> None:
        future = connection.submit([sql.encode()])
        loop = asyncio.get_running_loop()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            fed.append(0)
            if not future.done():
                loop.call_soon(turn)

        turn()
        found = rows((await future)[0])
        assert len(found) == count
        assert found[-1] == (count - 1, chr(97 + (count - 1) % 26) * 95)
        # Thirty megabytes, of which each turn takes one piece, or a larger one where a packet is incomplete.
        assert turns > 50 * count / CHUNK
        assert max(fed) == 1

    connected(source(mysql, tls), body)


@BOTH_WAYS
def test_packets_over_sixteen_megabytes_in_both_directions(mysql: Server, tls: str) -> None:
    text = "é" * (17 * MEGABYTE // 2)

    async def body(connection: Connection) -> None:
        sent, received, after = await connection.submit(
            [f"SELECT LENGTH('{text}')".encode(), b"SELECT 1, REPEAT('b', 17*1024*1024), 2", b"SELECT 3"]
        )
        assert rows(sent) == [(17 * MEGABYTE,)]
        assert rows(received) == [(1, "b" * (17 * MEGABYTE), 2)]
        assert rows(after) == [(3,)]

    connected(source(mysql, tls), body)


def test_connection_lost_in_the_middle_fails_its_run_and_tells_its_owner(mysql: Server) -> None:
    async def body(connection: Connection) -> None:
        future = connection.submit([b"SELECT 1", b"DO SLEEP(1000)"])
        await asyncio.to_thread(mysql.execute, f"KILL {connection.thread_id}")
        try:
            answers = await future
        except SourceDown:
            assert not connection.alive
        else:
            # The source may say so first, then the line ends.
            assert isinstance(answers[1], SourceError)

    connected(source(mysql), body)


def test_session_is_pinned_whatever_the_server_defaults_to(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql(
        "--sql-mode=ANSI_QUOTES,PIPES_AS_CONCAT",
        "--default-time-zone=+05:00",
        "--transaction-isolation=READ-COMMITTED",
        "--div-precision-increment=9",
        "--group-concat-max-len=8",
        "--autocommit=0",
        "--completion-type=CHAIN",
        "--character-set-server=latin1",
        "--lc-time-names=de_DE",
        "--max-execution-time=1000",
    )

    async def body(connection: Connection) -> None:
        (variables,) = await connection.submit([b"SHOW SESSION VARIABLES"])
        found = {str(name): str(value) for name, value in rows(variables)}
        wanted = {name: value.strip("'") for name, value in PINNED.items()}
        switches = {"0": "OFF", "1": "ON"}
        for name, value in wanted.items():
            assert found[name] in (value, switches.get(value)), name
        for name in ("character_set_client", "character_set_connection", "character_set_results"):
            assert found[name] == "utf8mb4"

    connected(source(server), body)


@pytest.mark.parametrize("password", ["", "plain", "pä$$wörd/:@#?日本"])
@BOTH_WAYS
def test_login_with_any_password(mysql: Server, password: str, tls: str) -> None:
    user = f"login_{abs(hash((password, tls))) % 10**9}"
    mysql.execute(f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'")
    try:

        async def body(connection: Connection) -> None:
            (answer,) = await connection.submit([b"SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)"])
            assert rows(answer) == [(user,)]

        connected(replace(source(mysql, tls), user=user, password=password), body)
    finally:
        mysql.execute(f"DROP USER {user}@'%'")


def test_login_by_unix_socket(mysql: Server) -> None:
    path = str(mysql.execute("SELECT @@socket")[0][0])
    if not Path(path).is_socket():
        return  # the server runs in another file system

    async def body(connection: Connection) -> None:
        (answer,) = await connection.submit([b"SELECT SUBSTRING_INDEX(USER(), '@', -1)"])
        assert rows(answer) == [("localhost",)]

    connected(replace(source(mysql), host="nowhere.invalid", unix_socket=path), body)


def test_connection_that_was_idle_for_too_long_is_noticed(mysql: Server) -> None:
    async def body(connection: Connection) -> None:
        await connection.submit([b"SET wait_timeout = 1"])
        lost = asyncio.get_running_loop().create_future()
        connection.on_lost = lambda which: lost.set_result(None)
        await lost
        assert not connection.alive

    connected(source(mysql), body)


def test_certificate_is_verified_where_that_is_asked_for(own_mysql: Callable[..., Server], tmp_path: Path) -> None:
    certificate(tmp_path)
    server = own_mysql(f"--ssl-cert={tmp_path}/cert.pem", f"--ssl-key={tmp_path}/key.pem")
    verified = replace(source(server, "verify"), ca=str(tmp_path / "cert.pem"))

    async def body(connection: Connection) -> bool:
        return connection.encrypted

    assert connected(verified, body)
    with pytest.raises(SourceDown, match="certificate verify failed"):
        connected(source(server, "verify"), body)
    with pytest.raises(SourceDown, match="localhost"):
        connected(replace(verified, host="localhost"), body)


def test_source_without_tls_is_refused_only_where_tls_is_required(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql("--tls-version=")

    async def body(connection: Connection) -> bool:
        return connection.encrypted

    assert not connected(source(server, "preferred"), body)
    for tls in ("required", "verify"):
        with pytest.raises((SourceDown, ConfigError), match=r"SSL|TLS"):
            connected(source(server, tls), body)
