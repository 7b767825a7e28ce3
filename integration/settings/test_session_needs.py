"""Variables that a query is said not to need change nothing of its answer, asked of MySQL."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE

from examples.lobsters.data import SETS
from examples.lobsters.load import load
from examples.lobsters.queries import CATALOGUE, Sample
from external_upquery.address import parse_upstream
from external_upquery.login import PIN_SESSION
from external_upquery.mysql.schema_source import SchemaSource
from integration.servers.mysql_server import Server
from integration.settings.session_queries import CREATE, FILLED, INSERT, OTHER_KINDS, VIEW, Writer, rows
from integration.support.random_queries import random_query, views
from integration.support.random_tables import first_rows, random_tables
from planner.api import plan_evict
from planner.session.needs import BY_CODES, DATE_MODES, LOCAL, OF_MODE, STRICT, STRINGS, TIME_ZONE
from planner.session.session_needs import session_needs
from planner.text.clock_literals import with_parameters
from planner.text.scan import scan
from proxy.mysql.state.session_variables import MODES, TIMESTAMP
from proxy.mysql.state.sql_modes import NO_MATTER
from proxy.read.literals import substituted
from sqltypes.errors import NeedRelations, UpwellError
from sqltypes.schema import SchemaSnapshot
from sqltypes.temporal import parse_datetime
from sqltypes.zone import Zone, fixed
from tests.support.goldens import PLANS, ROOT, SHOP_VIEWS, cases

OTHERS: dict[str, tuple[str, ...]] = {
    "time_zone": ("'+05:00'", "'-11:30'"),
    "collation_connection": (
        *("utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_0900_as_cs"),
        *("utf8mb4_tr_0900_ai_ci", "utf8mb4_0900_bin"),
    ),
    BY_CODES: ("utf8mb4_0900_bin",),
    "group_concat_max_len": ("8",),
    "div_precision_increment": ("8", "0"),
    "lc_time_names": ("'de_DE'", "'tr_TR'"),
    "default_week_format": ("3", "6"),
    "windowing_use_high_precision": ("OFF",),
    "default_collation_for_utf8mb4": ("utf8mb4_general_ci",),
    TIMESTAMP: ("981158400",),  # the clock, on which nothing that is cached depends
    STRINGS: ("latin1", "binary", "gbk"),
    # Each mode switched on where it is off, and off where it is on. Those that no query needs, too.
    **{name: ("another",) for name in MODES},
    **{OF_MODE + name: ("another",) for name in NO_MATTER - {"ANSI", "TRADITIONAL"}},
}
# Of a string that MySQL makes, in a session whose collation is binary; drivers ask whether the charset is 63.
BINARY = 128
SEED = int(os.environ.get("UPWELL_SESSION_SEED", "1"))
SEEDS = int(os.environ.get("UPWELL_SESSION_SEEDS", "1"))


class Sessions:
    """One connection whose session is pinned as those of upqueries are, and varied for a statement."""

    def __init__(self, mysql: Server, database: str) -> None:
        self._connection = mysql.connect(database=database, charset="utf8mb4", conv={})
        self._cursor = self._connection.cursor()
        self._cursor.execute(PIN_SESSION.replace("transaction_read_only=1", "transaction_read_only=0"))
        self._source = SchemaSource(parse_upstream(mysql.url))
        self._database = database
        self._snapshot = SchemaSnapshot()
        self.counts: Counter[str] = Counter()

    def close(self) -> None:
        self._connection.close()
        self._source.close()

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self._cursor.execute(statement)
        self._snapshot = SchemaSnapshot()

    def insert(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        with closing(pymysql.connect(**self._same())) as connection, connection.cursor() as cursor:
            cursor.executemany(sql, rows)
            connection.commit()

    def _same(self) -> dict[str, Any]:
        own = self._connection
        return {"host": own.host, "port": own.port, "user": own.user, "database": self._database, "charset": "utf8mb4"}

    def needs(self, sql: str) -> frozenset[str] | None:
        """Of a query; None where it cannot be cached."""
        for _ in range(3):  # a view of views
            try:
                return session_needs(plan_evict(sql, self._database, self._snapshot), self._snapshot)
            except NeedRelations as need:
                self._snapshot = self._source.snapshot_now({*self._snapshot.relations, *need.names})
            except UpwellError:
                return None
        return None

    def answer(self, sql: str, clocks: Zone | None = None) -> tuple[object, ...]:
        """The rows as text with what is announced of them, or the error. `clocks`: TIMESTAMPs as these say them."""
        try:
            self._cursor.execute(sql)
        except pymysql.err.MySQLError as error:
            return tuple(error.args)
        result: Any = self._cursor._result
        columns = [(f.name, f.type_code, f.charsetnr, f.scale, f.length, f.flags & ~BINARY) for f in result.fields]
        rows = [list(map(as_bytes, row)) for row in self._cursor.fetchall()]
        for at, field in enumerate(result.fields):
            for row in rows if clocks is not None and field.type_code == FIELD_TYPE.TIMESTAMP else ():
                value = row[at]
                row[at] = clocks.local(value.decode()).encode() if clocks and isinstance(value, bytes) else value
        return columns, sorted(repr(tuple(row)) for row in rows)

    def check(self, sql: str, asked: str = "", bound: Sequence[object] = ()) -> list[str]:
        """Variables that change the answer though they are not needed, with the answers. `asked`: the query with its
        placeholders; `bound`: what stands for them. How columns are announced is learned for each sql_mode."""
        needs = self.needs(asked or sql)
        pinned = self.answer(sql) if needs is not None else ()
        if needs is None or not isinstance(pinned[0], list):
            self.counts["refused"] += 1
            return []
        wrong = []
        no_dates = any(map(is_no_date, bound))  # bound to a date, it is MySQL's
        narrow = sql.isascii() and "collation_connection" not in needs
        for name, values in OTHERS.items():
            own_clock = name == TIMESTAMP and by_clock(asked or sql)
            if name == BY_CODES and "collation_connection" in needs:
                continue
            if own_clock or (name in DATE_MODES and no_dates) or (name == STRINGS and not narrow):
                continue
            if name == "collation_connection" and BY_CODES in needs:
                values = tuple(value for value in values if value not in OTHERS[BY_CODES])
            if name == TIME_ZONE and LOCAL in needs and bound:
                continue  # of another moment, then
            shown = slice(1, None) if "." in name else slice(None)
            at_home = name == TIME_ZONE and LOCAL in needs and TIME_ZONE not in needs
            differs = [
                value
                for value in values
                if self._under(name, value, sql)[shown]
                != (self.answer(sql, fixed(value.strip("'"))) if at_home else pinned)[shown]
            ]
            if name not in needs:
                self.counts[f"{name} not needed"] += 1
                wrong += [
                    f"{name} = {value}: {sql}\n  {pinned}\n  {self._under(name, value, sql)}" for value in differs
                ]
            elif differs:
                self.counts[f"{name} needed and seen"] += 1
            else:
                self.counts[f"{name} needed"] += 1
        return wrong

    def _under(self, name: str, value: str, sql: str) -> tuple[object, ...]:
        name, _, mode = name.partition(".")
        self._cursor.execute(f"SET @before = @@{name}")
        if f"{name}.{mode}" == STRICT:  # whether there is one of the two
            without = "REPLACE(REPLACE(@before, 'STRICT_ALL_TABLES', ''), 'STRICT_TRANS_TABLES', '')"
            value = f"IF(@before LIKE '%STRICT%', {without}, CONCAT(@before, ',STRICT_TRANS_TABLES'))"
        elif name == "sql_mode":
            on = f"FIND_IN_SET('{mode}', @before)"
            off = f"TRIM(BOTH ',' FROM REPLACE(CONCAT(',', @before, ','), ',{mode},', ','))"
            value = f"IF({on}, {off}, CONCAT(@before, ',{mode}'))"
        self._cursor.execute(f"SET {name} = {value}")
        try:
            return self.answer(sql)
        finally:
            self._cursor.execute(f"SET {name} = @before")


def by_clock(sql: str) -> bool:
    """Whether functions of the clock are parameters of the cached query: in a session with a clock of its own they are
    given no values."""
    return with_parameters(sql) != sql


def as_bytes(value: object) -> object:
    """As MySQL has sent it, whether it was announced as a string or as a binary one."""
    return value.encode() if isinstance(value, str) else value


def is_no_date(value: object) -> bool:
    """A text like a date's that none is."""
    texts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(text, str) and text[:1].isdigit() and parse_datetime(text) is None for text in texts)


