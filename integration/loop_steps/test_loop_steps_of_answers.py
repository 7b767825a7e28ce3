"""What is large makes no step of the event loop long: answers, what is held, and how much of it there is to show.

Measured is the processor's time of each step, as in `integration/loop_steps/test_loop_steps.py`.
"""

from __future__ import annotations

import asyncio
import struct
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from integration.loop_steps.test_loop_steps import LIMIT
from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.compressed_client import CompressedClient
from integration.support.grpc_app import Proxy, proxy_beside
from integration.support.raw_client import RawClient, bound
from integration.support.short_steps import each_step_is_short
from proxy.mysql.wire.packets import CLIENT_COMPRESS, CLIENT_ZSTD_COMPRESSION_ALGORITHM, LARGEST, packet
from tests.support.step_times import StepTimes
from tests.support.waiting import until
from upwell.client import Client

LONGLONG = 8
ROWS, LARGE = 20_000, 20_000  # of the table, and of the answer for owner 1
# Seconds: answers, of one table or joined, what subscribers are told, and keys of many entries that go. What takes
# longest takes 0.004; answers of one table took 0.047, joined ones 0.042, what subscribers are told 0.035.
LIMIT_OF_LARGE = 0.02
# Seconds: lists of keys that have some rows each. What takes longest takes 0.006; it took 0.045, of a new cache 0.128.
LIMIT_OF_LISTS = 0.03
CACHES, SHAPES, ACCOUNTS, COMMANDS = 150, 1_200, 20, 1_000
Say = Callable[[str], None]
QUERIES = {
    "rows": "SELECT id, n, word FROM big WHERE owner = ?",
    "ordered": "SELECT id, n, word FROM big WHERE owner = ? ORDER BY word, id",
    "tied": "SELECT id, n, word FROM big WHERE owner = ? ORDER BY n",
    "grouped": "SELECT word, COUNT(*) FROM big WHERE owner = ? GROUP BY word",
    "joined": "SELECT b.id, s.c FROM big b LEFT JOIN small s ON s.id = b.n WHERE b.owner = ?",
    "many": "SELECT b.id, w.n FROM big b LEFT JOIN big w ON w.id = b.id WHERE b.owner = ?",
    "evict": "SELECT id, n, RANK() OVER (ORDER BY id) FROM big WHERE owner = ?",
}
COMPRESSED: dict[str, dict[str, Any]] = {
    "zlib": {"algorithm": CLIENT_COMPRESS},
    "zstd": {"algorithm": CLIENT_ZSTD_COMPRESSION_ALGORITHM},
    "zstd at its slowest": {"algorithm": CLIENT_ZSTD_COMPRESSION_ALGORITHM, "level": 22},
}
LIST = "?..."
OWNERS = 200  # of the parts, each of some
LISTS = {
    "joined": "SELECT p.id, s.c FROM parts p LEFT JOIN small s ON s.id = p.n WHERE p.owner IN ({})",
    "ordered": "SELECT p.id, s.c FROM parts p LEFT JOIN small s ON s.id = p.n WHERE p.owner IN ({}) ORDER BY p.id DESC",
    "spread": "SELECT p.id, b.n FROM parts p LEFT JOIN big b ON b.id = p.id WHERE p.owner IN ({})",
    "grouped": "SELECT s.c, COUNT(*) FROM parts p LEFT JOIN small s ON s.id = p.n WHERE p.owner IN ({}) GROUP BY s.c",
    "plain": "SELECT id, n FROM parts WHERE owner IN ({})",
}
HTTP_ROWS = "SELECT id, n, word, CONCAT(word, REPEAT('x', 80)) AS more FROM big WHERE owner = ?"
LIMITED = "SELECT id, n, word FROM big WHERE owner = ? ORDER BY word, id LIMIT ?"
BY_ID = "SELECT id, n, word AS w{} FROM big WHERE id = {}"


def tables() -> list[str]:
    digits = " UNION ALL ".join(f"SELECT {digit}" for digit in range(10))
    return [
        "CREATE TABLE big (id INT PRIMARY KEY, owner INT NOT NULL, n INT NOT NULL, word VARCHAR(40) NOT NULL,"
        " KEY (owner))",
        f"INSERT INTO big WITH d (d) AS ({digits}), t (id) AS (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d"
        f" + 10000 * f.d FROM d a, d b, d c, d e, d f WHERE f.d < 2)"
        f" SELECT id, IF(id < {LARGE}, 1, id), 0, CONCAT('wörd ', id) FROM t",
        "CREATE TABLE small (id INT PRIMARY KEY, c INT NOT NULL)",
        "INSERT INTO small VALUES (1, 1), (2, 2), (3, 3)",
    ]


