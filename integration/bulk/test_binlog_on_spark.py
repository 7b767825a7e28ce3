"""The change stream as a source of a real Spark: values of every type, checkpoints, secrets, and the example's lake."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.errors import StreamingQueryException

from bulk.session import SparkSettings, open_session
from examples.lobsters.data import SETS
from examples.lobsters.load import load
from examples.lobsters.proxy_process import ROOT
from integration.bulk.filler import needs_spark
from integration.servers.private_mysql import Server
from integration.stream.stream_support import reflect, selected
from sqltypes.schema import SqlType
from sqltypes.temporal import time_text
from tests.support.type_cases import SQL_MODE, TYPE_CASES
from tests.support.waiting import until
from upwell.spark import FORMAT, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark gives a process that it starts ten seconds, which on a machine that does much else may be too few. Nothing has
# begun by then.
TOO_SLOW = "Python worker failed to connect back"
TRIES = 6
SECRET = "s3cr3t-Of-The-Binlog"


@pytest.fixture(scope="module")
def account(mysql: Server) -> Iterator[str]:
    """The address with an account that has what the source needs, and a password that can be looked for."""
    user = f"u{os.getpid()}"
    mysql.execute(
        f"CREATE USER {user} IDENTIFIED BY '{SECRET}'",
        f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}",
    )
    yield f"mysql://{user}:{SECRET}@{mysql.host}:{mysql.port}"
    mysql.execute(f"DROP USER {user}")


@pytest.fixture(scope="module")
def spark(account: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    needs_spark()
    settings = SparkSettings(folder=str(tmp_path_factory.mktemp("spark")), more={"spark.sql.shuffle.partitions": "2"})
    session = open_session(settings)
    register(session, account)
    yield session
    session.stop()


def stream(spark: SparkSession, table: str, **options: str) -> DataFrame:
    return spark.readStream.format(FORMAT).options(table=table, startingPosition="latest", **options).load()


def run(changes: DataFrame, checkpoint: Path, each: Callable[[list[Any]], None]) -> None:
    """Writes what there is by now."""

    def write(batch: DataFrame, number: int) -> None:
        each(batch.orderBy("transaction", "row").collect())

    query = changes.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    for _ in range(TRIES):
        try:
            query.trigger(availableNow=True).start().awaitTermination()
            return
        except StreamingQueryException as error:
            if TOO_SLOW not in str(error):
                raise
    raise AssertionError(TOO_SLOW)


def executed(mysql: Server) -> str:
    return str(mysql.execute("SELECT @@global.gtid_executed")[0][0])


def test_values_of_every_type(spark: SparkSession, mysql: Server, database: str, tmp_path: Path) -> None:
    """Those of Spark's rows are MySQL's, with extreme ones and NULLs, before and after an update."""
    columns = ", ".join(f"v{at} {case.ddl} NULL" for at, case in enumerate(TYPE_CASES))
    most = max(len(case.literals) for case in TYPE_CASES) + 1
    rows = [", ".join([str(n), *(_literal(case.literals, n) for case in TYPE_CASES)]) for n in range(most)]
    create = f"CREATE TABLE t (id INT PRIMARY KEY, {columns})"
    mysql.execute(f"USE `{database}`", f"SET sql_mode = '{SQL_MODE}'", create)
    starting = executed(mysql)
    inserts = [f"INSERT INTO t VALUES ({row})" for row in rows]
    mysql.execute(f"USE `{database}`", f"SET sql_mode = '{SQL_MODE}'", *inserts, "UPDATE t SET id = id + 1000")
    table = reflect(mysql, database, "t")
    changes = spark.readStream.format(FORMAT).option("table", f"{database}.t").option("dates", "text")
    found: list[Any] = []
    run(changes.option("startingPosition", starting).load(), tmp_path / "checkpoint", found.extend)
    expected = [
        [_as_spark(column.type, value) for column, value in zip(table.columns, row, strict=True)]
        for row in selected(mysql, table)
    ]
    before = [[row[0] - 1000, *row[1:]] for row in expected]
    assert [row.operation for row in found] == ["insert"] * most + ["update"] * most
    for place, wanted in (("after", before), ("before", before), ("after", expected)):
        part = found[:most] if wanted is before and place == "after" else found[most:]
        got = [[*row[place]] for row in part]
        for one, other in zip(got, wanted, strict=True):
            for column, ours, theirs in zip(table.columns, one, other, strict=True):
                assert (type(ours), str(ours)) == (type(theirs), str(theirs)), (column, place)


def test_what_the_writers_session_computed_is_no_value(
    spark: SparkSession, mysql: Server, database: str, tmp_path: Path
) -> None:
    """A VIRTUAL column is told where every session computes the same; a STORED one always."""
    mysql.execute(
        f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, at TIMESTAMP, hour INT AS (HOUR(at)) VIRTUAL,"
        " kept INT AS (HOUR(at)) STORED, twice INT AS (id * 2) VIRTUAL)"
    )
    starting = executed(mysql)
    mysql.execute("SET time_zone = '+08:00'", f"INSERT INTO `{database}`.t (id, at) VALUES (7, '2024-03-01 07:30:00')")
    columns = {"id": "7", "at": "2024-02-29 23:30:00", "kept": "7", "twice": "14"}
    for number, option in enumerate(("table", "tables")):
        changes = spark.readStream.format(FORMAT).options(**{option: f"{database}.t", "startingPosition": starting})
        found: list[Any] = []
        run(changes.option("dates", "text").load(), tmp_path / str(number), found.extend)
        (row,) = found
        after = row.after if option == "tables" else row.after.asDict()
        assert {name: str(value) for name, value in after.items()} == columns


def _literal(literals: tuple[str, ...], row: int) -> str:
    return literals[row] if row < len(literals) else "NULL"


def _as_spark(type_: SqlType, value: Any) -> Any:
    """A canonical value as docs/bulk.md says that Spark has it."""
    if value is None:
        return None
    if (type_.name, type_.unsigned) == ("bigint", True) or (type_.name, type_.length) == ("bit", 64):
        return Decimal(value)
    if type_.name == "decimal" and type_.precision is not None and type_.precision > 38:
        return f"{value:f}"
    if type_.name == "time":
        return time_text(value, type_.scale or 0)
    if type_.name == "vector":
        return [1.0, 2.0, 3.5]  # the only one there is
    return bytearray(value) if isinstance(value, bytes) and not spark_gives_bytes() else value


def spark_gives_bytes() -> bool:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    return session.conf.get("spark.sql.execution.pyspark.binaryAsBytes") == "true"


def test_dates_typed_a_checkpoint_and_no_secret_anywhere(
    spark: SparkSession, mysql: Server, database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mysql.execute(f"CREATE TABLE `{database}`.t (id INT PRIMARY KEY, a DATE, b DATETIME(6), c TIMESTAMP(3) NULL)")
    insert = f"INSERT INTO `{database}`.t VALUES"
    changes = stream(spark, f"{database}.t", maxTransactionsPerTrigger="1")
    checkpoint = tmp_path / "checkpoint"
    batches: list[list[Any]] = []
    run(changes, checkpoint, batches.append)
    mysql.execute(
        "SET time_zone = '+00:00'",
        f"{insert} (1, '1000-01-01', '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07'), (2, NULL, NULL, NULL)",
        f"{insert} (3, '9999-12-31', '1000-01-01', '1970-01-01 00:00:01.001')",
    )
    run(changes, checkpoint, batches.append)
    moments = spark.createDataFrame([row for batch in batches for row in batch], changes.schema)
    microseconds = [row[0] for row in moments.selectExpr("unix_micros(after.c)").collect()]
    assert microseconds == [2_147_483_647_000_000, None, 1_001_000]
    others = [tuple(row.after)[:3] for batch in batches for row in batch]
    assert others == [
        (1, date(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)),
        (2, None, None),
        (3, date(9999, 12, 31), datetime(1000, 1, 1)),
    ]
    assert [len(batch) for batch in batches if batch] == [2, 1], "one transaction each"

    def fails(rows: list[Any]) -> None:
        raise RuntimeError("the sink is full")

    mysql.execute(f"{insert} (4, NULL, NULL, NULL)")
    with pytest.raises(Exception, match="the sink is full"):
        run(changes, checkpoint, fails)
    run(changes, checkpoint, batches.append)
    assert [row.after.id for row in batches[-1]] == [4], "what was not written is given again, and nothing else"
    mysql.execute(f"ALTER TABLE `{database}`.t ADD d INT")
    with pytest.raises(Exception, match=r"may have changed the table.*startingPosition"):
        run(stream(spark, f"{database}.t"), checkpoint, batches.append)
    with pytest.raises(Exception, match="would be seen in Spark's plans"):
        stream(spark, f"{database}.t", password=SECRET)
    changes.explain(True)
    query = stream(spark, f"{database}.t").writeStream.format("memory").queryName("seen").start()
    query.processAllAvailable()
    query.explain(True)
    shown = [str(query.lastProgress), str(query.status), *capfd.readouterr()]
    query.stop()
    shown += [path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    assert any("gtids" in text for text in shown) and any("Physical Plan" in text for text in shown)
    assert not [text for text in shown if SECRET in text]


@pytest.mark.timeout(600)
def test_the_lake_of_the_example_equals_mysql_after_a_kill(mysql: Server, account: str, tmp_path: Path) -> None:
    needs_spark()
    name = f"t{os.getpid()}_lake"
    load(mysql, SETS["tiny"], database=name)
    command = [sys.executable, "-m", "examples.lake.lake", "--table", f"{name}.votes", "--folder", str(tmp_path / "l")]
    environment = {**os.environ, "UPWELL_UPSTREAM": account}
    changes = tmp_path / "l" / "changes"
    ending = threading.Event()
    written: list[int] = []
    writing = threading.Thread(target=_vote, args=(mysql, name, ending, written))
    first = _begun(command, environment, tmp_path)
    try:
        writing.start()
        asyncio.run(until(lambda: len(_committed(changes)) >= 2 or first.poll() is not None, 240))
        assert first.poll() is None
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        files = len(_committed(changes))
    finally:
        ending.set()
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
        if writing.ident is not None:
            writing.join()
    for _ in range(TRIES):
        done = subprocess.run(
            [*command, "follow", "compare", "--until-now"], cwd=ROOT, env=environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        if TOO_SLOW not in done.stderr:
            break
    assert (done.returncode, done.stdout[:7]) == (0, "equal: "), done.stdout + done.stderr[-3000:]
    assert len(_committed(changes)) > files and written[-1] > 20
    assert not [path for path in (tmp_path / "l").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    mysql.execute(f"DROP DATABASE `{name}`")


def _begun(command: list[str], environment: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """The process that follows, once its query has begun."""
    for number in range(TRIES):
        log = folder / f"log{number}"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [*command, "follow"], cwd=ROOT, env=environment, stderr=written, start_new_session=True
            )
        begun = folder / "l" / "checkpoint" / "offsets"
        asyncio.run(until(lambda: begun.is_dir() or process.poll() is not None, 300))  # noqa: B023 - not kept
        if process.poll() is None:
            return process
        assert TOO_SLOW in log.read_text(errors="replace"), log.read_text(errors="replace")[-3000:]
    raise AssertionError(TOO_SLOW)


def _committed(changes: Path) -> list[Path]:
    """The batches that the file sink has written for good."""
    return [path for path in changes.glob("_spark_metadata/*") if not path.name.startswith(".")]


def _vote(mysql: Server, database: str, ending: threading.Event, written: list[int]) -> None:
    number = 0
    with mysql.connect(database=database) as connection, connection.cursor() as cursor:
        while not ending.is_set() or number < 30:
            number += 1
            cursor.execute("INSERT INTO votes (user_id, story_id, vote) VALUES (1, %s, 1)", (number % 7 + 1,))
            cursor.execute("UPDATE votes SET vote = -vote WHERE id %% 13 = %s", (number % 13,))
            if number % 5 == 0:
                cursor.execute("DELETE FROM votes WHERE id %% 31 = %s ORDER BY id LIMIT 3", (number % 31,))
                place = (9_000_000_000 - number, number)  # downwards: numbers that are given by MySQL go upwards
                cursor.execute("UPDATE votes SET id = %s WHERE id = %s", place)
            written.append(number)
            ending.wait(0.05)