@pytest.fixture
def sessions(mysql: Server, database: str) -> Iterator[Sessions]:
    made = Sessions(mysql, database)
    yield made
    made.close()


def report(sessions: Sessions, wrong: list[str]) -> None:
    print(dict(sorted(sessions.counts.items())))
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:5])


def test_random_expressions(sessions: Sessions) -> None:
    sessions.execute(CREATE, VIEW, OTHER_KINDS)
    sessions.insert(INSERT, rows(random.Random(SEED), 40))
    sessions.execute(FILLED)
    wrong: list[str] = []
    for seed in range(SEED, SEED + SEEDS):
        rng = random.Random(seed)
        for _ in range(400):
            wrong += sessions.check(Writer(rng).query())
    report(sessions, wrong)
    for name in OTHERS:  # a mode, or a set, is needed by most queries
        assert sessions.counts[f"{name} not needed"] > (0 if "." in name else 50), name
    assert not any(sessions.counts[f"{OF_MODE}{name} needed"] for name in NO_MATTER)
    seen = {name for name in OTHERS if sessions.counts[f"{name} needed and seen"]}
    assert {"time_zone", "collation_connection", "div_precision_increment", "group_concat_max_len"} <= seen


def test_random_queries_with_parameters(sessions: Sessions) -> None:
    rng = random.Random(SEED)
    wrong: list[str] = []
    strict = "REPLACE(REPLACE(@@sql_mode, 'NO_ZERO_IN_DATE', ''), 'NO_ZERO_DATE', '')"
    sessions.execute(f"SET sql_mode = CONCAT({strict}, ',ALLOW_INVALID_DATES')")
    for _ in range(3 * SEEDS):
        tables = random_tables(rng)
        sessions.execute(*(f"DROP TABLE IF EXISTS {table.name}" for table in tables), "DROP VIEW IF EXISTS v1, v2")
        sessions.execute(*(table.ddl() for table in tables), *first_rows(rng, tables), *views(tables))
        for _ in range(60):
            query = random_query(rng, tables)
            parameters = tuple(tuple(p) if isinstance(p, list) else p for p in query.parameters(rng))
            wrong += sessions.check(substituted(query.sql, parameters), query.sql, parameters)
    report(sessions, wrong)
    assert sessions.counts["collation_connection not needed"] > sessions.counts["collation_connection needed"]