def measure(
    mysql: Server,
    database: str,
    path: Path,
    what: Callable[[Proxy, Say], Awaitable[None]],
    statements: Sequence[str],
    **options: str,
) -> None:
    """`statements` make the tables."""

    async def scenario(folder: Path, found: StepTimes) -> None:
        def say(what: str) -> None:
            found.doing = what

        async with proxy_beside(mysql, database, folder, check="false", **options) as proxy:
            await what(proxy, say)
            say("")

    each_step_is_short(mysql, database, path, statements, scenario, too_long)


def too_long(found: StepTimes) -> bool:
    of_large = ("told:", "over HTTP", "limited", "compressed", *QUERIES)
    limits = ((LIMIT, ("",)), (LIMIT_OF_LARGE, of_large), (LIMIT_OF_LISTS, ("list ",)))
    return any(
        seconds >= limit and doing and doing.startswith(large)
        for seconds, _, doing in found.longest
        for limit, large in limits
    )


def account(proxy: Proxy) -> dict[str, Any]:
    return {"user": proxy.mysql.user, "password": proxy.mysql.password, "database": proxy.database}


def read_large(proxy: Proxy, say: Say) -> None:
    app, database = proxy.app, proxy.database
    with Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
        for name, text in QUERIES.items():
            say(f"CREATE CACHE of {name}")
            client.create_cache(text, name=name, database=database)
            with RawClient("127.0.0.1", app.mysql_port, **account(proxy)) as session:
                for turn in ("first", "second", "third"):
                    say(f"{name}, {turn} as a text")
                    session.query(text.replace("?", "1"))
                say(f"{name}, prepared")
                made = session.prepare(text)
                for _ in range(2):
                    session.execute(made.id, bound((LONGLONG,), [struct.pack("<q", 1)]))
                for turn in ("first", "second"):
                    say(f"{name}, after a change, {turn}")
                    proxy.mysql.execute(f"UPDATE `{database}`.big SET n = n + 1 WHERE id = 2501")
                    session.query(text.replace("?", "1"))
                    session.query(text.replace("?", "1"))
            say(f"{name} over gRPC")
            for _ in range(3):
                client.cache(name).get(1)


def read_limited(proxy: Proxy, say: Say, loop: asyncio.AbstractEventLoop) -> None:
    """What is not stored by key: it is derived at each read, and is MySQL's own answer."""
    app, database = proxy.app, proxy.database
    say("CREATE CACHE of limited")
    with Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
        client.create_cache(LIMITED, name="limited", database=database)
        values = bound((LONGLONG, LONGLONG), [struct.pack("<q", 1), struct.pack("<q", LARGE - 1_000)])
        with RawClient("127.0.0.1", app.mysql_port, **account(proxy)) as session, RawClient(
            proxy.mysql.host, proxy.mysql.port, **account(proxy)
        ) as direct:  # fmt: skip
            ours, theirs = session.prepare(LIMITED), direct.prepare(LIMITED)
            for turn in range(4):
                say(f"limited, {turn}")
                asyncio.run_coroutine_threadsafe(proxy.caught_up(), loop).result()
                found = parse(session.execute(ours.id, values), binary=True)
                say("")
                wanted = parse(direct.execute(theirs.id, values), binary=True)
                assert found.rows == wanted.rows and len(found.rows) == LARGE - 1_000
                proxy.mysql.execute(f"UPDATE `{database}`.big SET word = CONCAT('0', word) WHERE id = {turn}")
        cache = app.catalog.get("limited")
        assert cache.hits > 2 or cache.trust is not None, "or MySQL was asked, for it took too long to compare"
        say("limited over gRPC")
        client.cache("limited").get(1, LARGE - 1_000)


