"""Rows that are distributed by texts: UUIDs and addresses of e-mail, by columns of the usual collations."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import SHARDED, TABLES, VSCHEMA

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

VINDEXES = {"loose": "unicode_loose_xxhash", "loose_md5": "unicode_loose_md5", "of_bytes": "xxhash"}
DISTRIBUTED = {
    "person": ("uuid", "loose"),
    "visit": ("person_uuid", "loose"),
    "account": ("email", "of_bytes"),
    "token": ("id", "loose_md5"),
    "device": ("id", "of_bytes"),
    "spelled": ("word", "of_bytes"),
}
DEFINITIONS = {
    "person": "(uuid VARCHAR(36) PRIMARY KEY, name VARCHAR(20), n INT, KEY (n))",
    "visit": "(person_uuid VARCHAR(36), number INT, n INT, PRIMARY KEY (person_uuid, number), KEY (n))",
    "account": "(email VARCHAR(60) COLLATE utf8mb4_bin, n INT, PRIMARY KEY (email, n))",
    "token": "(id CHAR(36) COLLATE utf8mb4_bin PRIMARY KEY, n INT, KEY (n))",
    "device": "(id BINARY(16) PRIMARY KEY, n INT, KEY (n))",
    "spelled": "(word VARCHAR(20), n INT, PRIMARY KEY (word, n))",
}
PEOPLE = [str(uuid.UUID(int=random.Random(number).getrandbits(128))) for number in range(12)]
EMAILS = [f"person{number}@example.com" for number in range(12)]
QUERIES: dict[str, tuple[str, list[Any]]] = {
    "person": ("SELECT * FROM person WHERE uuid = ?", list(PEOPLE)),
    "people": ("SELECT uuid, name FROM person WHERE n = ? ORDER BY uuid", [0, 1, 2]),
    "visits": ("SELECT number, n FROM visit WHERE person_uuid = ? ORDER BY number DESC LIMIT 2", list(PEOPLE)),
    "counted": ("SELECT COUNT(*), SUM(n) FROM visit WHERE person_uuid = ?", list(PEOPLE)),
    "joined": (
        "SELECT p.name, v.number FROM person p JOIN visit v ON v.person_uuid = p.uuid WHERE p.uuid = ?",
        list(PEOPLE),
    ),
    "account": ("SELECT email, n FROM account WHERE email = ?", list(EMAILS)),
    "token": ("SELECT id, n FROM token WHERE id = ?", list(PEOPLE)),
    "device": ("SELECT HEX(id), n FROM device WHERE id = ?", [uuid.UUID(each).bytes for each in PEOPLE]),
    "spelled": ("SELECT word, n FROM spelled WHERE word = ?", ["bob", "ann"]),
}


def vschema() -> dict[str, Any]:
    vindexes = {**VSCHEMA["vindexes"], **{name: {"type": kind} for name, kind in VINDEXES.items()}}  # type: ignore[dict-item]
    tables = {name: {"column_vindexes": [{"column": of, "name": by}]} for name, (of, by) in DISTRIBUTED.items()}
    return {**VSCHEMA, "vindexes": vindexes, "tables": {**TABLES, **tables}}


@contextmanager
def filled(vitess: Cluster) -> Iterator[None]:
    vitess.execute(SHARDED, *(f"CREATE TABLE {name} {columns}" for name, columns in DEFINITIONS.items()))
    vitess.apply_vschema(SHARDED, vschema())
    try:
        for number, (person, email) in enumerate(zip(PEOPLE, EMAILS, strict=True)):
            n, of_bytes = number % 3, f"x'{uuid.UUID(person).hex}'"
            vitess.execute(
                SHARDED,
                f"INSERT INTO person (uuid, name, n) VALUES ('{person}', 'P{number}', {n})",
                f"INSERT INTO visit (person_uuid, number, n) VALUES ('{person}', 1, {n}), ('{person}', 2, {n})",
                f"INSERT INTO account (email, n) VALUES ('{email}', {n})",
                f"INSERT INTO token (id, n) VALUES ('{person}', {n})",
                f"INSERT INTO device (id, n) VALUES ({of_bytes}, {n})",
            )
        yield
    finally:
        vitess.apply_vschema(SHARDED, VSCHEMA)
        vitess.execute(SHARDED, f"DROP TABLE {', '.join(DEFINITIONS)}")


@asynccontextmanager
async def cached(vitess: Cluster, tmp_path: Path) -> AsyncIterator[VitessProxy]:
    with filled(vitess):
        async with proxy_before(vitess, SHARDED, tmp_path, verify_new_caches="8") as proxy:
            for name, (sql, _) in QUERIES.items():
                await proxy.client.create_cache(sql, name=name)
            yield proxy


def written(sql: str, key: Any) -> str:
    return sql.replace("?", f"x'{key.hex()}'" if isinstance(key, bytes) else repr(key))


async def same(proxy: VitessProxy, name: str, key: Any, served: str = "hit") -> None:
    """An answer that is served so is vtgate's."""
    async with asyncio.timeout(60):
        while (answer := await proxy.client.cache(name).get(key)).served != served:
            pass
    expected = sorted(await proxy.asked(written(QUERIES[name][0], key)))
    assert sorted(map(tuple, answer)) == expected, (name, key)
    assert sorted(await asyncio.to_thread(of_session, proxy, name, key)) == expected, (name, key)


