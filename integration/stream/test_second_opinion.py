"""`upwell doctor` has the newest transactions read by mysql-replication, too."""

from __future__ import annotations

import pytest

from external_upquery.address import parse_upstream
from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from proxy.source import second_opinion
from sqltypes.source_checks import Finding, Severity
from vstream.binlog import layout, rows

TABLE = (
    "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, a INT, b SMALLINT UNSIGNED, e VARCHAR(40), f DECIMAL(20,6),"
    " h TEXT, g DATETIME(6), i VARBINARY(20), j DOUBLE, k VARCHAR(10) CHARACTER SET latin1, y YEAR, z ENUM('a','b'),"
    " s SET('a','b'), o JSON, t BIT(9), m TIME(3), n CHAR(9), u VARCHAR(9) CHARACTER SET utf16)"
)
ROWS = (
    "INSERT INTO t VALUES (18446744073709551615, -5, 65535, 'aé漢😀', -12.345, '', '0000-00-00', x'00ff00', 1.1, 'é€',"
    " 0, 'b', 'a,b', '{\"a\": 1}', b'101', '-12:34:56.65', 'x ', 'w')",
    "INSERT INTO t (id, e) VALUES (1, NULL), (2, ''), (3, 'ö')",
    "UPDATE t SET a = a + 1, h = REPEAT('x', 3000)",
    "DELETE FROM t WHERE id = 2",
)


# The library itself calls the driver in a way that the driver means to drop.
pytestmark = pytest.mark.filterwarnings("ignore:'db' is deprecated:DeprecationWarning")


def found(mysql: Server) -> Finding:
    mysql.execute("CREATE DATABASE shop", "USE shop", "SET sql_mode = ''", TABLE, *ROWS)
    return second_opinion.check(parse_upstream(mysql.url))


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_both_readers_agree(own_mysql: OwnMySQL, metadata: str) -> None:
    finding = found(own_mysql(f"--binlog-row-metadata={metadata}"))
    assert finding.severity is Severity.OK
    assert finding.seen == "4 transactions with 13 rows are read alike by mysql-replication"


def test_a_fault_of_ours_is_found(own_mysql: OwnMySQL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the one kind of number, the signs."""
    monkeypatch.setitem(rows._INTEGERS, layout.LONG, "I")
    finding = found(own_mysql())
    assert finding.severity is Severity.WARNING
    assert "inserted rows of shop.t are read otherwise" in finding.seen


def test_what_the_library_cannot_read_is_no_finding(own_mysql: OwnMySQL) -> None:
    compressed = found(own_mysql("--binlog-transaction-compression=ON"))
    assert compressed.severity is Severity.OK and "compressed" in compressed.seen
    mysql = own_mysql()
    mysql.execute("SET gtid_next = 'AUTOMATIC:tag'", "CREATE DATABASE other")
    tagged = found(mysql)
    assert tagged.severity is Severity.OK and "tagged" in tagged.seen
