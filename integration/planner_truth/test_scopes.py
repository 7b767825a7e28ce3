"""Random subqueries whose tables have the names of tables around them: a name means to Upwell what it means to MySQL.

In a join in brackets, and in the condition of a join, fewer tables are known than in the WHERE behind it: the same name
may be one table there and another here. UPWELL_SCOPES: how many queries are tried.
"""

from __future__ import annotations

import os
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

DATABASE = "scopes"
TABLES = ("t1", "t2", "t3", "t4")
NAMES = "abcd"
COUNT = int(os.environ.get("UPWELL_SCOPES", "60"))
SEED = int(os.environ.get("UPWELL_SCOPES_SEED", "1"))
FOUND = (
    "SELECT a.id FROM t1 a WHERE EXISTS (SELECT 1 FROM t4 a JOIN (t2 c JOIN t3 d ON c.x = a.x) WHERE a.x = ?)",
    "SELECT a.id FROM t1 a WHERE a.id IN (SELECT d.id FROM t4 a JOIN (t2 c JOIN t3 d ON c.x = a.x) WHERE a.x = ?)",
    "SELECT a.id, l.n FROM t1 a JOIN LATERAL (SELECT COUNT(*) AS n FROM t4 a JOIN (t2 c JOIN t3 d ON c.x = a.x)"
    " WHERE a.x = ?) l",
    "SELECT a.id FROM t1 a WHERE EXISTS (SELECT 1 FROM t4 b JOIN t2 c ON c.x = a.x JOIN t3 a WHERE a.x = ?)",
    "SELECT a.id FROM t1 a WHERE EXISTS (SELECT 1 FROM t4 a LEFT JOIN (t2 c JOIN t3 d ON c.x = a.x) ON TRUE"
    " WHERE a.x = ? AND c.x IS NOT NULL)",
)


class Writer:
    """Writes one query. Its column names mean what they happen to mean, or nothing at all."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def column(self) -> str:
        """Mostly with the name of its table; each of the tables has one that no other has."""
        if self.rng.random() < 0.15:
            return f"only_{self.rng.choice(TABLES)}"
        return f"{self.rng.choice(NAMES)}.{self.rng.choice(('id', 'x', 'x'))}"

    def joined(self, names: list[str], depth: int = 0) -> str:
        """Of tables with these names, in this order."""
        if len(names) == 1:
            kind = self.rng.random()
            if kind < 0.1:
                own = self.rng.choice(NAMES)
                of = f"SELECT {own}.id, {own}.x FROM {self.rng.choice(TABLES)} {own} WHERE {own}.x = {self.column()}"
                return f"{self.rng.choice(('LATERAL ', 'LATERAL ', ''))}({of}) {names[0]}"
            return f"{self.rng.choice(TABLES)} {names[0]}"
        cut = self.rng.randrange(1, len(names))
        parts = [self.joined(some, depth + 1) for some in (names[:cut], names[cut:])]
        shown = [f"({part})" if " JOIN " in part and self.rng.random() < 0.8 else part for part in parts]
        if not depth and self.rng.random() < 0.15:
            return f"{shown[0]}, {shown[1]}"
        how = self.rng.choice(("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"))
        return f"{shown[0]} {how} {shown[1]} ON {self.condition()}"

    def condition(self) -> str:
        """Of a join."""
        if self.rng.random() < 0.15:
            own = self.rng.choice(NAMES)
            return f"EXISTS (SELECT 1 FROM {self.rng.choice(TABLES)} {own} WHERE {self.column()} = {self.column()})"
        return f"{self.column()} = {self.column()}"

    def inner(self, item: str) -> str:
        names = self.rng.sample(NAMES, self.rng.choice((2, 3, 3)))
        more = f" AND {self.column()} = {self.column()}" if self.rng.random() < 0.4 else ""
        return f"SELECT {item} FROM {self.joined(names)} WHERE {self.column()} = ?{more}"

    def query(self) -> str:
        outer = self.joined(self.rng.sample(NAMES, self.rng.choice((1, 1, 2))))
        condition = self.rng.choice(
            (
                lambda: f"EXISTS ({self.inner('1')})",
                lambda: f"NOT EXISTS ({self.inner('1')})",
                lambda: f"{self.column()} IN ({self.inner(self.column())})",
                lambda: f"{self.column()} = ({self.inner(f'MAX({self.column()})')})",
            )
        )()
        return f"SELECT {self.column()} AS p, {self.column()} AS q FROM {outer} WHERE {condition}"

    def change(self) -> str:
        table, one, other = self.rng.choice(TABLES), self.rng.randrange(1, 4), self.rng.randrange(1, 4)
        return self.rng.choice(
            (
                f"UPDATE {table} SET x = {one} WHERE id = {other}",
                f"UPDATE {table} SET x = {one}",
                f"REPLACE INTO {table} (id, x) VALUES ({one}, {other})",
                f"DELETE FROM {table} WHERE id = {one}",
            )
        )


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    tables = [f"CREATE TABLE {name} (id INT PRIMARY KEY, x INT, only_{name} INT AS (x) STORED)" for name in TABLES]
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *tables) as found:
        yield found


def answer(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else sorted(map(repr, map(found.cells, found.rows)))


def compared(beside: Beside, mysql: Server, sql: str, rng: random.Random, served: Counter[str]) -> None:
    """The query for each key, with changes between."""
    first = [
        f"REPLACE INTO {table} (id, x) VALUES (1, 1), (2, 2), (3, {number})" for number, table in enumerate(TABLES)
    ]
    mysql.execute(f"USE {DATABASE}", *first)
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE scoped FROM {sql}")
        done: list[str] = []
        for _ in range(5):
            beside.caught_up()
            for key in (1, 2):
                text = sql.replace("?", str(key))
                for _ in range(2):
                    theirs, ours = answer(direct, text), answer(through, text)
                    assert ours == theirs, f"{text}\nbehind {done}\nMySQL  {theirs}\nUpwell {ours}"
                    served[last_served(beside, through).split()[0].rstrip(":")] += 1
            done.append(Writer(rng).change())
            mysql.execute(f"USE {DATABASE}", done[-1])
        through.query("DROP CACHE scoped")


@pytest.mark.parametrize("sql", FOUND)
def test_a_name_that_means_two_tables(beside: Beside, mysql: Server, sql: str) -> None:
    served: Counter[str] = Counter()
    compared(beside, mysql, sql, random.Random(SEED), served)
    assert served["passed"] == served.total(), "which of them is meant is left to MySQL"


def test_random_names(beside: Beside, mysql: Server) -> None:
    rng, served, tried = random.Random(SEED), Counter[str](), 0
    while tried < COUNT:
        sql = Writer(rng).query()
        with beside.direct() as direct:
            if isinstance(answer(direct, sql.replace("?", "1")), tuple):
                continue  # a name means nothing there
        tried += 1
        compared(beside, mysql, sql, rng, served)
    assert served["hit"] > COUNT, served
