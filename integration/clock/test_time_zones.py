"""Sessions in named time zones: queries by the clock are answered as MySQL does, also where the zone's clocks are set
meanwhile; and a server whose own zone only looks like UTC is not taken for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, time

import pytest

from integration.clock.paced import breathe
from integration.oracle.answers import parse
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit

DATABASE = "in_zones"
TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, at DATETIME, da DATE, u INT, KEY (k))",
    # As the clocks of UTC, of an hour later and of two hours later say.
    "INSERT INTO p (k, at, da, u) WITH RECURSIVE s (n) AS (SELECT -3 UNION ALL SELECT n + 1 FROM s WHERE n < 40)"
    " SELECT 1, UTC_TIMESTAMP() + INTERVAL n SECOND + INTERVAL h HOUR, UTC_DATE() + INTERVAL h DAY,"
    " UNIX_TIMESTAMP() + n FROM s, (SELECT 0 h UNION SELECT 1 UNION SELECT 2) hours",
)
QUERIES = (
    "SELECT id FROM p WHERE k = 1 AND at <= NOW() ORDER BY id",
    "SELECT COUNT(*) FROM p WHERE k = 1 AND at > NOW() - INTERVAL 1 SECOND AND da <= CURDATE()",
    "SELECT COUNT(*) FROM p WHERE k = 1 AND u <= UNIX_TIMESTAMP()",
    "SELECT COUNT(*) FROM p WHERE k = 1 AND u <= UNIX_TIMESTAMP(NOW())",
    "SELECT COUNT(*) FROM p WHERE k = 1 AND u <= UNIX_TIMESTAMP(NOW() - INTERVAL 1 HOUR) + 3600",
)
ZONES = {"Upwell/Steady": 1_000_000_000, "Upwell/Soon": 0}  # when their clocks go from one hour ahead to two


def zone_texts(name: str, number: int, change: int) -> Iterator[str]:
    yield f"INSERT INTO mysql.time_zone VALUES ({number}, 'N')"
    yield f"INSERT INTO mysql.time_zone_name VALUES ('{name}', {number})"
    for kind, ahead in enumerate((3600, 7200)):
        yield f"INSERT INTO mysql.time_zone_transition_type VALUES ({number}, {kind}, {ahead}, {kind}, 'Z{kind}')"
    yield f"INSERT INTO mysql.time_zone_transition VALUES ({number}, 0, 0), ({number}, {change}, 1)"


def answer(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    """With a zone whose clocks are set in five seconds. MySQL remembers the zones that were asked for, so each server
    gets them once."""
    version = mysql.execute("SELECT CONCAT('/', FLOOR(RAND() * 1e9))")[0][0]
    names = {f"{name}{version}": change or int(time()) + 5 for name, change in ZONES.items()}
    first = int(mysql.execute("SELECT COALESCE(MAX(Time_zone_id), 0) + 1 FROM mysql.time_zone")[0][0])
    for number, (name, change) in enumerate(names.items(), first):
        mysql.execute(*zone_texts(name, number, change))
    try:
        with beside_database(mysql, DATABASE, tmp_path, *TABLES) as found:
            ZONE_NAMES[:] = names
            yield found
    finally:
        for table in ("time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type"):
            mysql.execute(f"DELETE FROM mysql.{table} WHERE Time_zone_id >= {first}")


ZONE_NAMES: list[str] = []


def test_a_named_zone_is_mysqls(beside: Beside) -> None:
    """Each answer is one that MySQL gives just before or just after it, in the seconds around the change, too."""
    with beside.client() as maker:
        for number, sql in enumerate(QUERIES):
            made = parse(maker.query(f"CREATE CACHE zoned{number} FROM {sql}"), binary=False)
            assert not made.errno, made.message
    zones = (*ZONE_NAMES, "SYSTEM")
    served: dict[tuple[str, str], Counter[str]] = {}
    clients = [(zone, beside.client(), beside.direct()) for zone in zones]
    for zone, through, direct in clients:
        for client in (through, direct):
            assert not parse(client.query(f"SET time_zone = '{zone}'"), binary=False).errno
    differing = 0
    end = monotonic() + 9
    while monotonic() < end:
        for zone, through, direct in clients:
            for sql in QUERIES:
                before = answer(direct, sql)
                ours = answer(through, sql)
                after = answer(direct, sql)
                assert ours in (before, after), f"{zone}: {sql}\n{ours}\n{before}\n{after}"
                kind = last_served(beside, through).split(" ")[0]
                served.setdefault((zone, sql), Counter())[kind] += 1
                differing += before != after
        breathe()
    for _, through, direct in clients:
        through.close()
        direct.close()
    steady = ZONE_NAMES[0]
    assert all(served[steady, sql]["hit"] > 0.4 * served[steady, sql].total() for sql in QUERIES[:3]), served
    assert served[steady, QUERIES[-1]].keys() == {"passed"}, "of another moment the zone may be another"


BY_ZONE = (
    "SELECT id, ts FROM z WHERE k = 1 ORDER BY id",
    "SELECT id FROM z WHERE k = 1 AND ts > '{summer} 12:30:00'",
    "SELECT id, UNIX_TIMESTAMP(at) FROM z WHERE k = 1 ORDER BY id",
    "SELECT id FROM z WHERE k = 1 AND at < NOW()",
)


def test_a_zone_that_is_called_gmt_in_winter_is_not_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As London's: its summer here is a month around the day `summer`."""
    today = datetime.now(UTC).timetuple().tm_yday
    begins, summer, ends = (datetime(2023, 1, 1) + timedelta(days=(today + days) % 365) for days in (60, 75, 90))
    tables = (
        "CREATE TABLE z (id INT PRIMARY KEY, k INT NOT NULL, ts TIMESTAMP, at DATETIME, KEY (k))",
        f"INSERT INTO z VALUES (1, 1, '{summer:%F} 12:00:00', '{summer:%F} 13:00:00')",
        "INSERT INTO z SELECT id + 1, k, ts + INTERVAL 100 DAY, at + INTERVAL 100 DAY FROM z",
    )
    with monkeypatch.context() as patched:
        patched.setenv("TZ", f"GMT0BST,J{begins:%j},J{ends:%j}")
        server = find_mysql(report=lambda line: None)
    with server, beside_database(server, "gmt", tmp_path, *tables) as beside:
        assert server.execute("SELECT @@system_time_zone") == ((("GMT"),),)
        with beside.client() as through, beside.direct() as direct:
            for number, text in enumerate(BY_ZONE):
                sql = text.format(summer=f"{summer:%F}")
                through.query(f"CREATE CACHE zoned{number} FROM {sql}")
                expected = answer(direct, sql)
                for _ in range(4):
                    assert answer(through, sql) == expected, sql
            read_until_hit(beside, through, lambda: through.query(sql))
