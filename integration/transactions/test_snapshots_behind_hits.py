"""MySQL's snapshot is opened behind the first hit of a REPEATABLE READ transaction, where the ones before it needed
that. It is as old as the hit, and it does not outlive its transaction, however that ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from integration.hammer.judge import STALE, Group, History, Seen
from integration.hammer.session_judge import OneState, stale
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, run
from integration.support.mysql_clients import Asker, connected
from integration.support.mysql_shop import BY_ID, shop
from integration.transactions.test_mysql_transactions import mixed, written
from proxy.mysql.session import upstream

PASSED = "SELECT id, n FROM item WHERE id = 1 LIMIT 1"  # no cache is for it
BEGINS = ("BEGIN", "START TRANSACTION READ ONLY", "SET autocommit = 0")
ENDS = (
    ("COMMIT",),
    ("ROLLBACK",),
    ("COMMIT AND CHAIN",),
    ("ROLLBACK AND CHAIN", "COMMIT"),
    ("BEGIN",),
    ("START TRANSACTION", "ROLLBACK"),
    ("SET autocommit = 1", "COMMIT"),
    ("COMMIT; SELECT 1",),
    ("SAVEPOINT a", "ROLLBACK TO a", "COMMIT"),
    ("CREATE TABLE made_within (id INT)",),
    ("FLUSH LOCAL STATUS", "COMMIT"),
    ("LOCK TABLES item READ", "UNLOCK TABLES"),
)


async def expected(proxy: Proxy, asker: Asker, begin: str) -> None:
    """Transactions that begin with a hit go on at MySQL: the next one has its snapshot behind its first hit."""
    forecast = proxy.app.mysql.shared.forecast  # type: ignore[union-attr]  # it listens
    while not forecast.expects("by_id"):
        await asker.until_hit(BY_ID, 1)
        await asker.ask(begin)
        await asker.ask(BY_ID, 1)
        await asker.ask(PASSED)
        await asker.ask("COMMIT")
        await asker.ask("SET autocommit = 1")
        await asker.ask(BY_ID, 1)  # the end is noted when the next one begins


@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("ends", ENDS, ids=" then ".join)
def test_no_snapshot_outlives_its_transaction(
    mysql: Server, database: str, tmp_path: Path, begin: str, ends: tuple[str, ...]
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, _):
            asker = await connected(proxy, client_flag=1 << 16)  # several statements in a text
            await expected(proxy, asker, begin)
            for number in range(1, 4):
                await asker.until_hit(BY_ID, 1)
                await asker.ask(begin)
                assert await asker.served(BY_ID, 1) == "hit"
                if number == 2:
                    await asker.ask(PASSED)
                for text in ends:
                    await asker.ask(text.replace("made_within", f"made_within_{number}"))
                await written(proxy, f"UPDATE item SET n = {number} WHERE id = 1")
                assert await asker.ask(PASSED) == ((1, number),), "what was committed before it was asked"
                await asker.ask("ROLLBACK")
                await asker.ask("SET autocommit = 1")
            await asker.close()

    run(scenario)


def test_mysqls_snapshot_is_as_old_as_the_first_hit(mysql: Server, database: str, tmp_path: Path) -> None:
    """What is committed behind the first hit is in none of MySQL's answers, whenever the first of these is asked for:
    that is one state. Without the snapshot the answer has it, and the transaction has seen two."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await expected(proxy, asker, "BEGIN")
            before = await mixed(proxy)
            await asker.until_hit(BY_ID, 1)
            await asker.ask("BEGIN")
            ((_, n, _),), served, _ = await asker.read(BY_ID, 1)
            assert served == "hit"
            await written(proxy, f"UPDATE item SET n = {n} + 1 WHERE id = 1")
            ((_, told),) = await asker.ask(PASSED)
            assert told == n and await mixed(proxy) == before
            await asker.ask("COMMIT")

            def seen(served: str, version: int, committed: Mapping[Group, int]) -> Seen:
                return Seen("by_id", (1,), served, "", [(0, version)], before=committed)

            state, history = OneState(), History([0])
            assert not state.judge(history, seen("hit", 0, {0: 0}))
            passed = seen("passed", told - n, {0: 1})
            assert not state.judge(history, passed), "the judge knows of which moment the snapshot is"
            assert [finding.kind for finding in stale(passed, passed.before)] == [STALE], "outside of one it would be"

    run(scenario)


def test_while_the_stream_is_late_no_transaction_waits_for_it_but_one(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "REST", 1e9)

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await expected(proxy, asker, "BEGIN")
            for text in (
                "BEGIN",
                BY_ID.replace("%s", "1"),
                PASSED,
                "COMMIT",
            ):  # so that those of hits alone change little
                await asker.ask(text)
            await asker.until_hit(BY_ID, 1)

            async def untold() -> bool:
                """Whether MySQL hears nothing of a transaction with a hit."""
                before = (await proxy.client.status()).counters["empty_transactions"]
                await asker.ask("BEGIN")
                await asker.ask(BY_ID, 1)
                await asker.ask("COMMIT")
                return (await proxy.client.status()).counters["empty_transactions"] > before

            assert not await untold()
            with held_back(proxy):
                await proxy.write("UPDATE item SET n = n + 1 WHERE id = 9")
                assert not await untold()
                assert await untold()

    run(scenario)
