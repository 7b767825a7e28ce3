"""A site whose server and sessions have a time zone of their own hits as one in UTC does: rows with created_at and
updated_at as frameworks make them, read and written in local time, through changes, equal to MySQL's answers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from integration.clock.zone_tables import loaded_zones
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database

DATABASE = "local_site"
BERLIN = "Europe/Berlin"
TABLES = (
    "CREATE TABLE posts (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, user_id BIGINT UNSIGNED NOT NULL,"
    " title VARCHAR(255) NOT NULL, created_at TIMESTAMP NULL, updated_at TIMESTAMP NULL, deleted_at TIMESTAMP NULL,"
    " KEY (user_id, created_at))",
    "CREATE TABLE users (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(255) NOT NULL,"
    " created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
    " updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)",
    "INSERT INTO users (name, created_at) VALUES ('a', '2024-03-01 12:00:00'), ('b', '2024-08-01 00:30:00')",
    *(
        f"INSERT INTO posts (user_id, title, created_at, updated_at) VALUES ({number % 2 + 1}, 'post {number}',"
        f" '2024-{number % 12 + 1:02}-{number % 28 + 1:02} 0{number % 10}:15:00', '2024-12-01 23:59:59')"
        for number in range(40)
    ),
)
PAGES = (
    ("select * from `users` where `users`.`id` = %s limit 1", (1, 2)),
    ("select * from `posts` where `posts`.`user_id` = %s and `posts`.`deleted_at` is null order by `created_at` desc",
     (1, 2)),
    ("select * from `posts` where `user_id` = %s and `posts`.`deleted_at` is null order by `created_at` desc limit 5",
     (1, 2)),
    ("select `posts`.*, `users`.`created_at` as `joined` from `posts` inner join `users` on `users`.`id` ="
     " `posts`.`user_id` where `posts`.`id` = %s", range(1, 11)),
    ("select count(*) as aggregate from `posts` where `user_id` = %s and `created_at` >= '2024-06-01 00:00:00'",
     (1, 2)),
)  # fmt: skip
ROUNDS = 12
READS = 6  # of each page between two writes


def session(mysql: Server, port: int, zone: str) -> pymysql.Connection[Any]:
    client = pymysql.connect(
        host="127.0.0.1", port=port, user=mysql.user, password=mysql.password, database=DATABASE, autocommit=True,
        charset="utf8mb4",
    )  # fmt: skip
    if zone:
        rows(client, "SET time_zone = %s", (zone,))
    return client


def rows(client: pymysql.Connection[Any], sql: str, values: Sequence[object] = ()) -> object:
    with client.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


@pytest.fixture(scope="module")
def beside(server_pool: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Beside, str]]:
    mysql = server_pool.lend(("--default-time-zone=+02:00",))
    try:
        with (
            loaded_zones(mysql, [BERLIN]) as zones,
            beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found,
        ):
            with found.client() as maker:
                for number, (sql, _) in enumerate(PAGES):
                    text = sql.replace("'2024-06-01 00:00:00'", "?").replace("%s", "?")
                    maker.query(f"CREATE CACHE page{number} FROM {text}")
            assert len(found.proxy.app.catalog.caches) == len(PAGES)
            yield found, zones[BERLIN]
    finally:
        server_pool.take_back(mysql)


def how(beside: Beside) -> str:
    """How the last statement of the only session was answered."""

    def told() -> str:
        (session,) = beside.shared.sessions
        assert session.context.last_statement is not None
        return session.context.last_statement.served

    beside.until(lambda: len(beside.shared.sessions) == 1)
    return beside.call(told)


@pytest.mark.parametrize("zone", ["+00:00", "", "+02:00", "SYSTEM", BERLIN])
def test_pages_are_hits_and_mysqls(beside: tuple[Beside, str], zone: str) -> None:
    """`zone` "": that of the server, which is +02:00."""
    found, berlin = beside
    mysql, rng, served = found.mysql, random.Random(zone), Counter[str]()
    name = berlin if zone == BERLIN else zone
    with closing(session(mysql, found.port, name)) as through, closing(session(mysql, mysql.port, name)) as direct:
        for _ in range(ROUNDS):
            number = rng.randrange(1, 41)
            stamp = f"2024-{rng.randrange(1, 13):02}-{rng.randrange(1, 28):02} {rng.randrange(24):02}:00:01"
            rows(through, f"update posts set updated_at = '{stamp}', created_at = '{stamp}' where id = {number}")
            rows(through, "update users set name = %s where id = %s", (f"{zone}{number}", number % 2 + 1))
            found.caught_up()
            for sql, values in PAGES:
                for value in values:
                    wanted = rows(direct, sql, (value,))
                    for _ in range(READS):
                        assert rows(through, sql, (value,)) == wanted, (zone, sql, value)
                        served[how(found)] += 1
    assert served["hit"] > 0.75 * served.total(), served
