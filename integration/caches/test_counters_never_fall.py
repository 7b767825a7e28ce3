"""What /metrics counts never falls, whatever becomes of the caches that it counts of: a scraper takes a fall for a
restart of the process, and what it adds up is wrong."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.auto.decisions import AutoCache
from proxy.http.metrics import Metrics
from tests.support.waiting import turns
from upwell.errors import UpwellError

TABLES = (
    "CREATE TABLE stories (id BIGINT PRIMARY KEY, author INT NOT NULL, title VARCHAR(100), INDEX (author))",
    "INSERT INTO stories SELECT a.n * 10 + b.n, b.n, REPEAT('x', 90) FROM"
    " JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS (n INT PATH '$')) a,"
    " JSON_TABLE('[0,1,2,3,4,5,6,7,8,9]', '$[*]' COLUMNS (n INT PATH '$')) b",
)
OWN = {
    "by_id": "SELECT id, title FROM stories WHERE id = ?",
    "by_author": "SELECT COUNT(*) FROM stories WHERE author = ?",
    "latest": "SELECT id, title FROM stories WHERE author = ? ORDER BY id DESC LIMIT 3",
}
AUTOMATIC = (
    "SELECT title FROM stories WHERE id = {}",
    "SELECT MAX(id) FROM stories WHERE author = {}",
    "SELECT id FROM stories WHERE author = {} ORDER BY title, id",
)
STEPS = 160
ACTIONS = ("read", "read", "read", "ask", "ask", "create", "drop", "write", "ddl", "look", "forget", "unlogged")

Sample = tuple[str, tuple[tuple[str, str], ...]]


def counted(text: str) -> dict[Sample, float]:
    """Every sample of a kind that may only rise: counters, and all of a histogram."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        if family.type in ("counter", "histogram")
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


class Life:
    """A busy one of caches, and who scrapes it after each step."""

    def __init__(self, proxy: Proxy, auto: AutoCache, seed: int) -> None:
        self.proxy = proxy
        self.auto = auto
        self.random = Random(seed)
        self.most: dict[Sample, float] = {}
        self.fallen: list[str] = []

    async def scrape(self, behind: str) -> None:
        now = counted((await Metrics(self.proxy.app.router).text()).decode())
        for sample, value in now.items():
            if value < self.most.get(sample, 0.0):
                self.fallen.append(f"{sample} fell from {self.most[sample]} to {value} behind {behind}")
            self.most[sample] = max(value, self.most.get(sample, 0.0))

    def hits(self) -> set[str]:
        """Names of caches that were hit: more than there are in OWN where both kinds were."""
        return {dict(labels)["cache"] for (name, labels), value in self.most.items() if value and "cache_hits" in name}

    async def step(self) -> None:
        action = self.random.choice(ACTIONS)
        await getattr(self, action)()
        await self.proxy.app.catalog.settled()
        await self.scrape(action)

    async def read(self) -> None:
        name = self.random.choice(list(OWN))
        for _ in range(20):
            try:
                await self.proxy.client.cache(name).get(self.random.randrange(100))
            except UpwellError:
                return

    async def ask(self) -> None:
        text = self.random.choice(AUTOMATIC)
        for _ in range(25):
            await self.proxy.client.query(text.format(self.random.randrange(10)), database=self.proxy.database)

    async def create(self) -> None:
        name = self.random.choice(list(OWN))
        await self.proxy.client.create_cache(OWN[name], name=name, database=self.proxy.database)

    async def drop(self) -> None:
        names = [info.name for info in await self.proxy.app.router.caches.listed()]
        if names:
            await self.proxy.client.drop_cache(self.random.choice(names))

    async def write(self) -> None:
        await self.proxy.write(f"UPDATE stories SET title = REPEAT('y', {self.random.randrange(100)}) LIMIT 50")
        await self.proxy.caught_up()

    async def ddl(self) -> None:
        await self.proxy.write(f"ALTER TABLE stories COMMENT = '{self.random.random()}'")
        await self.proxy.caught_up()

    async def look(self) -> None:
        self.auto._barred.clear()
        await self.auto.look()

    async def forget(self) -> None:
        """Automatic caching drops what it has made, as where that does not pay."""
        for name in list(self.auto.made):
            await self.auto._drop(name, "by chance", bar=False)

    async def unlogged(self) -> None:
        self.proxy.app.router.written_unlogged("somebody@%", cause="sql_log_bin=0", schema=False)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_that_is_counted_falls_in_a_busy_life(mysql: Server, database: str, tmp_path: Path, seed: int) -> None:
    async def scenario() -> None:
        options = {"auto_cache": "on", "auto_cache_time": "0ms", "memory_limit": "8KiB", "check_sample": "0.01"}
        async with proxy_beside(mysql, database, tmp_path, **options) as proxy:
            auto = proxy.app.router.auto_cache
            assert auto is not None
            await proxy.write(*TABLES)
            life = Life(proxy, auto, seed)
            for _ in range(STEPS):
                await life.step()
                await turns(1)  # hits alone would let nothing else go on
            # A life in which chance has dropped none, or none of a kind was hit, goes on.
            while not auto.counters["automatic_caches_dropped"] or len(life.hits()) <= len(OWN):
                for action in ("create", "read", "ask", "look", "ask", "ask", "forget"):
                    await getattr(life, action)()
                    await proxy.app.catalog.settled()
                    await life.scrape(action)
            assert not life.fallen, "\n".join(life.fallen[:20])
            counters = (await proxy.client.status()).counters
            assert counters["evicted"] > 0 and counters["automatic_caches_dropped"] > 0 and counters["resets"] >= 0

    run(scenario)
