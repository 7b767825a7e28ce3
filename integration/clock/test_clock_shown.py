"""What the clock says all day may be shown, and select items with functions of the clock need no name: what Upwell
answers is what MySQL answers to the same text, names and column definitions too, in sessions of several time zones."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.oracle.trees import integer, payload
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit

DATABASE = "clock_shown"
SEED = int(os.environ.get("UPWELL_CLOCK_SEED", "1"))
TABLES = (
    "CREATE TABLE p (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, at DATETIME, da DATE, n INT, d DECIMAL(8,2),"
    " s VARCHAR(20), KEY (k))",
    "INSERT INTO p (k, at, da, n, d, s) VALUES (1, '2001-02-03 04:05:06', '1990-05-17', 11, 1.50, 'a'),"
    " (1, '2100-01-01', CURDATE(), 2026, -3.25, '2026-11-01'), (1, NOW(), CURDATE() - INTERVAL 1 MONTH, 0, 0, ''),"
    " (1, NULL, NULL, NULL, NULL, NULL), (2, CURDATE(), '2000-02-29', 3, 10, 'é')",
)
DAYS = (
    "CURDATE()", "CURRENT_DATE", "UTC_DATE()", "CURRENT_DATE()", "DATE(NOW())", "LAST_DAY(NOW())", "YEAR(CURDATE())",
    "MONTH(CURRENT_DATE)", "DAY(NOW())", "YEAR(NOW() - INTERVAL 1 MONTH)", "CURDATE() - INTERVAL 3 DAY",
    "DATE_SUB(CURDATE(), INTERVAL 1 YEAR)", "TIMESTAMP(CURDATE())", "CURDATE() - INTERVAL 1 HOUR",
    "DATE_FORMAT(CURDATE(), '%Y-%m-01')", "DATE_FORMAT(NOW(), '%Y')", "CAST(NOW() AS DATE)", "YEAR(UTC_TIMESTAMP())",
    "UNIX_TIMESTAMP(CURDATE())",
)  # fmt: skip
AROUND = (
    "{}", "{} - YEAR(da)", "YEAR(da) - {}", "IF(n > 3, {}, da)", "COALESCE(da, {})", "CONCAT({}, '-', s)", "{} + n",
    "{} * d", "n / {}", "MAX({})", "COUNT(IF(da < {}, 1, NULL))", "CASE WHEN da < {} THEN s ELSE {} END", "-{}",
    "GREATEST({}, da)", "LPAD({}, 12, '0')", "JSON_OBJECT('d', {})", "(SELECT {} FROM p x WHERE x.id = 1)", "d % {}",
    "{} = da", "NULLIF({}, da)", "DATEDIFF({}, da)", "TIMESTAMPDIFF(YEAR, da, {})", "EXTRACT(YEAR FROM {}) - n",
    "DATE_FORMAT({}, '%W')", "{} IS NULL", "CAST({} AS CHAR)", "ROUND(d / {}, 3)", "{} DIV 7", "LEFT({}, 4)",
)  # fmt: skip
MOMENTS = (
    "at < NOW()", "SUM(at >= NOW() - INTERVAL 1 DAY)", "IF(at < NOW(), 'past', 'to come')", "NOW() > at",
    "DATEDIFF(NOW(), da)", "TIMESTAMPDIFF(YEAR, da, NOW())", "MIN(at > UTC_TIMESTAMP())",
)  # fmt: skip
NAMES = ("", "", " AS x", " AS `shown here`", " x")
ZONES = ("+00:00", "+14:00", "-12:00", "SYSTEM")
PASSED = ("NOW() AS x", "SYSDATE() AS x", "CURTIME() AS x", "NOW(3) AS x", "DATE_FORMAT(NOW(), '%H') AS x")


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        yield found
        assert not found.call(lambda: found.proxy.app.router.status().counters.get("faults", 0))


@pytest.fixture(autouse=True)
def no_caches(beside: Beside) -> Iterator[None]:
    yield
    with beside.client() as client:
        client.query("DROP CACHE shown")


def query(rng: random.Random) -> str:
    items = []
    for _ in range(rng.choice((1, 1, 2))):
        day = rng.choice(DAYS)
        around = rng.choice(AROUND) if rng.random() < 0.8 else "{}"
        item = around.replace("{}", day) if rng.random() < 0.8 else rng.choice(MOMENTS)
        items.append(f"{item}{rng.choice(NAMES)}")
    grouped = any(word in item for item in items for word in ("MAX(", "COUNT(", "SUM(", "MIN("))
    shown = ", ".join(items if grouped else ["id", *items])
    more = rng.choice(("", "", f" AND da < {rng.choice(DAYS[:3])}", " AND at <= NOW()"))
    return f"SELECT {rng.choice(('', '', 'DISTINCT '))}{shown} FROM p WHERE k = ?{more}" + (
        "" if grouped else " ORDER BY id"
    )


def test_what_is_shown_of_the_day(beside: Beside, mysql: Server) -> None:
    rng = random.Random(SEED)
    wrong: list[str] = []
    served: Counter[str] = Counter()
    made = 0
    clients = [(beside.client(), beside.direct(), zone) for zone in ZONES]
    for through, direct, zone in clients:
        for client in (through, direct):
            client.query(f"SET time_zone = '{zone}'")
    for number in range(60):
        sql = query(rng)
        through, direct, _ = clients[0]
        created = parse(through.query(f"CREATE CACHE shown FROM {sql}"), binary=False)
        made += not created.errno
        if created.errno:
            served[created.message[:50]] += 1
            continue
        statements = [(direct.prepare(sql), through.prepare(sql)) for through, direct, _ in clients]
        for stage in range(2):
            if stage:
                mysql.execute(
                    f"USE {DATABASE}", f"UPDATE p SET n = n + 1, da = da - INTERVAL 1 DAY WHERE id = {number % 5}"
                )
                beside.caught_up()
            for (through, direct, zone), (own, ours) in zip(clients, statements, strict=True):
                for key in (1, 1, 1, 2, 3):
                    text = sql.replace("?", str(key))
                    for binary in (False, True):
                        ask = [
                            client.execute(one.id, payload([integer(key)])) if binary else client.query(text)
                            for client, one in ((direct, own), (through, ours), (direct, own))
                        ]
                        how = last_served(beside, through)
                        served[how.split(" ")[0]] += 1
                        before, mine, after = (parse(answer, binary=binary).told() for answer in ask)
                        if before == after and mine != before:  # a moment may pass between
                            wrong.append(f"{zone} {text} {how}\n  MySQL  {before}\n  Upwell {mine}")
        through.query("DROP CACHE shown")
    for through, direct, _ in clients:
        through.close()
        direct.close()
    print(made, served)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:10])
    assert made > 30 and served["hit"] > 0.4 * (served["hit"] + served["passed"] + served["miss"]), served


@pytest.mark.parametrize(
    "items",
    [
        "CURDATE() AS today",
        "CURDATE()",
        "id, YEAR(CURDATE()) - YEAR(da) AS age",
        "id, YEAR(CURDATE())  -  YEAR(da)",
        "id, at < NOW()",
        "SUM(at < NOW()), SUM(da >= CURDATE())",
        "id, DATEDIFF(CURDATE(), da), TIMESTAMPDIFF(YEAR, da, CURDATE())",
        "id, DATE_FORMAT(NOW(), '%Y-%m')",
        "DISTINCT YEAR(NOW()) , k",
    ],
)
def test_it_is_a_hit(beside: Beside, items: str) -> None:
    sql = f"SELECT {items} FROM p WHERE k = ?"
    with beside.client() as through, beside.direct() as direct:
        made = parse(through.query(f"CREATE CACHE shown FROM {sql}"), binary=False)
        assert not made.errno, made.message
        text = sql.replace("?", "1")
        answers = read_until_hit(beside, through, through.query, text)
        assert parse(answers[-1], binary=False).told() == parse(direct.query(text), binary=False).told()
        own, ours, given = direct.prepare(sql), through.prepare(sql), payload([integer(1)])
        answers = read_until_hit(beside, through, through.execute, ours.id, given)
        assert parse(answers[-1], binary=True).told() == parse(direct.execute(own.id, given), binary=True).told()


@pytest.mark.parametrize("item", PASSED)
def test_what_changes_within_the_day_is_not_shown(beside: Beside, item: str) -> None:
    with beside.client() as client:
        made = parse(client.query(f"CREATE CACHE shown FROM SELECT id, {item} FROM p WHERE k = ?"), binary=False)
        assert made.errno == 1235 and "another value for the same rows" in made.message


def test_another_day_of_the_session_is_another_answer(beside: Beside) -> None:
    """MySQL's own clock cannot be set, but a session's can, which is passed; and some zones are a day ahead."""
    sql = "SELECT CURDATE() AS today, id FROM p WHERE k = 1 ORDER BY id"
    with beside.client() as through, beside.direct() as direct:
        through.query(f"CREATE CACHE shown FROM {sql}")
        seen = set()
        for setting in (
            "time_zone = '+14:00'",
            "time_zone = '-12:00'",
            "timestamp = 1000000000",
        ):
            for client in (through, direct):
                client.query(f"SET {setting}")
            for _ in range(4):
                assert (
                    parse(through.query(sql), binary=False).told() == parse(direct.query(sql), binary=False).told()
                ), setting
            seen.add(rows_of(through, sql))
            assert last_served(beside, through).startswith("hit") == ("1000000000" not in setting), setting
        assert len(seen) == 3


def rows_of(client: RawClient, sql: str) -> tuple[bytes, ...]:
    return parse(client.query(sql), binary=False).rows
