"""Large fills: what Spark has brought is what an upquery brings, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from dataflow.readers.derivation import Params
from examples.lobsters.bulk import fill_all
from integration.bulk.filler import bulk_of, in_database, needs_spark, run_in
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.proxy_thread import Beside
from proxy.cache.key_binder import KeyBinder
from proxy.fills.one_fill import bound
from proxy.grpc.rows import FORMAT
from proxy.http.metrics import Metrics
from proxy.mysql.session.run_command import status_lines
from proxy.port.api import ParameterValue
from proxy.port.fill_progress import AuditProgress, FillBy, FillProgress
from proxy.port.reasons import NO_REASON
from sqltypes.errors import BadParameters, CannotFill, SourceError, SparkUnavailable, UnknownCache
from sqltypes.expression import Key
from tests.support.type_cases import SQL_MODE, TYPE_CASES
from tests.support.waiting import until
from upwell.client import Client

TOGETHER = 24  # columns of a table
BY = pytest.mark.parametrize("by", [FillBy.DIRECT, FillBy.SPARK], ids=["direct", "spark"])
NUMBERS = (
    "CREATE TABLE item (id INT PRIMARY KEY, grp INT, n INT NOT NULL, name VARCHAR(40), KEY (grp))",
    "CREATE TABLE tag (item INT NOT NULL, word VARCHAR(20) NOT NULL, PRIMARY KEY (item, word))",
)


def rows(count: int, first: int = 0) -> str:
    """`count` rows of `item`, in groups of about ten; one in fifty has none."""
    return (
        "INSERT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */ INTO item"
        " SELECT n, IF(n % 50 = 7, NULL, n DIV 10), n * 3, CONCAT('i', n)"
        f" FROM (WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {first + count - 1})"
        " SELECT n FROM s) AS numbers"
    )


@pytest.fixture
def proxy(filler: Beside, database: str) -> Iterator[Proxy]:
    needs_spark()
    with in_database(filler, database) as found:
        yield found


async def fill(
    proxy: Proxy, name: str, by: FillBy, keys: list[tuple[ParameterValue, ...]] | None = None
) -> FillProgress:
    async with aclosing(proxy.app.router.fills.fill(name, keys, by)) as going_on:
        async for progress in going_on:
            last = progress
    assert last.done
    proxy.app.engine.check_invariants()
    return last


async def audit_of(proxy: Proxy, name: str) -> AuditProgress:
    async with aclosing(proxy.app.router.fills.audit(name, FillBy.DIRECT, repair=False)) as going_on:
        async for progress in going_on:
            last = progress
    return last


def answer(proxy: Proxy, name: str, *parameters: ParameterValue) -> bytes | None:
    """What a hit gives; None if it would be a miss."""
    return proxy.app.router.caches.open(name, FORMAT).hit(parameters)


async def truth(proxy: Proxy, name: str, *parameters: ParameterValue) -> bytes:
    """MySQL's own answer now."""
    router = proxy.app.router
    cache = proxy.app.catalog.get(name)
    return (
        await router.reads.passing.read_cache(cache, parameters, router.pump.formats.number(FORMAT), NO_REASON)
    ).body


def test_values_of_every_type_are_those_of_an_upquery(filler: Beside, proxy: Proxy) -> None:
    tables = [TYPE_CASES[first : first + TOGETHER] for first in range(0, len(TYPE_CASES), TOGETHER)]

    async def scenario() -> None:
        for number, cases in enumerate(tables):
            columns = ", ".join(f"v{at} {case.ddl} NULL" for at, case in enumerate(cases))
            most = max(len(case.literals) for case in cases) + 1
            values = ", ".join(
                "(" + ", ".join([str(row), *(_literal(case.literals, row) for case in cases)]) + ")"
                for row in range(most)
            )
            await proxy.write(
                f"SET sql_mode = '{SQL_MODE}'",
                f"CREATE TABLE t{number} (id INT PRIMARY KEY, {columns})",
                f"INSERT INTO t{number} VALUES {values}",
            )
            name, sql = f"c{number}", f"SELECT * FROM t{number} WHERE id = ?"
            await proxy.app.router.caches.create(name, sql, proxy.database)
            opened = proxy.app.router.caches.open(name, FORMAT)
            missed = [(await opened.read((row,))).body for row in range(most)]
            await proxy.app.router.caches.drop(name)
            await proxy.app.router.caches.create(name, sql, proxy.database)
            assert answer(proxy, name, 0) is None, "nothing is held"
            progress = await fill(proxy, name, FillBy.SPARK)
            assert (progress.held, progress.left, progress.rows) == (most, 0, most), progress
            for row in range(most):
                assert answer(proxy, name, row) == missed[row], (number, row)

    run_in(filler, scenario)


