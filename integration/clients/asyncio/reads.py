"""Repeated reads from a pool, several tasks at once.

`python -m integration.clients.asyncio.reads DRIVER [--explain]`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from integration.clients.asyncio.frame import ADDRESS, CAN, MODULE, all_of, cursor_of
from integration.clients.canonical import EXPLAIN, ROUNDS, Reads, served_in
from integration.clients.statements import READS

TASKS = 4


async def main() -> None:
    reads, it = Reads(), ADDRESS
    usual = {"host": it.host, "port": it.port, "user": it.user, "password": it.password, "db": it.data}
    ways: dict[str, dict[str, Any]] = {"text": {}}
    if "prepared" in CAN:
        ways["prepared"] = {"stmt_cache_size": 20}
    for way, special in ways.items():
        rounds = iter(range(ROUNDS))
        async with MODULE.create_pool(minsize=1, maxsize=TASKS, **usual, **special) as pool:

            async def requests(pool: Any = pool, rounds: Any = rounds, way: str = way) -> None:
                for number in rounds:
                    async with pool.acquire() as connection:
                        await request(connection, number, way, reads)

            await asyncio.gather(*(requests() for _ in range(TASKS)))
    reads.emit()


async def request(connection: Any, number: int, way: str, reads: Reads) -> None:
    for read in READS:
        key = read.key(number, prepared=way == "prepared")
        cursor = await cursor_of(connection)
        rows = read.ordered(await all_of(cursor, read.sql, key))
        reads.note(f"{read.name}, {way}", key, rows, await served(connection) if reads.explain else None)
    await connection.commit()


async def served(connection: Any) -> tuple[str, str]:
    cursor = await cursor_of(connection)
    (row,) = await all_of(cursor, EXPLAIN)
    return served_in([column[0] for column in cursor.description], row)


if __name__ == "__main__":
    asyncio.run(main())
