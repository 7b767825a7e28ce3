"""Two caches over ten items, and a client in autocommit that reads them over MySQL's protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from integration.support.mysql_clients import Asker, connected

BY_ID = "SELECT id, n, name FROM item WHERE id = %s"
OF_GROUP = "SELECT COUNT(*), SUM(n) FROM item WHERE grp = %s"


@asynccontextmanager
async def shop(mysql: Server, database: str, state: Path, **options: str) -> AsyncIterator[tuple[Proxy, Asker]]:
    """A proxy with two caches over ten items, and a client of it."""
    mysql.execute(
        f"USE `{database}`",
        "CREATE TABLE item (id INT PRIMARY KEY, grp INT NOT NULL, n INT NOT NULL, name VARCHAR(40), KEY (grp))",
        "INSERT INTO item VALUES " + ", ".join(f"({n}, {n % 3}, {n * 10}, 'item {n}')" for n in range(10)),
    )
    async with proxy_beside(mysql, database, state, **options) as proxy:
        asker = await connected(proxy)
        await asker.ask("CREATE CACHE by_id FROM SELECT id, n, name FROM item WHERE id = ?")
        await asker.ask("CREATE CACHE of_group FROM SELECT COUNT(*), SUM(n) FROM item WHERE grp = ?")
        for query, key in ((BY_ID, 0), (OF_GROUP, -1)):  # now it is known how MySQL announces the columns
            assert await asker.served(query, key) == "passed"
            await asker.until_hit(query, key)
        try:
            yield proxy, asker
        finally:
            await asker.close()


async def waits_for_tables(mysql: Server, database: str) -> int:
    """The thread at MySQL of a statement in the database that waits for a transaction, once there is one."""
    waits = f"db = '{database}' AND state LIKE 'Waiting for table metadata lock'"
    while True:
        found = await asyncio.to_thread(mysql.execute, f"SELECT id FROM information_schema.processlist WHERE {waits}")
        if found:
            return int(found[0][0])
