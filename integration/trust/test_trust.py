"""A cache earns its trust: what Upwell computes wrongly is found before a client gets it, whatever the fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.mysql_clients import Asker, connected
from planner.tree.expressions import Expressions
from proxy.app import name_of
from proxy.catalog.distrusted import Doubts
from proxy.pump.pump import DIFFERS
from tests.simulation.mutant import edit
from tests.support.waiting import until

WORDS = "SELECT id, word FROM words WHERE grp = ? AND word NOT LIKE 'a%'"
TABLE = (
    "CREATE TABLE words (id INT PRIMARY KEY, grp INT, word VARCHAR(20), n DECIMAL(10, 2), KEY (grp))",
    "INSERT INTO words VALUES (1, 7, 'apple', 1.5), (2, 7, 'pear', 2.5), (3, 8, 'plum', 3.5), (4, 8, 'apricot', NULL)",
)
not_like_is_like = edit(Expressions, "_binary", ('if node.args.get("negate") else found', "if False else found"))


def counters(proxy: Proxy) -> dict[str, int]:
    return proxy.app.router.status().counters


async def state_of(proxy: Proxy, name: str) -> tuple[str, str, str]:
    await proxy.settled()
    (info,) = [info for info in await proxy.app.router.caches.listed() if info.name == name]
    return info.mode, info.state, info.why


def test_not_like_read_as_like_is_found_at_the_first_read_and_reaches_nobody(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    not_like_is_like(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8") as proxy:
            await proxy.write(*TABLE)
            await proxy.caught_up()
            made = await proxy.client.create_cache(WORDS, name="words", database=database)
            assert made.mode == "maintain"
            with structlog.testing.capture_logs() as logs:
                answers = await asyncio.gather(*(proxy.client.cache("words").get(7) for _ in range(5)))
                await proxy.settled()
            assert [[tuple(row) for row in answer] for answer in answers] == [[(2, "pear")]] * 5
            served = {answer.served for answer in answers}  # a late one asks what the cache is by then, which holds
            assert "passed" in served and served <= {"passed", "miss", "hit"}

            (line,) = [line for line in logs if line["event"] == "cache_distrusted"]
            assert line["sql"] == "SELECT id, word FROM words WHERE grp = 7 AND word NOT LIKE 'a%'"
            assert (line["kind"], line["cache"], line["parameters"]) == ("fill", "words", "(7,)")
            assert line["rows_of_upwell"] == ["(1, 'apple')"] and line["rows_of_mysql"] == ["(2, 'pear')"]
            assert "LIKE" in line["plan"] and line["version"] and line["server_version"] and line["lower"]
            mode, state, why = await state_of(proxy, "words")
            assert (mode, state) == ("evict", "ready") and "not MySQL's own answer" in why
            assert counters(proxy)["caches_distrusted"] == counters(proxy)["trust_differs"] == 1

            cache = proxy.client.cache("words")
            again = [await cache.get(7), await cache.get(7)]
            assert [answer.served for answer in again] == ["hit" if "hit" in served else "miss", "hit"]
            assert [list(map(tuple, answer)) for answer in again] == [[(2, "pear")]] * 2
            await proxy.write(
                "INSERT INTO words VALUES (5, 7, 'quince', 1)", "UPDATE words SET word = 'fig' WHERE id = 1"
            )
            await proxy.caught_up()
            assert sorted(map(tuple, await cache.get(7))) == [(1, "fig"), (2, "pear"), (5, "quince")]

    run(scenario)


def test_it_stays_so_over_a_restart_until_it_is_made_anew_or_the_version_changes(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        with monkeypatch.context() as patch:
            not_like_is_like(patch)
            async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8") as proxy:
                await proxy.write(*TABLE)
                await proxy.caught_up()
                asker = await connected(proxy)
                await asker.ask("CREATE CACHE words FROM " + WORDS)
                await asker.ask(WORDS.replace("?", "6"))  # passed: MySQL's answer tells the columns
                assert await asker.read(WORDS.replace("?", "7")) == (((2, "pear"),), "passed", DIFFERS)
                await proxy.settled()
                await asker.close()
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8") as proxy:
            assert (await state_of(proxy, "words"))[0] == "evict"
            asker = await connected(proxy)
            ((*_, reason),) = await asker.ask("SHOW CACHES")
            assert "not MySQL's own answer" in reason and "made anew" in reason
            assert (await proxy.client.caches())[0].why == reason
            await asker.ask("DROP CACHE words")
            await asker.ask("CREATE CACHE words FROM " + WORDS)
            assert await state_of(proxy, "words") == ("maintain", "ready", "")
            await asker.close()
            await asyncio.to_thread(proxy.app.catalog.doubts.written)
            doubts = Doubts(tmp_path, name_of(proxy.app.config, proxy.app.source))
            doubts.load()
            assert not len(doubts)

    run(scenario)


def test_of_an_older_version_nothing_is_kept(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        with monkeypatch.context() as patch:
            not_like_is_like(patch)
            async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8") as proxy:
                await proxy.write(*TABLE)
                await proxy.caught_up()
                await proxy.client.create_cache(WORDS, name="words", database=database)
                await proxy.client.cache("words").get(7)
                assert (await state_of(proxy, "words"))[0] == "evict"
        monkeypatch.setattr("upwell.__version__", "99.0")
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8") as proxy:
            assert await state_of(proxy, "words") == ("maintain", "ready", "")

    run(scenario)


async def served(asker: Asker, sql: str) -> str:
    return (await asker.read(sql))[1]


def test_what_is_right_is_a_miss_then_hits_and_checked_again_after_each_change(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.checking.auditor.PATIENCE", 10.0)  # or a busy machine's answers are MySQL's

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="2") as proxy:
            await proxy.write(*TABLE)
            await proxy.caught_up()
            asker = await connected(proxy)
            await asker.ask("CREATE CACHE words FROM " + WORDS)
            assert await served(asker, WORDS.replace("?", "8")) == "passed"  # MySQL's answer tells the columns
            sql = WORDS.replace("?", "7")
            assert [await served(asker, sql) for _ in range(3)] == ["miss", "hit", "hit"]
            asked = counters(proxy)["source_upqueries"]
            # The first hit, too, where the stream had still to bring what the fill may have seen.
            assert counters(proxy)["trust_agrees"] in (1, 2)
            for n in range(20):
                await proxy.write(f"UPDATE words SET word = 'pear {n}' WHERE id = 2")
                await proxy.caught_up()
                rows, how, _ = await asker.read(sql)
                assert (rows, how) == (((2, f"pear {n}"),), "hit")
            found = counters(proxy)
            assert found["trust_differs"] == 0 and found["trust_agrees"] + found["trust_unknown"] > 5
            assert found["source_upqueries"] - asked < 20, "one key's checks earn trust, too, and then there are fewer"
            await asker.close()

    run(scenario)


LIST = "SELECT id, word FROM words WHERE grp IN (7, 8) ORDER BY word, id"
LISTED = [(1, "apple"), (4, "apricot"), (2, "pear"), (3, "plum")]


@asynccontextmanager
async def new_list(
    mysql: Server, database: str, folder: Path
) -> AsyncIterator[tuple[Proxy, Asker, Callable[[], Awaitable[None]]]]:
    """A new cache for `LIST`, who asks for it, and what waits until no fill is under way beside MySQL's own answers."""
    async with proxy_beside(mysql, database, folder, verify_new_caches="100") as proxy:
        await proxy.write(*TABLE)
        await proxy.caught_up()
        asker = await connected(proxy)
        await asker.ask("CREATE CACHE words FROM SELECT id, word FROM words WHERE grp IN (?) ORDER BY word, id")
        assert proxy.app.mysql is not None
        fills = proxy.app.mysql.shared.fills
        yield proxy, asker, lambda: until(lambda: not fills)
        await asker.close()


