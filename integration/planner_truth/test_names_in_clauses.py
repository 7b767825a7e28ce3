"""What a bare name means in ORDER BY, GROUP BY and HAVING, where it is the name of select items, of columns of several
tables, or of both: MySQL and the plan on the same texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from typing import Any

import pymysql
import pytest

from integration.servers.mysql_server import Server
from planner.api import plan_query
from planner.tree.plan import Mode
from sqltypes.errors import UpwellError
from sqltypes.expression import Row
from tests.support.plan_oracle import PlanOracle
from tests.support.schema_text import snapshot_of

DDL = """CREATE TABLE t (
  id INT NOT NULL PRIMARY KEY,
  k INT NOT NULL,
  a INT,
  b INT,
  val INT
);
CREATE TABLE u (
  id INT NOT NULL PRIMARY KEY,
  a INT,
  c INT,
  val INT
);"""
REPEATED, UNIQUE = 1, 2  # values of k: of rows that share values, and of rows that every column puts in an order
ROWS = (
    "INSERT INTO t VALUES (1, 1, 3, 1, 10), (2, 1, 2, 2, 30), (3, 1, 1, 3, 20), (4, 1, 1, 1, 20)",
    "INSERT INTO u VALUES (1, 9, 4, 7), (2, 8, 3, 8), (3, 8, 2, 8), (4, 6, 1, 6)",
    "INSERT INTO t VALUES (5, 2, 3, 1, 10), (6, 2, 2, 2, 30), (7, 2, 1, 3, 20), (8, 2, 4, 4, 5)",
    "INSERT INTO u VALUES (5, 9, 4, 7), (6, 8, 3, 8), (7, 7, 2, 9), (8, 6, 1, 6)",
)
ITEMS = (
    "t.val",
    "val",
    "u.val",
    "u.val AS val",
    "-t.a AS val",
    "-t.a AS b",
    "b",
    "t.b AS x",
    "-t.val AS b",
    "t.*",
    "a",
)
FROMS = ("t", "t JOIN u ON t.id = u.id", "t JOIN u USING (id)")
TAILS = (
    "ORDER BY val",
    "ORDER BY b",
    "ORDER BY `VAL` DESC",
    "ORDER BY t.val",
    "ORDER BY -val",
    "ORDER BY b + 0",
    "ORDER BY a, val",
    "ORDER BY x",
    "HAVING val > 6 ORDER BY t.id",
    "HAVING b > 1 ORDER BY t.id",
    "HAVING x > 1 ORDER BY t.id",
)
GROUPED = ("val", "t.val", "b", "t.b", "-t.a AS val", "-t.a AS b", "u.a AS val", "t.b AS a", "MAX(t.b) AS a", "t.a")
GROUPED_TAILS = (
    "GROUP BY val",
    "GROUP BY b",
    "GROUP BY a",
    "GROUP BY t.b, t.a",
    "GROUP BY b HAVING a > 1",
    "GROUP BY t.b, t.a HAVING a > 1",
    "GROUP BY t.a HAVING b < 2",
    "GROUP BY t.a, t.b ORDER BY a, b",
    "GROUP BY val ORDER BY val",
)


@pytest.fixture
def cursor(mysql: Server, database: str) -> Iterator[Any]:
    connection = pymysql.connect(
        host=mysql.host, port=mysql.port, user=mysql.user, password=mysql.password, database=database, autocommit=True
    )
    with closing(connection), connection.cursor() as made:
        for statement in (*filter(str.strip, DDL.split(";")), *ROWS):
            made.execute(statement)
        yield made


class Judge:
    """Compares MySQL's rows, in their order, with those of the plan."""

    def __init__(self, cursor: Any, database: str) -> None:
        self.cursor, self.database = cursor, database
        self.schema = snapshot_of(DDL, database)
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self, sql: str) -> list[Row]:
        self.cursor.execute(sql)
        return list(self.cursor.fetchall())

    def ask(self, items: str, source: str, tail: str, k: int) -> None:
        sql = f"SELECT {items} FROM {source} WHERE t.k = {{}} {tail}"
        try:
            wanted = self.run(sql.format(k))
        except pymysql.MySQLError:
            self.seen["error"] += 1
            return
        try:
            plan = plan_query(sql.format("?"), self.database, self.schema)
        except UpwellError as error:
            self.wrong.append(f"{sql}: {error}, MySQL {wanted}")
            return
        self.seen[plan.mode.value] += 1
        if plan.mode is Mode.MAINTAIN:
            mine = PlanOracle(plan, self.run).answer((k,))
            if mine != wanted if k == UNIQUE else Counter(mine) != Counter(wanted):
                self.wrong.append(f"{sql}: {mine}, MySQL {wanted}")


def test_a_name_means_what_it_means_in_mysql(cursor: Any, database: str) -> None:
    judge = Judge(cursor, database)
    for one, other in product(ITEMS, ITEMS[:7]):
        for source, tail in product(FROMS, TAILS):
            judge.ask(f"{one}, {other}", source, tail, UNIQUE)
    for one, other in product(GROUPED, GROUPED[:7]):
        for source, tail in product(FROMS, GROUPED_TAILS):
            judge.ask(f"{one}, {other}", source, tail, REPEATED)
    print(judge.seen)
    assert not judge.wrong, f"{len(judge.wrong)}\n" + "\n".join(judge.wrong[:40])
    assert judge.seen["maintain"] > 300, judge.seen
