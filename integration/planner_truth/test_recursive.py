"""Recursive queries, and derived tables that name a table around them, are held in evict mode: what MySQL answers at
the same time is what a cache answers, through changes of the tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served

DATABASE = "recursive_queries"
TABLES = (
    "CREATE TABLE c (id INT PRIMARY KEY, p INT, KEY (p))",
    "CREATE TABLE n (id INT PRIMARY KEY, name VARCHAR(9))",
    "INSERT INTO c VALUES (1, NULL), (2, 1), (3, 1), (4, 2), (5, 4)",
    "INSERT INTO n VALUES (1, 'a'), (4, 'd')",
)
QUERIES = (
    "WITH RECURSIVE t AS (SELECT id, p, 0 AS d FROM c WHERE id = ? UNION ALL SELECT c.id, c.p, t.d + 1 FROM c JOIN t"
    " ON c.p = t.id WHERE t.d < 10) SELECT id, d FROM t ORDER BY d, id",
    "WITH RECURSIVE up (id, p) AS (SELECT id, p FROM c WHERE id = ? UNION SELECT x.id, x.p FROM up JOIN c x"
    " ON x.id = up.p) SELECT up.id, n.name FROM up LEFT JOIN n ON n.id = up.id ORDER BY up.id",
    "WITH RECURSIVE s AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM s WHERE i < 5) SELECT s.i, COUNT(c.id) FROM s"
    " LEFT JOIN c ON c.p = s.i AND c.id > ? GROUP BY s.i ORDER BY s.i",
    "WITH RECURSIVE a AS (SELECT id FROM n WHERE id > ?), b AS (SELECT id FROM a UNION SELECT c.id FROM c JOIN b"
    " ON c.p = b.id) SELECT COUNT(*) FROM b JOIN a USING (id)",
    "WITH RECURSIVE t AS (WITH q AS (SELECT id, p FROM c) SELECT id FROM q WHERE id = ? UNION ALL SELECT c.id FROM c"
    " JOIN t ON c.p = t.id) SELECT * FROM t ORDER BY id",
    "SELECT x.id FROM c x WHERE x.id IN (WITH RECURSIVE t AS (SELECT id FROM c WHERE id = ? UNION ALL SELECT c.id"
    " FROM c JOIN t ON c.p = t.id) SELECT id FROM t) ORDER BY x.id",
    "SELECT c.id, (SELECT COUNT(*) FROM (SELECT n.id FROM n WHERE n.id >= c.p ORDER BY n.id LIMIT 3) f) AS some FROM c"
    " WHERE c.id > ? ORDER BY c.id",
    "SELECT c.id, (SELECT COALESCE(JSON_ARRAYAGG(j), CONVERT('[]', JSON)) FROM (SELECT f.j FROM (SELECT"
    " JSON_OBJECT('n', n.name) AS j, n.id FROM n WHERE n.id = c.id) AS f) AS g) AS names FROM c WHERE c.id >= ?"
    " ORDER BY c.id",
    "SELECT c.id FROM c WHERE EXISTS (SELECT 1 FROM (SELECT n.id FROM n WHERE n.id = c.id AND n.name <> '') f"
    " WHERE f.id > ?) ORDER BY c.id",
)
ROUNDS = 20


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        yield found


def shown(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


def change(rng: random.Random) -> str:
    return rng.choice((
        f"REPLACE INTO c VALUES ({rng.randrange(6, 12)}, {rng.randrange(1, 6)})",
        f"DELETE FROM c WHERE id = {rng.randrange(6, 12)}",
        f"UPDATE n SET name = '{rng.randrange(100)}' WHERE id = 1",
        f"REPLACE INTO n VALUES ({rng.randrange(2, 9)}, 'q')",
    ))  # fmt: skip


def test_answers_are_mysqls_own(beside: Beside, mysql: Server) -> None:
    rng, served = random.Random(1), Counter[str]()
    with beside.client() as through, beside.direct() as direct:
        for sql in QUERIES:
            assert through.query(f"CREATE CACHE FROM {sql}")[4] == 0
        for _ in range(ROUNDS):
            for sql in QUERIES:
                asked = sql.replace("?", str(rng.choice((1, 2, 3))))
                theirs = shown(direct, asked)
                for _ in range(3):
                    assert shown(through, asked) == theirs, asked
                    served[last_served(beside, through).split(" ")[0]] += 1
            mysql.execute(f"USE {DATABASE}", change(rng))
            beside.caught_up()
    assert served["hit"] > 0.5 * served.total(), served


def test_a_session_with_another_depth_is_mysqls(beside: Beside) -> None:
    """The recursion of the third query goes 5 rows deep."""
    asked = QUERIES[2].replace("?", "1")
    with beside.client() as through, beside.direct() as direct:
        for client in (through, direct):
            client.query("SET cte_max_recursion_depth = 2")
        for _ in range(3):
            assert shown(through, asked) == shown(direct, asked)
        assert last_served(beside, through).startswith("passed")
