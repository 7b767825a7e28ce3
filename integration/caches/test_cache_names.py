"""A query that has a cache gets a second name without more ado: an application names its caches when it starts, whoever
has cached the same query before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pymysql
import pytest

from examples.lobsters.cached import wait_until_current
from examples.lobsters.load import connect
from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.private_mysql import Server
from integration.support.served import Reads
from upwell import errors
from upwell.client import Client

TABLES = (
    "CREATE TABLE stories (id INT PRIMARY KEY, author INT NOT NULL, title VARCHAR(20), INDEX (author))",
    "INSERT INTO stories VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 2, 'three')",
)
MAINTAINED = "SELECT id, title FROM stories WHERE author = ? ORDER BY id"
EVICT = "SELECT id, title FROM stories WHERE author = ? AND id > (SELECT MIN(id) FROM stories) ORDER BY id"


@pytest.fixture
def served(mysql: Server, database: str, tmp_path: Path) -> Iterator[tuple[ProxyProcess, Client]]:
    with serving(mysql, database, tmp_path) as (proxy, client):
        mysql.execute(f"USE `{database}`", *TABLES)
        yield proxy, client


@contextmanager
def serving(mysql: Server, database: str, tmp_path: Path) -> Iterator[tuple[ProxyProcess, Client]]:
    options = ("--verify-new-caches=off",)
    with (
        ProxyProcess(
            f"{mysql.url}/{database}", tmp_path, options=options, grpc_port=0, http_port=0, mysql_port=0
        ) as proxy,
        closing(proxy.wait_ready()) as client,
    ):
        yield proxy, client


def until_hit(client: Client, name: str, key: int) -> list[tuple[object, ...]]:
    """The rows of a hit: reads until there is one."""
    reads = Reads("hit")
    while True:
        answer = client.cache(name).get(key)
        if reads.done(answer.served):
            return [tuple(row) for row in answer]


@pytest.mark.parametrize("sql", [MAINTAINED, EVICT], ids=["maintained", "evict"])
def test_over_grpc_each_name_works_for_itself(
    served: tuple[ProxyProcess, Client], mysql: Server, database: str, sql: str
) -> None:
    _, client = served
    first = client.create_cache(sql, database=database)
    second = client.create_cache(sql, name="by_author", database=database)
    assert second.name == "by_author" != first.name and second.mode == first.mode
    assert client.create_cache(sql, name="by_author", database=database).name == "by_author"
    assert client.create_cache(sql, name=first.name, database=database).name == first.name
    assert client.create_cache(sql, database=database).name in (first.name, "by_author")
    assert sorted(cache.name for cache in client.caches()) == sorted([first.name, "by_author"])

    expected = [tuple(row) for row in mysql.execute(f"USE `{database}`", sql.replace("?", "1"))]
    assert until_hit(client, first.name, 1) == until_hit(client, "by_author", 1) == expected
    mysql.execute(f"USE `{database}`", "UPDATE stories SET title = 'changed' WHERE id = 2")
    with closing(connect(mysql, database)) as connection:
        wait_until_current(client, connection)
    expected = [tuple(row) for row in mysql.execute(f"USE `{database}`", sql.replace("?", "1"))]
    assert "changed" in str(expected)
    assert until_hit(client, first.name, 1) == until_hit(client, "by_author", 1) == expected

    client.drop_cache(first.name)
    with pytest.raises(errors.UnknownCache):
        client.cache(first.name).get(1)
    assert until_hit(client, "by_author", 1) == expected
    with pytest.raises(errors.CacheExists, match="exists with another query"):
        client.create_cache("SELECT title FROM stories WHERE id = ?", name="by_author", database=database)


def test_what_one_name_holds_the_other_need_not_ask_for(
    served: tuple[ProxyProcess, Client], mysql: Server, database: str
) -> None:
    _, client = served
    for name in ("one", "other"):
        client.create_cache(MAINTAINED, name=name, database=database)
    assert until_hit(client, "one", 2)
    assert client.cache("other").get(2).served == "hit"


def test_over_mysqls_protocol_each_name_is_listed_and_dropped_for_itself(
    served: tuple[ProxyProcess, Client], mysql: Server, database: str
) -> None:
    proxy, _ = served
    with (
        closing(
            pymysql.connect(
                host="127.0.0.1", port=proxy.mysql_port, user=mysql.user, database=database, autocommit=True
            )
        ) as made,
        made.cursor() as cursor,
    ):

        def ask(sql: str) -> tuple[tuple[object, ...], ...]:
            cursor.execute(sql)
            return tuple(cursor.fetchall())

        def hit() -> tuple[tuple[object, ...], ...]:
            reads = Reads("hit")
            while True:
                rows = ask(MAINTAINED.replace("?", "1"))
                if reads.done(" ".join(map(str, ask("EXPLAIN LAST STATEMENT")[0]))):
                    return rows

        for name in ("one", "other", "other"):
            ask(f"CREATE CACHE {name} FROM {MAINTAINED}")
        assert {row[0] for row in ask("SHOW CACHES")} == {"one", "other"}
        assert hit() == ((1, "one"), (2, "two"))
        ask("DROP CACHE one")
        assert [row[0] for row in ask("SHOW CACHES")] == ["other"]
        assert hit() == ((1, "one"), (2, "two"))
        ask("DROP CACHE other")
        assert ask(MAINTAINED.replace("?", "1")) == ((1, "one"), (2, "two"))
        assert ask("EXPLAIN LAST STATEMENT")[0][0] != "hit"


def test_both_names_are_there_after_a_restart(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", *TABLES)
    with serving(mysql, database, tmp_path) as (_, client):
        for name in ("one", "other"):
            client.create_cache(MAINTAINED, name=name, database=database)
        client.drop_cache("one")
        client.create_cache(MAINTAINED, name="third", database=database)
    with serving(mysql, database, tmp_path) as (_, client):
        assert sorted(cache.name for cache in client.caches()) == ["other", "third"]
        assert len(until_hit(client, "other", 1)) == len(until_hit(client, "third", 1)) == 2


@pytest.mark.parametrize("name", [" ", "a\nb", "\x1b[31m", "q" * 65])
def test_a_name_that_cannot_be_shown_is_refused_and_nothing_is_made(
    served: tuple[ProxyProcess, Client], database: str, name: str
) -> None:
    proxy, client = served
    with pytest.raises(errors.ParseError, match="up to 64 characters"):
        client.create_cache(MAINTAINED, name=name, database=database)
    with (
        closing(pymysql.connect(host="127.0.0.1", port=proxy.mysql_port, user="root", database=database)) as session,
        session.cursor() as cursor,
        pytest.raises(pymysql.err.ProgrammingError, match="up to 64 characters"),
    ):
        cursor.execute(f"CREATE CACHE `{name}` FROM {MAINTAINED}")
    assert client.caches() == []
