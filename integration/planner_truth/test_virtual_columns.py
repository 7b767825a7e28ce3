"""VIRTUAL generated columns: MySQL computes one in the session that reads it, and the binlog has it as the session that
wrote the row computed it. What a session is answered is what MySQL answers a session with the same settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit

DATABASE = "virtual_columns"
EXPRESSIONS = {
    "hr": ("INT", "HOUR(ts)"),
    "day": ("DATE", "DATE(ts)"),
    "txt": ("VARCHAR(40)", "CAST(ts AS CHAR)"),
    "same": ("INT", "ts = dt"),
    "month": ("VARCHAR(20)", "DATE_FORMAT(dt, '%M')"),
    "name": ("VARCHAR(20)", "DATE_FORMAT(dt, '%W')"),  # not DAYNAME: MySQL keeps its locale with the opened table
    "secret": ("VARCHAR(99)", "HEX(AES_ENCRYPT(s, 'k'))"),
    "size": ("INT", "LENGTH(c)"),
    "zero": ("DATE", "DATE(CONCAT(y, '-00-00'))"),  # NULL by the default modes
    "twice": ("INT", "hr * 2"),
    "wk": ("INT", "WEEK(dt)"),  # the text that MySQL keeps has the mode of the session that created the table
    "plain": ("VARCHAR(60)", "CONCAT(s, '.', n)"),
    "part": ("VARCHAR(20)", "doc->>'$.a'"),
}
SETTINGS = {
    "time_zone = '+08:00'": ("hr", "day", "txt", "same", "twice"),
    "lc_time_names = 'de_DE'": ("month", "name"),
    "block_encryption_mode = 'aes-256-ecb'": ("secret",),
    "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'": ("size",),
    "sql_mode = ''": ("zero",),
    "default_week_format = 3": ("wk",),
}
BASE = (
    "SET time_zone = '+00:00', sql_mode = DEFAULT, lc_time_names = 'en_US', block_encryption_mode = 'aes-128-ecb',"
    " default_week_format = 0"
)
COLUMNS = ", ".join(f"{name} {type_} AS ({text}) VIRTUAL" for name, (type_, text) in EXPRESSIONS.items())
TABLES = (
    BASE,
    "SET sql_mode = ''",
    "CREATE TABLE v (id INT PRIMARY KEY, g INT, ts TIMESTAMP NULL, dt DATETIME, s VARCHAR(20), c CHAR(9), y INT,"
    f" n INT, doc JSON, {COLUMNS}, KEY (g), KEY (part))",
    "INSERT INTO v (id, g, ts, dt, s, c, y, n, doc)"
    " WITH RECURSIVE i AS (SELECT 1 n UNION ALL SELECT n + 1 FROM i WHERE n < 9) SELECT n, n % 3,"
    " '2024-02-29 23:30:00', '2024-02-29 23:30:00', 'x', 'ab', 2024, 7, JSON_OBJECT('a', n) FROM i",
    # The index has what the writer computed: by it MySQL finds other rows than without it.
    "CREATE TABLE w (id INT PRIMARY KEY, ts TIMESTAMP NULL, hr INT AS (HOUR(ts)) VIRTUAL, n INT, KEY (hr),"
    " KEY ((MINUTE(ts))))",
    "INSERT INTO w (id, ts, n) VALUES (1, '2024-02-29 23:30:00', 1), (2, '2024-02-29 22:40:00', 2)",
    # MySQL makes a date-time of a TIME by the current date.
    "CREATE TABLE x (id INT PRIMARY KEY, t TIME, n INT, at DATETIME AS (CAST(t AS DATETIME)) VIRTUAL)",
    "INSERT INTO x (id, t, n) VALUES (1, '10:00:00', 1)",
    "CREATE TABLE st (id INT PRIMARY KEY, ts TIMESTAMP NULL, hr INT AS (HOUR(ts)) STORED, KEY (hr))",
    "INSERT INTO st (id, ts) VALUES (1, '2024-02-29 23:30:00')",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        yield found


def answer(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


def shown(client: RawClient, sql: str) -> str:
    """The first value of the first row, as text; "" for NULL."""
    found = parse(client.query(sql), binary=False)
    value = found.cells(found.rows[0])[0]
    return "" if value is None else bytes(value).decode()


@dataclass
class Pair:
    """Two sessions with the same settings: `through` Upwell, `direct` at MySQL."""

    beside: Beside
    through: RawClient
    direct: RawClient

    def set(self, *settings: str) -> None:
        for client in (self.through, self.direct):
            for setting in settings:
                assert not parse(client.query(setting), binary=False).errno, setting

    def equal(self, *texts: str, times: int = 2) -> None:
        for _ in range(times):
            for sql in texts:
                ours, theirs = answer(self.through, sql), answer(self.direct, sql)
                assert ours == theirs, f"{sql}: {ours} is not {theirs} ({last_served(self.beside, self.through)})"

    def warm(self, *texts: str) -> None:
        for sql in texts:
            read_until_hit(self.beside, self.through, self.through.query, sql)


def pair(beside: Beside) -> Iterator[Pair]:
    with beside.client() as through, beside.direct() as direct:
        found = Pair(beside, through, direct)
        found.set(BASE)
        yield found


two = pytest.fixture(pair, name="two")


def cached(beside: Beside, *texts: str) -> None:
    with beside.client() as maker:
        for sql in texts:
            made = parse(maker.query(f"CREATE CACHE FROM {sql}"), binary=False)
            assert not made.errno or made.errno == 1062, f"{sql}: {made.message}"


def of(columns: Sequence[str], where: str = "id = {}") -> list[str]:
    return [f"SELECT {name} FROM v WHERE {where}" for name in columns]


@pytest.mark.parametrize("setting", SETTINGS)
def test_it_is_computed_by_the_settings_of_the_reader(beside: Beside, two: Pair, setting: str) -> None:
    """The same reads of a session of another setting: as MySQL answers it; and hits where its text does not depend."""
    names = SETTINGS[setting]
    shapes = [*of(names), *(f"SELECT {name}, COUNT(*) FROM v WHERE g = {{}} GROUP BY {name}" for name in names)]
    shapes += [f"SELECT COUNT(*) FROM v AS o WHERE g = {{}} AND {name} IS NOT NULL" for name in names]
    shapes.append("SELECT * FROM v WHERE id = {}")
    cached(beside, *(sql.format("?") for sql in shapes))
    reads = [sql.format(1) for sql in shapes]
    two.warm(*reads)
    with beside.client() as through, beside.direct() as direct:
        other = Pair(beside, through, direct)
        other.set(BASE, f"SET {setting}")
        other.equal(*reads)
        other.set(BASE)
        other.equal(*reads)


def test_what_does_not_depend_is_a_hit_for_all(beside: Beside) -> None:
    """Columns whose texts depend on no setting are kept current, and are hits whatever the reader has set."""
    shapes = of(("plain", "part", "wk"))
    cached(beside, *(sql.format("?") for sql in shapes), "SELECT id FROM v WHERE part = ?")
    for number, setting in enumerate(SETTINGS):
        if "sql_mode" in setting:
            continue
        for each in pair(beside):
            each.set(f"SET {setting}")
            reads = [*(sql.format(2) for sql in shapes), "SELECT id FROM v WHERE part = '2'"]
            each.warm(*reads)
            each.equal(*reads)
            beside.mysql.execute(
                "SET sql_mode = ''", f"USE {DATABASE}", f"UPDATE v SET n = {100 + number} WHERE id = 2"
            )
            beside.caught_up()
            each.equal(*reads)


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_the_writer_computed_is_told_to_nobody(beside: Beside, two: Pair, setting: str) -> None:
    """Rows come and change by sessions of other settings; every answer that a change concerns is emptied."""
    names = SETTINGS[setting]
    shapes = [*of(names), *(f"SELECT {name}, COUNT(*) FROM v WHERE g = {{}} GROUP BY {name}" for name in names)]
    sought = [f"SELECT COUNT(DISTINCT g), COUNT(*) FROM v WHERE {name} = {{}}" for name in names]
    sought += [f"SELECT id FROM v WHERE {name} = {{}} ORDER BY id" for name in names]
    cached(beside, *(sql.format("?") for sql in (*shapes, *sought)))
    values = {name: shown(two.direct, f"SELECT {name} FROM v WHERE id = 1") for name in names}
    reads = [sql.format(5) for sql in shapes]
    for sql in sought:
        name = sql.split("WHERE ")[1].split(" ")[0]
        number = EXPRESSIONS[name][0] == "INT"
        if values[name]:
            reads.append(sql.format(values[name] if number else f"'{values[name]}'"))
    two.warm(*reads)
    with beside.direct() as writer:
        for sql in (BASE, "SET sql_mode = ''", f"SET {setting}"):
            writer.query(sql)
        for sql in (
            "UPDATE v SET ts = '2024-03-01 07:30:00', dt = '2024-05-05 05:05:05', c = 'abc', y = 2023, s = 'z'"
            " WHERE id = 5",
            "INSERT INTO v (id, g, ts, dt, s, c, y, n, doc) VALUES"
            " (50, 5, '2024-03-01 07:30:00', '2024-02-29 23:30:00', 'x', 'ab', 2024, 7, '{}')",
            "UPDATE v SET g = 1 WHERE id = 4",
        ):
            assert not parse(writer.query(sql), binary=False).errno, sql
        beside.caught_up()
        two.equal(*reads, times=3)
        for sql in (
            "DELETE FROM v WHERE id = 50",
            "UPDATE v SET dt = '2024-02-29 23:30:00', ts = dt, c = 'ab', y = 2024, s = 'x' WHERE id = 5",
            "UPDATE v SET g = id % 3",
        ):
            assert not parse(writer.query(sql), binary=False).errno, sql
    beside.caught_up()
    two.equal(*reads, times=3)


@pytest.mark.parametrize("name", ["hr", "MINUTE(ts)"])
def test_an_index_has_what_the_writer_computed(beside: Beside, two: Pair, name: str) -> None:
    with beside.client() as maker:
        for shown in ("id", name):
            made = parse(maker.query(f"CREATE CACHE FROM SELECT {shown} FROM w WHERE {name} = ?"), binary=False)
            assert made.errno, "it depends on MySQL's plan, and cannot be cached"
            assert "index" in made.message, made.message
    cached(beside, "SELECT n FROM w WHERE id = ?", "SELECT COUNT(*) FROM w WHERE n = ?")
    two.warm("SELECT n FROM w WHERE id = 1", "SELECT COUNT(*) FROM w WHERE n = 1")


def test_a_time_that_becomes_a_date_by_the_clock(beside: Beside, two: Pair) -> None:
    with beside.client() as maker:
        made = parse(maker.query("CREATE CACHE FROM SELECT at FROM x WHERE id = ?"), binary=False)
        assert made.errno and "current" in made.message, made.message
    cached(beside, "SELECT n, t FROM x WHERE id = ?")
    two.warm("SELECT n, t FROM x WHERE id = 1")


def test_a_stored_column_is_a_hit_for_all(beside: Beside) -> None:
    """What the writer's session computed is stored, for everybody."""
    cached(beside, "SELECT hr FROM st WHERE id = ?", "SELECT id FROM st WHERE hr = ?")
    for setting in SETTINGS:
        for each in pair(beside):
            each.set(f"SET {setting}")
            reads = ["SELECT hr FROM st WHERE id = 1", "SELECT id FROM st WHERE hr = 23"]
            each.warm(*reads)
            each.equal(*reads)
            with beside.direct() as writer:
                writer.query("SET time_zone = '+08:00'")
                writer.query("UPDATE st SET ts = ts + INTERVAL 1 HOUR WHERE id = 1")
            beside.caught_up()
            each.equal(*reads)
