"""A session is shown nothing older than before, also where MySQL itself has answered a cached read."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import held_back, run
from integration.support.mysql_clients import Asker
from integration.support.mysql_shop import BY_ID, shop

WRITE = "UPDATE item SET n = 5 WHERE id IN (1, 2)"
NEW = ((1, 5, "item 1"),)
OLD = ((1, 10, "item 1"),)
WAYS = {
    "a transaction of MySQL's": ("BEGIN", "SELECT COUNT(*) FROM item", BY_ID % 2, "COMMIT"),
    "a value that MySQL compares itself": (BY_ID % "'2x'",),
    "a variable": ("SET sql_mode = ''", BY_ID % 2, "SET sql_mode = DEFAULT"),
    "a transaction that is to be SERIALIZABLE": (
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", BY_ID % 2, "COMMIT",
    ),
    "locked tables": ("LOCK TABLES item READ", BY_ID % 2, "UNLOCK TABLES"),
    "an answer that fails": ("SET SESSION max_execution_time = 1", BY_ID % 2, "SET SESSION max_execution_time = 0"),
}  # fmt: skip


async def passed_by(asker: Asker, statements: tuple[str, ...]) -> None:
    """A read of the cache is answered by MySQL, in this way."""
    served = []
    for statement in statements:
        served.append((await asker.read(statement))[1] if statement.startswith("SELECT id") else "")
    assert served.count("passed") + served.count("miss") == 1


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("begin", ["", "BEGIN", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN"])
def test_a_hit_is_not_older_than_a_cached_read_that_mysql_answered(
    mysql: Server, database: str, tmp_path: Path, way: str, begin: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            assert await asker.served(BY_ID, 1) == "miss"
            assert await asker.served(BY_ID, 1) == "hit"
            with held_back(proxy):
                await proxy.write(WRITE)
                assert await asker.ask(BY_ID, 1) == OLD, "nothing newer was shown until now"
                await passed_by(asker, WAYS[way])
                for statement in filter(None, begin.split("; ")):
                    await asker.ask(statement)
                for _ in range(2):
                    assert (await asker.read(BY_ID, 1))[:2] == (NEW, "passed")
                await asker.ask("COMMIT")
            await proxy.caught_up()
            for _ in range(2):  # it is asked for and then known
                assert (await asker.read(BY_ID, 1))[:2] == (NEW, "hit")

    run(scenario)


def test_a_read_that_the_client_itself_sends_to_mysql_keeps_no_hit_waiting(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            assert await asker.served(BY_ID, 1) == "miss"
            with held_back(proxy):
                await proxy.write(WRITE)
                assert await asker.ask(f"{BY_ID} /* upwell: skip */", 2) == ((2, 5, "item 2"),)
                assert await asker.ask("SELECT SUM(n) FROM item WHERE id < 2") == ((5,),)
                assert (await asker.read(BY_ID, 1))[:2] == (OLD, "hit")

    run(scenario)
