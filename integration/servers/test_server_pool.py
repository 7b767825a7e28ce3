"""A server that is lent again is as it was at birth, whatever the test before has done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from integration.servers.mysql_server import OTHERS, PrivateMySQL, Server
from integration.servers.private_mysql import find_mysql
from integration.servers.server_pool import TRIES, ServerPool


@pytest.fixture(scope="module")
def pool() -> Iterator[ServerPool]:
    with closing(ServerPool(lambda flags: find_mysql(extra_flags=flags, report=lambda line: None), idle=1)) as made:
        yield made
        made.check_invariants()


def seen(server: Server) -> list[object]:
    """What a test can see of a server; neither its counters nor its connections: one that is closed lives on for a
    moment."""
    asked = (
        "SHOW DATABASES",
        "SELECT user, host, plugin, account_locked, max_user_connections FROM mysql.user ORDER BY 1, 2",
        "SHOW GRANTS",
        "SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged",
        "SHOW BINARY LOGS",
        "SELECT * FROM mysql.role_edges",
        "SHOW GLOBAL VARIABLES WHERE variable_name <> 'timestamp'",
    )
    return [server.execute(statement) for statement in asked]


def alone(server: Server) -> bool:
    """Whether all connections of before end."""
    return any(not server.execute("DO SLEEP(0.01)", OTHERS) for _ in range(TRIES))


def leave_everything_behind(server: PrivateMySQL) -> None:
    server.execute(
        "CREATE DATABASE `left ``behind`",
        "CREATE TABLE `left ``behind`.t (id INT PRIMARY KEY)",
        "INSERT INTO `left ``behind`.t VALUES (1)",
        "CREATE USER 'it''s'@'10.0.0.%' IDENTIFIED BY 'x'",
        "CREATE ROLE r",
        "GRANT r TO 'it''s'@'10.0.0.%'",
        "SET GLOBAL binlog_format = STATEMENT",
        "SET GLOBAL group_concat_max_len = 7",
        "SET GLOBAL sql_mode = ''",
        "SET GLOBAL time_zone = '+03:00'",
        "SET GLOBAL mandatory_roles = 'r'",
        "SET PERSIST max_connections = 77",
        "FLUSH BINARY LOGS",
        "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY",
    )


def test_what_a_test_has_changed_is_as_at_birth(pool: ServerPool) -> None:
    server = pool.lend()
    assert isinstance(server, PrivateMySQL)
    before = seen(server)
    leave_everything_behind(server)
    with server.connect() as held:
        held.query("FLUSH TABLES WITH READ LOCK")
        assert seen(server) != before
        pool.take_back(server)
        pool.check_invariants()
        again = pool.lend()
        assert again is server
        assert alone(again), "the lock's connection too has ended"
        assert seen(again) == before
    pool.take_back(again)


def restarted(server: PrivateMySQL) -> None:
    server.restart()


def killed(server: PrivateMySQL) -> None:
    server.kill()


def less_right(server: PrivateMySQL) -> None:
    server.execute("REVOKE FILE ON *.* FROM root@localhost")


def a_function_of_the_name(server: PrivateMySQL) -> None:
    server.execute("INSERT INTO mysql.func (name, ret, dl, type) VALUES ('f', 0, 'none.so', 'function')")


@pytest.mark.parametrize("harm", [restarted, killed, less_right, a_function_of_the_name])
def test_what_cannot_be_set_back_ends_the_server(pool: ServerPool, harm: Callable[[PrivateMySQL], None]) -> None:
    server = pool.lend()
    assert isinstance(server, PrivateMySQL)
    harm(server)
    pool.take_back(server)
    assert server.pid is None and not server.folder.exists()
    pool.check_invariants()


def test_other_flags_are_another_server(pool: ServerPool) -> None:
    first = pool.lend(("--max-connections=31",))
    second = pool.lend(("--max-connections=32",))
    assert first.execute("SELECT @@max_connections") != second.execute("SELECT @@max_connections")
    third = pool.lend(("--max-connections=31",))
    assert third is not first, "one that is lent is not lent twice"
    for server in (first, second, third):
        pool.take_back(server)
    pool.check_invariants()
    assert pool.lend(("--max-connections=31",)) is third
    pool.take_back(third)