def test_the_samples_queries_need_nothing(mysql: Server, database: str) -> None:
    load(mysql, SETS["tiny"], database=database)
    sample = Sample(SETS["tiny"], SEED)
    with closing(Sessions(mysql, database)) as sessions:
        wrong: list[str] = []
        for template in CATALOGUE.values():
            needs = {name for name in sessions.needs(template.sql) or () if "." not in name}
            assert needs <= {"sql_auto_is_null"}, template.id
            wrong += sessions.check(substituted(template.sql, sample.of(template)), template.sql)
        report(sessions, wrong)


SHOP_ROWS = """
    INSERT INTO customers VALUES (1, 'A@x', 'Ida', 'NL'), (2, 'b@x', 'ida', 'nl'), (3, 'c@x', 'Ibo', 'DE');
    INSERT INTO orders SELECT id * 10 + n, id, ELT(n, 'open', 'paid', 'Paid', 'sent'), id * n * 77.77, id / n,
        '2024-01-10 10:00:00.25' + INTERVAL n HOUR, ELT(n, NULL, 'note', 'Fragile!', 'NOTE')
        FROM customers, (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 UNION SELECT 4) q;
    INSERT INTO products SELECT id, NULLIF(id, 1), CONCAT('p', id), id * 3.33 FROM customers;
    INSERT INTO order_lines (order_id, line, product_id, quantity, price) SELECT o.id, p.id, p.id, o.id % 4, p.price
        FROM orders o, products p;
    INSERT INTO settings VALUES ('home', 'NL'), ('third', 'nl'); INSERT INTO log_entries VALUES ('2024-01-10', 'x')"""
GUESSES = (1, 11, "paid", "NL", "2024-01-10 10:00:00", "home", "n%")


def test_the_golden_queries(sessions: Sessions, database: str) -> None:
    sessions.execute(*re.findall(r"CREATE[^;]*", (ROOT / "tests" / "fixtures" / "shop.sql").read_text()))
    for name, definition in SHOP_VIEWS.items():
        sessions.execute(f"CREATE VIEW {name} AS {definition.replace('shop.', '')}")
    sessions.execute(*SHOP_ROWS.split(";"))
    wrong: list[str] = []
    for file in sorted(PLANS.glob("*.sql")):
        for case in cases(file) if file.stem != "lobsters" else ():
            sql = case.sql.replace("shop.", f"{database}.")
            marks = [token for token in scan(sql) if token.kind == "param"]
            for guess in GUESSES:
                wrong += sessions.check(substituted(sql, [guess] * len(marks)), sql, [guess])
    report(sessions, wrong)
    assert sessions.counts["collation_connection not needed"] > 300
