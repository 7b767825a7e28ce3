"""However a key is asked for (alone, in a batch, in a stream, beside others), it gets MySQL's answer or error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from proxy.grpc.answers import answer_bytes
from proxy.grpc.requests import key_parameters
from proxy.grpc.rows import FORMAT
from proxy.port.reasons import Reason
from upwell import wire
from upwell.aio import Cache
from upwell.errors import UpwellError
from upwell.rows import Answer, key_message
from upwell.v1 import upwell_pb2 as pb

Key = tuple[Any, ...]
Outcome = Answer | Exception
Draw = Callable[[Random], Key]

NAMES = ["a", "A", "a ", "á", "b", "ß", "ss", "", " ", None, "a\u0001", "\U0001f600", "1", "0x", "\u0131"]
NUMBERS = [0, 1, 11, 511, -1, None, "1", "1x", Decimal("1.0"), 1.5, 2**63, 2**64 - 1, "", b"1", True]
SMALL = [0, 1, 2, 5, 10, 511, -1, None]
IDS = [1, 2, 3, 4, 5, 99]
ROUNDS = 3


def one_of_each(*pools: list[Any]) -> Draw:
    return lambda random: tuple(random.choice(pool) for pool in pools)


def with_a_list(random: Random) -> Key:
    return random.choice([0, 1, 511]), [random.choice([*IDS, 6]) for _ in range(random.randint(1, 4))]


QUERIES: dict[str, tuple[str, Draw]] = {
    "minus": ("SELECT id, u - ? FROM t WHERE id = ?", one_of_each(SMALL, IDS)),
    "whole": ("SELECT COUNT(DISTINCT id), MAX(u - ?) FROM t", one_of_each(NUMBERS)),
    "name": ("SELECT id, name FROM t WHERE name = ?", one_of_each(NAMES)),
    "padded": ("SELECT id, padded FROM t WHERE padded = ?", one_of_each(NAMES)),
    "limit": (
        "SELECT id, name FROM t WHERE g = ? ORDER BY id LIMIT ?",
        one_of_each([0, 1, 2, None, "1"], [0, 1, 2, 5]),
    ),
    "group": ("SELECT COUNT(*), SUM(v), MAX(name), MIN(padded) FROM t WHERE name = ?", one_of_each(NAMES)),
    "subquery": (
        "SELECT id, (SELECT v FROM t t2 WHERE t2.g = ?) FROM t WHERE id = ?",
        one_of_each([0, 1, 7, None], IDS),
    ),
    "join": ("SELECT a.id, b.name, a.u - ? FROM t a JOIN t b ON b.g = a.v WHERE a.id = ?", one_of_each(SMALL, IDS)),
    "list": ("SELECT id, u - ? FROM t WHERE id IN (?...)", with_a_list),
    "decimal": (
        "SELECT id, d FROM t WHERE d = ?",
        one_of_each([Decimal("1.5"), "1.50", 1.5, 2, "x", None, Decimal(10) ** 22]),
    ),
    "date": (
        "SELECT id, dt FROM t WHERE dt = ?",
        one_of_each(["2024-01-01", "2024-13-45", "", "x", None, "0000-00-00"]),
    ),
    "like": (
        "SELECT id, name FROM t WHERE name LIKE ? AND g = ?",
        one_of_each(["a%", "%", "", "\\", None, "_"], [0, 1, None]),
    ),
    "groups": ("SELECT g, SUM(u - ?) FROM t WHERE name = ? GROUP BY g", one_of_each([0, 1, 511], NAMES)),
    "range": (
        "SELECT SUM(v), MAX(u - ?) FROM t WHERE id > ? AND id < ?",
        one_of_each([0, 511, 1], [0, 2, None], [2, 5, 9]),
    ),
    "cast": ("SELECT id, CAST(name AS JSON) FROM t WHERE name = ?", one_of_each(NAMES)),
    "overflow": ("SELECT id, EXP(u * ?) FROM t WHERE id = ?", one_of_each([0, 1, 511, 100000], IDS)),
}


async def alone(cache: Cache, keys: list[Key]) -> list[Outcome]:
    """All at once, each by a call of its own."""

    async def one(key: Key) -> Outcome:
        try:
            return await cache.get(*key)
        except UpwellError as error:
            return error

    return await asyncio.gather(*map(one, keys))


async def batch(cache: Cache, keys: list[Key]) -> list[Outcome]:
    return list(await cache.try_many(keys))


async def stream(cache: Cache, keys: list[Key]) -> list[Outcome]:
    found: dict[int, Outcome] = {}
    async for index, answer in cache.stream(keys):
        assert index not in found, "answered twice"
        found[index] = answer
    return [found[index] for index in range(len(keys))]


async def mixed(cache: Cache, keys: list[Key]) -> list[Outcome]:
    half = len(keys) // 2
    first, second = await asyncio.gather(batch(cache, keys[:half]), alone(cache, keys[half:]))
    return first + second


WAYS: list[Callable[[Cache, list[Key]], Awaitable[list[Outcome]]]] = [alone, batch, stream, mixed]


def shown(outcome: Outcome) -> tuple[object, ...]:
    if isinstance(outcome, Answer):
        return ("rows", *sorted(repr(tuple(row)) for row in outcome))
    return "error", type(outcome).__name__, getattr(outcome, "errno", 0)


async def of_mysql(beside: Proxy, name: str, key: Key) -> Outcome:
    """The same key, passed."""
    router = beside.app.router
    try:
        parameters = key_parameters(key_message(key).SerializeToString())
        answer = await router.reads.passing.read_cache(
            router._catalog.get(name), parameters, router.pump.formats.number(FORMAT), Reason.ASKED.why("asked")
        )
        return wire.answer_from(pb.Answer.FromString(answer_bytes(answer, 0)), wire.Shapes())
    except Exception as error:  # noqa: BLE001 - it is compared
        return error


async def fill_tables(beside: Proxy) -> None:
    def quoted(name: str | None) -> str:
        return "NULL" if name is None else f"'{name}'"

    await beside.write(
        "CREATE TABLE t (id INT PRIMARY KEY, g INT, v INT, u BIGINT UNSIGNED, name VARCHAR(20),"
        " padded VARCHAR(20) COLLATE utf8mb4_general_ci, j JSON, d DECIMAL(10,3), dt DATETIME)"
    )
    rows = [
        f"({id}, {id % 3}, {id % 5}, {id * 10}, {quoted(name)}, {quoted(name)},"
        f" '{{\"a\": {id}}}', {1.5 if id % 2 else 2}, '2024-01-0{id % 9 + 1}')"
        for id, name in enumerate(NAMES * 2, 1)
    ]
    await beside.write("INSERT INTO t VALUES " + ", ".join(rows), "INSERT INTO t (id, g) VALUES (40, 7)")
    await beside.caught_up()


@pytest.mark.parametrize("verify", ["off", "32"])
def test_every_way_to_ask_gives_mysqls_answer(mysql: Server, database: str, tmp_path: Path, verify: str) -> None:
    """Keys that share upqueries, and of which some are errors."""

    async def scenario() -> None:
        random = Random(f"every way, {verify}")
        truths: dict[str, Outcome] = {}
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches=verify) as beside:
            await fill_tables(beside)
            for _ in range(ROUNDS):
                for name, (sql, draw) in QUERIES.items():
                    await beside.client.create_cache(sql, name=name, database=database)
                    cache = beside.client.cache(name)
                    for way in random.sample(WAYS, 2):
                        keys = [draw(random) for _ in range(random.choice([3, 8, 25]))]
                        for key, found in zip(keys, await way(cache, keys), strict=True):
                            asked = f"{name} {key!r}"
                            if asked not in truths:
                                truths[asked] = await of_mysql(beside, name, key)
                            assert shown(found) == shown(truths[asked]), (asked, way.__name__, found, truths[asked])
                    if random.random() < 0.5:
                        await beside.client.drop_cache(name)

    asyncio.run(asyncio.wait_for(scenario(), 240))
