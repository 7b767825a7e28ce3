"""The start-up check on servers that are set up wrongly, and that its statements mend them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from external_upquery.address import Upstream, parse_upstream
from external_upquery.executor import Executor
from external_upquery.mysql.doctor import check
from integration.servers.private_mysql import Server
from integration.support.upqueries import answer, request, run
from sqltypes.errors import SourceDown
from sqltypes.source_checks import Finding, Severity
from tests.support.waiting import until

OPERATIONS = Path(__file__).parent.parent.parent / "docs" / "operations.md"


def findings(upstream: Upstream, connections: int = 8) -> dict[str, Finding]:
    found = check(upstream, connections=connections)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def wrong(found: dict[str, Finding]) -> dict[str, Severity]:
    return {name: one.severity for name, one in found.items() if one.severity is not Severity.OK}


def test_server_that_is_set_up_well_has_no_findings(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql()
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)")
    assert wrong(findings(parse_upstream(server.url))) == {}


def test_each_wrong_setting_is_found_and_mended_by_its_statements(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql(
        "--gtid-mode=OFF",
        "--enforce-gtid-consistency=OFF",
        "--binlog-format=STATEMENT",
        "--binlog-row-image=MINIMAL",
        "--binlog-row-metadata=MINIMAL",
        "--binlog-row-value-options=PARTIAL_JSON",
        "--binlog-order-commits=OFF",
        "--binlog-expire-logs-seconds=60",
        "--max-connections=13",
        "--max-user-connections=13",
    )
    server.execute("CREATE DATABASE shop", "CREATE TABLE shop.good (id INT PRIMARY KEY)")
    server.execute("CREATE TABLE shop.`od``d` (id INT PRIMARY KEY) ENGINE=MyISAM")
    upstream = parse_upstream(server.url)
    error, warning = Severity.ERROR, Severity.WARNING
    found = findings(upstream)
    assert wrong(found) == {
        "enforce_gtid_consistency": error,
        "gtid_mode": error,
        "binlog_format": error,
        "binlog_row_image": error,
        "binlog_row_value_options": error,
        "binlog_order_commits": warning,
        "engines": warning,
        "binlog_expire_logs_seconds": warning,
        "max_connections": warning,
    }
    assert found["engines"].seen == "shop.od`d (MyISAM)"
    assert wrong(findings(upstream, connections=100))["max_connections"] is error
    for one in found.values():
        if one.severity is not Severity.OK:
            assert one.mend and one.needed
            server.execute(*one.mend)
    assert wrong(findings(upstream)) == {}


def test_settings_that_need_a_restart_say_so(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql("--binlog-do-db=shop", "--binlog-ignore-db=other", "--log-replica-updates=OFF")
    found = findings(parse_upstream(server.url))
    assert found["binlog_filters"].severity is Severity.ERROR
    assert found["binlog_filters"].seen == "Binlog_Do_DB=shop, Binlog_Ignore_DB=other"
    assert "restart" in found["binlog_filters"].needed
    # Not a replica: what it does not replicate need not be logged.
    assert found["log_replica_updates"].severity is Severity.OK
    server.execute("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='nobody'")
    found = findings(parse_upstream(server.url))
    assert found["log_replica_updates"].severity is Severity.ERROR
    assert "restart" in found["log_replica_updates"].needed


def test_server_without_a_binlog_is_refused(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql("--skip-log-bin", "--gtid-mode=OFF")
    found = findings(parse_upstream(server.url))
    assert found["log_bin"].severity is Severity.ERROR
    assert "restart" in found["log_bin"].needed


def test_compressed_transactions_are_no_fault(own_mysql: Callable[..., Server]) -> None:
    found = findings(parse_upstream(own_mysql("--binlog-transaction-compression=ON").url))
    assert found["binlog_transaction_compression"].severity is Severity.OK
    assert "are read too" in found["binlog_transaction_compression"].seen


def test_children_of_cascades_that_are_not_logged_are_named(own_mysql: Callable[..., Server]) -> None:
    server = own_mysql("--loose-innodb-native-foreign-keys=ON")
    server.execute(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.a (id INT PRIMARY KEY)",
        "CREATE TABLE shop.b (a INT, FOREIGN KEY (a) REFERENCES shop.a (id) ON DELETE CASCADE)",
        "CREATE TABLE shop.c (a INT, FOREIGN KEY (a) REFERENCES shop.a (id))",
    )
    found = findings(parse_upstream(server.url))["cascading_foreign_keys"]
    can_be_set = server.execute("SHOW VARIABLES LIKE 'innodb_native_foreign_keys'")
    assert found.severity is (Severity.WARNING if can_be_set else Severity.OK)
    assert "shop.b" in found.seen and "shop.c" not in found.seen


@pytest.fixture
def newcomer(mysql: Server, database: str) -> Iterator[Upstream]:
    """A user without any right, and a database with a table and a view."""
    mysql.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, n INT)",
        f"INSERT INTO {database}.t VALUES (1, 10)",
        f"CREATE VIEW {database}.v AS SELECT n FROM {database}.t",
        "CREATE USER newcomer@'%' IDENTIFIED BY 'pw'",
    )
    yield replace(parse_upstream(mysql.url), user="newcomer", password="pw", database=database)
    mysql.execute("DROP USER newcomer@'%'")


def test_missing_rights_are_found_and_granted_by_their_statements(mysql: Server, newcomer: Upstream) -> None:
    found = findings(newcomer)
    assert wrong(found) == {
        "binlog_filters": Severity.WARNING,
        "replication_slave": Severity.ERROR,
        "select": Severity.WARNING,
    }
    mysql.execute(f"GRANT INSERT, SELECT (id) ON {newcomer.database}.t TO newcomer@'%'")
    found = findings(newcomer)
    assert found["replication_slave"].severity is Severity.ERROR
    for one in found.values():
        if one.severity is not Severity.OK:
            mysql.execute(*one.mend)
    mysql.execute(f"GRANT SELECT ON {newcomer.database}.* TO newcomer@'%'")
    for one in findings(newcomer).values():
        mysql.execute(*one.mend)
    assert wrong(findings(newcomer)) == {}


def test_hidden_views_are_a_warning_with_the_right_that_shows_them(mysql: Server, newcomer: Upstream) -> None:
    mysql.execute(
        f"GRANT SELECT ON {newcomer.database}.* TO newcomer@'%'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO newcomer@'%'",
    )
    found = findings(newcomer)
    assert wrong(found) == {"show_view": Severity.WARNING}
    mysql.execute(*found["show_view"].mend)
    assert wrong(findings(newcomer)) == {}


def test_rights_by_a_role_count(mysql: Server, newcomer: Upstream) -> None:
    mysql.execute(
        "CREATE ROLE reading",
        f"GRANT SELECT, SHOW VIEW ON {newcomer.database}.* TO reading",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reading",
        "GRANT reading TO newcomer@'%'",
        "SET DEFAULT ROLE ALL TO newcomer@'%'",
    )
    try:
        assert wrong(findings(newcomer)) == {}
    finally:
        mysql.execute("DROP ROLE reading")


def test_user_of_the_manual_is_enough(mysql: Server, database: str) -> None:
    mysql.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (7)")
    script = re.search(r"```sql\n(CREATE USER.*?)```", OPERATIONS.read_text(), re.DOTALL)
    assert script is not None
    text = script.group(1).replace("'upwell'@'%'", "'manual_user'@'%'").replace("shop.", f"{database}.")
    mysql.execute(*(statement for statement in text.replace("'...'", "'secret'").split(";") if statement.strip()))
    upstream = replace(parse_upstream(mysql.url), user="manual_user", password="secret", database=database)

    async def body(executor: Executor) -> None:
        sql = f"SELECT id FROM {database}.t"
        for slow in (False, True):
            found = await answer(executor, request(sql, tables=(f"{database}.t",), slow=slow))
            assert found.results == ([(7,)],)
            assert found.bracket.history
        assert (await executor.query(sql))[1] == [(7,)]
        assert (await executor.describe(sql))[0][0].name == "id"
        sleeping = asyncio.ensure_future(executor.query("SELECT SLEEP(1000)"))
        await executor.query("SELECT 1")
        sleeping.cancel()
        await asyncio.gather(sleeping, return_exceptions=True)

        async def killed() -> bool:
            asleep = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'"
            return (await executor.query(asleep))[1] == [(0,)]

        await until(killed)

    try:
        assert wrong(findings(upstream)) == {}
        run(upstream, body)
    finally:
        mysql.execute("DROP USER 'manual_user'@'%'")


def test_source_that_is_down_is_told_as_such() -> None:
    with pytest.raises(SourceDown):
        check(Upstream("127.0.0.1", 1, "a", "", tls="disabled"))
