"""Queries by the clock to fractions of a second: what is answered is what MySQL would give, whichever of the moments
its clock may show, with rows whose moments come many times a second."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from structlog.testing import capture_logs

from dataflow.readers.alike import Alike
from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit

TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, at DATETIME(6), till DATETIME(3), KEY (k))",
)
# Their answers never become again what they were: where MySQL's own is the same before and behind, it is the only one.
QUERIES = {
    "maintained": (
        "SELECT id FROM p WHERE k = 1 AND at <= NOW(6) ORDER BY id",
        "SELECT id FROM p WHERE k = 1 AND at > CURRENT_TIMESTAMP(6) AND till < NOW(3) + INTERVAL 2 SECOND ORDER BY id",
        "SELECT id FROM p WHERE k = 1 AND NOT (at < UTC_TIMESTAMP(6) OR till IS NULL) ORDER BY at DESC LIMIT 3",
        "SELECT COUNT(*), MAX(at) FROM p WHERE k = 1 AND at < NOW(6) - INTERVAL 1 SECOND",
    ),
    "evict": (
        "SELECT id FROM p WHERE k = 1 AND at <= NOW(6) AND YEAR(at) > 1 ORDER BY id",
        "SELECT COUNT(*) FROM p WHERE k = 1 AND at > CURRENT_TIMESTAMP(6) AND YEAR(at) > 1",
        "SELECT id FROM p x WHERE k = 1 AND EXISTS (SELECT 1 FROM p WHERE p.id = x.id AND p.till > LOCALTIMESTAMP(3))",
    ),
}


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    with beside_database(mysql, "by_fractions", tmp_path, *TABLES) as found:
        yield found


def answer(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


@pytest.mark.parametrize("mode", QUERIES)
@pytest.mark.parametrize("gap", [0.9, 0.05])
def test_an_answer_changes_in_the_moment_in_which_mysqls_would(beside: Beside, mode: str, gap: float) -> None:
    """`gap`: seconds from one row's moment to the next."""
    rng = random.Random(1)
    served: dict[str, Counter[str]] = {sql: Counter() for sql in QUERIES[mode]}
    changed, last = 0, dict[str, object]()
    with beside.client() as through, beside.direct() as direct:
        for number, sql in enumerate(QUERIES[mode]):
            made = parse(through.query(f"CREATE CACHE fine{number} FROM {sql}"), binary=False)
            assert not made.errno, made.message
        moments = [rng.uniform(0, gap) + number * gap for number in range(int(7 / gap))]
        rows = ", ".join(
            f"(1, NOW(6) + INTERVAL {moment} SECOND, NOW(6) + INTERVAL {moment + rng.uniform(0, 1)} SECOND)"
            for moment in moments
        )
        direct.query(f"INSERT INTO p (k, at, till) VALUES {rows}")
        beside.caught_up()
        end = monotonic() + 6
        while monotonic() < end:
            for sql in QUERIES[mode]:
                before, ours, after = answer(direct, sql), answer(through, sql), answer(direct, sql)
                if before == after:
                    assert ours == before, f"{sql}\n{ours}\n{before}"
                changed += before != last.setdefault(sql, before)
                last[sql] = after
                served[sql][last_served(beside, through).split(" ")[0]] += 1
    assert changed
    for sql, kinds in served.items():
        assert kinds["hit"] > (0.5 if gap > 0.5 or mode == "maintained" else 0) * kinds.total(), (sql, kinds)


def test_a_fault_leaves_the_read_to_mysql(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT id FROM p WHERE k = 1 AND at <= NOW(6) ORDER BY id"

    def fails(*_: object) -> None:
        raise TypeError("planted")

    with beside.client() as through, beside.direct() as direct:
        direct.query("INSERT INTO p (k, at) VALUES (1, '2020-01-01'), (1, '2100-01-01')")
        beside.caught_up()
        through.query(f"CREATE CACHE faulty FROM {sql}")
        read_until_hit(beside, through, lambda: through.query(sql))
        with capture_logs() as logs, monkeypatch.context() as patched:
            patched.setattr(Alike, "between", fails)
            for _ in range(3):
                assert answer(through, sql) == answer(direct, sql)
                assert last_served(beside, through).startswith("passed")
        assert any(log["event"] == "fault" for log in logs), logs
        read_until_hit(beside, through, lambda: through.query(sql))
        assert answer(through, sql) == answer(direct, sql)


def test_what_is_more_than_compared_is_mysqls(beside: Beside) -> None:
    """Where the two ends between which MySQL's clock is known to be may give two answers."""
    queries = (
        "SELECT id FROM p WHERE k = 1 AND DATE(at) < NOW(6) ORDER BY id",
        "SELECT id FROM p WHERE k = 1 AND at < CAST(NOW(6) AS DATETIME) ORDER BY id",
        "SELECT id FROM p WHERE k = 1 AND TIMESTAMPDIFF(MICROSECOND, at, NOW(6)) > 0 ORDER BY id",
        "SELECT id FROM p WHERE k = 1 AND till < NOW(6) ORDER BY id",  # finer than the column
        "SELECT id FROM p WHERE k = 1 AND at + INTERVAL 1 SECOND < NOW(6) ORDER BY id",
    )
    with beside.client() as through, beside.direct() as direct:
        direct.query(
            "INSERT INTO p (k, at, till) WITH RECURSIVE s (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 90)"
            " SELECT 1, NOW(6) + INTERVAL n * 0.05 SECOND, NOW(6) + INTERVAL n * 0.05 SECOND FROM s"
        )
        beside.caught_up()
        for number, sql in enumerate(queries):
            through.query(f"CREATE CACHE other{number} FROM {sql}")
        end = monotonic() + 4
        while monotonic() < end:
            for sql in queries:
                before, ours, after = answer(direct, sql), answer(through, sql), answer(direct, sql)
                if before == after:
                    assert ours == before, f"{sql}\n{ours}\n{before}"
                assert not last_served(beside, through).startswith(("hit", "miss")), sql
        filled = beside.call(lambda: sum(len(cache.miss_ns) for cache in beside.proxy.app.catalog.caches.values()))
        assert filled < 10, "MySQL is not asked twice for what no cache will answer"
