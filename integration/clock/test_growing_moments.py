"""Moments that an application writes into its texts, each later than the one before: in evict mode an answer is held
until a row's moment comes. MySQL is asked the same texts, between writes to rows on both sides of the moment."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

import pytest
from structlog.testing import capture_logs

from dataflow.readers.alike import Alike
from integration.clock.clock_texts import TABLES
from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served

DATABASE = "growing"
SEED = int(os.environ.get("UPWELL_GROWING_SEED", "1"))
STEPS = int(os.environ.get("UPWELL_GROWING_STEPS", "300"))
BEGIN = datetime(2024, 2, 28, 23, 59, 30)  # a leap day comes, and a month's end
# {s}: the moment, {f}: with its fraction, {m}: to the millisecond, {u}: seconds since 1970, {d}: one of three days
QUERIES = (
    "SELECT COUNT(*) FROM p WHERE k = {k} AND at <= '{s}' AND LENGTH(s) > 0",
    "SELECT id FROM p WHERE k = {k} AND at < '{s}' AND YEAR(at) > 2000 ORDER BY at DESC, id LIMIT 3",
    "SELECT id FROM p WHERE k = {k} AND NOT (at >= '{s}' OR LENGTH(s) = 0) ORDER BY id",
    "SELECT id FROM p WHERE k = {k} AND at <= '{s}' AND till > '{m}' AND YEAR(at) > 2000 ORDER BY id",
    "SELECT id FROM p WHERE k = {k} AND ts >= '{s}' AND YEAR(at) > 2000 ORDER BY id DESC LIMIT 3",
    "SELECT COUNT(*) FROM p WHERE k = {k} AND u > {u} AND YEAR(at) > 2000",
    "SELECT p.id, q.id FROM p LEFT JOIN q ON q.p = p.id AND q.at > '{f}' WHERE p.k = {k} AND YEAR(p.at) > 1"
    " ORDER BY 1, 2",
    "SELECT DISTINCT p.s FROM p INNER JOIN q ON q.p = p.id WHERE q.at <= '{f}' AND p.k = {k}"
    " AND q.p IN (SELECT x.id FROM p x WHERE x.at <= '{s}') ORDER BY p.s DESC LIMIT 2",
    "SELECT id FROM p WHERE k = {k} AND EXISTS (SELECT 1 FROM q WHERE q.p = p.id AND q.at <= '{f}') ORDER BY id",
    "SELECT s, MAX(at) FROM p WHERE at < '{s}' AND at >= '{d}' AND k < 9 GROUP BY LENGTH(s), s ORDER BY s",
)


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, tmp_path, *TABLES) as found:
        yield found


class Writer:
    """Puts rows on both sides of a moment, moves them, and takes them away."""

    def __init__(self, rng: random.Random, client: RawClient) -> None:
        self._rng = rng
        self._client = client

    def write(self, now: datetime) -> None:
        rng = self._rng

        def moment() -> str:
            return f"'{now + timedelta(seconds=rng.choice((-40, -2, 0, 1, 2, 5, 9, 300)))}'"

        key = rng.choice((1, 2))
        self._run(
            rng.choice(
                (
                    f"INSERT INTO p (k, at, till, ts, u, s) VALUES ({key}, {moment()}, {moment()}, {moment()},"
                    f" UNIX_TIMESTAMP({moment()}), '{rng.choice('abc')}')",
                    f"UPDATE p SET at = {moment()}, ts = {moment()} WHERE k = {key} ORDER BY RAND() LIMIT 1",
                    f"UPDATE p SET till = {moment()}, u = u + 2, s = 'b' ORDER BY RAND() LIMIT 1",
                    "UPDATE p SET k = 3 - k ORDER BY RAND() LIMIT 1",
                    "DELETE FROM p ORDER BY RAND() LIMIT 1",
                    f"INSERT INTO q (p, at) SELECT id, {moment()} + INTERVAL 0.2 SECOND FROM p ORDER BY RAND() LIMIT 1",
                    f"UPDATE q SET at = {moment()} ORDER BY RAND() LIMIT 1",
                    "DELETE FROM q ORDER BY RAND() LIMIT 1",
                )
            )
        )

    def _run(self, sql: str) -> None:
        done = parse(self._client.query(sql), binary=False)
        assert not done.errno, (sql, done.message)


def answer_of(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


def told(query: str, now: datetime, key: int) -> str:
    return query.format(
        s=now.replace(microsecond=0),
        f=now.isoformat(" ", "microseconds"),
        m=now.isoformat(" ", "milliseconds"),
        u=int((now - datetime(1970, 1, 1)).total_seconds()),
        k=key,
        d=f"2024-02-0{1 + now.second % 3} 00:00:00",
    )


def template(query: str) -> str:
    return re.sub(r"'\{[a-z]\}'|\{[a-z]\}", "?", query)


def create(client: RawClient) -> None:
    for number, query in enumerate(QUERIES):
        made = parse(client.query(f"CREATE CACHE growing{number} FROM {template(query)}"), binary=False)
        assert not made.errno, (query, made.message)


def moments(rng: random.Random) -> Iterator[datetime]:
    """Mostly later than the one before; some come late, as of threads that wait."""
    now = BEGIN
    for _ in range(STEPS):
        now += timedelta(seconds=rng.choice((0, 0.001, 0.25, 0.9)))
        yield now - timedelta(seconds=rng.choice((0.002, 3)) if rng.random() < 0.05 else 0)


def read_and_write(
    beside: Beside,
    rng: random.Random,
    direct: RawClient,
    through: RawClient,
    ask: Callable[[str], tuple[object, object]],
) -> dict[str, Counter[str]]:
    """How each query was served in the second half of the steps."""
    writer = Writer(rng, direct)
    served: dict[str, Counter[str]] = {query: Counter() for query in QUERIES}
    create(through)
    for _ in range(12):
        writer.write(BEGIN)
    beside.caught_up()
    for step, now in enumerate(moments(rng)):
        if rng.random() < 0.12:
            writer.write(now)
            beside.caught_up()
        for query in QUERIES:
            sql = told(query, now, rng.choice((1, 1, 2)))
            own, ours = ask(sql)
            assert ours == own, f"{sql}\n{ours}\n{own}"
            if step > STEPS / 2:
                served[query][last_served(beside, through).split(" ")[0]] += 1
    return served


def test_a_moment_in_the_text_is_held_until_a_row_comes(beside: Beside) -> None:
    with beside.client() as through, beside.direct() as direct:
        for client in (through, direct):
            client.query("SET time_zone = '+00:00'")
        served = read_and_write(
            beside, random.Random(SEED), direct, through, lambda sql: (answer_of(direct, sql), answer_of(through, sql))
        )
    for query, kinds in served.items():
        assert kinds["hit"] > 0.5 * kinds.total(), (query, kinds)


def test_what_is_read_while_others_write_is_right_when_they_rest(beside: Beside) -> None:
    """Fills meet writes at any moment; what they leave stands for later moments."""
    rng = random.Random(SEED)
    stop, now, hits = Event(), BEGIN, 0
    with beside.client() as through, beside.direct() as direct, beside.direct() as written:
        for client in (through, direct, written):
            client.query("SET time_zone = '+00:00'")
        create(through)
        writer = Writer(random.Random(SEED + 1), written)

        def write() -> None:
            while not stop.is_set():
                writer.write(now)

        for _ in range(8):
            stop.clear()
            with ThreadPoolExecutor(1) as threads:
                writing = threads.submit(write)
                try:
                    for _ in range(40):
                        now += timedelta(seconds=rng.choice((0.001, 0.05)))
                        for query in rng.sample(QUERIES, 3):
                            answer_of(through, told(query, now, rng.choice((1, 2))))
                finally:
                    stop.set()
                writing.result()
            beside.caught_up()
            for _ in range(12):
                now += timedelta(seconds=rng.choice((0.001, 0.25, 0.9)))
                for query in QUERIES:
                    sql = told(query, now, rng.choice((1, 2)))
                    own, ours = answer_of(direct, sql), answer_of(through, sql)
                    assert ours == own, f"{sql}\n{ours}\n{own}"
                    hits += last_served(beside, through).startswith("hit")
    assert hits > 300


def test_a_fault_on_the_shortest_way_leaves_the_read_to_the_long_one(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, now = QUERIES[0], BEGIN

    def fails(*_: object) -> None:
        raise TypeError("planted")

    with beside.client() as through, beside.direct() as direct:
        direct.query("INSERT INTO p (k, at, s) VALUES (1, '2020-01-01', 'a'), (1, '2100-01-01', 'b')")
        beside.caught_up()
        create(through)

        def read() -> str:
            nonlocal now
            now += timedelta(seconds=1)
            sql = told(query, now, 1)
            assert answer_of(through, sql) == answer_of(direct, sql)
            return last_served(beside, through).split(" ")[0]

        while [read(), read(), read()] != ["hit"] * 3:
            assert now < BEGIN + timedelta(seconds=1000), "an answer never stands for a later moment"
        with capture_logs() as logs, monkeypatch.context() as patched:
            patched.setattr(Alike, "standing", fails)
            for _ in range(3):
                read()
        assert any(log["event"] == "fault" for log in logs), logs
        while [read(), read(), read()] != ["hit"] * 3:
            assert now < BEGIN + timedelta(seconds=2000), "hits do not come again"
