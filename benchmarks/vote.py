"""The vote query: an article with its number of votes, LEFT JOIN with GROUP BY, on the 100 hottest articles.

100,000 articles, 1,000,000 votes, Zipf with alpha 1.15, `votes(article)` indexed. The scalar subquery, which asks the
same, stands beside it, for the spelling changes MySQL's time by orders of magnitude. Also per vote that arrives: how
long until a held count is the new one.
"""

from __future__ import annotations

import time
from itertools import accumulate
from random import Random
from statistics import median

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cached import wait_until_current
from examples.lobsters.cpu import ConnectionClock, process_seconds
from examples.lobsters.data import Row
from examples.lobsters.load import CHUNK_ROWS, Chunk, Connection, Loading
from examples.lobsters.measure import Effort, repeat
from upwell.client import Client

ARTICLES, VOTES, ALPHA, HOTTEST = 100_000, 1_000_000, 1.15, 100
SPELLINGS = {
    "LEFT JOIN, GROUP BY": "SELECT a.id, a.title, COUNT(v.user) AS votes FROM articles a"
    " LEFT JOIN votes v ON v.article = a.id WHERE a.id = ? GROUP BY a.id, a.title",
    "scalar subquery": "SELECT a.id, a.title, (SELECT COUNT(*) FROM votes v WHERE v.article = a.id) AS votes"
    " FROM articles a WHERE a.id = ?",
}


def run(bench: Bench) -> Result:
    bench.report(f"loading {VOTES:,} votes")
    columns = "spelling", "MySQL ms p50", "mean", "max", "miss ms", "hit ms", "batch us/key", "mean/hit", "CPU ratio"
    sheet = Sheet(f"the {HOTTEST} hottest articles, each as often", columns)
    result = Result("vote", sheets=[sheet])
    with loaded(bench) as connection:
        for name, sql in SPELLINGS.items():
            measure(result, bench, connection, name, sql)
    return result


def loaded(bench: Bench) -> Connection:
    connection = bench.scratch(
        "CREATE TABLE articles (id INT PRIMARY KEY, title VARCHAR(255) NOT NULL)",
        "CREATE TABLE votes (id BIGINT AUTO_INCREMENT PRIMARY KEY, article INT NOT NULL, user INT NOT NULL)",
        f"SET cte_max_recursion_depth = {ARTICLES}",
        f"INSERT INTO articles WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ARTICLES})"
        " SELECT i, CONCAT('Article #', i) FROM n",
    )
    random = Random(2)
    weights = list(accumulate(1 / rank**ALPHA for rank in range(1, ARTICLES + 1)))
    drawn = random.choices(range(1, ARTICLES + 1), cum_weights=weights, k=VOTES)
    rows: list[Row] = [(article, random.randrange(1 << 30)) for article in drawn]
    loading = Loading(bench.server, SCRATCH, binlog=False)
    try:
        columns = "article", "user"
        parts = [Chunk("votes", columns, rows[at : at + CHUNK_ROWS]) for at in range(0, VOTES, CHUNK_ROWS)]
        for sent in [loading.start(part) for part in parts]:
            sent.result()
        loading.start_statement("ALTER TABLE votes ADD KEY by_article (article)").result()
        loading.start_statement("ANALYZE TABLE articles, votes").result()
    finally:
        loading.close()
    return connection


def measure(result: Result, bench: Bench, connection: Connection, name: str, sql: str) -> None:
    keys = [(article,) for article in range(1, HOTTEST + 1)]
    with bench.proxy() as (proxy, client), connection.cursor() as cursor:
        text = sql.replace("?", "%s")

        def direct(key: tuple[object, ...]) -> object:
            cursor.execute(text, key)
            return cursor.fetchall()

        client.create_cache(sql, name="votes", database=SCRATCH)
        cache, clock = client.cache("votes"), ConnectionClock(connection)
        misses = []
        for key in keys:
            expected, start = direct(key), time.perf_counter()
            answer = cache.get(*key)
            misses.append(time.perf_counter() - start)
            assert [tuple(row) for row in answer] == [tuple(row) for row in expected], (key, answer, expected)  # type: ignore[attr-defined] # fetchall's rows
        used = clock.seconds() if clock.works else 0.0
        on_mysql, runs = repeat(direct, keys, Effort(seconds=max(3.0, bench.seconds), runs=HOTTEST * 5))
        mysql_cpu = (clock.seconds() - used) / runs if clock.works else None
        used = process_seconds(proxy.pid)
        hits, calls = repeat(lambda key: cache.get(*key), keys, Effort(seconds=bench.seconds, runs=20_000))
        hit_cpu = (process_seconds(proxy.pid) - used) / calls
        batches, _ = repeat(lambda key: cache.get_many(keys), [()], Effort(seconds=bench.seconds, runs=2_000))
        fresh = median(seen_after(client, connection, article) for article in range(1, 21)) * 1e3
    mean, hit = sum(on_mysql) / runs * 1e3, median(hits) * 1e3
    batch = median(batches) / HOTTEST * 1e6
    row = median(on_mysql) * 1e3, mean, max(on_mysql) * 1e3, median(misses) * 1e3, hit, batch, mean / hit
    result.sheets[0].rows.append((name, *row, mysql_cpu / hit_cpu if mysql_cpu else None))
    result.figures.append(Figure(f"{name}: MySQL's mean time to a hit's", mean / hit, "x"))
    result.figures.append(Figure(f"{name}: ms from a vote's commit until a read shows it", fresh, "ms"))


def seen_after(client: Client, connection: Connection, article: int) -> float:
    """Seconds from the commit of one more vote until the cache shows it."""
    cache = client.cache("votes")
    before = cache.get(article)[0][2]
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO votes (article, user) VALUES (%s, 1)", (article,))
    start = time.perf_counter()
    while cache.get(article)[0][2] != before + 1:
        if time.perf_counter() - start > 10:
            raise TimeoutError(f"article {article} still has {before} votes after 10 s")
    seconds = time.perf_counter() - start
    wait_until_current(client, connection)
    return seconds
