"""Large fills by a cluster and by Spark Connect, and the change stream over that; an executor, and MySQL, that go away
in the middle; and the password, which stands nowhere."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from pathlib import Path

import pytest

from bulk.frames import Piece
from bulk.questions import Login, Question
from examples.lobsters.proxy_process import ROOT
from external_upquery.collected import CollectedUpquery, Result
from external_upquery.rows_apart import Packed
from integration.bulk.filler import bulk_of, needs_spark, run_in, same_spark
from integration.bulk.spark_cluster import START, Running, connect_server, standalone
from integration.bulk.test_bulk_fills import NUMBERS, answer, fill, rows, truth
from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.proxy_thread import Beside
from proxy.fills.spark_process import SparkProcess
from proxy.port.fill_progress import FillBy, FillProgress
from sqltypes.errors import SparkUnavailable
from tests.support.waiting import until

PASSWORD = "Zx9-of_the-account"
LOCKED_SECONDS = 150.0  # that a test may keep the table locked, also where it fails
DEAR = 0.1  # seconds between two looks, of which each takes milliseconds
SQL = "SELECT id, n, name FROM item WHERE id = ?"
FOLLOWER = """
import sys
from pyspark.sql import SparkSession
from upwell.spark import register

master, url, table, starting, folder = sys.argv[1:]
spark = SparkSession.builder.remote(master).getOrCreate()
register(spark, url)
changes = spark.readStream.format("upwell_binlog").option("table", table).option("startingPosition", starting).load()
query = changes.writeStream.format("parquet").option("path", folder + "/changes")
query = query.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
query.start().awaitTermination()
for row in spark.read.parquet(folder + "/changes").orderBy("transaction", "after.id").collect():
    print(row.transaction, row.operation, row.after.id, row.after.n)
spark.stop()
"""


class Paused:
    """The first job of Spark's finds the table locked: something can happen while its tasks wait for MySQL."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mysql: Server, database: str) -> None:
        self.waits = asyncio.Event()  # the tasks do
        self.go_on = asyncio.Event()
        self._mysql, self._database = mysql, database
        ask = SparkProcess.ask
        first = True

        async def paused(
            spark: SparkProcess, login: Login, slices: Sequence[Sequence[Question]]
        ) -> AsyncGenerator[list[Piece], None]:
            nonlocal first
            if first:
                first = False
                lock = asyncio.create_task(self._lock())
                await self.locked.wait()
                tasks.append(lock)
            async for pieces in ask(spark, login, slices):
                yield pieces

        tasks: list[asyncio.Task[None]] = []
        self.locked = asyncio.Event()
        monkeypatch.setattr(SparkProcess, "ask", paused)

    async def _lock(self) -> None:
        connection = await asyncio.to_thread(self._mysql.connect, database=self._database)
        try:
            with connection.cursor() as cursor:
                await asyncio.to_thread(cursor.execute, "LOCK TABLES item WRITE")
                self.locked.set()
                waiting = (
                    "SELECT COUNT(*) FROM performance_schema.processlist WHERE state LIKE 'Waiting for table metadata%'"
                )

                async def waits() -> bool:
                    await asyncio.to_thread(cursor.execute, waiting)
                    return bool(cursor.fetchall()[0][0])

                await until(waits, START, DEAR)
                self.waits.set()
            await asyncio.wait_for(self.go_on.wait(), LOCKED_SECONDS)
        finally:  # else the database could not be dropped
            connection.close()


by_executors: list[bool] = []  # of each slice that Spark has brought: whether its rows came decoded


@pytest.fixture(autouse=True)
def _decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = CollectedUpquery.answered

    def noted(
        self: CollectedUpquery, received: Iterable[bytes], connected_at: float, packed: Packed = ()
    ) -> Generator[None, None, Result]:
        by_executors.append(bool(packed))
        return answered(self, received, connected_at, packed)

    by_executors.clear()
    monkeypatch.setattr(CollectedUpquery, "answered", noted)


