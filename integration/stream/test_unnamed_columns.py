"""MySQL's default, `binlog_row_metadata=MINIMAL`: the binlog tells no names of columns, and no members of ENUM and SET.
They are the schema's, and none is ever mistaken for another, whatever DDL statements come."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import structlog

from dataflow.messages import Ddl, StreamEvent, Transaction
from gtid_tracker.gtid import GtidSet
from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, proxy_beside, run
from proxy.source.mysql import SchemaBehind
from tests.support.waiting import until
from upwell.errors import UpwellError
from vstream.binlog.definitions import told

MINIMAL = "--binlog-row-metadata=MINIMAL"
FEW = 30  # rows that are decoded while they and DDL statements are written
LATE = ("--sync-binlog=0", "--binlog-group-commit-sync-delay=30000")  # microseconds
NAMES = ("a", "b", "c", "d")
MEMBERS = ("e", "x", "y", "z")
TABLE = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.t (id INT PRIMARY KEY, g INT, a VARCHAR(9), b VARCHAR(9), c VARCHAR(9), d VARCHAR(9),"
    " e ENUM('e', 'x', 'y', 'z'), s SET('e', 'x', 'y', 'z'), KEY (g))",
)
QUERY = "SELECT id, a, b, c, d, e, s FROM t WHERE g = ?"


@dataclass
class Judge:
    """Looks at each inserted row that the stream decodes: a column's text is its own name, an ENUM's and a SET's that
    of the table's."""

    proxy: Proxy
    decoded: int = 0
    wrong: list[str] = field(default_factory=list)
    holes: int = 0

    def __post_init__(self) -> None:
        pump = self.proxy.app.router.pump
        pump._followers = (*pump._followers, self)

    def __call__(self, event: StreamEvent) -> None:
        self.holes += isinstance(event, Ddl)
        if not isinstance(event, Transaction):
            return
        wanted = {table.qualified: table for table, _ in self.proxy.app.engine.graph.wanted().values()}
        for changes in event.changes:
            table = wanted.get(changes.table)
            for before, after in changes.pairs if table is not None else ():
                if before is None and after is not None and table is not None:
                    shown = dict(zip((column.name for column in table.columns), after, strict=True))
                    self._look({name: value for name, value in shown.items() if value is not None})

    def _look(self, row: dict[str, object]) -> None:
        self.decoded += 1
        told = {name: row[name] for name in (*NAMES, "e", "s") if name in row and row[name] != name}
        if told and not ("s" in told and len(told) == 1 and told["s"] == "e"):
            self.wrong.append(str(row))


def inserted(number: int) -> str:
    return f"INSERT INTO t (id, g, a, b, c, d, e, s) VALUES ({number}, {number % 3}, 'a', 'b', 'c', 'd', 'e', 'e')"


@asynccontextmanager
async def cached(mysql: Server, folder: Path, query: str = QUERY) -> AsyncIterator[Proxy]:
    async with proxy_beside(mysql, "shop", folder) as proxy:
        await proxy.client.create_cache(query, name="rows", database="shop")
        yield proxy


async def held(proxy: Proxy, key: int = 1) -> list[tuple[object, ...]]:
    """The key's rows, once they are a hit."""
    while (found := await proxy.client.cache("rows").get(key)).served != "hit":
        pass
    return sorted(tuple(row) for row in found)


async def at_mysql(mysql: Server, query: str = QUERY, key: int = 1) -> list[tuple[object, ...]]:
    rows = await asyncio.to_thread(mysql.execute, "USE shop", query.replace("?", str(key)))
    return sorted(tuple(row) for row in rows)


