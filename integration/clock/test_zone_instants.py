"""TIMESTAMPs are hits in sessions of any time zone: the bytes are MySQL's, over the changes of six zones' clocks and at
the ends of what a TIMESTAMP can be, as texts and prepared. They stay so through random changes and conditions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from integration.clock.zone_sessions import Pair, query_of
from integration.clock.zone_tables import changes_of, loaded_zones
from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.served import last_served, read_until_hit

ZONES = (
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "Africa/Monrovia",
)  # fmt: skip
OFFSETS = ("+02:00", "-09:30", "+14:00", "-13:59", "SYSTEM")
EPOCH = datetime(1970, 1, 1)
ENDS = (
    "1970-01-01 00:00:01", "1970-01-01 23:59:59.999999", "2038-01-19 03:14:07", "2038-01-19 03:14:07.999999",
    "0000-00-00 00:00:00", "2024-01-01 00:00:00", "2023-12-31 22:00:00", "2024-02-28 23:30:00",
)  # fmt: skip
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, at TIMESTAMP NULL, fine TIMESTAMP(6) NULL, n INT, KEY (g), KEY (fine))",
    "CREATE TABLE u (id INT PRIMARY KEY, g INT, t_id INT, at TIMESTAMP NULL, KEY (t_id), KEY (g, at))",
)
SHOWN = (
    "SELECT id, at, fine FROM t WHERE id = {}",
    "SELECT * FROM t WHERE g = {} ORDER BY id",
    "SELECT t.id, t.fine, u.at FROM t JOIN u ON u.t_id = t.id WHERE t.g = {} ORDER BY t.id, u.id",
    "SELECT id, fine FROM t WHERE g = {} ORDER BY fine DESC, id LIMIT 3",
    "SELECT id, at AS seen FROM t WHERE g = {} AND n IS NOT NULL ORDER BY seen, id",
)
STEADY = (
    "SELECT MAX(at), MIN(fine), COUNT(DISTINCT at) FROM t WHERE g = {}",
    "SELECT at, COUNT(*) FROM t WHERE g = {} GROUP BY at ORDER BY at",
    "SELECT DISTINCT at FROM u WHERE g = {} ORDER BY at",
    "SELECT t.id, u.id FROM t JOIN u ON u.at = t.at WHERE t.g = {} ORDER BY t.id, u.id",
)
COMPARED = (
    "SELECT id FROM t WHERE g = {} AND fine >= '{}' ORDER BY id",
    "SELECT id, at FROM t WHERE g = {} AND at < '{}' ORDER BY id",
    "SELECT id FROM t WHERE g = {} AND at = '{}' ORDER BY id",
    "SELECT COUNT(*), COUNT(at) FROM t WHERE g = {} AND fine BETWEEN '{}' AND '{}'",
    "SELECT id, at FROM u WHERE g = {} AND at IN ('{}', '{}') ORDER BY id",
    "SELECT id, at FROM u WHERE g = {} AND at > '{}' ORDER BY at DESC, id DESC LIMIT 4",
)
GROUPS = 4
ROUNDS = 25


def around_changes() -> list[str]:
    """Instants beside each change of the zones in 2024, and of one that was in 1972."""
    found = set(ENDS)
    for name in ZONES:
        for second, _ in changes_of(name):
            if 1704067200 <= second < 1735689600 or name == "Africa/Monrovia":
                for seconds in (-7200, -3600, -1800, -1, 0, 1, 1799, 3599, 3600, 7200):
                    found.add(f"{EPOCH + timedelta(seconds=max(second + seconds, 1))}")
                found.add(f"{EPOCH + timedelta(seconds=max(second, 1), milliseconds=-1)}")
    return sorted(found)


@pytest.fixture(scope="module")
def zones(mysql: Server) -> Iterator[Mapping[str, str]]:
    with loaded_zones(mysql, ZONES) as found:
        yield found


@pytest.fixture(scope="module")
def beside(mysql: Server, zones: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, "zone_instants", Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        with found.direct() as writer:
            writer.query("SET time_zone = '+00:00', sql_mode = ''")
            for number, instant in enumerate(around_changes()):
                group = number % GROUPS
                writer.query(f"INSERT INTO t VALUES ({number}, {group}, '{instant}', '{instant}', {number})")
                writer.query(f"INSERT INTO u VALUES ({number}, {group}, {number * 7 % 90}, '{instant}')")
        found.caught_up()
        with found.client() as maker:
            for number, sql in enumerate((*SHOWN, *STEADY, *COMPARED)):
                made = parse(maker.query(f"CREATE CACHE instants{number} FROM {query_of(sql)}"), binary=False)
                assert not made.errno, made.message
        yield found


@pytest.mark.parametrize("name", [*ZONES, *OFFSETS])
def test_what_is_shown(beside: Beside, zones: Mapping[str, str], name: str) -> None:
    with Pair(beside, zones.get(name, name)) as pair:
        shows(beside, pair, name)


def shows(beside: Beside, pair: Pair, name: str) -> None:
    for sql in SHOWN:
        texts = [sql.format(group) for group in range(GROUPS)]
        if sql is SHOWN[0]:
            texts = [sql.format(number) for number in range(len(around_changes()))]
        for text in texts:
            pair.compare(text)
            read_until_hit(beside, pair.through, pair.through.query, text)
            pair.compare(text)
            pair.compare(text)
        query = query_of(sql)
        for number in range(min(len(texts), 40)):
            for _ in range(3):
                pair.compare_bound(query, number)
        read_until_hit(beside, pair.through, pair.execute, pair.through, query, (1,))
        pair.compare_bound(query, 1)
    steady = name in OFFSETS or name == "Asia/Kolkata"
    for sql in STEADY:
        for group in range(GROUPS):
            for _ in range(6):
                pair.compare(sql.format(group))
        text = sql.format(1)
        if steady:
            read_until_hit(beside, pair.through, pair.through.query, text)
        else:
            assert last_served(beside, pair.through).startswith("passed the clocks of this session's"), sql
        pair.compare(text)


def some_local(rng: random.Random, name: str, instants: Sequence[str]) -> str:
    """A date-time near one that a row has in this zone."""
    instant = datetime.fromisoformat(rng.choice([one for one in instants if one > "1970"]))
    offset = 0
    if name in ZONES:
        offset = [ahead for second, ahead in changes_of(name) if EPOCH + timedelta(seconds=second) <= instant][-1]
    elif name != "SYSTEM":
        offset = int(name[:3]) * 3600 + int(name[0] + name[4:]) * 60
    local = instant + timedelta(seconds=offset + rng.choice((0, 0, 0, -1, 1, 1800, -3600, 86400)))
    return f"{local}" if rng.random() < 0.8 else f"{local:%Y-%m-%d}"


@pytest.mark.parametrize("name", ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "-09:30", "SYSTEM"])
def test_through_random_changes(beside: Beside, zones: Mapping[str, str], name: str) -> None:
    """Conditions with what the clocks say, among them what they say twice or never, which is MySQL's."""
    rng = random.Random(name)
    instants = around_changes()
    with Pair(beside, zones.get(name, name)) as pair, beside.direct() as writer:
        writer.query("SET time_zone = '+00:00', sql_mode = ''")
        for _ in range(ROUNDS):
            for table in ("t", "u"):
                number, instant = rng.randrange(len(instants)), rng.choice(instants)
                writer.query(f"UPDATE {table} SET at = '{instant}', g = {rng.randrange(GROUPS)} WHERE id = {number}")
            writer.query(f"UPDATE t SET fine = '{rng.choice(instants)}' WHERE id = {rng.randrange(len(instants))}")
            beside.caught_up()
            for sql in (*SHOWN[1:], *rng.sample(STEADY, 2)):
                pair.compare(sql.format(rng.randrange(GROUPS)))
            for sql in COMPARED:
                values = [some_local(rng, name, instants) for _ in range(sql.count("'{}'"))]
                group = rng.randrange(GROUPS)
                for _ in range(3):
                    pair.compare(sql.format(group, *values))
                for _ in range(2):
                    pair.compare_bound(query_of(sql), group, *values)
    assert pair.served["hit"] > 0.4 * pair.served.total(), pair.served