def _literal(literals: tuple[str, ...], row: int) -> str:
    return literals[row] if row < len(literals) else "NULL"


SHAPES = {
    "rows": ("SELECT id, n, name FROM item WHERE grp = ?", 100, (3,)),
    "sums": ("SELECT grp, COUNT(*), SUM(n) FROM item WHERE grp = ? GROUP BY grp", 100, (3,)),
    "first": ("SELECT id, n FROM item WHERE grp = ? ORDER BY n DESC, id LIMIT 3", 100, (3,)),
    "list": ("SELECT id, name FROM item WHERE id IN (?)", 1000, (3,)),
    "joined": ("SELECT i.id, t.word FROM item i JOIN tag t ON t.item = i.id WHERE i.grp = ?", 100, (3,)),
    "outer": ("SELECT i.id, t.word FROM item i LEFT JOIN tag t ON t.item = i.id WHERE i.id = ?", 1000, (3,)),
    "words": ("SELECT item FROM tag WHERE word = ?", 7, ("w3",)),
    "two": ("SELECT name FROM item WHERE grp = ? AND id = ?", 980, (3, 31)),
    "null": ("SELECT id FROM item WHERE grp <=> ?", 101, (None,)),
    "whole": ("SELECT COUNT(*), MAX(n) FROM item", 1, ()),
}


@BY
def test_all_keys_of_every_shape(filler: Beside, proxy: Proxy, by: FillBy) -> None:
    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(1000), "INSERT INTO tag SELECT id, CONCAT('w', id % 7) FROM item")
        for name, (sql, keys, parameters) in SHAPES.items():
            await proxy.app.router.caches.create(name, sql, proxy.database)
            progress = await fill(proxy, name, by)
            assert progress.by is by or name == "whole", progress
            assert (progress.keys, progress.held, progress.left) == (keys, keys, 0), (name, progress)
            assert answer(proxy, name, *parameters) == await truth(proxy, name, *parameters), name
            assert answer(proxy, name, *parameters), name
            again = await fill(proxy, name, by)
            assert (again.held, again.rows) == (keys, 0), "all of it was held"

    run_in(filler, scenario)


@BY
def test_named_keys_those_without_rows_too(filler: Beside, proxy: Proxy, by: FillBy) -> None:
    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(2000))
        router = proxy.app.router
        await router.caches.create("c", "SELECT id FROM item WHERE grp = ?", proxy.database)
        await router.caches.create(
            "sorted", "SELECT id FROM item WHERE grp = ? ORDER BY RIGHT(name, 1)", proxy.database
        )
        keys: list[tuple[ParameterValue, ...]] = [(number,) for number in (*range(900), 900_000, 3, 3)]
        for name in ("c", "sorted"):
            progress = await fill(proxy, name, by, keys)
            assert (progress.keys, progress.held, progress.left) == (901, 901, 0), progress
            for number in (0, 3, 199, 200, 899, 900_000):
                assert answer(proxy, name, number) == await truth(proxy, name, number), number

    run_in(filler, scenario)


