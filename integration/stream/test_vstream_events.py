"""What a real server writes into its binlog, as the change stream tells it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dataflow.messages import Ddl, Progress, Transaction
from integration.servers.private_mysql import Server
from integration.stream.stream_support import Collected, Stream, follow

Scenario = Callable[[Stream, str], Awaitable[None]]


def run(mysql: Server, database: str, scenario: Scenario) -> Collected:
    """Follows a server with the tables t and u (wanted) and other (not wanted) while the scenario runs."""

    async def body() -> Collected:
        async with follow(mysql) as stream:
            for name in ("t", "u"):
                stream.want(database, name)
            await scenario(stream, database)
            await stream.caught_up()
            return stream.events

    for name in ("t", "u", "other"):
        mysql.execute(f"CREATE TABLE `{database}`.{name} (id INT PRIMARY KEY, v VARCHAR(20), n INT)")
    return asyncio.run(body())


def last(events: Collected) -> object:
    """The last that is more than progress: others may write to the server too."""
    return [event for event in events if not isinstance(event, Progress)][-1]


def definitions(events: Collected, database: str) -> list[Ddl]:
    """Those on tables of the test's own database."""
    found = [event for event in events if isinstance(event, Ddl) and event.tables]
    return [event for event in found if any(name.startswith(f"{database}.") for name in event.tables or ())]


def transactions(events: Collected) -> list[list[tuple[str, list[object]]]]:
    """The changes of each transaction, tables without their database."""
    return [
        [(change.table.split(".")[1], list(change.pairs)) for change in event.changes]
        for event in events
        if isinstance(event, Transaction)
    ]


