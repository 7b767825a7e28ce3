"""What checks have shown of one cache counts for another that is made of the same parts, and after a restart of the
proxy; a fault is found all the same before a client gets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.trust.trusted import NOT_LIKE, counter, lost, shown, truth

KEYS = 40
TABLES = (
    "CREATE TABLE words (id INT PRIMARY KEY, grp INT, word VARCHAR(20), KEY (grp))",
    "CREATE TABLE names (number INT PRIMARY KEY, kind INT, name VARCHAR(40), born DATE, KEY (kind))",
    "INSERT INTO words WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
    " SELECT i, i, IF(i % 2, 'apple', 'pear') FROM n",
    "INSERT INTO names SELECT id, grp, word, NULL FROM words",
)
WORDS = "SELECT id, word FROM words WHERE grp = ? AND word NOT LIKE 'a%'"
NAMES = "SELECT number, name FROM names WHERE kind = ? AND name NOT LIKE 'a%'"
OTHERS = "SELECT number, born FROM names WHERE kind = ? AND name NOT LIKE 'a%'"
FEW_CHECKS = 12  # four keys, then ever fewer


async def checks(proxy: Proxy, name: str, sql: str) -> int:
    """How many answers were compared of a cache of this query, of reads of so many keys that are right."""
    await proxy.client.create_cache(sql, name=name, database=proxy.database)
    before = counter(proxy, "trust_agrees")
    for key in range(1, KEYS + 1):
        answer = await proxy.client.cache(name).get(key)
        assert shown(answer) == await truth(proxy, sql.replace("?", str(key)))
    return counter(proxy, "trust_agrees") - before


def test_a_cache_of_parts_that_another_has_shown_needs_few_checks(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="16") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            assert await checks(proxy, "words", WORDS) >= 16
            assert await checks(proxy, "names", NAMES) <= FEW_CHECKS
            assert await checks(proxy, "others", OTHERS) >= 16, "its dates nobody has shown"
            assert lost(proxy) == 0

    run(scenario)


def test_trust_outlives_a_restart_where_the_plan_is_the_same(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        for wanted in (range(16, KEYS + 1), range(FEW_CHECKS + 1)):
            async with proxy_beside(mysql, database, tmp_path, verify_new_caches="16") as proxy:
                if wanted.start:
                    await proxy.write(*TABLES)
                    await proxy.caught_up()
                assert await checks(proxy, "words", WORDS) in wanted
        mysql.execute(f"ALTER TABLE `{database}`.words MODIFY word VARCHAR(30)")
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="16") as proxy:
            assert await checks(proxy, "words", WORDS) >= 16, "it is another table"

    run(scenario)


def test_a_fault_that_comes_after_trust_was_earned_is_found_first_and_takes_all_trust_away(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="16") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await checks(proxy, "words", WORDS)
        (file,) = tmp_path.glob("trust-*.json")
        assert json.loads(file.read_text())["earned"]
        NOT_LIKE.plant(monkeypatch)
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="16") as proxy:
            await checks(proxy, "words", WORDS)
            await checks(proxy, "names", NAMES)
            await proxy.settled()
            assert lost(proxy) == 2
        assert not [earned for earned in json.loads(file.read_text())["earned"] if earned.startswith("fills")]

    run(scenario)