@BY
def test_writers_go_on_meanwhile(filler: Beside, proxy: Proxy, by: FillBy) -> None:
    """Rows are moved between keys, changed, taken away and added; what is held then is right."""

    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(30_000))
        await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE grp = ? ORDER BY id", proxy.database)
        await proxy.app.router.caches.create("s", "SELECT COUNT(*), SUM(n) FROM item WHERE grp = ?", proxy.database)
        ending = asyncio.Event()
        written = 0

        def write(number: int) -> None:
            one = number * 7919 % 30_000
            proxy.mysql.execute(
                f"USE `{proxy.database}`",
                f"UPDATE item SET n = n + 1, grp = (id * 31 + {number}) % 3000 WHERE id >= {one} AND id < {one + 20}",
                f"DELETE FROM item WHERE id = {one + 40}",
                f"INSERT IGNORE INTO item VALUES ({one + 40}, {number % 3000}, {number}, 'new')",
            )

        async def writer() -> None:
            nonlocal written
            while not ending.is_set():
                await asyncio.to_thread(write, written)
                written += 1

        writing = asyncio.create_task(writer())
        for name in ("c", "s"):
            progress = await fill(proxy, name, by)
            assert progress.left < progress.keys // 20, progress
        ending.set()
        await writing
        assert written > 3
        await proxy.caught_up()
        held = 0
        for name in ("c", "s"):
            for number in range(0, 3000, 3):
                body = answer(proxy, name, number)
                held += body is not None
                assert body is None or body == await truth(proxy, name, number), (name, number)
        assert held > 1800, held

    run_in(filler, scenario)


@pytest.mark.parametrize("named", [False, True], ids=["all", "named"])
def test_keys_that_were_bound_by_another_plan_are_bound_anew(
    filler: Beside, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """The column's collation changes while the keys are listed, or looked at: 'ä' was known by the key of 'a'."""
    words = ["ä", "b", "ß"]
    going_on = asyncio.Event()

    async def bound_late(binder: KeyBinder, asked: list[tuple[ParameterValue, ...]]) -> list[tuple[Key, Params]]:
        found = await bound(binder, asked)
        await going_on.wait()
        return found

    async def scenario() -> None:
        router = proxy.app.router
        folding, exact = "VARCHAR(20) COLLATE utf8mb4_general_ci", "VARCHAR(20) COLLATE utf8mb4_bin"
        await proxy.write(
            f"CREATE TABLE word (id INT PRIMARY KEY, w {folding})", "INSERT INTO word VALUES (1,'ä'), (2,'b'), (3,'ß')"
        )
        await router.caches.create("c", "SELECT id, w FROM word WHERE w = ?", proxy.database)
        cache = proxy.app.catalog.get("c")
        planned_first = cache.reader
        with proxy.mysql.connect(database=proxy.database) as locking, locking.cursor() as cursor:
            cursor.execute("LOCK TABLES word WRITE")  # the listing waits for it
            filling = asyncio.create_task(
                fill(proxy, "c", FillBy.DIRECT, [(word,) for word in words] if named else None)
            )
            await until(lambda: bool(bulk_of(proxy).under_way))
            await asyncio.to_thread(cursor.execute, f"ALTER TABLE word MODIFY w {exact}")
            await until(lambda: cache.reader is not planned_first)
            cursor.execute("UNLOCK TABLES")
        if named:
            await until(lambda: cache.reader is not None)
            going_on.set()
        progress = await filling
        assert (progress.keys, progress.held, progress.left) == (3, 3, 0), progress
        await proxy.caught_up()
        reader = cache.reader
        assert reader is not None and reader is not planned_first
        assert {key: reader.params_of(held) for key, held in reader.entries.items()} == {
            reader.key_of((word,)): (word,) for word in words
        }
        assert not (await audit_of(proxy, "c")).different

    if named:
        monkeypatch.setattr("proxy.fills.fills.bound", bound_late)
    run_in(filler, scenario)


async def shown_everywhere(proxy: Proxy, progress: FillProgress) -> None:
    (fill,) = (await proxy.client.status()).fills
    assert fill.cache == progress.cache and 0 < fill.held <= fill.keys == progress.keys and fill.rows and fill.slices
    page = (await Metrics(proxy.app.router).text()).decode()
    for name in ("keys", "held_keys", "rows", "rows_per_second", "seconds", "left_seconds"):
        assert f'upwell_fill_{name}{{by="{progress.by.value}",cache="c"}}' in page, page
    lines = dict(status_lines(proxy.app.router.status(), ""))
    assert f" of {progress.keys} keys, " in lines["filling c"] and lines["filling c"].endswith(progress.by.value)


def test_a_caller_that_goes_away_ends_it(filler: Beside, proxy: Proxy) -> None:
    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(30_000))
        await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", proxy.database)
        for by in (FillBy.SPARK, FillBy.DIRECT):
            async with aclosing(proxy.app.router.fills.fill("c", None, by)) as going_on:
                async for progress in going_on:
                    if progress.by is by and progress.held:
                        await shown_everywhere(proxy, progress)
                        break
            assert not bulk_of(proxy).under_way and not progress.done
            proxy.app.engine.check_invariants()
            spark = bulk_of(proxy).spark
            spark.check_invariants()
        assert (await fill(proxy, "c", FillBy.SPARK)).held == 30_000, "the next one fills the rest"

    run_in(filler, scenario)