def test_a_sorted_list_of_a_new_cache_is_compared_once_until_a_table_changes(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.checking.auditor.PATIENCE", 10.0)  # or a busy machine's answers are MySQL's

    async def scenario() -> None:
        async with new_list(mysql, database, tmp_path) as (proxy, asker, answered):
            assert await served(asker, LIST) == "passed"
            await answered()
            asked = counters(proxy)["source_upqueries"]
            while await served(asker, LIST) != "hit":
                asked = counters(proxy)["source_upqueries"]  # a busy machine's fill may not be one to keep
            assert counters(proxy)["source_upqueries"] == asked, "the fill was compared"
            for change in ("UPDATE words SET n = 9 WHERE id = 2", "INSERT INTO words VALUES (9, 1, 'fig', 1)"):
                await proxy.write(change)
                await proxy.caught_up()
                agreed = counters(proxy)["trust_agrees"]
                while await served(asker, LIST) != "hit":
                    pass
                await answered()
                assert counters(proxy)["trust_agrees"] > agreed, f"{change}: it is given before it is compared"
                agreed, asked = counters(proxy)["trust_agrees"], counters(proxy)["source_upqueries"]
                for _ in range(5):
                    rows, how, why = await asker.read(LIST)
                    assert (list(rows), how) == (LISTED, "hit"), (change, why)
                assert (counters(proxy)["trust_agrees"], counters(proxy)["source_upqueries"]) == (agreed, asked), change

    run(scenario)


def test_rows_of_several_keys_sorted_together_are_hits_of_transactions_once_they_are_compared(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not stored by key: the look after the comparison is not compared again."""
    monkeypatch.setattr("proxy.checking.auditor.PATIENCE", 10.0)  # or a busy machine's answers are MySQL's

    async def scenario() -> None:
        async with new_list(mysql, database, tmp_path) as (proxy, asker, answered):
            while await served(asker, LIST) != "hit":
                pass
            await answered()  # each fill is compared, too
            for _ in range(5):
                how = ""
                while how != "hit":  # while anything moves the position, a comparison may be of another one
                    await asker.ask("COMMIT")
                    await asker.ask("BEGIN")
                    rows, how, why = await asker.read(LIST)
                    assert list(rows) == LISTED
                agreed = counters(proxy)["trust_agrees"]
                rows, how, why = await asker.read(LIST)
                assert (list(rows), how) == (LISTED, "hit"), f"the second: {why}"
                assert counters(proxy)["trust_agrees"] == agreed, "it is what was shown"

    run(scenario)


def test_what_an_alter_makes_anew_is_checked_anew(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="1") as proxy:
            await proxy.write(*TABLE)
            await proxy.caught_up()
            await proxy.client.create_cache(WORDS, name="words", database=database)
            cache = proxy.client.cache("words")
            for key in (7, 8, 9, 10):
                await cache.get(key)
            before = counters(proxy)["trust_agrees"]
            assert before < 4
            await proxy.write("ALTER TABLE words ADD COLUMN more INT")
            await proxy.caught_up()
            await proxy.settled()
            assert (await cache.get(7)).served == "miss"
            assert counters(proxy)["trust_agrees"] == before + 1

    run(scenario)
