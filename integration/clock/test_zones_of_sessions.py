"""Sessions that move from one time zone to another while they live, in transactions and with statements that they have
prepared before, and that share all that is known of their texts: each is answered as MySQL answers it."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration.clock.zone_sessions import Pair, query_of
from integration.clock.zone_tables import loaded_zones
from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.served import read_until_hit

DATABASE = "zones_of_sessions"
BERLIN, APIA = "Europe/Berlin", "Pacific/Apia"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, at TIMESTAMP NULL, fine TIMESTAMP(3) NULL, dt DATETIME, KEY (g, at))",
    "CREATE TABLE logs (id INT PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, KEY (at))",
)
QUERIES = (
    "SELECT id, at, fine, dt FROM t WHERE id = {}",
    "SELECT id, at FROM t WHERE g = {} ORDER BY at DESC, id LIMIT 3",
    "SELECT id, fine FROM t WHERE id IN ({}, {}, {}) ORDER BY id",
    "SELECT id, dt FROM t WHERE g = {} AND at >= '{}' ORDER BY id",
    "SELECT MAX(at), COUNT(*) FROM t WHERE g = {} AND fine < '{}'",
    "SELECT DATE(at), COUNT(*) FROM t WHERE g = {} GROUP BY DATE(at) ORDER BY DATE(at)",
    "SELECT g, UNIX_TIMESTAMP(at), UNIX_TIMESTAMP(dt) FROM t WHERE id = {}",
)
NOW = (
    "SELECT id FROM t WHERE g = {} AND at > NOW() - INTERVAL 40 DAY ORDER BY id",
    "SELECT id, at FROM t WHERE g = {} AND at <= NOW() ORDER BY id",
)
DAYS = ("03-27", "10-28")
ROWS, GROUPS, SESSIONS = 30, 3, 4
STEPS, QUESTIONS = int(os.environ.get("UPWELL_ZONE_STEPS", "300")), 3


def moment(rng: random.Random) -> str:
    day = f"2024-{rng.choice(('03', '10'))}-{rng.choice((26, 27, 28, 30, 31))}"
    return f"{day} {rng.randrange(24):02}:{rng.choice((0, 30)):02}:00"


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[tuple[Beside, list[str]]]:
    with loaded_zones(mysql, [BERLIN, APIA]) as zones, beside_database(mysql, DATABASE, tmp_path, *TABLES) as found:
        rng = random.Random(1)
        with found.direct() as writer:
            for number in range(ROWS):
                at, fine, dt = (moment(rng) for _ in range(3))
                ago = f"NOW() - INTERVAL {number * 3} DAY" if number % 2 else f"'{at}'"
                writer.query(f"INSERT INTO t VALUES ({number}, {number % GROUPS}, {ago}, '{fine}.125', '{dt}')")
        found.caught_up()
        with found.client() as maker:
            for number, sql in enumerate((*QUERIES, *NOW)):
                text = query_of(sql).replace("?, ?, ?", "?").replace("NOW() - INTERVAL 40 DAY", "?")
                made = parse(maker.query(f"CREATE CACHE moved{number} FROM {text.replace('NOW()', '?')}"), binary=False)
                assert not made.errno, made.message
        yield found, ["+00:00", "+02:00", "-09:30", "SYSTEM", zones[BERLIN], zones[APIA]]


def test_sessions_that_move(beside: tuple[Beside, list[str]]) -> None:
    found, zones = beside
    rng, served = random.Random(os.environ.get("UPWELL_ZONE_SEED", "2")), Counter[str]()
    with ExitStack() as stack:
        pairs = [stack.enter_context(Pair(found, rng.choice(zones))) for _ in range(SESSIONS)]
        writer = stack.enter_context(found.direct())
        for _ in range(STEPS):
            pair = rng.choice(pairs)
            chance = rng.random()
            if chance < 0.12:
                pair.move(rng.choice(zones))
            elif chance < 0.2:
                pair.both(rng.choice(("BEGIN", "COMMIT", "ROLLBACK")))
            elif chance < 0.28:
                # Transactions of both must begin in one state: those under way end first.
                for each in pairs:
                    each.both("COMMIT")
                number = rng.randrange(ROWS)
                writer.query(f"UPDATE t SET at = '{moment(rng)}', g = {rng.randrange(GROUPS)} WHERE id = {number}")
                found.caught_up()
            for _ in range(QUESTIONS):
                sql = rng.choice((*QUERIES, *NOW))
                values: list[object] = [
                    moment(rng) if part.endswith("'") else rng.randrange(GROUPS) for part in sql.split("{}")[:-1]
                ]
                if rng.random() < 0.5 or sql in NOW:
                    pair.compare(sql.format(*values))
                else:
                    pair.compare_bound(query_of(sql), *values)
        for pair in pairs:
            served += pair.served
    assert served["hit"] > 0.3 * served.total(), served


def test_what_a_transaction_was_shown_is_shown_by_other_clocks_once_it_has_moved(
    beside: tuple[Beside, list[str]],
) -> None:
    """MySQL has opened its snapshot by then, so only what was shown before is shown from memory."""
    found, _ = beside
    shown = QUERIES[0].format(1)
    with Pair(found, "+00:00") as pair:
        for zone in ("+02:00", "-09:30", "+00:00"):
            pair.move(zone)
            read_until_hit(found, pair.through, pair.through.query, shown)
        pair.both("BEGIN")
        for zone in ("+00:00", "+02:00", "+00:00", "-09:30"):
            pair.move(zone)
            pair.compare(shown)
            pair.compare("SELECT dt FROM t WHERE id = 5 AND g >= 0")
            pair.compare(shown)
        pair.both("COMMIT")


def test_the_same_text_is_another_moment_by_other_clocks(beside: tuple[Beside, list[str]]) -> None:
    found, zones = beside
    texts = [
        QUERIES[at].format(1, f"2024-{day} {hour:02}:00:00")
        for at in (3, 4)
        for day in DAYS
        for hour in range(0, 24, 2)
    ]
    with ExitStack() as stack:
        pairs = [stack.enter_context(Pair(found, zone)) for zone in (*zones[:4], "+00:00")]
        for _ in range(6):
            for text in texts:
                for pair in pairs:
                    pair.compare(text)
    assert all(pair.served["hit"] > 0.5 * pair.served.total() for pair in pairs), [pair.served for pair in pairs]
