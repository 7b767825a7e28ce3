"""DDL statements in random spellings: the stream reads the name of each table that MySQL changes in the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pymysql
import pytest

from integration.servers.mysql_server import Server
from vstream.ddl import ALL, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, Kind, classify

MODES = {0: "", ANSI_QUOTES: "ANSI_QUOTES", NO_BACKSLASH_ESCAPES: "NO_BACKSLASH_ESCAPES"}
MODES[ANSI_QUOTES | NO_BACKSLASH_ESCAPES] = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"
TABLES = [
    "t",
    "only",
    "\u0131f",
    "a b",
    'a"b',
    "a`b",
    "x.y",
    "select",
    "1a",
    "é",
    "\u3000t",
    "to",
    "event",
    "b\\",
    "view",
]
FREE = ["n1", "new table", 'n"1', "n`1", "user", "n\\"]  # names without a table
GAPS = [
    "\n",
    "\t",
    "/**/",
    "/* x, y */",
    "--\n",
    "-- x\n",
    "#x\n",
    "--\t TO z\n",
    " --\r\n",
    "/*!80000 */",
    "\x0c",
    "/*+ x */",
]
TEXTS = [
    "x",
    "it''s",
    "a\\'",
    'a"',
    "x', RENAME TO n1, COMMENT 'y",
    "a\\\\",
    "--\n",
    "/*",
    "*/",
    "a\\', RENAME TO n1 -- ",
]
VIEW = "SELECT VIEW_DEFINITION FROM information_schema.VIEWS WHERE TABLE_SCHEMA = SCHEMA() AND TABLE_NAME = %s"
ROUNDS, STATEMENTS = 15, 10


class Writer:
    """One statement in one spelling. A part is a token; a table's name is a tuple of it."""

    def __init__(self, random: Random, database: str, mode: int) -> None:
        self.random, self.database, self.mode = random, database, mode

    def name(self, name: str) -> str:
        marks = ["`", "`", '"' if self.mode & ANSI_QUOTES else "`", ""]
        mark = self.random.choice(marks)
        shown = mark + name.replace(mark, mark * 2) + mark if mark else name
        return shown if self.random.random() < 0.7 else f"{self.database}{self.gap(0.2)}.{self.gap(0.2)}{shown}"

    def text(self) -> str:
        mark = "'" if self.mode & ANSI_QUOTES or self.random.random() < 0.7 else '"'
        return mark + self.random.choice(TEXTS) + mark

    def gap(self, chance: float = 0.25) -> str:
        return self.random.choice(GAPS) if self.random.random() < chance else ""

    def statement(self, parts: list[str | tuple[str]]) -> str:
        written = []
        for part in parts:
            token = self.name(part[0]) if isinstance(part, tuple) else part
            if isinstance(part, str) and part.isalpha():
                token = self.random.choice([token, token.lower(), token.title()])
            if self.random.random() < 0.04:
                token = self.random.choice(["/*!80000 {} */", "/*!99999 {} */", "/*! {} */"]).format(token)
            written.append(token)
        return "".join(f"{self.gap()} {token}{self.gap()}" for token in written)


