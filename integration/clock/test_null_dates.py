"""Which zero dates of a NOT NULL column IS NULL and IS NOT NULL find: what MySQL finds, through changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from proxy.cache.named_cache import NamedCache
from proxy.port.api import CacheInfo

DATABASE = "null_dates"
LOOSE = "SET sql_mode = ''"
TABLES = (
    "CREATE TABLE z (id INT PRIMARY KEY, k INT NOT NULL, d DATE NOT NULL, e DATETIME(6) NOT NULL, x INT, KEY (k))",
    "CREATE TABLE y (id INT PRIMARY KEY, k INT NOT NULL, KEY (k))",
    LOOSE,
    "INSERT INTO z VALUES (1, 1, '0000-00-00', '0000-00-00', 1), (2, 1, '2024-01-01', '2024-01-01', 2),"
    " (3, 1, '2024-01-01', '0000-00-00', NULL), (4, 2, '0000-00-00', '2024-01-01', 2)",
    "INSERT INTO y VALUES (1, 1), (2, 1), (3, 1), (5, 1)",
)
MAINTAINED = (
    "d IS NOT NULL", "NOT (d IS NULL)", "e IS NOT NULL AND d IS NOT NULL", "(x = 2 OR (e IS NOT NULL)) AND x > 0",
    "NOT e IS NULL",
)  # fmt: skip
OTHERS = (
    "d IS NULL", "NOT (NOT (d IS NULL))", "NOT (d IS NOT NULL)", "NOT (d IS NOT NULL AND x = 1)", "(d IS NULL) = 0",
    "NOT (d IS NULL OR x = 1)", "(d IS NOT NULL) IS FALSE", "(e IS NOT NULL) XOR (x = 2)", "IF(d IS NOT NULL, 1, 0)",
)  # fmt: skip
QUERIES = (
    *(f"SELECT id, d FROM z WHERE k = ? AND {condition}" for condition in MAINTAINED + OTHERS),
    "SELECT id, d IS NOT NULL AS has, NOT (e IS NULL) AS had FROM z WHERE k = ?",
    "SELECT y.id, z.id AS other FROM y LEFT JOIN z ON z.id = y.id AND z.d IS NOT NULL WHERE y.k = ?",
    "SELECT y.id FROM y LEFT JOIN z ON z.id = y.id WHERE y.k = ? AND z.d IS NOT NULL",
    "SELECT x, COUNT(*) AS n FROM z WHERE k = ? GROUP BY x, d HAVING d IS NOT NULL",
)
CHANGES = (
    "UPDATE z SET d = IF(d = '0000-00-00', '2024-02-02', '0000-00-00') WHERE id IN (1, 2)",
    "UPDATE z SET e = '0000-00-00', x = 2 WHERE id = 2",
    "INSERT INTO z VALUES (5, 1, '0000-00-00', '0000-00-00', 2)",
    "DELETE FROM z WHERE id = 3",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        yield found


def shown(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, sorted(found.rows))


def test_answers_are_mysqls_own(beside: Beside, mysql: Server) -> None:
    with beside.client() as through, beside.direct() as direct:
        for number, sql in enumerate(QUERIES):
            assert through.query(f"CREATE CACHE z{number} FROM {sql}")[4] == 0, sql
        caches = beside.call(lambda: list(map(info_of, beside.proxy.app.catalog.caches.values())))
        maintained = {info.sql for info in caches if info.mode == "maintain"}
        assert maintained >= {f"SELECT id, d FROM z WHERE k = ? AND {condition}" for condition in MAINTAINED}
        for change in ("", *CHANGES):
            if change:
                mysql.execute(f"USE {DATABASE}", LOOSE, change)
                beside.caught_up()
            for sql in QUERIES:
                for asked in (sql.replace("?", "1"), sql.replace("?", "2")):
                    theirs = shown(direct, asked)
                    for _ in range(3):
                        assert shown(through, asked) == theirs, (change, asked)


def info_of(cache: NamedCache) -> CacheInfo:
    return cache.info()
