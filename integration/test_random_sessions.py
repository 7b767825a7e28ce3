"""Sessions of random statements, played to MySQL and through the proxy: whatever a session has set, begun, written,
locked, hidden or prepared, each read shows what MySQL would show."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from integration.mysql_server import Server
from integration.proxy_thread import Beside, proxy_in_thread
from integration.raw_client import Prepared, RawClient
from integration.served import last_served
from integration.test_hits_same_bytes import comparable
from proxy.mysql.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
    COM_RESET_CONNECTION,
)

FIRST_SEED = int(os.environ.get("UPWELL_SESSIONS_SEED", "1"))
SEEDS = int(os.environ.get("UPWELL_SESSIONS_SEEDS", "12"))
STEPS = 30
KINDS = (
    0,
    CLIENT_SESSION_TRACK,
    CLIENT_DEPRECATE_EOF,
    CLIENT_DEPRECATE_EOF | CLIENT_SESSION_TRACK,
    CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES,
)
ROWS = "REPLACE INTO t VALUES (1,'é',10,1.5,'2024-01-01'), (2,'b',10,2.5,'2024-06-01 12:00:00'), (3,'C',20,NULL,NULL)"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20), n INT, d DECIMAL(8,2), z TIMESTAMP NULL, KEY (n))",
    ROWS,
    "CREATE TABLE w (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
    "CREATE VIEW vv AS SELECT id, s FROM t WHERE id < 3",
    "CREATE PROCEDURE names() SET NAMES latin1",
    "CREATE PROCEDURE mode() SET SESSION sql_mode = ''",
    "CREATE PROCEDURE writes() UPDATE t SET n = n + 1 WHERE id = 1",
    "CREATE PROCEDURE begins() START TRANSACTION",
    "CREATE PROCEDURE commits() COMMIT",
    "CREATE PROCEDURE switches() SET autocommit = 0",
    "CREATE PROCEDURE hides() CREATE TEMPORARY TABLE t SELECT 1 id, 'TMP' s, 5 n, 1.0 d, NULL z",
    "CREATE PROCEDURE fails() BEGIN UPDATE t SET n = n + 1 WHERE id = 2; SIGNAL SQLSTATE '45000'; END",
    "CREATE FUNCTION written() RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
    " BEGIN UPDATE t SET n = n + 1 WHERE id = 3; RETURN 1; END",
    "CREATE FUNCTION limited() RETURNS INT DETERMINISTIC BEGIN SET SESSION sql_select_limit = 1; RETURN 1; END",
    "CREATE TRIGGER counts AFTER INSERT ON w FOR EACH ROW UPDATE t SET n = n + 1 WHERE id = 2",
)
CACHES = (
    "SELECT id, s FROM t WHERE id = ?",
    "SELECT id, n FROM t WHERE n = ? ORDER BY id",
    "SELECT COUNT(*), SUM(n) FROM t WHERE n > ?",
    "SELECT id, d / 3 AS q FROM t WHERE id = ?",
    "SELECT id, z FROM t WHERE id = ?",
    "SELECT * FROM t WHERE id = ?",
    "SELECT id, s FROM vv WHERE id = ?",
    "SELECT id, s FROM t WHERE s = ?",
    "SELECT id, s FROM t WHERE id IN (?) ORDER BY id",
    "SELECT id, GROUP_CONCAT(s) FROM t WHERE id = ? GROUP BY id",
)
READS = (
    "SELECT id, s FROM t WHERE id = 1",
    "SELECT id, n FROM t WHERE n = 10 ORDER BY id",
    "SELECT COUNT(*), SUM(n) FROM t WHERE n > 0",
    "SELECT id, d / 3 AS q FROM t WHERE id = 2",
    "SELECT id, z FROM t WHERE id = 2",
    "SELECT * FROM t WHERE id = 1",
    "SELECT id, s FROM vv WHERE id = 2",
    "SELECT id, s FROM t WHERE s = 'é'",
    "SELECT id, s FROM t WHERE s = 'B'",
    "SELECT id, s FROM t WHERE id IN (1, 2) ORDER BY id",
    "SELECT id, GROUP_CONCAT(s) FROM t WHERE id = 2 GROUP BY id",
    "SELECT id, s FROM t WHERE id = 2 /* traced */",
)
# What begins with an exclamation mark is a command of the protocol; {db} is the session's database.
STEPS_TAKEN = (
    *("BEGIN", "COMMIT", "ROLLBACK", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    *("SET autocommit = 0", "SET autocommit = 1", "SAVEPOINT a", "ROLLBACK TO a", "COMMIT AND CHAIN"),
    *(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}" for level in ("READ COMMITTED", "REPEATABLE READ")),
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    *("SET NAMES latin1", "SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET CHARACTER SET DEFAULT"),
    *("SET character_set_results = NULL", "SET collation_connection = utf8mb4_bin", "SET @x = 1, sql_mode = ''"),
    *("SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = DEFAULT", "SET @@sql_select_limit = 1"),
    *("SET sql_select_limit = DEFAULT", "SET time_zone = '+05:00'", "SET time_zone = '+00:00'"),
    *("SET div_precision_increment = 1", "SET div_precision_increment = 4", "SET group_concat_max_len = 4"),
    *("SELECT @x := 5", "SET @y = (SELECT n FROM t WHERE id = 1)", "SET no_such_variable = 1"),
    *(
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "UPDATE t SET s = CONCAT(s, 'x') WHERE id = 2",
        "DELETE FROM t WHERE id = 9",
    ),
    *("REPLACE INTO t VALUES (9, 'new', 10, 1, NULL)", "INSERT INTO w (v) VALUES (1)"),
    *("SELECT id FROM t WHERE id = 1 FOR UPDATE", "SELECT COUNT(*) FROM w", "SELECT 1", "DO 0"),
    "CREATE TEMPORARY TABLE t (id INT, s VARCHAR(20), n INT, d DECIMAL(8,2), z TIMESTAMP NULL)",
    "CREATE TEMPORARY TABLE t SELECT 1 id, 'CT' s, 10 n, 3.0 d, NULL z",
    *("DROP TEMPORARY TABLE IF EXISTS t", "CREATE TEMPORARY TABLE vv SELECT 2 id, 'hidden' s"),
    *("LOCK TABLES t READ", "LOCK TABLES t WRITE, w WRITE, vv READ", "UNLOCK TABLES", "ANALYZE TABLE w"),
    *("USE {db}2", "USE {db}", "USE no_such_database", "USE {db}2; SELECT * FROM no_such_table"),
    *(f"CALL {name}()" for name in ("names", "mode", "writes", "begins", "commits", "switches", "hides", "fails")),
    *("SELECT written()", "DO written()", "SELECT limited()", "PREPARE p FROM 'SELECT limited()'", "EXECUTE p"),
    *("BEGIN; UPDATE t SET n = n + 1 WHERE id = 1; COMMIT", "SET sql_select_limit = 1; SELECT * FROM no_such_table"),
    *("SET session_track_system_variables = ''", "SET session_track_state_change = OFF, session_track_schema = OFF"),
    *("XA START '{db}'", "XA END '{db}'", "XA COMMIT '{db}' ONE PHASE", "XA ROLLBACK '{db}'"),
    *("!reset", "!use 2", "!use", "!prepare", "!prepare", "!prepare"),
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """The session at MySQL has a database of its own, whose name is as long."""
    through, direct = f"t{os.getpid()}_through", f"t{os.getpid()}_directl"
    names = (through, direct)
    for name in names:
        mysql.execute(f"CREATE DATABASE {name}2", f"USE {name}2", *TABLES[:2], "UPDATE t SET s = 'other'")
        mysql.execute(f"CREATE DATABASE {name}", f"USE {name}", *TABLES)
    state = Path(tmp_path_factory.mktemp("state"))
    with proxy_in_thread(mysql, through, state, own_writes_wait="10s") as found:
        with found.client() as client:
            for query in CACHES:
                assert client.query(f"CREATE CACHE FROM {query}")[4] == 0, client.transcript[-1]
        yield found
        found.at_rest()
    mysql.execute(*(f"DROP DATABASE {name}{other}" for name in names for other in ("", "2")))


class Pair:
    """A session at MySQL and one through the proxy, that do the same."""

    def __init__(self, beside: Beside, rng: random.Random) -> None:
        capabilities = rng.choice(KINDS) | CLIENT_MULTI_STATEMENTS
        self.rng = rng
        self.names = (beside.proxy.database.replace("through", "directl"), beside.proxy.database)
        direct = beside.direct(capabilities=capabilities, database=self.names[0])
        self.clients = (direct, beside.client(capabilities=capabilities))
        self.prepared: list[tuple[Prepared, ...]] = []
        self.history: list[str] = []

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def step(self) -> None:
        step = self.rng.choice(STEPS_TAKEN)
        self.history.append(step)
        if step == "!reset":
            self.both(lambda client, _: client.command(COM_RESET_CONNECTION))
            self.prepared.clear()
        elif step.startswith("!use"):
            self.both(lambda client, name: client.use(name + step[5:]))
        elif step == "!prepare":
            text = self.rng.choice(READS)
            one, other = (client.prepare(text) for client in self.clients)
            assert one.error == other.error, self.history
            if not one.error:
                self.prepared.append((one, other))
        else:
            self.both(lambda client, name: client.query(step.format(db=name)))

    def both(self, ask: Callable[[RawClient, str], bytes]) -> None:
        one, other = (ask(client, name) for client, name in zip(self.clients, self.names, strict=True))
        assert (one[4] == 0xFF) == (other[4] == 0xFF), (self.history, one, other)

    def read(self) -> None:
        if self.prepared and self.rng.random() < 0.35:
            self.history.append("!execute")
            statements = self.rng.choice(self.prepared)
            answers = [client.execute(one.id) for client, one in zip(self.clients, statements, strict=True)]
        else:
            self.history.append(self.rng.choice(READS))
            answers = [client.query(self.history[-1]) for client in self.clients]
        wanted = answers[0].replace(self.names[0].encode(), self.names[1].encode())
        assert self.shown(answers[1]) == self.shown(wanted), self.history

    def shown(self, answer: bytes) -> object:
        """Columns and rows, or the error; without flags of the session: that a transaction has begun, MySQL does not
        know after hits alone."""
        found = comparable(self.clients[0], answer, ordered=False)
        if isinstance(found, tuple):
            head, rows, _ = found
            return head[: len(head) - self.clients[0].eof], rows
        return found


def play(beside: Beside, seed: int, served: Counter[str]) -> None:
    rng = random.Random(seed)
    pair = Pair(beside, rng)
    try:
        for _ in range(STEPS):
            pair.step()
            for _ in range(rng.randrange(4)):
                pair.read()
                served[last_served(beside).split(" ")[0]] += 1
    finally:
        pair.close()


def restored(beside: Beside, names: Sequence[str]) -> None:
    for name in names:
        beside.mysql.execute(f"USE {name}", "DELETE FROM t WHERE id > 3", ROWS, "DELETE FROM w")
    beside.caught_up()


def test_random_sessions(beside: Beside) -> None:
    served: Counter[str] = Counter()
    name = beside.proxy.database
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        restored(beside, (name, name.replace("through", "directl")))
        print(f"UPWELL_SESSIONS_SEED={seed}")
        play(beside, seed, served)
        beside.at_rest()
    assert served["hit"] > SEEDS and served["passed"] > SEEDS, served
