"""Reads through a proxy before a scripted vtgate, each compared with what the servers of the shards have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from integration.scripted_vtgate.scripted_vitess import ScriptedVitess
from tests.support.vitess_events import LEFT, RIGHT
from tests.support.vtgate_faults import Refused
from tests.support.waiting import until
from upwell.errors import SourceDown, SourceError

BY_ID = "SELECT id, n, name FROM item WHERE id = ?"
BY_N = "SELECT id, name FROM item WHERE n = ?"  # the scripted vtgate merges no order
KEYS = 600


async def fill(vitess: ScriptedVitess) -> None:
    """Rows enough that each fault has keys of its own."""
    for shard, first in ((LEFT, 0), (RIGHT, 1)):
        keys = range(first + 100, KEYS, 2)
        await vitess.write(shard, f"INSERT INTO item VALUES {', '.join(f'({key}, {key // 2}, NULL)' for key in keys)}")
    await vitess.caught_up()
    await vitess.client.create_cache(BY_ID, name="by_id")
    await vitess.client.create_cache(BY_N, name="by_n")


AWAY = Refused(0, "", "")  # any error that says so


async def asked(vitess: ScriptedVitess, cache: str, key: int, allowed: Refused | None = None) -> str:
    """How a read was served, by gRPC: it has the rows that the servers have, or is the error that is allowed, or that
    vtgate is away."""
    try:
        found = await vitess.client.cache(cache).get(key)
    except SourceError as error:
        assert allowed is not None and (error.errno, str(error)) == (allowed.errno, allowed.message), error
        return "error"
    except SourceDown as error:
        assert allowed is not None and allowed.message in str(error), error
        return "error"
    sql = {"by_id": BY_ID, "by_n": BY_N}[cache].replace("?", str(key))
    assert sorted(map(tuple, found), key=repr) == await vitess.asked(sql), (cache, key, found.served)
    return f"{found.served} {found.why}".strip()


async def right(vitess: ScriptedVitess, cache: str, key: int) -> None:
    """A session of MySQL's protocol, whose own statements vtgate answers, gets the rows that the servers have."""
    sql = {"by_id": BY_ID, "by_n": BY_N}[cache].replace("?", str(key))
    assert await vitess.session(sql) == await vitess.asked(sql), (cache, key)


async def healed(vitess: ScriptedVitess, cache: str, key: int) -> None:
    """Soon: a fill that has begun before may fail yet, and each answer until then is right."""

    async def is_hit() -> bool:
        return await asked(vitess, cache, key) == "hit"

    await until(is_hit)


async def at_rest(vitess: ScriptedVitess, caches: Mapping[str, tuple[str, Iterable[int]]]) -> None:
    """All is told by now: each answer is what the servers have, is held soon, and is the same then. (vtgate's own is
    not, where it goes by a lookup.)"""
    await vitess.caught_up()
    wanted = [(name, key, sql.replace("?", str(key))) for name, (sql, keys) in caches.items() for key in keys]
    expected = await asyncio.to_thread(vitess.keyspace.asked, *[sql for _, _, sql in wanted])
    for (name, key, _), rows in zip(wanted, expected, strict=True):

        async def is_hit(name: str = name, key: int = key, rows: list[tuple[Any, ...]] = rows) -> bool:
            found = await vitess.client.cache(name).get(key)
            by_lookup = found.served == "passed" and vitess.sql.lookup
            assert by_lookup or sorted(map(tuple, found), key=repr) == rows, (name, key, found.served, found.why)
            return found.served == "hit"

        await until(is_hit)