def read_lists(proxy: Proxy, say: Say) -> None:
    """Keys that join some rows each, many in one list: none is large, and together they are."""
    app, database = proxy.app, proxy.database
    proxy.mysql.execute(
        f"CREATE TABLE `{database}`.parts (id INT PRIMARY KEY, owner INT NOT NULL, n INT NOT NULL, KEY (owner))",
        f"INSERT INTO `{database}`.parts SELECT id, id MOD {OWNERS}, 0 FROM `{database}`.big",
    )
    with Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
        for name, text in LISTS.items():
            say(f"CREATE CACHE of list {name}")
            client.create_cache(text.format(LIST), name=f"list_{name}", database=database)
            with RawClient("127.0.0.1", app.mysql_port, **account(proxy)) as session:
                for count in (10, OWNERS // 4, OWNERS):
                    listed = text.format(", ".join(map(str, range(count))))
                    for turn in ("first", "second", "third"):
                        say(f"list {name} of {count}, {turn}")
                        session.query(listed)
                    proxy.mysql.execute(
                        f"UPDATE `{database}`.parts SET n = n + 1 WHERE id < {count}",
                        f"UPDATE `{database}`.small SET c = c + 1",
                    )
                    for turn in ("first", "second"):
                        say(f"list {name} of {count}, after a change, {turn}")
                        session.query(listed)
            say(f"list {name} over gRPC")
            client.cache(f"list_{name}").get(list(range(OWNERS)))


def subscribe(proxy: Proxy, say: Say) -> None:
    with Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as client:
        for name in ("rows", "many"):
            say(f"told: a subscription, {name}")
            events = client.cache(name).subscribe(1)
            next(events)
            for number in range(3):
                say(f"told: a change of what is subscribed to, {name}")
                proxy.mysql.execute(f"UPDATE `{proxy.database}`.big SET n = n + 1 WHERE id = {number}")
                next(events)


async def large(proxy: Proxy, say: Say) -> None:
    await asyncio.to_thread(read_large, proxy, say)
    await asyncio.to_thread(read_lists, proxy, say)
    await asyncio.to_thread(read_limited, proxy, say, asyncio.get_running_loop())
    await asyncio.to_thread(subscribe, proxy, say)
    say("told: keys of many entries go")
    engine = proxy.app.engine
    await until(lambda: not len(engine.subscriptions))
    evicted, engine.limit.bytes = engine.sieve.evicted, 0
    engine.limit.keep()
    await until(lambda: not engine.memory.remains)
    assert engine.sieve.evicted > evicted


def test_large_answers(mysql: Server, database: str, tmp_path: Path) -> None:
    measure(mysql, database, tmp_path, large, tables())


def test_large_answers_that_are_compared(mysql: Server, database: str, tmp_path: Path) -> None:
    measure(mysql, database, tmp_path, large, tables(), verify_new_caches="32")


WIDE = 1 << 20  # bytes of one value


def read_over_http(proxy: Proxy, say: Say) -> None:
    """Answers of some megabytes as JSON: of many rows, of long values, and as the first event of a subscription."""
    app, database = proxy.app, proxy.database
    proxy.mysql.execute(
        f"CREATE TABLE `{database}`.wide (id INT PRIMARY KEY, word LONGTEXT, raw LONGBLOB)",
        f"INSERT INTO `{database}`.wide VALUES (1, REPEAT('w\u00f6rd \"', {WIDE // 7}), REPEAT(x'00ff', {WIDE // 2}))",
    )
    headers = {"Authorization": f"Bearer {app.grpc_token}"}
    with Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
        client.create_cache(HTTP_ROWS, name="http_rows", database=database)
        client.create_cache("SELECT id, word, raw FROM wide WHERE id = ?", name="http_wide", database=database)
    for name in ("http_rows", "http_wide"):
        path = f"http://127.0.0.1:{app.http_port}/v1/caches/{name}"
        say(f"told: over HTTP, {name}, to be filled")
        urllib.request.urlopen(urllib.request.Request(f"{path}?key=1", headers=headers)).read()
        for turn in range(3):
            say(f"over HTTP: {name}, {turn}")
            with urllib.request.urlopen(urllib.request.Request(f"{path}?key=1", headers=headers)) as answer:
                assert len(answer.read()) > WIDE
        say(f"over HTTP: a subscription to {name}")
        with urllib.request.urlopen(urllib.request.Request(f"{path}/changes?key=1", headers=headers)) as events:
            while not events.readline().startswith(b"data: "):
                pass
        say("")


async def over_http(proxy: Proxy, say: Say) -> None:
    await asyncio.to_thread(read_over_http, proxy, say)


def test_large_answers_over_http(mysql: Server, database: str, tmp_path: Path) -> None:
    measure(mysql, database, tmp_path, over_http, tables())


def read_compressed(proxy: Proxy, say: Say) -> None:
    """Answers of a megabyte, from MySQL and from a cache, and commands in frames of 16 MB."""
    app, database = proxy.app, proxy.database
    with Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
        client.create_cache(QUERIES["rows"], name="rows", database=database)
    for name, options in COMPRESSED.items():
        with CompressedClient("127.0.0.1", app.mysql_port, largest=LARGEST, **(options | account(proxy))) as session:
            for turn in range(3):
                say(f"compressed by {name}: a cache, {turn}")
                session.query(QUERIES["rows"].replace("?", "1"))
            say(f"compressed by {name}: MySQL")
            assert len(session.query("SELECT *, SHA2(id, 256) FROM big")) > 1_000_000
            say(f"compressed by {name}: a command")
            session.query(b"SELECT LENGTH('" + b"y" * (20 << 20) + b"')")
            say(f"compressed by {name}: a command of noise")
            session.query(b"SELECT LENGTH(x'" + Random(1).randbytes(4 << 20).hex().encode() + b"')")


async def compressed(proxy: Proxy, say: Say) -> None:
    await asyncio.to_thread(read_compressed, proxy, say)


def test_large_answers_that_are_compressed(mysql: Server, database: str, tmp_path: Path) -> None:
    measure(mysql, database, tmp_path, compressed, tables())


def fill(proxy: Proxy, say: Say) -> None:
    app, database = proxy.app, proxy.database
    with Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
        joined = "SELECT b.id, s.c FROM big b LEFT JOIN small s ON s.id = b.n WHERE b.id = ?"
        for name, text in {"by_id": BY_ID.format(0, "?"), "joined": joined}.items():
            client.create_cache(text, name=name, database=database)
            say(f"a batch of {ROWS // 4} misses, {name}")
            for first in range(0, ROWS, ROWS // 4):
                keys = [[key] for key in range(first, first + ROWS // 4)]
                client.cache(name).try_many(keys, timeout=120)


async def many(proxy: Proxy, say: Say) -> None:
    await asyncio.to_thread(fill, proxy, say)
    engine = proxy.app.engine
    say("a change of what all have joined")
    await proxy.write("UPDATE small SET c = c + 1")
    await proxy.caught_up()
    say(f"a transaction of {LARGE} rows")
    await proxy.write(f"UPDATE big SET n = n + 1 WHERE id < {LARGE}")
    await proxy.caught_up()
    say("most keys are evicted")
    engine.limit.bytes = engine.memory.used // 10
    await until(lambda: engine.memory.used <= engine.limit.bytes)
    say("TRUNCATE")
    await proxy.write("TRUNCATE TABLE small")
    await proxy.caught_up()


def test_many_keys(mysql: Server, database: str, tmp_path: Path) -> None:
    measure(mysql, database, tmp_path, many, tables())


def show(proxy: Proxy, say: Say) -> None:
    app, database = proxy.app, proxy.database
    with Client(f"127.0.0.1:{app.grpc_port}", token=app.grpc_token) as client:
        say("CREATE CACHE")
        for number in range(CACHES):
            client.create_cache(BY_ID.format(number, "?"), name=f"c{number}", database=database)
            client.cache(f"c{number}").try_many([[key] for key in range(20)], timeout=120)
        for page in ("metrics", ""):
            say(f"the page /{page}")
            with urllib.request.urlopen(f"http://127.0.0.1:{app.http_port}/{page}") as answer:
                answer.read()
        for number in range(3):
            say(f"the overview, look {number}")
            with urllib.request.urlopen(f"http://127.0.0.1:{app.http_port}/v1/live") as events:
                while b"event: patch" not in events.readline():
                    pass
        say("ListCaches and Status")
        client.caches()
        client.status()
        say("DropCache")
        for number in range(10):
            client.drop_cache(f"c{number}")


def ask(proxy: Proxy, say: Say) -> None:
    with RawClient("127.0.0.1", proxy.app.mysql_port, **account(proxy)) as session:
        say("texts of many shapes")
        for number in range(SHAPES):
            session.query(f"SELECT id + n AS a{number} FROM small WHERE c = 4")
        for text in ("SHOW CACHES", "SHOW PROXIED QUERIES LIMIT 5000", "SHOW UPWELL STATUS"):
            say(text)
            session.query(text)
        say("a thousand commands at once")
        hit = BY_ID.format(50, 5)
        session.query(hit)
        commands = [packet(session.text(text), 0) for text in (hit, "SELECT id + 1 FROM small WHERE id = 1")]
        for some in (commands[:1] * COMMANDS, commands * (COMMANDS // 2)):
            session.write(b"".join(some))
            for _ in some:
                session.result()


def log_in(proxy: Proxy, say: Say) -> None:
    names = [f"steps_{number}@localhost" for number in range(ACCOUNTS)]
    proxy.mysql.execute(*(f"CREATE USER IF NOT EXISTS {name} IDENTIFIED BY ''" for name in names))
    proxy.mysql.execute(*(f"GRANT SELECT ON `{proxy.database}`.* TO {name}" for name in names))
    say("many accounts")
    for name in names:
        user = name.partition("@")[0]
        with RawClient("127.0.0.1", proxy.app.mysql_port, user=user, database=proxy.database) as session:
            for text in (BY_ID.format(50, 5), BY_ID.format(50, 5), "SHOW CACHES"):
                session.query(text)
    say("accounts that go")
    proxy.mysql.execute(*(f"DROP USER {name}" for name in names))


async def much(proxy: Proxy, say: Say) -> None:
    for work in (show, ask, log_in):
        await asyncio.to_thread(work, proxy, say)
    await proxy.caught_up()


def test_much_to_show(mysql: Server, database: str, tmp_path: Path) -> None:
    measure(mysql, database, tmp_path, much, tables())
