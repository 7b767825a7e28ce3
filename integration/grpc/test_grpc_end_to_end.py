"""From a gRPC client through the whole proxy to a real MySQL and back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.proxy_process import serving
from proxy.system.system import BY_CLOCK, NO_CACHE
from upwell import errors
from upwell.aio import Event
from upwell.client import Client

ROOT = Path(__file__).resolve().parent.parent.parent
STORIES = (
    "CREATE TABLE stories (id BIGINT PRIMARY KEY, author INT NOT NULL, title VARCHAR(100), INDEX (author))",
    "INSERT INTO stories VALUES (1, 1, 'one'), (2, 1, 'two'), (3, 2, NULL)",
)
STORY = "SELECT id, title FROM stories WHERE id = ?"
BY_AUTHOR = "SELECT id, title FROM stories WHERE author = ?"


def test_a_look_that_fails_is_logged_and_told_to_the_tests_and_the_next_is_made(
    mysql: Server, database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def broken() -> None:
        nonlocal looks
        looks += 1
        raise AssertionError("an invariant")

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            monkeypatch.setattr(proxy.app.engine, "check_invariants", broken)
            while looks < 2:
                await proxy.client.status()

    with pytest.raises(AssertionError, match="an invariant"):
        run(scenario)
    captured = capfd.readouterr()
    assert "what must happen now and then has failed" in captured.out + captured.err


def test_a_miss_a_hit_and_a_change_that_mysql_makes(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            made = await proxy.client.create_cache(STORY, name="story", database=database)
            assert (made.name, made.mode, made.state, made.parameters[0].type.name) == (
                "story",
                "maintain",
                "ready",
                "bigint",
            )
            story = proxy.client.cache("story")
            assert [(await story.get(1)).served for _ in range(2)] == ["miss", "hit"]
            await proxy.write(
                "UPDATE stories SET title = 'uno' WHERE id = 1", "INSERT INTO stories VALUES (4, 9, 'new')"
            )
            await proxy.caught_up()
            changed = await story.get(1)
            assert (changed, changed.served) == ([(1, "uno")], "hit")
            assert changed.position == (await proxy.client.status()).position
            assert await story.get(4) == [(4, "new")]
            await proxy.write("DELETE FROM stories WHERE id = 1")
            await proxy.caught_up()
            assert await story.get(1) == []

    run(scenario)


def test_many_keys_at_once_and_pipelined(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            await proxy.client.create_cache(BY_AUTHOR, name="by_author", database=database)
            cache = proxy.client.cache("by_author")
            expected = [[(1, "one"), (2, "two")], [(3, None)], []]
            for served in ("miss", "hit"):
                answers = await cache.get_many([1, 2, 77])
                assert [sorted(answer) for answer in answers] == expected
                assert {answer.served for answer in answers} == {served}
            streamed = {id: outcome async for id, outcome in cache.stream([1, 78, 2] * 50)}
            assert len(streamed) == 150
            for place, key in enumerate([1, 78, 2] * 50):
                outcome = streamed[place]
                assert not isinstance(outcome, errors.UpwellError)
                assert sorted(outcome) == expected[{1: 0, 78: 2, 2: 1}[key]]

    run(scenario)


def test_a_list_parameter_answers_for_all_of_its_values(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            sql = "SELECT id, title FROM stories WHERE id IN (?)"
            await proxy.client.create_cache(sql, name="some", database=database)
            for _ in range(2):
                answer = await proxy.client.cache("some").get([3, 1, 1, 99])
                assert sorted(answer) == [(1, "one"), (3, None)]

    run(scenario)


TYPES = {
    "tiny": ("TINYINT", "-5", -5),
    "big": ("BIGINT UNSIGNED", "18446744073709551615", (1 << 64) - 1),
    "price": ("DECIMAL(10,2)", "-12.50", Decimal("-12.50")),
    "ratio": ("DOUBLE", "0.1", 0.1),
    "weight": ("FLOAT", "0.5", 0.5),
    "bits": ("BIT(10)", "b'1000000001'", 513),
    "made_year": ("YEAR", "2026", 2026),
    "name": ("VARCHAR(20)", "'é☃'", "é☃"),
    "kind": ("ENUM('a','b')", "'b'", "b"),
    "flags": ("SET('x','y')", "'x,y'", "x,y"),
    "data": ("VARBINARY(10)", "x'00ff'", b"\x00\xff"),
    "day": ("DATE", "'2026-02-03'", date(2026, 2, 3)),
    "moment": ("DATETIME(6)", "'2026-02-03 04:05:06.000007'", datetime(2026, 2, 3, 4, 5, 6, 7)),
    "instant": ("TIMESTAMP(3)", "'2026-02-03 04:05:06.789'", datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)),
    "lasting": ("TIME(2)", "'-101:02:03.45'", -timedelta(hours=101, minutes=2, seconds=3.45)),
    "document": ("JSON", "'{\"a\": [1, null]}'", '{"a": [1, null]}'),
    "nothing": ("INT", "NULL", None),
}


def test_every_type_arrives_the_same_from_a_cache_and_from_mysql(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            columns = ", ".join(f"{name} {type}" for name, (type, _, _) in TYPES.items())
            values = ", ".join(literal for _, literal, _ in TYPES.values())
            await proxy.write(
                "SET time_zone = '+00:00'",
                f"CREATE TABLE t (id INT PRIMARY KEY, {columns})",
                f"INSERT INTO t VALUES (1, {values}), (2, {values})",
            )
            sql = f"SELECT {', '.join(TYPES)} FROM t WHERE id = ?"
            expected = tuple(value for _, _, value in TYPES.values())
            passed = await proxy.client.query(sql, [1], database=database)
            assert (passed.served, [tuple(row) for row in passed]) == ("passed", [expected])
            await proxy.client.create_cache(sql, name="t", database=database)
            for served in ("miss", "hit"):
                answer = await proxy.client.cache("t").get(1)
                assert (answer.served, [tuple(row) for row in answer]) == (served, [expected])
                assert [type(value) for value in answer[0]] == [type(value) for value in expected]
            await proxy.write("UPDATE t SET tiny = tiny + 1 WHERE id = 1")  # now from the binlog
            await proxy.caught_up()
            changed = await proxy.client.cache("t").get(1)
            assert [tuple(row) for row in changed] == [(-4, *expected[1:])]

    run(scenario)


def test_a_query_finds_its_cache_by_its_text_else_mysql_answers(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            passed = await proxy.client.query(STORY, [1], database=database)
            assert (passed, passed.served, passed.why) == ([(1, "one")], "passed", NO_CACHE)
            by_clock = await proxy.client.query("SELECT 1 FROM DUAL WHERE NOW() > ?", ["2001-01-01"])
            assert (by_clock, by_clock.served, by_clock.why) == ([(1,)], "passed", BY_CLOCK)
            await proxy.client.create_cache(STORY, name="story", database=database)
            await proxy.client.query(STORY, [1], database=database)
            cached = await proxy.client.query(STORY, [1], database=database)
            assert (cached, cached.served, cached.cache) == ([(1, "one")], "hit", "story")
            spelled = await proxy.client.query("select id,title from stories where id=1", database=database)
            assert (spelled, spelled.served) == ([(1, "one")], "hit")

    run(scenario)


async def next_changes(events: AsyncGenerator[Event, None], wanted: int) -> list[Event]:
    """The next events until they hold that many removed and added rows."""
    seen: list[Event] = []
    while sum(len(event.removed) + len(event.added) for event in seen) < wanted:
        seen.append(await anext(events))
    return seen


def test_a_subscriber_sees_the_rows_and_then_every_change_once(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            await proxy.client.create_cache(BY_AUTHOR, name="by_author", database=database)
            events = proxy.client.cache("by_author").subscribe(1)
            snapshot = await anext(events)
            assert snapshot.snapshot and sorted(snapshot.added) == [(1, "one"), (2, "two")]
            await proxy.write(
                "INSERT INTO stories VALUES (5, 1, 'five'), (6, 2, 'not ours')",
                "UPDATE stories SET title = 'zwei' WHERE id = 2",
                "UPDATE stories SET author = 2 WHERE id = 1",
                "DELETE FROM stories WHERE id = 5",
            )
            changes = await next_changes(events, 5)
            assert [(event.removed, event.added) for event in changes] == [
                ([], [(5, "five")]),
                ([(2, "two")], [(2, "zwei")]),
                ([(1, "one")], []),
                ([(5, "five")], []),
            ]
            positions = [event.position for event in changes]
            assert len(set(positions)) == len(positions)
            await events.aclose()

    run(scenario)


async def refused(proxy: Proxy, call: Awaitable[object]) -> errors.UpwellError:
    with pytest.raises(errors.UpwellError) as failed:
        await call
    assert await proxy.client.cache("story").get(2) == [(2, "two")]  # the proxy goes on
    return failed.value


def test_bad_input_is_refused_with_a_reason_and_the_proxy_goes_on(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, max_message_size="100KiB") as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            client = proxy.client
            await client.create_cache(STORY, name="story", database=database)
            story = client.cache("story")
            calls = [
                (client.cache("stroy").get(1), errors.UnknownCache, ""),
                (story.get(), errors.BadParameters, ""),
                (story.get(1, 2), errors.BadParameters, ""),
                (story.get([1, 2]), errors.BadParameters, ""),
                (story.get_many([1, (2, 3)]), errors.BadParameters, "key 2 of 2"),
                (client.create_cache("SELECT id FROM WHERE", database=database), errors.ParseError, ""),
                (client.create_cache("SELECT nope FROM stories WHERE id = ?", database=database), None, "nope"),
                (
                    client.create_cache("SELECT RAND(), id FROM stories WHERE id = ?", database=database),
                    errors.UnsupportedQuery,
                    "",
                ),
                (client.create_cache(BY_AUTHOR, name="story", database=database), errors.CacheExists, "story"),
                (client.drop_cache("stroy"), errors.UnknownCache, "stroy"),
                (client.explain("stroy"), errors.UnknownCache, "stroy"),
                (client.query("DELETE FROM stories", database=database), errors.NotARead, "DELETE"),
                (client.query("SELECT 1; DELETE FROM stories", database=database), errors.NotARead, ""),
                (client.query("SELECT * FROM nowhere", database=database), errors.SourceError, "nowhere"),
                (client.query("SELECT SLEEP(30)", timeout=0.3, database=database), errors.DeadlinePassed, ""),
                (client.query("SELECT '" + "x" * 200_000 + "'"), errors.MessageTooLarge, "request of 200"),
                (client.query("SELECT REPEAT('x', 200000)"), errors.MessageTooLarge, "answer of 20"),
            ]
            for call, kind, part in calls:
                error = await refused(proxy, call)
                assert isinstance(error, kind or errors.UpwellError), (error, error.reason)
                assert error.reason not in ("", "internal", "unknown"), error
                assert part in str(error)
            missing = await refused(proxy, client.query("SELECT * FROM nowhere", database=database))
            assert (missing.errno, missing.sqlstate) == (1146, "42S02")

    run(scenario)


def test_caches_survive_a_restart_and_their_contents_do_not(mysql: Server, database: str, tmp_path: Path) -> None:
    settings = tmp_path / "upwell.toml"
    settings.write_text(f'[[cache]]\nname = "by_author"\nsql = "{BY_AUTHOR}"\ndatabase = "{database}"\n')

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            await proxy.client.create_cache(STORY, name="story", database=database)
            await proxy.client.create_cache("SELECT author FROM stories WHERE id = ?", name="x", database=database)
            await proxy.client.drop_cache("x")
            await proxy.client.cache("story").get(1)
        async with proxy_beside(mysql, database, tmp_path, config=str(settings)) as proxy:
            assert sorted(cache.name for cache in await proxy.client.caches()) == ["by_author", "story"]
            answers = [await proxy.client.cache("story").get(1) for _ in range(2)]
            assert [answer.served for answer in answers] == ["miss", "hit"]
            assert await proxy.client.cache("by_author").get(2) == [(3, None)]

    run(scenario)


def test_hits_outlive_mysql_misses_say_that_it_is_down_and_both_come_back(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    mysql = own_mysql()
    mysql.execute("CREATE DATABASE d")

    async def scenario() -> None:
        async with proxy_beside(mysql, "d", tmp_path) as proxy:
            await proxy.write(*STORIES)
            await proxy.caught_up()
            await proxy.client.create_cache(STORY, name="story", database="d")
            story = proxy.client.cache("story")
            await story.get(1)
            await asyncio.to_thread(mysql.kill)
            assert (await story.get(1)).served == "hit"
            with pytest.raises(errors.SourceDown) as failed:
                await story.get(2)
            assert failed.value.reason == "source_down"
            assert isinstance((await story.try_many([1, 2]))[1], errors.SourceDown)
            await asyncio.to_thread(mysql.start)
            await proxy.write("UPDATE stories SET title = 'back' WHERE id IN (1, 2)")
            while not (await proxy.client.status()).source_up:
                pass
            await proxy.caught_up()
            assert [row.title for answer in await story.get_many([1, 2]) for row in answer] == ["back", "back"]

    run(scenario)


def test_the_command_serves_until_it_is_told_to_stop(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", *STORIES)
    with serving(mysql, database, tmp_path) as served, Client(served.grpc) as client:
        client.create_cache(STORY, name="story", database=database)
        assert client.cache("story").get(1) == [(1, "one")]
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0


def test_one_that_starts_says_where_it_may_open_too_few_files(mysql: Server, tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["sh", "-c", 'ulimit -n 1000 && exec "$@"', "sh", sys.executable, "-m", "upwell", "serve",
         "--grpc-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--mysql-listen=127.0.0.1:0",
         f"--state-dir={tmp_path}", "--mysql-connections=2000"],
        cwd=ROOT, env={**os.environ, "UPWELL_UPSTREAM": mysql.url}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    told = ""
    while "open files" not in told:
        told = process.stderr.readline()
        assert told, "it ended"
    process.send_signal(signal.SIGTERM)
    with process.stderr:
        process.stderr.read()
    process.wait(60)
    assert "2000 clients need 4200 open files and this process may have 1000" in told


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda url: url.replace("mysql://", "mysql://nobody:wrong@").replace("root@", "", 1), 3),
        (lambda url: "x" + url, 2),
        (lambda url: url.split("?")[0].rstrip("/") + "/nothere", 2),
    ],
    ids=["wrong password", "wrong address", "no such database"],
)
def test_a_source_that_cannot_be_used_is_one_line(mysql: Server, tmp_path: Path, change: object, status: int) -> None:
    assert callable(change)
    ran = subprocess.run(
        [sys.executable, "-m", "upwell", "serve",
         "--grpc-listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--mysql-listen=127.0.0.1:0",
         f"--state-dir={tmp_path}"],
        cwd=ROOT, env={**os.environ, "UPWELL_UPSTREAM": change(mysql.url)}, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr.count("\n")) == (status, 1), ran.stderr
    assert "wrong" not in ran.stderr.replace("wrong password", "")