def test_a_stock_server_maintains_what_is_held(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """No write makes a hole, and nothing is said of it."""
    mysql = own_mysql(MINIMAL)
    mysql.execute(*TABLE, "USE shop", inserted(1))

    async def scenario() -> None:
        async with cached(mysql, tmp_path) as proxy:
            await until(lambda: proxy.binlog.asking.unsettled == 0)
            await held(proxy)
            judge = Judge(proxy)
            for number in range(4, 40, 3):
                await proxy.write(inserted(number), f"UPDATE t SET s = 'x,z', e = 'z' WHERE id = {number - 3}")
                await proxy.caught_up()
                found = await proxy.client.cache("rows").get(1)
                assert found.served == "hit"
                assert sorted(tuple(row) for row in found) == await at_mysql(mysql)
            assert (judge.decoded, judge.wrong, judge.holes) == (12, [], 0)

    with structlog.testing.capture_logs() as logged:
        run(scenario)
    assert not [line for line in logged if "decoded" in line["event"] or "metadata" in str(line)]


def swapped(one: str, other: str) -> str:
    return f"ALTER TABLE t RENAME COLUMN {one} TO {other}, RENAME COLUMN {other} TO {one}"


def listed(kind: str, column: str, rng: random.Random) -> str:
    members = ", ".join(f"'{member}'" for member in rng.sample(MEMBERS, len(MEMBERS)))
    return f"ALTER TABLE t MODIFY {column} {kind}({members})"


def some_ddl(rng: random.Random) -> list[str]:
    """Statements after which rows look as before, and mean something else; mostly."""
    one, other = rng.sample(NAMES, 2)
    return rng.choice(
        (
            [swapped(one, other)],
            [f"ALTER TABLE t MODIFY {one} VARCHAR(9) AFTER {other}"],
            [listed("ENUM", "e", rng)],
            [listed("SET", "s", rng)],
            [f"ALTER TABLE t ADD COLUMN f VARCHAR(9) AFTER {one}", "ALTER TABLE t DROP COLUMN f"],
            [
                "CREATE TABLE u LIKE t",
                swapped(one, other).replace(" t ", " u "),
                "RENAME TABLE t TO v, u TO t",
                "DROP TABLE v",
            ],
            [f"ALTER TABLE t ADD KEY k ({one})", "ALTER TABLE t DROP KEY k"],
            ["TRUNCATE TABLE t"],
            ["DROP TABLE t", TABLE[1].replace("a VARCHAR(9), b VARCHAR(9)", "b VARCHAR(9), a VARCHAR(9)")],
        )
    )


class Batches:
    """Of rows that have been written: what the others go by."""

    def __init__(self) -> None:
        self._written, self.ended = 0, False
        self._change = asyncio.Condition()

    async def note(self, *, ended: bool = False) -> None:
        async with self._change:
            self._written, self.ended = self._written + 1, ended
            self._change.notify_all()

    async def more(self, count: int) -> None:
        """Returns when so many more are written, or none will be."""
        until = self._written + count
        async with self._change:
            await self._change.wait_for(lambda: self.ended or self._written >= until)


async def written(mysql: Server, seed: int, enough: Callable[[], bool], batches: Batches) -> None:
    """Rows and DDL statements, from two connections at once, until that is enough."""
    rng = random.Random(seed)
    number = 1000 * seed

    def rows() -> None:
        nonlocal number
        number += 20
        mysql.execute("USE shop", *(inserted(number + one) for one in range(20)))

    async def insert() -> None:
        while not enough():
            try:
                await asyncio.to_thread(rows)
            except Exception as error:  # the table is away for a moment
                if "exist" not in str(error):
                    raise
            await batches.note()
        await batches.note(ended=True)

    async def define() -> None:
        while not enough():
            await asyncio.to_thread(mysql.execute, "USE shop", *some_ddl(rng))
            await batches.more(rng.randrange(3))  # a batch takes a second where MySQL is late

    await asyncio.gather(insert(), define())


async def hold_back(proxy: Proxy, seed: int, batches: Batches) -> None:
    """The stream is behind MySQL by some batches, again and again, as long as more are written."""
    rng = random.Random(seed)
    while not batches.ended:
        with held_back(proxy):
            await batches.more(rng.randrange(2, 20))
        await batches.more(rng.randrange(1, 5))


async def random_ddl(
    mysql: Server, folder: Path, seconds: float, *, behind: bool, until_wrong: bool = False, seed: int = 7
) -> Judge:
    """The judge of all that was decoded meanwhile, while the cache was read. At rest hits are MySQL's rows."""
    async with cached(mysql, folder) as proxy:
        judge = Judge(proxy)
        began, time = asyncio.get_running_loop().time(), asyncio.get_running_loop().time

        def enough() -> bool:
            """On a busy machine little is decoded between two DDL statements."""
            return time() - began > seconds and (judge.decoded > FEW or time() - began > 10 * seconds)

        batches = Batches()
        writing = asyncio.create_task(written(mysql, seed, enough, batches))
        holding = asyncio.create_task(hold_back(proxy, seed, batches)) if behind else None
        try:
            while not writing.done() and not (until_wrong and judge.wrong):
                with suppress(UpwellError):  # it is being planned
                    await proxy.client.cache("rows").get(1, timeout=5)
        finally:
            if holding is not None:
                holding.cancel()
            if until_wrong:
                writing.cancel()
            await asyncio.gather(writing, *filter(None, [holding]), return_exceptions=True)
        if not until_wrong:
            writing.result()
            await proxy.caught_up()
            for key in (0, 1, 2):
                assert await held(proxy, key) == await at_mysql(mysql, key=key)
        return judge


@pytest.mark.parametrize("late", ["neither", "MySQL", "the stream"])
def test_random_ddl_beside_writes(own_mysql: OwnMySQL, tmp_path: Path, late: str) -> None:
    """MySQL is late: its binlog tells of a transaction 30 ms before it is executed. Or the stream is."""
    mysql = own_mysql(MINIMAL, *(LATE if late == "MySQL" else ()))
    mysql.execute(*TABLE)
    judges: list[Judge] = []

    async def scenario() -> None:
        judges.append(await random_ddl(mysql, tmp_path, 12, behind=late == "the stream"))

    run(scenario)
    assert judges[0].wrong == []
    assert judges[0].decoded > FEW


def known_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rows of before the table was reflected are decoded."""
    patch.setattr("vstream.binlog.asking.told", lambda asked, possible: told(asked, GtidSet.empty()))


def reflected_at_once(patch: pytest.MonkeyPatch) -> None:
    """A DDL statement that has come may not be executed yet."""
    patch.setattr(SchemaBehind, "snapshot", lambda self, names: self._schema.snapshot(names))


@pytest.mark.parametrize("without", [True, False])
def test_rows_of_before_the_table_was_reflected(
    own_mysql: OwnMySQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, without: bool
) -> None:
    """They are still to come when the first cache is made, and their columns have other names since. Without the rule
    they are taken for each other."""
    mysql = own_mysql(MINIMAL)
    mysql.execute(*TABLE)
    if without:
        known_at_once(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, "shop", tmp_path) as proxy:
            judge = Judge(proxy)
            await until(lambda: proxy.binlog._reader is not None)
            with held_back(proxy):
                before = (inserted(number) for number in range(9))
                await asyncio.to_thread(mysql.execute, "USE shop", *before, swapped("a", "b"))
                await proxy.client.create_cache(QUERY, name="rows", database="shop")
                await until(lambda: not proxy.binlog.asking.definitions.unasked)  # what comes before is not decoded
            await proxy.caught_up()
            assert bool(judge.wrong) == without, judge.wrong
            if not without:
                assert await held(proxy) == await at_mysql(mysql)

    run(scenario)


def test_what_is_reflected_at_once_is_found_out(
    own_mysql: OwnMySQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql = own_mysql(MINIMAL, *LATE)
    mysql.execute(*TABLE)
    reflected_at_once(monkeypatch)
    judges: list[Judge] = []

    async def scenario() -> None:
        judges.append(await random_ddl(mysql, tmp_path, 200, behind=False, until_wrong=True))

    run(scenario)
    assert judges[0].wrong