def test_changes_of_several_tables_keep_their_order(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(
            f"USE `{db}`",
            "BEGIN",
            "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', NULL)",
            "INSERT INTO t VALUES (3, 'c', 3)",
            "INSERT INTO u VALUES (1, 'x', 1)",
            "INSERT INTO other VALUES (1, 'hidden', 1)",
            "UPDATE t SET v = 'z' WHERE id = 2",
            "SAVEPOINT s",
            "INSERT INTO t VALUES (9, 'undone', 9)",
            "ROLLBACK TO s",
            "DELETE FROM t WHERE id = 1",
            "COMMIT",
        )

    assert transactions(run(mysql, database, scenario)) == [
        [
            ("t", [(None, (1, "a", 1)), (None, (2, "b", None)), (None, (3, "c", 3))]),
            ("u", [(None, (1, "x", 1))]),
            ("t", [((2, "b", None), (2, "z", None)), ((1, "a", 1), None)]),
        ]
    ]


def test_a_transaction_on_other_tables_is_progress(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(f"INSERT INTO `{db}`.other VALUES (1, 'x', 1)")

    events = run(mysql, database, scenario)
    assert any(isinstance(event, Progress) for event in events)
    assert not transactions(events)


def test_only_wanted_columns_are_decoded(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        table = stream.want(db, "t")
        stream.source.want(table, frozenset({"ID", "n"}))
        await stream.execute(f"INSERT INTO `{db}`.t VALUES (1, 'skipped', 5), (2, NULL, NULL)")

    events = run(mysql, database, scenario)
    assert transactions(events) == [[("t", [(None, (1, None, 5)), (None, (2, None, None))])]]


def test_compressed_transactions_are_decoded(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        rows = ", ".join(f"({n}, REPEAT('v', 20), {n})" for n in range(20_000))
        await stream.execute(
            "SET binlog_transaction_compression = ON",
            f"INSERT INTO `{db}`.t VALUES {rows}",
            f"UPDATE `{db}`.t SET n = -1 WHERE id = 19999",
        )

    found = transactions(run(mysql, database, scenario))
    assert [len(pairs) for [(_, pairs)] in found] == [20_000, 1]
    assert found[1] == [("t", [((19_999, "v" * 20, 19_999), (19_999, "v" * 20, -1))])]


def test_tagged_transactions_have_their_own_source(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute("SET gtid_next = 'AUTOMATIC:my_tag'", f"INSERT INTO `{db}`.t VALUES (1, 'a', 1)")
        await stream.caught_up()

    event = last(run(mysql, database, scenario))
    assert isinstance(event, Transaction)
    assert event.gtid.source.endswith(":my_tag")
    assert event.committed_at > 1.7e9


def test_xa_rows_become_visible_with_their_commit(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(
            f"USE `{db}`", "XA START 'a','b',3", "INSERT INTO t VALUES (1, 'a', 1)", "XA END 'a','b',3",
            "XA PREPARE 'a','b',3",
        )  # fmt: skip
        await stream.execute(f"INSERT INTO `{db}`.u VALUES (1, 'between', 1)")
        await stream.execute("XA COMMIT 'a','b',3")
        await stream.execute(
            f"USE `{db}`",
            "XA START 'one'",
            "INSERT INTO t VALUES (2, 'b', 2)",
            "XA END 'one'",
            "XA COMMIT 'one' ONE PHASE",
        )
        await stream.execute(
            f"USE `{db}`", "XA START 'no'", "INSERT INTO t VALUES (3, 'c', 3)", "XA END 'no'", "XA PREPARE 'no'"
        )
        await stream.execute("XA ROLLBACK 'no'")

    events = run(mysql, database, scenario)
    assert transactions(events) == [
        [("u", [(None, (1, "between", 1))])],
        [("t", [(None, (1, "a", 1))])],
        [("t", [(None, (2, "b", 2))])],
    ]
    assert not events.gaps


def test_an_xa_commit_whose_rows_were_not_seen_is_a_gap(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE `{database}`.early (id INT PRIMARY KEY)")
    mysql.execute(
        f"USE `{database}`", "XA START 'early'", "INSERT INTO early VALUES (1)", "XA END 'early'", "XA PREPARE 'early'"
    )

    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute("XA COMMIT 'early'")

    assert [gap.reason for gap in run(mysql, database, scenario).gaps] == [
        "an XA transaction was committed whose rows were not seen: X'6561726c79',X'',1"
    ]


def test_definitions_name_their_tables(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(
            f"USE `{db}`",
            "ALTER TABLE t ADD COLUMN extra INT",
            "RENAME TABLE other TO `renamed one`",
            f"TRUNCATE `{db}`.u",
            "CREATE INDEX i ON t (n)",
            "CREATE TABLE made AS SELECT 1 AS one",
            "CREATE OR REPLACE VIEW w AS SELECT id FROM t",
            "DROP TABLE made",
            "ANALYZE TABLE t",
        )

    events = run(mysql, database, scenario)
    tables = [event.tables for event in definitions(events, database)]
    named = [frozenset(name.split(".")[1] for name in found) for found in tables if found is not None]
    assert [sorted(names) for names in named] == [
        ["t"],
        ["other", "renamed one"],
        ["u"],
        ["t"],
        ["made"],
        ["w"],
        ["made"],
    ]
    assert len(tables) == len(named)


def test_rows_of_a_changed_table_are_not_decoded_by_the_old_layout(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(f"ALTER TABLE `{db}`.t DROP COLUMN v", f"INSERT INTO `{db}`.t VALUES (1, 5)")
        await stream.caught_up()
        stream.want(db, "t")
        await stream.execute(f"INSERT INTO `{db}`.t VALUES (2, 6)")

    events = run(mysql, database, scenario)
    ddl = definitions(events, database)
    assert [event.tables for event in ddl] == [frozenset({f"{database}.t"})] * 2
    assert "2 columns in the binlog, 3 in the schema" in ddl[1].statement
    assert transactions(events) == [[("t", [(None, (2, 6))])]]


def test_partial_images_empty_their_table(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(f"INSERT INTO `{db}`.t VALUES (1, 'a', 1)")
        await stream.execute(
            "SET binlog_row_image = 'MINIMAL'",
            "BEGIN",
            f"UPDATE `{db}`.t SET n = 2",
            f"INSERT INTO `{db}`.u VALUES (1, 'a', 1)",
            "COMMIT",
        )

    event = definitions(run(mysql, database, scenario), database)[-1]
    assert event.tables == frozenset({f"{database}.t", f"{database}.u"})
    assert "binlog_row_image must be FULL" in event.statement


def test_partial_json_updates_empty_their_table(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(f"""CREATE TABLE `{db}`.j (id INT PRIMARY KEY, doc JSON)""")
        stream.want(db, "j")
        await stream.execute(
            f"""INSERT INTO `{db}`.j VALUES (1, '{{"a": "long enough to be updated in place", "b": 1}}')""",
            "SET binlog_row_value_options = 'PARTIAL_JSON'",
            f"UPDATE `{db}`.j SET doc = JSON_SET(doc, '$.a', 'short')",
        )

    event = definitions(run(mysql, database, scenario), database)[-1]
    assert event.tables == frozenset({f"{database}.j"})


def test_changes_by_statement_concern_the_tables_of_their_database(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute("SET binlog_format = 'STATEMENT'", f"INSERT INTO `{db}`.t VALUES (1, 'a', 1)")

    events = run(mysql, database, scenario)
    (event,) = definitions(events, database)
    assert {f"{database}.t", f"{database}.u"} <= (event.tables or set())
    assert all(name.startswith(f"{database}.") for name in event.tables or ())
    assert "binlog_format must be ROW" in event.statement
    assert not event.schema and not events.gaps


def test_a_partitioned_table_is_decoded(mysql: Server, database: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(f"CREATE TABLE `{db}`.p (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3")
        stream.want(db, "p")
        await stream.execute(
            f"INSERT INTO `{db}`.p VALUES (1, 1), (2, 2)", f"UPDATE `{db}`.p SET id = 6, v = 7 WHERE id = 2"
        )

    found = transactions(run(mysql, database, scenario))
    assert sorted(map(repr, found[0][0][1])) == ["(None, (1, 1))", "(None, (2, 2))"]
    assert found[1] == [("p", [((2, 2), (6, 7))])]


def test_hidden_and_many_columns_are_decoded(mysql: Server, database: str) -> None:
    """Functional and multi-valued indexes have hidden columns; tables may have more than 250 columns."""

    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(
            f"CREATE TABLE `{db}`.h (a INT, b JSON, g INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED,"
            " i INT INVISIBLE DEFAULT 9, KEY ((a * 2)), KEY ((CAST(b->'$.x' AS UNSIGNED ARRAY))))"
        )
        columns = ", ".join(f"c{n} INT" for n in range(300))
        await stream.execute(f"CREATE TABLE `{db}`.wide (id INT PRIMARY KEY, {columns})")
        stream.want(db, "h")
        stream.want(db, "wide")
        await stream.execute(
            f"""INSERT INTO `{db}`.h (a, b) VALUES (1, '{{"x": [1, 2]}}')""",
            f"INSERT INTO `{db}`.wide (id, c299) VALUES (1, 7)",
            f"UPDATE `{db}`.wide SET c0 = 5",
        )

    found = transactions(run(mysql, database, scenario))
    assert found[0] == [("h", [(None, (1, '{"x": [1, 2]}', 2, 3, 9))])]
    before = (1, *[None] * 299, 7)
    assert found[1] == [("wide", [(None, before)])]
    assert found[2] == [("wide", [(before, (1, 5, *[None] * 298, 7))])]


@pytest.mark.parametrize("compression", ["OFF", "ON"])
@pytest.mark.parametrize("size", [4_190_000, 4_200_000, 17_000_000, 40_000_000])
def test_rows_that_are_very_large_empty_their_table(mysql: Server, database: str, size: int, compression: str) -> None:
    async def scenario(stream: Stream, db: str) -> None:
        await stream.execute(
            *(f"CREATE TABLE `{db}`.{name} (id INT PRIMARY KEY, v LONGTEXT)" for name in ("big", "beside"))
        )
        for name in ("big", "beside"):
            stream.want(db, name)
        await stream.execute(
            f"SET binlog_transaction_compression = {compression}",
            f"INSERT INTO `{db}`.big VALUES (1, REPEAT('x', {size})), (2, 'small')",
            f"INSERT INTO `{db}`.beside VALUES (1, 'one')",
            f"UPDATE `{db}`.big SET v = 'small' WHERE id = 1",
        )

    events = run(mysql, database, scenario)
    emptied = [event for event in events if isinstance(event, Ddl) and not event.schema]
    rows = events.inserted(f"{database}.big")
    assert events.inserted(f"{database}.beside") == [(1, "one")] and not events.gaps
    if size < 4 << 20:
        assert [len(str(row[1])) for row in rows if row is not None] == [size, 5, 5] and not emptied
    else:
        assert rows == [] and [event.tables for event in emptied] == [frozenset({f"{database}.big"})] * 2
