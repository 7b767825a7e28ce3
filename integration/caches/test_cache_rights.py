"""Who knows of which caches, who drops them, and how many there may be: over MySQL's protocol, with real accounts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.mysql_server import Server
from upwell import errors
from upwell.client import Client

TABLES = (
    "CREATE TABLE stories (id INT PRIMARY KEY, title VARCHAR(20))",
    "CREATE TABLE salaries (id INT PRIMARY KEY, pay INT)",
    "INSERT INTO stories VALUES (1, 'one')",
)
As = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def accounts(mysql: Server, database: str) -> Iterator[tuple[str, str]]:
    """One that may read `stories`, and one that may read everything of the database."""
    names = f"clerk{os.getpid()}", f"chief{os.getpid()}"
    mysql.execute(f"USE `{database}`", *TABLES)
    for name, what in zip(names, ("stories", "*"), strict=True):
        mysql.execute(f"CREATE USER '{name}'@'%'", f"GRANT SELECT ON `{database}`.{what} TO '{name}'@'%'")
    yield names
    mysql.execute(*(f"DROP USER '{name}'@'%'" for name in names))


def asked(proxy: ProxyProcess, user: str, database: str, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of the last of these statements."""
    connection = pymysql.connect(host="127.0.0.1", port=proxy.mysql_port, user=user, database=database)
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def started(mysql: Server, folder: Path, *options: str) -> ProxyProcess:
    return ProxyProcess(mysql.url, folder, options=options, grpc_port=0, http_port=0, mysql_port=0)


def names(rows: list[tuple[Any, ...]]) -> list[str]:
    return [row[0] for row in rows]


def test_who_knows_of_a_cache_and_who_drops_it(
    mysql: Server, database: str, tmp_path: Path, accounts: tuple[str, str]
) -> None:
    clerk, chief = accounts
    with started(mysql, tmp_path) as proxy, proxy.wait_ready() as client:
        client.create_cache("SELECT title FROM stories WHERE id = ?", name="by_grpc", database=database)
        asked(proxy, chief, database, "CREATE CACHE pay FROM SELECT pay FROM salaries WHERE id = ?")
        asked(proxy, clerk, database, "CREATE CACHE own FROM SELECT id FROM stories WHERE title = ?")
        assert names(asked(proxy, clerk, database, "SHOW CACHES")) == ["by_grpc", "own"]
        assert names(asked(proxy, clerk, "", "SHOW CACHES")) == ["by_grpc", "own"], "without a database, too"
        assert names(asked(proxy, chief, database, "SHOW CACHES")) == ["by_grpc", "pay", "own"]
        assert names(asked(proxy, "root", database, "SHOW CACHES")) == ["by_grpc", "pay", "own"]
        mysql.execute(f"REVOKE SELECT ON `{database}`.stories FROM '{clerk}'@'%'")
        # What is refused in one session is refused in the next: MySQL itself is asked.
        mysql.execute(f"GRANT INSERT ON `{database}`.stories TO '{clerk}'@'%'")
        assert names(asked(proxy, clerk, database, "SHOW CACHES")) == ["own"]
        for name in ("pay", "by_grpc", "nothing"):
            with pytest.raises(pymysql.OperationalError) as failed:
                asked(proxy, clerk, database, f"DROP CACHE {name}")
            assert failed.value.args[0] == 1227
        asked(proxy, clerk, database, "DROP CACHE own")
        asked(proxy, "root", database, "DROP CACHE pay")
        assert names(asked(proxy, "root", database, "SHOW CACHES")) == ["by_grpc"]
        (source,) = asked(proxy, clerk, database, "SHOW UPWELL STATUS LIKE 'source'")
        assert source[1].startswith("mysql://127.0.0.1:")
        (uuid,) = asked(proxy, clerk, database, "SHOW UPWELL STATUS LIKE 'server_uuid'")
        assert uuid[1] == mysql.execute("SELECT @@server_uuid")[0][0] == client.status().server_uuid


def test_there_are_no_more_caches_than_accepted(
    mysql: Server, database: str, tmp_path: Path, accounts: tuple[str, str]
) -> None:
    clerk, chief = accounts
    create = "CREATE CACHE FROM SELECT {} FROM stories WHERE id = ?"
    with started(mysql, tmp_path, "--max-caches-per-account=2", "--max-caches=4") as proxy, proxy.wait_ready():
        asked(proxy, clerk, database, create.format(1), create.format(2))
        with pytest.raises(pymysql.MySQLError, match="max-caches-per-account") as failed:
            asked(proxy, clerk, database, create.format(3))
        assert failed.value.args[0] == 1203
        asked(proxy, clerk, database, create.format(2))  # what there is already is no more
        asked(proxy, clerk, database, "DROP CACHE q1", create.format(3))
        asked(proxy, "root", database, create.format(4), create.format(5))
        for user in (chief, "root"):
            with pytest.raises(pymysql.MySQLError, match="as many as --max-caches accepts"):
                asked(proxy, user, database, create.format(6))
        with Client(proxy.target) as client, pytest.raises(errors.Overloaded):
            client.create_cache("SELECT 7 FROM stories WHERE id = ?", database=database)


def test_a_cache_that_cannot_be_kept_is_not_made(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", *TABLES)
    folder = tmp_path / "state"
    with started(mysql, tmp_path, f"--state-dir={folder}") as proxy, proxy.wait_ready() as client:
        folder.rename(tmp_path / "gone")
        folder.touch()  # no folder can be made where a file is
        for attempt in (
            lambda: client.create_cache("SELECT title FROM stories WHERE id = ?", name="kept", database=database),
            lambda: asked(proxy, "root", database, "CREATE CACHE kept FROM SELECT title FROM stories WHERE id = ?"),
        ):
            with pytest.raises((errors.UpwellError, pymysql.MySQLError), match="cannot be written"):
                attempt()
            assert client.caches() == []


def test_a_cache_that_was_refused_at_the_start_is_made_by_the_same_statement(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    mysql.execute(f"USE `{database}`", *TABLES)
    create = "CREATE CACHE titles FROM SELECT title FROM stories WHERE id = ?"
    with started(mysql, tmp_path) as proxy, proxy.wait_ready():
        asked(proxy, "root", database, create)
    mysql.execute(f"USE `{database}`", "DROP TABLE stories")
    with started(mysql, tmp_path) as proxy, proxy.wait_ready() as client:
        while client.caches()[0].state != "refused":
            pass
        with pytest.raises(pymysql.MySQLError):
            asked(proxy, "root", database, create)
        mysql.execute(f"USE `{database}`", TABLES[0], TABLES[2])
        asked(proxy, "root", database, create)
        assert client.cache("titles").get(1) == [("one",)]
        with pytest.raises(pymysql.MySQLError) as taken:
            asked(proxy, "root", database, "CREATE CACHE titles FROM SELECT id FROM stories WHERE id = ?")
        assert taken.value.args[0] == 1050
