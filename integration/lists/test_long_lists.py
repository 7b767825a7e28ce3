"""Several sessions read long lists and large keys of the same caches at once: each is told what MySQL answers to the
same text. Between two rounds the rows change, so that most answers are to be derived anew, in steps of the loop."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient

OWNERS, OF_AN_OWNER, LARGE = 1_500, 3, 2_500  # keys, rows of each, and of key 0
SESSIONS, ROUNDS, READS = 4, 6, 12
WIDE = "word " * 30  # together the rows are long to join
QUERIES = {
    "plain": "SELECT id, n, word FROM parts WHERE owner IN ({})",
    "joined": "SELECT p.id, s.c FROM parts p JOIN small s ON s.id = p.n WHERE p.owner IN ({})",
    "ordered": "SELECT p.id, s.c FROM parts p LEFT JOIN small s ON s.id = p.n WHERE p.owner IN ({}) ORDER BY p.id DESC",
}


def tables(mysql: Server, database: str) -> None:
    rows = [(owner, n % 3) for owner in range(1, OWNERS + 1) for n in range(OF_AN_OWNER)]
    rows += [(0, n % 3) for n in range(LARGE)]
    values = ", ".join(f"({at}, {owner}, {n}, '{WIDE}{at}')" for at, (owner, n) in enumerate(rows))
    mysql.execute(
        f"USE `{database}`",
        "CREATE TABLE parts (id INT PRIMARY KEY, owner INT NOT NULL, n INT NOT NULL, word VARCHAR(200), KEY (owner))",
        f"INSERT INTO parts VALUES {values}",
        "CREATE TABLE small (id INT PRIMARY KEY, c INT NOT NULL)",
        "INSERT INTO small VALUES (0, 0), (1, 1), (2, 2)",
    )


def lists(rng: random.Random) -> list[Sequence[int]]:
    """The keys of one session's reads: some are large by themselves, some many together."""
    found: list[Sequence[int]] = []
    for _ in range(READS):
        count = rng.choice((1, 1, 20, 200, 900, OWNERS))
        keys = [0] if count == 1 else rng.sample(range(1, OWNERS + 1), count)
        found.append([*keys, 0] if rng.random() < 0.1 else keys)
    return found


class Judge:
    """MySQL's own answers, each asked for once in a round."""

    def __init__(self, session: RawClient) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._known: dict[str, list[bytes]] = {}

    def wanted(self, text: str) -> list[bytes]:
        with self._lock:
            if text not in self._known:
                self._known[text] = answer(self._session, text)
            return self._known[text]


def answer(session: RawClient, text: str) -> list[bytes]:
    return list(parse(session.query(text), binary=False).rows)


def read(beside: Beside, judge: Judge, seed: int) -> None:
    rng = random.Random(seed)
    with beside.client() as session:
        for keys in lists(rng):
            name = rng.choice(list(QUERIES))
            text = QUERIES[name].format(", ".join(map(str, keys)))
            found, wanted = answer(session, text), judge.wanted(text)
            if name != "ordered":  # MySQL may give the rows in any order
                found, wanted = sorted(found), sorted(wanted)
            assert found == wanted, (seed, name, len(keys), len(found), len(wanted))


def test_each_session_is_told_what_mysql_answers(mysql: Server, database: str, tmp_path: Path) -> None:
    tables(mysql, database)
    rng = random.Random(5)
    with proxy_in_thread(mysql, database, tmp_path, verify_new_caches="0") as beside, RawClient(
        mysql.host, mysql.port, user=mysql.user, password=mysql.password, database=database
    ) as direct, ThreadPoolExecutor(SESSIONS) as sessions:  # fmt: skip
        with beside.client() as maker:
            for name, text in QUERIES.items():
                maker.query(f"CREATE CACHE {name} FROM {text.format('?')}")
        for number in range(ROUNDS):
            some = ", ".join(map(str, rng.sample(range(OWNERS + 1), 300)))
            mysql.execute(
                f"UPDATE `{database}`.parts SET n = (n + 1) % 3, word = '{WIDE}{number}' WHERE owner IN ({some}, 0)",
                f"UPDATE `{database}`.small SET c = c + 1 WHERE id = {number % 3}",
            )
            asyncio.run_coroutine_threadsafe(beside.proxy.caught_up(), beside.loop).result(60)
            judge = Judge(direct)
            for done in [sessions.submit(read, beside, judge, number * SESSIONS + at) for at in range(SESSIONS)]:
                done.result()
        caches = [beside.proxy.app.catalog.get(name) for name in QUERIES]
        assert all(cache.hits for cache in caches), [(cache.name, cache.hits, cache.passed.total) for cache in caches]
        print([(cache.name, cache.hits, cache.misses, cache.passed.total) for cache in caches])