async def filled(proxy: Proxy, expected: int) -> FillProgress:
    progress = await fill(proxy, "c", FillBy.SPARK)
    assert (progress.keys, progress.held, progress.left, progress.by) == (expected, expected, 0, FillBy.SPARK), progress
    for number in range(0, expected, expected // 20):
        assert answer(proxy, "c", number) == await truth(proxy, "c", number)
    assert by_executors and all(by_executors), f"executors have our decoder: {progress}"
    return progress


@pytest.mark.timeout(280)
def test_a_cluster_an_executor_that_is_killed_and_the_password(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_spark()
    user = f"u{os.getpid()}"

    async def scenario(cluster: Running) -> None:
        url = f"mysql://{user}:{PASSWORD}@{mysql.host}:{mysql.port}"
        state = tmp_path / "state"
        options = {"upstream": url, "spark_master": cluster.master}
        async with proxy_beside(mysql, database, state, **options) as proxy:
            await proxy.write(*NUMBERS, rows(20_000))
            await proxy.app.router.caches.create("c", SQL, database)
            await bulk_of(proxy).spark.start()
            await until(lambda: len(cluster.executors()) == 2, START, DEAR)
            paused = Paused(monkeypatch, mysql, database)
            filling = asyncio.create_task(filled(proxy, 20_000))
            await paused.waits.wait()
            os.kill(cluster.executors()[0], signal.SIGKILL)
            await until(lambda: len(cluster.executors()) >= 2, START, DEAR)  # its worker begins another
            paused.go_on.set()
            await filling

    folder = tmp_path / "cluster"
    (folder / "conf").mkdir(parents=True)
    (folder / "events").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(
        f"spark.executor.memory 512m\nspark.eventLog.enabled true\n"
        f"spark.eventLog.compress false\nspark.eventLog.dir file://{folder}/events\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder / "conf"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    mysql.execute(f"CREATE USER {user} IDENTIFIED BY '{PASSWORD}'", f"GRANT ALL ON `{database}`.* TO {user}")
    mysql.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}")
    try:
        with standalone(folder) as cluster:
            run(lambda: scenario(cluster))
            printed = cluster.printed()
            assert "SparkListenerJobStart" in printed, "there are logs of the jobs"
            assert PASSWORD not in printed
            for path in (tmp_path / "state").rglob("*"):
                assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    finally:
        mysql.execute(f"DROP USER {user}")


@pytest.mark.timeout(280)
def test_a_cluster_that_has_lost_its_workers_says_so(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_spark()

    async def scenario(cluster: Running) -> None:
        async with proxy_beside(mysql, database, tmp_path / "state", spark_master=cluster.master) as proxy:
            await proxy.write(*NUMBERS, rows(2_000))
            await proxy.app.router.caches.create("c", SQL, database)
            await bulk_of(proxy).spark.start()
            await until(lambda: len(cluster.executors()) == 2, START, DEAR)
            cluster.lose_workers()
            with pytest.raises(SparkUnavailable, match="no worker for 3 s"):
                await fill(proxy, "c", FillBy.SPARK)
            assert len(await proxy.client.cache("c").get(7)) == 1, "reads go on"

    folder = tmp_path / "cluster"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "spark-defaults.conf").write_text("spark.executor.memory 512m\nspark.upwell.workersWithin 3\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder / "conf"))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with standalone(folder) as cluster:
        run(lambda: scenario(cluster))


@pytest.mark.timeout(280)
def test_spark_connect(mysql: Server, database: str, tmp_path: Path) -> None:
    needs_spark()

    async def scenario(server: Running) -> None:
        async with proxy_beside(mysql, database, tmp_path / "state", spark_master=server.master) as proxy:
            await proxy.write(*NUMBERS, rows(5_000))
            await proxy.app.router.caches.create("c", SQL, database)
            await filled(proxy, 5_000)
            await proxy.app.router.caches.drop("c")
            await proxy.app.router.caches.create("c", SQL, database)
            await filled(proxy, 5_000)

    folder = tmp_path / "connect"
    folder.mkdir()
    with connect_server(folder) as server:
        run(lambda: scenario(server))
        follow(server.master, mysql, database, folder)


def follow(master: str, mysql: Server, database: str, folder: Path) -> None:
    """The change stream, by a client of its own, whose tasks and state are Spark's."""
    starting = str(mysql.execute("SELECT @@global.gtid_executed")[0][0])
    for number in (1, 2):
        mysql.execute(f"UPDATE `{database}`.item SET n = {-number} WHERE id < 100")
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWER, master, mysql.url, f"{database}.item", starting, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    changes = [f"{number} update {id} {-number}" for number in (1, 2) for id in range(100)]
    assert done.stdout.splitlines() == changes, done.stdout[-2000:] + done.stderr[-3000:]


@pytest.mark.timeout(280)
def test_mysql_is_started_anew_in_the_middle(
    filler: Beside, own_mysql: OwnMySQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once with nothing that tells whether it is the same history: the cache is planned again, and the fill begins
    anew."""
    needs_spark()
    mysql = own_mysql()

    async def scenario() -> None:
        async with proxy_beside(mysql, "d", tmp_path) as proxy:
            with same_spark(proxy, filler):
                await bulk_of(proxy).spark.start()
                await started_anew_in_the_middle(proxy)

    async def started_anew_in_the_middle(proxy: Proxy) -> None:
        await proxy.write(*NUMBERS, rows(20_000))
        await proxy.app.router.caches.create("c", SQL, "d")
        paused = Paused(monkeypatch, mysql, "d")
        filling = asyncio.create_task(filled(proxy, 20_000))
        await paused.waits.wait()
        await asyncio.to_thread(mysql.kill)
        await asyncio.to_thread(mysql.start)
        paused.go_on.set()
        await filling
        await proxy.write("UPDATE item SET n = -1 WHERE id < 100")
        await proxy.caught_up()
        assert answer(proxy, "c", 7) == await truth(proxy, "c", 7), "it is kept current"

    mysql.execute("CREATE DATABASE d")
    run_in(filler, scenario)