def test_every_cache_of_the_sample_is_filled_and_audited(filler: Beside, proxy: Proxy) -> None:
    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(1_000))
        for name in ("rows", "range"):
            sql = SHAPES["rows"][0] if name == "rows" else "SELECT id FROM item WHERE n > ?"
            await proxy.app.router.caches.create(name, sql, proxy.database)
        told: list[str] = []
        with Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as client:
            found, left = await asyncio.to_thread(fill_all, client, {"rows": "all", "range": "some"}, told.append)
        ((one),) = found
        assert one.audited is not None and (one.last.by, one.last.rows, one.audited.compared) == ("spark", 980, 100)
        assert left.keys() == {"range"}
        assert told == ["filling 1 of 2: all", "filling 2 of 2: some", "auditing 1 of 1: all"]

    run_in(filler, scenario)


def test_what_cannot_be_filled_is_said_before_spark_starts(mysql: Server, database: str, tmp_path: Path) -> None:
    async def refused(proxy: Proxy, kind: type[Exception], word: str, *asked: object) -> None:
        name, keys = asked
        with pytest.raises(kind, match=word):
            await fill(proxy, str(name), FillBy.SPARK, keys)  # type: ignore[arg-type]  # as callers may
        assert bulk_of(proxy).spark.pid is None

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, spark_master="off", memory_limit="1MiB") as proxy:
            await proxy.write(*NUMBERS, rows(40_000))
            router = proxy.app.router
            await router.caches.create("c", "SELECT id, n, name FROM item WHERE id = ?", database)
            await router.caches.create("e", "SELECT id FROM item WHERE n > ? AND n < ?", database)
            await router.caches.create("few", "SELECT id FROM item WHERE grp = ? ORDER BY id LIMIT ?", database)
            await refused(proxy, UnknownCache, "nothing", "nothing", None)
            await refused(proxy, BadParameters, "key 2 of 2", "c", [(1,), (1, 2)])
            await refused(proxy, CannotFill, "evict mode", "e", None)
            await refused(proxy, CannotFill, "listed|parameters", "few", None)
            await refused(proxy, CannotFill, "do not fit", "c", None)
            await refused(proxy, CannotFill, "do not fit", "c", [(number,) for number in range(40_000)])
            await refused(proxy, SparkUnavailable, "off", "c", [(number,) for number in range(800)])
            progress = await fill(proxy, "c", FillBy.SIZE, [(number,) for number in range(800)])
            assert progress.held == 800

    run(scenario)