def parts(writer: Writer) -> list[str | tuple[str]]:
    random = writer.random
    a, b, c = ((name,) for name in random.sample(TABLES, 3))
    n, m = ((name,) for name in random.sample(FREE, 2))
    text = writer.text()
    made: list[Callable[[], list[str | tuple[str]]]] = [
        lambda: ["RENAME", random.choice(["TABLE", "TABLES"]), a, "TO", n, ",", b, "TO", m],
        lambda: ["RENAME", "TABLE", a, "TO", n, ",", b, "TO", a, ",", n, "TO", b],
        lambda: ["ALTER", "TABLE", a, "RENAME", *random.choice([[], ["TO"], ["AS"], ["="]]), n],
        lambda: ["ALTER", "TABLE", a, "COMMENT", text, ",", "RENAME", "TO", n],
        lambda: ["ALTER", "TABLE", a, "ADD", "COLUMN", "c", "INT", "COMMENT", text, ",", "RENAME", n],
        lambda: ["ALTER", "TABLE", a, "RENAME", "COLUMN", "v", "TO", "w", ",", "RENAME", "INDEX", "i", "TO", "j"],
        lambda: ["ALTER", "TABLE", a, "COMMENT", "=", text],
        lambda: ["ALTER", "TABLE", ("parted",), "EXCHANGE", "PARTITION", "p0", "WITH", "TABLE", a],
        lambda: ["ALTER", "TABLE", ("parted",), "TRUNCATE", "PARTITION", "ALL"],
        lambda: ["DROP", "TABLE", *random.choice([[], ["IF", "EXISTS"]]), a, ",", b, ",", c],
        lambda: ["DROP", "TABLE", a, random.choice(["RESTRICT", "CASCADE"])],
        lambda: ["TRUNCATE", *random.choice([[], ["TABLE"]]), a],
        lambda: ["CREATE", "TABLE", *random.choice([[], ["IF", "NOT", "EXISTS"]]), n, "LIKE", a],
        lambda: ["CREATE", "TABLE", n, "(", "id", "INT", "COMMENT", text, ")"],
        lambda: ["CREATE", "OR", "REPLACE", "SQL", "SECURITY", "INVOKER", "VIEW", n, "AS", "SELECT", "*", "FROM", a],
        lambda: ["CREATE", "DEFINER", "=", "CURRENT_USER", "(", ")", "VIEW", n, "AS", "SELECT", text, "AS", "x"],
        lambda: ["ALTER", "ALGORITHM", "=", "MERGE", "VIEW", ("v1",), "AS", "SELECT", "2", "AS", "two"],
        lambda: ["DROP", "VIEW", ("v1",), ",", ("v2",)],
        lambda: ["DROP", "INDEX", "i", "ON", a],
        lambda: ["CREATE", "INDEX", "j", "ON", a, "(", "v", ",", "id", ")", "COMMENT", text],
    ]
    return random.choice(made)()


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def fresh(cursor: Any, database: str) -> None:
    cursor.execute("SET sql_mode = ''")
    cursor.execute(f"DROP DATABASE IF EXISTS {database}")
    cursor.execute(f"CREATE DATABASE {database}")
    cursor.execute(f"USE {database}")
    for number, name in enumerate(TABLES):
        cursor.execute(f"CREATE TABLE {quoted(name)} (id INT PRIMARY KEY, v INT, KEY i (v)) STATS_PERSISTENT = 0")
        cursor.execute(f"INSERT INTO {quoted(name)} VALUES ({number}, {number})")
    cursor.execute("CREATE TABLE parted (id INT PRIMARY KEY, v INT, KEY i (v)) PARTITION BY HASH(id) PARTITIONS 1")
    cursor.execute("INSERT INTO parted VALUES (1, 1)")
    cursor.execute("CREATE VIEW v1 AS SELECT 1 AS one")
    cursor.execute("CREATE VIEW v2 AS SELECT 1 AS one")


def state(cursor: Any) -> dict[str, tuple[object, ...]]:
    """By name, what the table is, but for its indexes, and what is in it."""
    cursor.execute("SET sql_mode = ''")
    cursor.execute("SHOW FULL TABLES")
    found: dict[str, tuple[object, ...]] = {}
    for name, kind in cursor.fetchall():
        if kind == "VIEW":  # what it shows depends on its tables, too
            cursor.execute(VIEW, (name,))
            found[name] = cursor.fetchone()
            continue
        cursor.execute(f"SHOW CREATE TABLE {quoted(name)}")
        shape = [line.rstrip(",") for line in cursor.fetchone()[1].split("\n") if not line.lstrip().startswith("KEY")]
        cursor.execute(f"SELECT * FROM {quoted(name)} ORDER BY 1")
        found[name] = shape, cursor.fetchall()
    return found


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: MODES[mode] or "default")
def test_every_table_that_changes_is_read_in_the_text(mysql: Server, database: str, mode: int) -> None:
    random = Random(f"ddl {mode}")
    counts: Counter[str] = Counter()
    with mysql.connect() as connection, connection.cursor() as cursor:
        for _ in range(ROUNDS):
            fresh(cursor, database)
            before = state(cursor)
            for _ in range(STATEMENTS):
                writer = Writer(random, database, mode)
                text = writer.statement(parts(writer))
                cursor.execute("SET sql_mode = %s", (MODES[mode],))
                try:
                    cursor.execute(text)
                except pymysql.err.MySQLError:
                    counts["refused by MySQL"] += 1
                    continue
                after = state(cursor)
                changed = {name for name in before | after if before.get(name) != after.get(name)}
                read = classify(text, database, mode)
                counts["all" if read.tables is None else "named"] += 1
                counts["changed"] += bool(changed)
                if read.kind is not Kind.DDL:
                    assert not changed, text
                elif read.tables is not None and f"{database}.{ALL}" not in read.tables:
                    assert {f"{database}.{name}" for name in changed} <= read.tables, text
                before = after
    print(counts)
    assert counts["named"] > counts["all"] and counts["changed"] > ROUNDS
