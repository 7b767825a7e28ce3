"""SQL_CALC_FOUND_ROWS and the FOUND_ROWS() behind it: held together, and told as MySQL tells it.

Sessions at MySQL and through the proxy do the same on twin databases, and are told the same.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.oracle.asker import Asker
from integration.protocol.test_hits_same_bytes import KINDS, comparable, given
from integration.servers.mysql_server import Server
from integration.sessions.session_commands import results
from integration.sessions.session_pairs import RESULTS
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.served import Reads, last_served
from proxy.mysql.wire.packets import OK

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, g INT, s VARCHAR(20), KEY (g))",
    "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 1, 'c'), (4, 1, 'd'), (5, 2, 'e'), (6, 2, 'f'), (7, 3, 'g')",
    "CREATE TABLE u (id INT PRIMARY KEY, g INT)",
    "INSERT INTO u VALUES (1, 1), (2, 1), (3, 2)",
    "CREATE TABLE w (id INT PRIMARY KEY AUTO_INCREMENT, n INT)",
    "CREATE PROCEDURE quiet() SET @x = 1",
    "CREATE PROCEDURE tells() SELECT id FROM t WHERE g = 2",
)
CACHES = (
    "SELECT SQL_CALC_FOUND_ROWS id, s FROM t WHERE g = ? ORDER BY id LIMIT 2",
    "SELECT SQL_CALC_FOUND_ROWS  t.id, u.id AS other FROM t LEFT JOIN u ON u.id = t.g WHERE 1 = 1"
    " ORDER BY t.id DESC LIMIT 0, 3",
    "SELECT SQL_CALC_FOUND_ROWS id FROM t WHERE g = ? ORDER BY id LIMIT 1, 2",
    "SELECT SQL_CALC_FOUND_ROWS DISTINCT s FROM t WHERE id > ? ORDER BY s LIMIT 1",
    "SELECT SQL_CALC_FOUND_ROWS g, COUNT(*) AS c FROM t GROUP BY g ORDER BY g LIMIT 1",
    "SELECT SQL_CALC_FOUND_ROWS id FROM t WHERE id IN (?) ORDER BY id LIMIT 1",
    "SELECT id, s FROM t WHERE g = ? ORDER BY id",
    "SELECT id FROM t ORDER BY id LIMIT 2",
)
READS = (
    *(CACHES[0].replace("?", str(g)) for g in (1, 2, 9)),
    CACHES[1],
    *(CACHES[2].replace("?", str(g)) for g in (1, 9)),
    *(CACHES[3].replace("?", str(g)) for g in (0, 4)),
    CACHES[4],
    CACHES[5].replace("?", "1, 2, 3"),
    CACHES[6].replace("?", "1"),
    CACHES[7],
)
PREPARED = (CACHES[0], CACHES[2], CACHES[6])
ASKED = (
    *("SELECT FOUND_ROWS()", "SELECT FOUND_ROWS() AS n", "select found_rows ( ) n", "SELECT `FOUND_ROWS`() 'a b'"),
    *("SELECT FOUND_ROWS();", "/* wp */ SELECT FOUND_ROWS() -- all", "SELECT FOUND_ROWS() FROM DUAL"),
    *(
        "SELECT FOUND_ROWS() LIMIT 1",
        "SELECT FOUND_ROWS() + 1",
        "SELECT ROW_COUNT()",
    ),
    *("SHOW WARNINGS", "SELECT @@warning_count", "SHOW COUNT(*) WARNINGS", "SET @f = FOUND_ROWS()", "SELECT @f"),
)
OTHERS = (
    *("SET @x = 1", "SELECT 1", "SELECT 1 UNION SELECT 2", "DO 1", "BEGIN", "COMMIT", "ROLLBACK", "SET autocommit = 0"),
    *("SET autocommit = 1", "USE {db}", "SHOW TABLES", "SELECT COUNT(*) FROM w", "SELECT 1/0", "SELECT no_such FROM t"),
    *("CALL quiet()", "CALL tells()", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    *("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SET NAMES utf8mb4", "SET NAMES latin1"),
    *("SET sql_select_limit = 1", "SET sql_select_limit = DEFAULT", "SET TRANSACTION READ ONLY", "SET sql_mode = ''"),
    *("SET sql_mode = DEFAULT", "SET character_set_results = utf16", "SET sql_select_limit = 0"),
)
BACK = (
    *("ROLLBACK", "SET autocommit = 1", "SET NAMES utf8mb4", "SET sql_select_limit = DEFAULT, sql_mode = DEFAULT"),
    *("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT 1"),
)
RESOLVES = ("SET NAMES", "SET sql_", "SET character_set")
WRITES = (
    *(
        "INSERT IGNORE INTO t VALUES ({n}, 1, 'new')",
        "DELETE FROM t WHERE id = {n}",
        "UPDATE t SET g = 2 WHERE id = {n}",
    ),
    *("UPDATE t SET g = 1 WHERE id = {n}", "UPDATE t SET s = CONCAT(LEFT(s, 5), 'x') WHERE id = 4"),
    *("INSERT INTO w (n) VALUES ({n})", "INSERT INTO w (n) SELECT id FROM t", "DELETE FROM u WHERE id = {n}"),
    "REPLACE INTO u VALUES ({n}, 1)",
)


class Twins:
    """Databases alike, one written and read at MySQL, the other one through the proxy."""

    def __init__(self, beside: Beside, names: tuple[str, str]) -> None:
        self.beside = beside
        self.names = names
        self.served: Counter[str] = Counter()

    @contextmanager
    def sessions(self, kind: str) -> Iterator[tuple[RawClient, RawClient]]:
        flags = KINDS[kind]
        with (
            self.beside.direct(capabilities=flags, database=self.names[0]) as direct,
            self.beside.client(capabilities=flags, database=self.names[1]) as through,
        ):
            yield direct, through


@pytest.fixture(scope="module")
def twins(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    names = (f"t{os.getpid()}_counted_1", f"t{os.getpid()}_counted_2")
    for name in names:
        mysql.execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}", f"USE {name}", *TABLES)
    with proxy_in_thread(mysql, names[1], Path(tmp_path_factory.mktemp("state")), own_writes_wait="10s") as beside:
        with beside.client() as client:
            for query in CACHES:
                assert client.query(f"CREATE CACHE FROM {query}")[4] == OK, client.transcript[-1]
        yield Twins(beside, names)
        beside.at_rest()
    for name in names:
        mysql.execute(f"DROP DATABASE {name}")


def step_of(rng: random.Random, count: int) -> str:
    chance = rng.random()
    if chance < 0.35:
        return rng.choice(READS)
    if chance < 0.45:
        return f"!execute {rng.randrange(count)} {rng.choice((1, 2, 9))}"
    if chance < 0.75:
        return rng.choice(ASKED[:3] if rng.random() < 0.5 else ASKED)
    if chance < 0.85:
        return rng.choice(OTHERS)
    return rng.choice(WRITES).replace("{n}", str(rng.choice((2, 4, 8, 9))))


@pytest.mark.parametrize("seed", range(1, 13))
def test_random_sequences_are_told_as_by_mysql(twins: Twins, seed: int) -> None:
    rng = random.Random(seed)
    with twins.sessions(rng.choice(list(KINDS))) as clients:
        known = [tuple(client.prepare(text).id for client in clients) for text in PREPARED]
        done: list[str] = []
        for read in READS * 3:  # so that most are hits
            for client in clients:
                client.query(read)
        steps: list[str] = []
        for _ in range(200):
            one = step_of(rng, len(PREPARED))
            # MySQL is shown executions before it, and tells of the last one.
            steps += [one, "SELECT 1"] if one.startswith(RESOLVES) else [one]
            if one == "CALL quiet()":  # docs/mysql_protocol.md: with another statement before it it hides a hit
                steps[-1:] = ["SELECT 1", one]
            if rng.random() < 0.1:
                steps += BACK
        for step in steps:
            answers = []
            for at, client in enumerate(clients):
                if step.startswith("!execute"):
                    _, which, value = step.split()
                    answers.append(client.execute(known[int(which)][at], given(client, [int(value)])))
                else:
                    answers.append(client.query(step.format(db=twins.names[at])))
            for encoding in RESULTS:
                name, other = (name.encode(encoding) for name in twins.names)
                answers[0] = answers[0].replace(name, other)
            done.append(f"{step}  [{last_served(twins.beside, clients[1])}]")
            twins.served[done[-1].partition("[")[2].split(" ")[0].rstrip("]")] += 1
            wanted, found = (results(client, answer) for client, answer in zip(clients, answers, strict=True))
            said = f"seed {seed}\n" + "\n".join(done[-12:]) + f"\nMySQL   {answers[0]!r}\nthrough {answers[1]!r}"
            assert wanted == found, said
            if step in ASKED[:7] and answers[0][4] == 1:
                assert comparable(clients[0], answers[0]) == comparable(clients[1], answers[1]), said


def test_many_of_these_were_answered_from_memory(twins: Twins) -> None:
    for seed in (98, 99):
        test_random_sequences_are_told_as_by_mysql(twins, seed)
    assert min(twins.served["hit"], twins.served["answered"]) > 40, twins.served


@pytest.mark.parametrize("mode", ["DEFAULT", "'NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_what_is_asked_behind_a_hit_does_not_go_to_mysql(twins: Twins, kind: str, mode: str) -> None:
    with twins.sessions(kind) as (direct, through):
        for client in (direct, through):
            client.query(f"SET SESSION sql_mode = {mode}")
        reads = Reads("hit")
        through.query(READS[0])
        while not reads.done(last_served(twins.beside, through)):
            through.query(READS[0])
        direct.query(READS[0])
        for asked in ASKED[:3]:
            reads = Reads("answered")
            while True:
                wanted = [client.query(READS[0]) and client.query(asked) for client in (direct, through)]
                assert comparable(direct, wanted[0]) == comparable(through, wanted[1])
                if reads.done(last_served(twins.beside, through)):
                    break


def test_a_change_beyond_the_limit_counts(asker: Asker) -> None:
    asker.begin(list(TABLES))
    read = CACHES[0].replace("?", "1")
    asker.create_cache("c", CACHES[0])
    for write in (
        "INSERT INTO t VALUES (100, 1, 'z')",
        "UPDATE t SET g = 2 WHERE id = 100",
        "UPDATE t SET g = 1 WHERE id IN (5, 6)",
        "DELETE FROM t WHERE id = 4",
        "DELETE FROM t WHERE g = 1",
    ):
        asker.run([write])
        asker.wait()
        asker.until_hit(read)
        for name in ("direct", "through"):
            asker.session(name).query(read)
        told = [asker.session(name).query("SELECT FOUND_ROWS()") for name in ("direct", "through")]
        assert told[0] == told[1], write


@pytest.mark.parametrize(
    "first", ["CALL quiet()", "CALL tells()", "SET @x = 1", "EXECUTE nothing", "SET NAMES utf8mb4"]
)
def test_what_a_session_begins_with(twins: Twins, first: str) -> None:
    with twins.sessions("plain") as (direct, through):
        for client in (direct, through):
            client.query(first)
        assert direct.query("SELECT FOUND_ROWS()") == through.query("SELECT FOUND_ROWS()")
