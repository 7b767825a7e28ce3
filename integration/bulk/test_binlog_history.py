"""A change stream of Spark's and the source's history: it goes on where that is the same one, and stops where not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from bulk.binlog_follow import Stopped
from integration.bulk.binlog_batches import Query, query
from integration.conftest import OwnMySQL
from integration.servers.private_mysql import Server
from sqltypes.errors import ConfigError
from tests.support.waiting import until

TABLE = ("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)", "INSERT INTO shop.t VALUES (1, 10)")
UPDATE = "UPDATE shop.t SET v = v + 1"
RESET = "RESET BINARY LOGS AND GTIDS"
MASTER = "RESET MASTER"  # before 8.4
NAME = "shop.t"


def read(stream: Query) -> list[int]:
    return [row["after"]["v"] for row in stream.all()]


def test_logs_that_are_rotated_purged_and_a_server_that_is_restarted(own_mysql: OwnMySQL) -> None:
    mysql = own_mysql()
    mysql.execute(*TABLE)
    with query(mysql, table=NAME, startingPosition="earliest") as stream:
        assert read(stream) == [10]
        mysql.execute(UPDATE, "FLUSH BINARY LOGS", UPDATE)
        assert read(stream) == [11, 12]
        mysql.restart()
        mysql.execute(UPDATE)
        assert read(stream) == [13], "on new connections"
        _purge(mysql)
        assert read(stream) == []
        kept = stream.start
        mysql.execute(UPDATE)
    with query(mysql, kept, table=NAME) as stream:
        assert read(stream) == [14], "what was read is in no log any more, but what follows is"
        mysql.execute(UPDATE)
        start, end = stream.start, stream.end()
        mysql.execute(UPDATE)
        _purge(mysql)
        with pytest.raises(Stopped, match=r"purged binlogs that were not read yet: .*begin anew"):
            stream.rows(start, end)
    with query(mysql, start, table=NAME) as stream, pytest.raises(Stopped, match="purged binlogs"):
        stream.batch()
    with query(mysql, table=NAME, startingPosition="earliest") as stream:
        assert read(stream) == []


def _purge(mysql: Server) -> None:
    """MySQL keeps a log that somebody still reads: one whose connection was closed reads on for a moment."""
    mysql.execute("FLUSH BINARY LOGS")
    newest = mysql.execute("SHOW BINARY LOGS")[-1][0]

    def purged() -> bool:
        mysql.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return bool(mysql.execute("SHOW BINARY LOGS")[0][0] == newest)

    asyncio.run(until(purged))


def test_a_server_whose_binlogs_were_reset(own_mysql: OwnMySQL) -> None:
    """Even where it has committed as many transactions since."""
    mysql = own_mysql()
    mysql.execute(*TABLE)
    with query(mysql, table=NAME, startingPosition="earliest") as stream:
        assert read(stream) == [10]
        mysql.execute(UPDATE)
        start, end = stream.start, stream.end()
    mysql.execute(MASTER if mysql.version().startswith("8.0") else RESET)
    mysql.execute(UPDATE)
    with query(mysql, start, table=NAME) as stream, pytest.raises(Stopped, match=r"does not have .*RESET BINARY LOGS"):
        stream.batch()
    mysql.execute(*[UPDATE] * 5)
    for act in (lambda stream: stream.batch(), lambda stream: stream.rows(start, end)):
        refuse: Callable[[Query], object] = act
        with query(mysql, start, table=NAME) as stream, pytest.raises(Stopped, match="history is another one"):
            refuse(stream)


def test_it_goes_on_at_a_replica_that_took_over(own_mysql: OwnMySQL) -> None:
    mysql, replica, other = own_mysql(), own_mysql("--server-id=7"), own_mysql("--server-id=8")
    mysql.execute(*TABLE)
    replica.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{mysql.host}', SOURCE_PORT = {mysql.port}, SOURCE_USER ="
        f" '{mysql.user}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
        "START REPLICA",
    )
    with query(mysql, table=NAME, startingPosition="earliest") as stream:
        mysql.execute("XA START 'x'", "INSERT INTO shop.t VALUES (2, 20)", "XA END 'x'", "XA PREPARE 'x'")
        mysql.execute("UPDATE shop.t SET v = 11 WHERE id = 1", "UPDATE shop.t SET v = 12 WHERE id = 1")
        assert read(stream) == [10, 11, 12]
        mysql.execute("UPDATE shop.t SET v = 13 WHERE id = 1")
        start, end = stream.start, stream.end()
        read_there = stream.rows(start, end)
    executed = mysql.execute("SELECT @@global.gtid_executed")[0][0]
    replica.execute(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60)")
    replica.execute("STOP REPLICA", "RESET REPLICA ALL", "XA COMMIT 'x'", "UPDATE shop.t SET v = 99 WHERE id = 1")
    with query(replica, start, table=NAME) as stream:
        assert stream.rows(start, end) == read_there and len(read_there) == 1
        assert read(stream) == [13, 20, 99]
        _purge(replica)
    mysql.execute("XA ROLLBACK 'x'")  # it would hold its locks for ever
    other.execute(*TABLE)
    with query(other, start, table=NAME) as stream, pytest.raises(Stopped, match="another server answers"):
        stream.batch()
    with query(replica, start, table=NAME) as stream, pytest.raises(Stopped, match="purged"):
        stream.batch()


def test_a_server_that_is_away_is_waited_for(own_mysql: OwnMySQL, monkeypatch: pytest.MonkeyPatch) -> None:
    mysql = own_mysql()
    mysql.execute(*TABLE)
    with query(mysql, table=NAME) as stream:
        mysql.execute(UPDATE)
        assert read(stream) == [11]
        mysql.execute(UPDATE)
        end = stream.end()
        mysql.kill()
        starting = threading.Thread(target=mysql.start)
        starting.start()
        try:
            (row,) = stream.rows(stream.start, end)
            assert row["after"]["v"] == 12, "the task has waited"
        finally:
            starting.join()
        mysql.kill()
        monkeypatch.setattr("bulk.binlog_scout.PATIENCE", 0.0)
        with pytest.raises(Stopped, match=r"has been away .*cannot be reached"):
            stream.end()
        mysql.start()
        mysql.execute(UPDATE)
        assert read(stream) == [12, 13]


def test_a_source_that_leaves_changes_out(own_mysql: OwnMySQL) -> None:
    mysql = own_mysql()
    mysql.execute(*TABLE)
    for name, value in (("binlog_row_image", "MINIMAL"), ("binlog_row_metadata", "MINIMAL")):
        mysql.execute(f"SET GLOBAL {name} = {value}")
        with query(mysql, table=NAME) as stream, pytest.raises(Stopped, match=f"{name}=FULL.*SET PERSIST {name}"):
            stream.batch()
        mysql.execute(f"SET GLOBAL {name} = FULL")
    filtered = own_mysql("--binlog-ignore-db=elsewhere")
    filtered.execute(*TABLE)
    with pytest.raises(ConfigError, match="Binlog_Ignore_DB=elsewhere"), query(filtered, table=NAME):
        pass
