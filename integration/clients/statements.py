"""Statements and values that the Python programs share. Imports no driver."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# The session's settings that change answers, as the driver leaves them after connecting.
SETTINGS = (
    "autocommit",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "default_week_format",
    "div_precision_increment",
    "group_concat_max_len",
    "lc_time_names",
    "net_write_timeout",
    "sql_auto_is_null",
    "sql_mode",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "transaction_isolation",
    "transaction_read_only",
    "wait_timeout",
    "windowing_use_high_precision",
)
DEFAULTS = " UNION ALL ".join(f"SELECT '{name}', CAST(@@{name} AS CHAR)" for name in SETTINGS)

EVERY_TYPE = "SELECT * FROM {data}.every_type ORDER BY id"
EVERY_BUT_A_YEAR = (
    "id, a_tinyint, a_bool, a_smallint, a_mediumint, an_int, a_bigint, an_unsigned, a_decimal, a_long_decimal, a_float,"
    " a_double, a_bit, a_char, a_varchar, a_latin1, a_text, a_binary, a_varbinary, a_blob, a_date, a_time, a_fine_time,"
    " a_datetime, a_fine_datetime, a_timestamp, an_enum, a_set, a_json, a_point"
)

PARAMETERS = (
    "id INT PRIMARY KEY",
    "a_bigint BIGINT",
    "a_double DOUBLE",
    "a_decimal DECIMAL(30, 10)",
    "a_blob BLOB",
    "a_text VARCHAR(100) CHARACTER SET utf8mb4",
    "a_date DATE",
    "a_time TIME(6)",
    "a_datetime DATETIME(6)",
    "a_bool BOOL",
)
VALUES: tuple[tuple[object, ...], ...] = (
    (
        1,
        -9223372036854775808,
        0.1,
        decimal.Decimal("12345678901234567890.0123456789"),
        bytes(range(256)),
        "quotes ' \" \\ % %s ? \x00 \n \x1a and 🐬",
        datetime.date(2024, 2, 29),
        datetime.timedelta(hours=-100, microseconds=1),
        datetime.datetime(2024, 2, 29, 23, 59, 59, 123456),
        True,
    ),
    (
        2,
        9223372036854775807,
        -1.7976931348623157e308,
        decimal.Decimal("-0.0000000001"),
        b"",
        "",
        datetime.date(1000, 1, 1),
        datetime.timedelta(hours=838, minutes=59, seconds=59),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
        False,
    ),
    (3, None, None, None, None, "only this", None, None, None, None),
)

UNICODE = ("", "plain", "größer", "日本語", "🐬🐬", "e\u0301", "\u202eright to left", "👩‍👩‍👧")

# Each fails; the numbers are those of MySQL's reference: 1062, 1064, 1146, 1054, 1049, 1142, 1365 and so on.
ERRORS = (
    "INSERT INTO taken VALUES (1)",
    "SELEC 1",
    "SELECT * FROM missing",
    "SELECT missing FROM taken",
    "SELECT * FROM does_not_exist.taken",
    "SELECT * FROM mysql.user",
    "INSERT INTO taken VALUES (NULL)",
    "INSERT INTO taken VALUES ('x')",
    "SELECT 1 FROM taken WHERE id = (SELECT 1 UNION SELECT 2)",
    "DROP TABLE missing",
    "CREATE TABLE taken (id INT)",
)

HUGE = bytes(range(256)) * (20 * 1024 * 1024 // 256)

BIG_SUMS = (100_000, sum(range(100_000)))

# On the database `data`. No view: while MySQL resolves one, the session is its definer's, whom nobody else may kill.
LONG_RUNNING = "SELECT /* long_running */ COUNT(*) FROM number a, number b, number c WHERE a.n + b.n <> c.n"
SESSIONS = "SELECT id FROM performance_schema.processlist WHERE id = {} AND 1 = %s"


@dataclass(frozen=True, slots=True)
class Read:
    """A statement with `%s` for its parameters, and the keys that it is asked with in turn: two as text, and two as a
    prepared statement, so that neither way finds what the other one has filled."""

    name: str
    sql: str
    keys: tuple[tuple[object, ...], ...]

    def key(self, number: int, *, prepared: bool = False) -> tuple[object, ...]:
        """That of a round."""
        return self.keys[number % 2 + 2 * prepared]

    def ordered(self, rows: Iterable[Sequence[object]]) -> list[Sequence[object]]:
        """The rows as they came where the statement orders them, else by their first column."""
        return list(rows) if "ORDER BY" in self.sql else sorted(rows, key=lambda row: str(row[0]))


# What repeated reads ask for. Of 50 rounds of a way at most two are a key's first time.
READS = (
    Read("primary key", "SELECT id, name, country FROM author WHERE id = %s", ((3,), (7,), (4,), (9,))),
    Read(
        "in list",
        "SELECT id, title FROM article WHERE id IN (%s, %s, %s)",
        ((1, 2, 3), (5, 8, 13), (4, 6, 7), (9, 10, 11)),
    ),
    Read(
        "join",
        "SELECT article.id, article.title, author.name FROM article JOIN author ON author.id = article.author_id"
        " WHERE author.id = %s ORDER BY article.id",
        ((3,), (7,), (4,), (9,)),
    ),
    Read("aggregate", "SELECT COUNT(*), SUM(score) FROM article WHERE author_id = %s", ((3,), (7,), (4,), (9,))),
    Read(
        "text key",
        "SELECT id, country FROM author WHERE name = %s",
        (("author 2",), ("author 1 🐬",), ("author 3",), ("author 4 🐬",)),
    ),
    # MySQL announces these otherwise than it prepares them: they go through a temporary table. A prepared statement's
    # rows cannot be decoded, or are bytes, where the announcement is that of the prepared text.
    Read(
        "years of groups",
        "SELECT YEAR(published) AS x, COUNT(*) FROM article WHERE author_id = %s GROUP BY x",
        ((3,), (7,), (4,), (9,)),
    ),
    Read("years", "SELECT DISTINCT YEAR(published) FROM article WHERE author_id = %s", ((3,), (7,), (4,), (9,))),
    Read("documents", "SELECT DISTINCT a_json FROM every_type WHERE id = %s", ((1,), (2,), (3,), (4,))),
)