def of_session(proxy: VitessProxy, name: str, key: Any) -> tuple[tuple[Any, ...], ...]:
    with closing(proxy.session()) as connection, connection.cursor() as cursor:
        cursor.execute(written(QUERIES[name][0], key))
        return tuple(cursor.fetchall())


def test_a_schema_that_is_keyed_by_texts_is_cached(vitess: Cluster, tmp_path: Path) -> None:
    rng = random.Random(3)

    def change() -> str:
        person, number = rng.choice(PEOPLE), rng.randrange(4)
        of_bytes = f"x'{uuid.UUID(person).hex}'"
        return rng.choice([
            f"UPDATE person SET n = {number}, name = 'new{number}' WHERE uuid = '{person}'",
            f"INSERT INTO visit (person_uuid, number, n) VALUES ('{person}', {rng.randrange(10**6)}, {number})",
            f"DELETE FROM visit WHERE person_uuid = '{person}' AND number < {number}",
            f"DELETE FROM account WHERE n = {number} AND email = '{rng.choice(EMAILS)}'",
            f"DELETE FROM token WHERE id = '{person}'",
            f"UPDATE device SET n = {number} WHERE id = {of_bytes}",
        ])  # fmt: skip

    async def scenario() -> None:
        async with cached(vitess, tmp_path) as proxy:
            for _ in range(3):
                for name, (_, keys) in QUERIES.items():
                    for key in keys:
                        await same(proxy, name, key)
                await proxy.write(*(change() for _ in range(12)))
            found = {cache.name: cache.mode for cache in await proxy.client.caches()}
            assert found["people"] == found["token"] == "maintain" and found["person"] == "evict"

    run(scenario)


def test_spellings_that_mysql_takes_for_equal_are_vtgates(vitess: Cluster, tmp_path: Path) -> None:
    """Of each of them vtgate asks one shard, and they are on several."""
    words = ["bob", "Bob", "BOB", "bób", "bob ", "ann", "Ann", "ANN", "änn"]
    plain = {"bob", "ann"}

    async def scenario() -> None:
        async with cached(vitess, tmp_path) as proxy:
            for name in ("spelled", "account"):
                await same(proxy, name, QUERIES[name][1][0])
            for number, word in enumerate(words):
                await proxy.write(f"INSERT INTO spelled (word, n) VALUES ('{word}', {number})")
                await proxy.write(f"INSERT INTO account (email, n) VALUES ('{word}', {number})")
                for each in words:
                    await same(proxy, "spelled", each, "hit" if each in plain else "passed")
                    await same(proxy, "account", each, "passed" if each.endswith(" ") else "hit")
            found = {len(await proxy.asked(written(QUERIES["spelled"][0], each))) for each in words}
            assert len(found) > 1, "they are on several shards"
            for number in range(len(words)):
                await proxy.write(f"DELETE FROM spelled WHERE n = {number}")
                for each in words:
                    await same(proxy, "spelled", each, "hit" if each in plain else "passed")

    run(scenario)