def test_no_java_and_nobody_at_the_master(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_spark()

    async def scenario() -> None:
        for master, who in (("spark://127.0.0.1:1", "127.0.0.1:1"), ("sc://localhost:1", "localhost:1")):
            state = tmp_path / who
            async with proxy_beside(mysql, database, state, spark_master=master, spark_min_rows="1") as proxy:
                await proxy.write("DROP TABLE IF EXISTS item", "DROP TABLE IF EXISTS tag", *NUMBERS, rows(2000))
                await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", database)
                if master.startswith("spark"):
                    with monkeypatch.context() as patched:
                        patched.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
                        with pytest.raises(SparkUnavailable, match=r"JAVA_HOME is .*nowhere"):
                            await fill(proxy, "c", FillBy.SPARK)
                with pytest.raises(SparkUnavailable, match=f"{who}"):
                    await fill(proxy, "c", FillBy.SPARK)
                progress = await fill(proxy, "c", FillBy.SIZE)
                assert progress.held == 2000 and progress.by is FillBy.DIRECT
                assert progress.why.startswith("not by Spark: ") and who in progress.why

    run(scenario)


def test_an_account_that_may_not_read_is_told_so(mysql: Server, database: str, tmp_path: Path) -> None:
    user = f"u{os.getpid()}"

    async def scenario() -> None:
        url = f"mysql://{user}:p@{mysql.host}:{mysql.port}"
        async with proxy_beside(mysql, database, tmp_path, upstream=url) as proxy:
            await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", database)
            await asyncio.to_thread(mysql.execute, f"REVOKE SELECT ON `{database}`.item FROM {user}")
            some: list[tuple[ParameterValue, ...]] = [(number,) for number in range(500)]
            for keys in (None, some):
                with pytest.raises(SourceError, match="denied"):
                    await fill(proxy, "c", FillBy.SPARK, keys)
            assert bulk_of(proxy).spark.pid is None

    mysql.execute(f"USE `{database}`", *NUMBERS, rows(2000), f"CREATE USER {user} IDENTIFIED BY 'p'")
    mysql.execute(f"GRANT SELECT, INSERT ON `{database}`.item TO {user}")
    mysql.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}")
    try:
        run(scenario)
    finally:
        mysql.execute(f"DROP USER {user}")


def assert_it_stands_back(pid: int) -> None:
    """Spark's processes are in the proxy's session, apart from its terminal's Ctrl-C, and let it go first."""
    (java,) = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    for one in (pid, java):
        assert os.getsid(one) == os.getsid(0) and os.getpgid(one) == pid
        assert os.getpriority(os.PRIO_PROCESS, one) > os.getpriority(os.PRIO_PROCESS, 0) or os.nice(0) >= 15


def test_spark_is_killed_in_the_middle(filler: Beside, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was the proxy's choice, the fill goes on without it. Where Spark was asked for, the fill ends with what
    has happened; a new one begins by then. The last test of those that share a Spark."""
    monkeypatch.setattr("proxy.fills.askers.OF_A_TASK", 1)  # fifty jobs

    async def killed_in_the_middle(name: str, by: FillBy) -> FillProgress:
        spark = bulk_of(proxy).spark
        killed = False
        async with aclosing(proxy.app.router.fills.fill(name, None, by)) as going_on:
            async for progress in going_on:
                if progress.held > 2_000 and spark.pid is not None and not killed:
                    assert_it_stands_back(spark.pid)
                    os.kill(spark.pid, signal.SIGKILL)
                    killed = True
        assert killed
        return progress

    async def scenario() -> None:
        await proxy.write(*NUMBERS, rows(20_000))
        for name, more in (("c", ""), ("d", " AND n >= 0")):
            sql = f"SELECT id, n FROM item WHERE id = ?{more}"
            await proxy.app.router.caches.create(name, sql, proxy.database)
        progress = await killed_in_the_middle("c", FillBy.SIZE)
        assert progress.done and progress.held == 20_000 and progress.by is FillBy.DIRECT
        assert "Spark" in progress.why and answer(proxy, "c", 7) == await truth(proxy, "c", 7)
        with pytest.raises(SparkUnavailable, match="ended"):
            await killed_in_the_middle("d", FillBy.SPARK)
        proxy.app.engine.check_invariants()
        bulk_of(proxy).spark.check_invariants()
        assert not bulk_of(proxy).under_way
        for number in range(0, 20_000, 259):
            body = answer(proxy, "d", number)
            assert body is None or body == await truth(proxy, "d", number)

    run_in(filler, scenario)
