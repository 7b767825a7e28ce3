"""A DOUBLE that is bound for a DECIMAL, as mysql2 for Node.js binds every number: where it is the DOUBLE of one of the
column's numbers, hits are what MySQL answers, which compares as DOUBLE, by an index and without one."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.oracle.trees import double, payload
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit

DATABASE = "doubles_for_decimals"
SEED = int(os.environ.get("UPWELL_DOUBLES_SEED", "1"))
ROUNDS = int(os.environ.get("UPWELL_DOUBLES_ROUNDS", "1"))
TYPES = ((8, 2), (15, 2), (5, 0), (15, 15), (10, 4), (3, 1), (16, 2))
KEYS = ("", ", KEY (d)", ", UNIQUE (d)", ", KEY (g, d)")
CONDITIONS = (
    "d = ?", "d <> ?", "d < ?", "d <= ?", "d > ?", "d >= ?", "? < d", "d <=> ?", "d BETWEEN ? AND ?", "d IN (?, ?)",
    "d NOT IN (?, ?)",
)  # fmt: skip
SHAPES = (
    "SELECT id, d FROM {table} WHERE g = 1 AND {condition} ORDER BY id",
    "SELECT id, d FROM {table} WHERE {condition} ORDER BY id",
    "SELECT COUNT(DISTINCT id) FROM {table} WHERE {condition}",  # held in evict mode
    "SELECT o.id, {table}.id FROM o LEFT JOIN {table} ON {table}.g = o.id AND {condition} ORDER BY o.id, {table}.id",
)
EXECUTIONS = 6


def numbers(rng: random.Random, precision: int, scale: int) -> list[Decimal]:
    found = {Decimal(0), Decimal(1), Decimal(-1), Decimal(5), Decimal(10**precision - 1)}
    found |= {Decimal(rng.randint(-(10 ** (n := rng.randint(1, precision))) + 1, 10**n - 1)) for _ in range(20)}
    return sorted({number.scaleb(-scale) for number in found})


def doubles(rng: random.Random, stored: list[Decimal], scale: int) -> list[float]:
    """Those of stored numbers, their neighbours, and others."""
    found = [0.0, -0.0, 0.1 + 0.2, 1e20, -1e300, 5e-324, 2.5]
    for number in stored:
        near = float(number)
        found += [near, near, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf)]
        found += [near + 5 * 10.0 ** -(scale + 1), near * 3]
    rng.shuffle(found)
    return found


def executed(
    beside: Beside, through: RawClient, text: str, values: list[list[float]], served: Counter[str]
) -> Iterator[str]:
    """Each of these executions, some times, at MySQL and through the proxy: what differs."""
    with beside.direct() as direct:
        ids = [client.prepare(text).id for client in (direct, through)]
        for given in [each for each in values for _ in range(3)]:
            told = []
            for client, id_ in zip((direct, through), ids, strict=True):
                answer = parse(client.execute(id_, payload([double(each) for each in given])), binary=True)
                told.append((answer.columns, answer.rows, answer.errno))
            how = last_served(beside, through)
            served[how.split(" ")[0]] += 1
            if told[0] != told[1]:
                yield f"{text} {given} {how}\n  MySQL  {told[0]}\n  Upwell {told[1]}"
        through.close_statement(ids[1])


@pytest.mark.timeout(900)
def test_what_is_found_is_what_mysql_finds(mysql: Server, tmp_path: Path) -> None:
    wrong: list[str] = []
    served: Counter[str] = Counter()
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(seed)
        tables: dict[str, tuple[list[Decimal], int]] = {}
        statements = ["CREATE TABLE o (id INT PRIMARY KEY)", "INSERT INTO o VALUES (1), (2)"]
        for at, (precision, scale) in enumerate(TYPES):
            for number, key in enumerate(KEYS):
                name, stored = f"t{at}_{number}", numbers(rng, precision, scale)
                rows = ", ".join(f"({place}, {rng.choice((1, 1, 2))}, {value})" for place, value in enumerate(stored))
                statements += [
                    f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, d DECIMAL({precision}, {scale}){key})",
                    f"INSERT INTO {name} VALUES {rows}, (1000, 1, NULL)",
                ]
                tables[name] = stored, scale
        folder = tmp_path / str(seed)
        with beside_database(mysql, DATABASE, folder, *statements) as beside, beside.client() as through:
            for name, (stored, scale) in tables.items():
                given = doubles(rng, stored, scale)
                for condition in rng.sample(CONDITIONS, 4):
                    text = rng.choice(SHAPES).format(table=name, condition=condition)
                    if through.query(f"CREATE CACHE c FROM {text.replace('IN (?, ?)', 'IN (?)')}")[4] != 0:
                        served["not cached"] += 1
                        continue
                    values = [[rng.choice(given) for _ in range(text.count("?"))] for _ in range(EXECUTIONS)]
                    wrong += executed(beside, through, text, values, served)
                    through.query("DROP CACHE c")
    print(served)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:5])
    assert served["hit"] > 0.2 * served.total(), served


def test_the_double_of_a_stored_number_is_a_hit(mysql: Server, tmp_path: Path) -> None:
    statements = ["CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(8, 2), KEY (d))", "INSERT INTO t VALUES (1, 1.25)"]
    with beside_database(mysql, DATABASE, tmp_path, *statements) as beside, beside.client() as client:
        for number, sql in enumerate(("SELECT id FROM t WHERE d = ?", "SELECT id FROM t WHERE d BETWEEN 1 AND ?")):
            assert client.query(f"CREATE CACHE c{number} FROM {sql}")[4] == 0
            statement = client.prepare(sql).id
            read_until_hit(beside, client, client.execute, statement, payload([double(1.25)]))
            client.execute(statement, payload([double(1.255)]))
            assert last_served(beside, client).startswith("passed")
