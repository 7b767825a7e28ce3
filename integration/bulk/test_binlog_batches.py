"""The batches of a change stream of Spark's: exactly the transactions between two positions, whatever happens."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import bulk.binlog_rows
from bulk.binlog_follow import Stopped
from bulk.binlog_source import rows_of
from integration.bulk.binlog_batches import changes, query
from integration.servers.private_mysql import Server
from sqltypes.errors import ConfigError, SourceDown

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(20))"
MANY = (
    "INSERT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */ INTO t SELECT n, n * 2, CONCAT('w', n) FROM"
    " (WITH RECURSIVE s(n) AS (SELECT {0} UNION ALL SELECT n + 1 FROM s WHERE n < {1}) SELECT n FROM s) AS numbers"
)
DUMPS = "SELECT id FROM performance_schema.processlist WHERE command LIKE 'Binlog Dump%'"


@pytest.fixture
def table(mysql: Server, database: str) -> Iterator[str]:
    mysql.execute(f"USE `{database}`", TABLE)
    yield f"{database}.t"


def write(mysql: Server, table: str, *statements: str) -> None:
    mysql.execute(f"USE `{table.partition('.')[0]}`", *statements)


def kill_dumps(mysql: Server) -> int:
    dumps = mysql.execute(DUMPS)
    for (number,) in dumps:
        mysql.execute(f"KILL {number}")
    return len(dumps)


def test_a_batch_has_exactly_the_transactions_between_two_positions(mysql: Server, table: str) -> None:
    before = datetime.now(UTC)
    write(mysql, table, "INSERT INTO t VALUES (0, 0, 'before')")
    with query(mysql, table=table, maxTransactionsPerTrigger="2") as stream:
        assert stream.batch() == []
        write(
            mysql,
            table,
            "INSERT INTO t VALUES (1, 1, 'a'), (2, NULL, NULL)",
            "CREATE TABLE other (id INT)",
            "BEGIN", "UPDATE t SET v = 7 WHERE id = 1", "INSERT INTO other VALUES (3)",
            "DELETE FROM t WHERE id > 0 ORDER BY id", "COMMIT",
            "BEGIN", "INSERT INTO t VALUES (9, 9, '')", "ROLLBACK",
            "INSERT INTO t VALUES (3, 3, 'c')",
        )  # fmt: skip
        first = stream.start
        one, two = stream.batch(), stream.batch()
        assert changes(one) == [("insert", None, (1, 1, "a")), ("insert", None, (2, None, None))]
        assert changes(two) == [
            ("update", (1, 1, "a"), (1, 7, "a")),
            ("delete", (1, 7, "a"), None),
            ("delete", (2, None, None), None),
            ("insert", None, (3, 3, "c")),
        ]
        assert stream.batch() == [] and stream.end() == stream.start
        assert [row["row"] for row in one + two] == [1, 2, 1, 2, 3, 1]
        assert [row["transaction"] for row in one + two] == [1, 1, 3, 3, 3, 4]
        assert {(row["database"], row["table"]) for row in one + two} == {tuple(table.split("."))}
        number = int(one[0]["gtid"].rpartition(":")[2])
        assert [int(row["gtid"].rpartition(":")[2]) - number for row in one + two] == [0, 0, 2, 2, 2, 3]
        assert all(before <= row["committed_at"] <= datetime.now(UTC) for row in one + two)
        assert stream.rows(first, stream.start) == one + two, "asked again, in one batch"
    with query(mysql, first, table=table) as again:
        assert again.all() == one + two
    with query(mysql, table=table, startingPosition=first["gtids"]) as begun:
        assert begun.all() == one + two


def test_bytes_bound_a_batch_but_a_transaction_is_whole(mysql: Server, table: str) -> None:
    with query(mysql, table=table, maxBytesPerTrigger="20000") as stream:
        for number in range(40):
            write(mysql, table, f"INSERT INTO t VALUES ({number}, 0, '{'x' * 20}')")
        write(mysql, table, MANY.format(1000, 4000))
        for number in range(40, 80):
            write(mysql, table, f"INSERT INTO t VALUES ({number}, 0, '{'x' * 20}')")
        sizes = []
        while rows := stream.batch():
            sizes.append(len(rows))
        assert sum(sizes) == 3081 and max(sizes) >= 3001 and len(sizes) <= 4, sizes
        write(mysql, table, "DELETE FROM t WHERE id < 5", *["INSERT INTO t VALUES (-1, 0, '')", "DELETE FROM t"] * 20)
        assert stream.end(all_of_it=True)["transactions"] - stream.start["transactions"] == 41


def test_a_large_transaction_is_one_batch_and_no_large_memory(mysql: Server, table: str) -> None:
    with query(mysql, table=table, maxBytesPerTrigger="1000") as stream:
        write(mysql, table, MANY.format(1, 60_000), "UPDATE t SET v = v + 1 WHERE id <= 5")
        start, end = stream.start, stream.end()
        (piece,) = stream.reader.pieces(start, end)
        sizes, last = [], 0
        for batch in rows_of(piece):
            sizes.append(batch.num_rows)
            numbers = batch.column("row").to_pylist()
            assert numbers == list(range(last + 1, last + 1 + len(numbers)))
            last = numbers[-1]
        assert last == 60_000 and max(sizes) < 20_000 and len(sizes) > 3, sizes
        stream.start = end
        assert len(stream.batch()) == 5


def test_prepared_rows_come_with_their_commit_in_whichever_batch_that_is(mysql: Server, table: str) -> None:
    def prepare(name: str, number: int) -> None:
        write(
            mysql, table, f"XA START '{name}'", f"INSERT INTO t VALUES ({number}, 0, '{name}')", f"XA END '{name}'",
            f"XA PREPARE '{name}'",
        )  # fmt: skip

    with query(mysql, table=table) as stream:
        prepare("one", 1)
        prepare("two", 2)
        write(mysql, table, "INSERT INTO t VALUES (3, 3, 'c')")
        assert changes(stream.batch()) == [("insert", None, (3, 3, "c"))]
        assert stream.start["prepared"].endswith("-" + str(int(stream.start["last"].rpartition(":")[2]) - 1))
        write(mysql, table, "XA ROLLBACK 'one'", "INSERT INTO t VALUES (4, 4, 'd')")
    with query(mysql, stream.start, table=table) as stream:
        assert changes(stream.batch()) == [("insert", None, (4, 4, "d"))]
        write(mysql, table, "INSERT INTO t VALUES (5, 5, 'e')", "XA COMMIT 'two'")
        assert changes(stream.batch()) == [("insert", None, (5, 5, "e")), ("insert", None, (2, 0, "two"))]
        assert stream.start["prepared"] == ""
        prepare("three", 6)
    with query(mysql, table=table) as begun_later:
        write(mysql, table, "XA COMMIT 'three'")
        with pytest.raises(Stopped, match="XA transaction was committed whose rows were not seen"):
            begun_later.batch()


def test_a_connection_that_is_lost_costs_no_row_and_gives_none_twice(
    mysql: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk.binlog_rows, "AT_ONCE", 500)
    write(mysql, table, "ALTER TABLE t MODIFY w VARCHAR(2000)")
    with query(mysql, table=table, maxBytesPerTrigger=str(1 << 30)) as stream:
        large = MANY.format(1000, 30_000).replace("'w', n", "REPEAT('x', 1000), n")
        write(mysql, table, *(MANY.format(n * 100, n * 100 + 50) for n in range(5)), large)
        write(mysql, table, "INSERT INTO t VALUES (-1, 0, '')")
        assert kill_dumps(mysql) == 0, "the scout has not begun"
        end = stream.end()
        assert kill_dumps(mysql) == 1
        (piece,) = stream.reader.pieces(stream.start, end)
        seen: Counter[int] = Counter()
        killed = 0
        for batch in rows_of(piece):
            before = len(seen)
            seen.update(row["after"]["id"] for row in batch.to_pylist())
            if before // 5_000 != len(seen) // 5_000:
                killed += kill_dumps(mysql)
        assert killed >= 2 and len(seen) == 5 * 51 + 29_001 + 1 and set(seen.values()) == {1}
        stream.start = end
        write(mysql, table, "DELETE FROM t WHERE id < 0")
        assert changes(stream.batch()) == [("delete", (-1, 0, ""), None)], "the scout has begun again"


def test_several_tables_in_texts(mysql: Server, table: str, database: str) -> None:
    write(mysql, table, "CREATE TABLE u (a DECIMAL(40,3), b BINARY(3), c TIME(2), d DOUBLE, e TEXT, f BIT(3))")
    with query(mysql, tables=f"{table}, {database}.u") as stream:
        write(
            mysql, table, "BEGIN", "INSERT INTO t VALUES (1, NULL, 'ü')",
            "INSERT INTO u VALUES (1.5, x'0aff', '-1:2:3.45', 0.1, NULL, 5)", "DELETE FROM t", "COMMIT",
        )  # fmt: skip
        rows = stream.batch()
        assert [(row["table"], row["operation"]) for row in rows] == [
            ("t", "insert"), ("u", "insert"), ("t", "delete"),
        ]  # fmt: skip
        t, u = [("id", "1"), ("v", None), ("w", "ü")], [
            ("a", "1.500"), ("b", "0AFF00"), ("c", "-01:02:03.45"), ("d", "0.1"), ("e", None), ("f", "5"),
        ]  # fmt: skip
        assert [(row["before"], row["after"]) for row in rows] == [(None, t), (None, u), (t, None)]


def test_statements_that_keep_rows_pass_and_truncate_is_told(mysql: Server, table: str) -> None:
    with query(mysql, table=table) as stream:
        write(
            mysql,
            table,
            "INSERT INTO t VALUES (1, 1, 'a')",
            "CREATE INDEX i ON t (v)",
            "ALTER TABLE t ADD INDEX j (w), DROP INDEX i",
            "ANALYZE TABLE t",
            "CREATE TABLE copied AS SELECT * FROM t",
            "TRUNCATE TABLE t",
            "TRUNCATE TABLE copied",
            "INSERT INTO t VALUES (2, 2, 'b')",
            "ALTER TABLE copied ADD x INT",
        )
        assert changes(stream.all()) == [
            ("insert", None, (1, 1, "a")), ("truncate", None, None), ("insert", None, (2, 2, "b")),
        ]  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD x INT",
        "ALTER TABLE t MODIFY v BIGINT",
        "ALTER TABLE t MODIFY w VARCHAR(10)",
        "DROP TABLE t",
        "RENAME TABLE t TO u",
    ],
)
def test_a_statement_that_changes_the_table_ends_the_stream_before_it(
    mysql: Server, table: str, statement: str
) -> None:
    with query(mysql, table=table) as stream:
        write(mysql, table, "INSERT INTO t VALUES (1, 1, 'a')", statement, "CREATE TABLE IF NOT EXISTS t (id INT)")
        assert changes(stream.batch()) == [("insert", None, (1, 1, "a"))]
        for _ in range(2):
            with pytest.raises(Stopped, match="may have changed the table") as stopped:
                stream.batch()
        assert statement[:10] in str(stopped.value)
        behind = str(stopped.value).rpartition("startingPosition '")[2].rstrip("'")
    with query(mysql, table=table, startingPosition=behind) as anew:
        write(mysql, table, "INSERT INTO t (id) VALUES (2)")
        assert [row["after"]["id"] for row in anew.all()] == [2]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("binlog_row_image = MINIMAL", "binlog_row_image must be FULL"),
        ("binlog_format = STATEMENT", "binlog_format must be ROW"),
    ],
)
def test_changes_that_the_binlog_does_not_have_whole_end_the_stream(
    mysql: Server, table: str, setting: str, told: str
) -> None:
    with query(mysql, table=table) as stream:
        write(mysql, table, "INSERT INTO t VALUES (1, 1, 'a')")
        write(mysql, table, f"SET SESSION {setting}", "UPDATE t SET v = 2")
        assert changes(stream.batch()) == [("insert", None, (1, 1, "a"))]
        with pytest.raises(Stopped, match=told):
            stream.batch()


def test_rows_that_foreign_keys_change_unseen_are_refused(mysql: Server, table: str) -> None:
    key = "FOREIGN KEY (t) REFERENCES t (id) ON DELETE CASCADE"
    write(mysql, table, f"CREATE TABLE child (id INT PRIMARY KEY, t INT, {key})")
    native = mysql.execute("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    name = table[: -len("t")] + "child"
    if not native or native[0][1] == "ON":
        with pytest.raises(Stopped, match="foreign keys"), query(mysql, table=name):
            pass
        return
    write(mysql, table, "INSERT INTO t VALUES (1, 1, '')", "INSERT INTO child VALUES (7, 1)")
    with query(mysql, table=name) as stream:
        write(mysql, table, "DELETE FROM t")
        assert changes(stream.batch()) == [("delete", (7, 1), None)]


def test_what_is_wrong_is_said_plainly(mysql: Server, table: str) -> None:
    user = f"u{os.getpid()}"
    host = f"{mysql.host}:{mysql.port}"

    def refused(kind: type[Exception], told: str, url: str = mysql.url, **options: Any) -> None:
        with pytest.raises(kind, match=told) as error, query(url, **options) as stream:
            stream.batch()
        assert "secret" not in str(error.value)

    refused(ConfigError, "upwell.spark.register", table=table, password="x")
    refused(ConfigError, "'tabel' is not known", tabel=table)
    refused(ConfigError, "'table' .* or the option 'tables'")
    refused(ConfigError, "'t' is no table", table="t")
    refused(ConfigError, "there is no table", table=f"{table}x")
    refused(ConfigError, "whole number", table=table, maxBytesPerTrigger="0")
    refused(ConfigError, "startingPosition", table=table, startingPosition="now")
    refused(ConfigError, "'typed'|typed, text", table=table, dates="none")
    refused(SourceDown, "Access denied", f"mysql://{user}:secret@{host}", table=table)
    refused(SourceDown, "no connection", f"mysql://{user}:secret@127.0.0.1:1", table=table)
    mysql.execute(f"CREATE USER {user} IDENTIFIED BY 'secret'", f"GRANT SELECT ON *.* TO {user}")
    try:
        refused(Stopped, "GRANT REPLICATION SLAVE", f"mysql://{user}:secret@{host}", table=table)
    finally:
        mysql.execute(f"DROP USER {user}")


def test_a_position_that_never_was(mysql: Server, table: str) -> None:
    nowhere = "11111111-1111-1111-1111-111111111111:1-5"
    with query(mysql, table=table, startingPosition=nowhere) as stream, pytest.raises(Stopped, match=nowhere):
        stream.batch()
    with pytest.raises(ValueError, match="not an offset"), query(mysql, {"file": "x"}, table=table) as stream:
        stream.batch()


def test_the_trigger_available_now_ends_where_it_began(mysql: Server, table: str) -> None:
    with query(mysql, table=table, maxTransactionsPerTrigger="1") as stream:
        write(mysql, table, *(f"INSERT INTO t VALUES ({number}, 0, '')" for number in range(3)))
        stream.reader.aim()
        write(mysql, table, "INSERT INTO t VALUES (3, 0, '')")
        assert [row["after"]["id"] for row in stream.all()] == [0, 1, 2]


def values_of(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["after"]["v"] for row in rows]


def test_a_date_that_spark_has_not_ends_the_stream(mysql: Server, table: str) -> None:
    for kind, value in (("DATE", "2024-00-00"), ("DATETIME(2)", "0000-00-00 00:00:00"), ("TIMESTAMP", "0000-00-00")):
        write(mysql, table, "DROP TABLE IF EXISTS d", f"CREATE TABLE d (v {kind} NULL)")
        name = table[: -len("t")] + "d"
        with query(mysql, table=name) as stream:
            write(mysql, table, "SET sql_mode = ''", "INSERT INTO d VALUES (NULL), ('2024-02-29')")
            assert [str(value)[:10] for value in values_of(stream.batch())] == ["None", "2024-02-29"]
            write(mysql, table, "SET sql_mode = ''", f"INSERT INTO d VALUES ('{value}')")
            with pytest.raises(Stopped, match=f"d.v has '{value[:10]}.*'dates', 'text'"):
                stream.rows(stream.start, stream.end())
        with query(mysql, stream.start, table=name, dates="text") as texts:
            (found,) = values_of(texts.batch())
            assert found.startswith(value[:10])
