"""A known load on a proxy that logs what it is asked, over both protocols, for tests of the log and of its ranking."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from upwell.client import Client

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, grp INT NOT NULL, word VARCHAR(20) NOT NULL, code VARBINARY(8),"
    " price DECIMAL(8,2), weight DOUBLE, day DATE, KEY (grp), KEY (word), KEY (code), KEY (price), KEY (day))",
    "INSERT INTO item SELECT n, n % 20, CONCAT('w', n % 50), CHAR(0, n, 255), n / 4, n / 7,"
    " DATE_ADD('2024-01-01', INTERVAL n DAY) FROM"
    " (WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 199) SELECT n FROM s) AS numbers",
)
CACHES = {
    "by_id": "SELECT id, word FROM item WHERE id = ?",
    "by_word": "SELECT id FROM item WHERE word = ? ORDER BY id LIMIT 3",
    "by_list": "SELECT id, grp FROM item WHERE id IN (?)",
    "by_two": "SELECT COUNT(*) FROM item WHERE grp = ? AND word = ?",
    "never": "SELECT price FROM item WHERE id = ?",
}
COSTLY = "SELECT grp, COUNT(*), SUM(price) FROM item WHERE weight > ? GROUP BY grp"


@dataclass
class Load:
    """What was asked: of each cache, how often each key."""

    asked: dict[str, Counter[object]] = field(default_factory=dict)
    costly: int = 0  # reads of COSTLY

    def note(self, cache: str, key: object) -> None:
        self.asked.setdefault(cache, Counter())[key] += 1


def zipf(rng: random.Random, keys: int) -> int:
    """A key below `keys`; the first are asked for most."""
    return min(keys - 1, int(rng.paretovariate(1.0)) - 1)


@contextmanager
def logging_proxy(mysql: Server, database: str, state: Path, folder: Path, **options: str) -> Iterator[Beside]:
    given = {"access_log": str(folder), "access_log_sample": "1", "access_log_rotate": "1h", **options}
    with proxy_in_thread(mysql, database, state, **given) as beside:
        yield beside


def make_caches(beside: Beside, client: Client) -> None:
    for name, sql in CACHES.items():
        client.create_cache(sql, name=name, database=beside.proxy.database)


def read_over_mysql(client: RawClient, load: Load, rng: random.Random, reads: int) -> None:
    """Texts; some of them are no cache's."""
    for _ in range(reads):
        key = zipf(rng, 100)
        client.query(CACHES["by_id"].replace("?", str(key)))
        load.note("by_id", key)
        word = f"w{zipf(rng, 40)}"
        client.query(CACHES["by_word"].replace("?", f"'{word}'"))
        load.note("by_word", word)
        if rng.random() < 0.1:
            client.query(COSTLY.replace("?", str(rng.random())))
            load.costly += 1


def read_over_grpc(client: Client, load: Load, rng: random.Random, reads: int) -> None:
    for _ in range(reads):
        key = zipf(rng, 100)
        client.cache("by_id").get(key)
        load.note("by_id", key)
        some = sorted({zipf(rng, 60) for _ in range(3)})
        client.cache("by_list").get(some)
        for one in some:
            load.note("by_list", one)
        pair = zipf(rng, 20), f"w{zipf(rng, 20)}"
        client.cache("by_two").get(*pair)
        load.note("by_two", pair)
