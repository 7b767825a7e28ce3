"""Writers whose every transaction says in its GTID what it wrote, so that a position tells what a read must show.

A writer has a server UUID of its own and numbers its transactions from 1. Transaction v sets the counter of one key to
v in every row of that key, in two tables; which key follows from v. So the state of a key at a position P is the
largest number in P that wrote it.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pymysql

from gtid_tracker.gtid import GtidSet
from integration.servers.mysql_server import Server

KEYS = 8  # of each writer
TABLES = (
    "CREATE TABLE pairs (id INT PRIMARY KEY, k INT NOT NULL, n BIGINT NOT NULL, KEY (k))",
    "CREATE TABLE twins (id INT PRIMARY KEY, k INT NOT NULL, n BIGINT NOT NULL, KEY (k))",
    "CREATE TABLE movers (id INT PRIMARY KEY, k INT NOT NULL, KEY (k))",
)
MOVERS = 5  # rows that move between a writer's keys with each transaction, two at a time


class NumberedWriter(threading.Thread):
    """Writes `count` transactions, or until `stop` is set, once `begin` is. `written`: how many have been committed."""

    def __init__(self, server: Server, database: str, number: int, count: int = 0) -> None:
        super().__init__()
        self.uuid = str(uuid.uuid4())
        self.number = number
        self.keys = range(number * KEYS, (number + 1) * KEYS)
        self.count = count
        self.written = 0
        self.begin = threading.Event()
        self.stop = threading.Event()
        self.failed: Exception | None = None
        self._server = server
        self._database = database
        self._rng = random.Random(number)

    def key_of(self, number: int) -> int:
        """The key that transaction `number` writes: a few of them often."""
        return self.keys[min(number % KEYS, (number // 3) % KEYS)]

    def state(self, key: int, position: GtidSet) -> int:
        """The counter of the key at a position; 0 before the first."""
        bounds = position.intervals.get(self.uuid, ())
        number = bounds[1] - 1 if bounds else 0
        while number and self.key_of(number) != key:
            number -= 1
        return number

    def run(self) -> None:
        self.begin.wait()
        try:
            with self._server.connect(database=self._database) as connection, connection.cursor() as cursor:
                while not self.stop.is_set() and (not self.count or self.written < self.count):
                    number = self.written + 1
                    cursor.execute(f"SET gtid_next = '{self.uuid}:{number}'")
                    for statement in self.statements(number):
                        cursor.execute(statement)
                    cursor.execute("SET gtid_next = 'AUTOMATIC'")
                    self.written = number
        except (pymysql.MySQLError, AssertionError) as error:  # raised where the writers end
            self.failed = error

    def statements(self, number: int) -> list[str]:
        key = self.key_of(number)
        rng = self._rng
        first, second = rng.sample(range(self.number * MOVERS, (self.number + 1) * MOVERS), 2)
        body = [
            f"UPDATE pairs SET n = {number} WHERE id = {2 * key}",
            f"UPDATE twins SET n = {number} WHERE k = {key}",
            f"UPDATE movers SET k = {rng.choice(self.keys)} WHERE id = {first}",
            f"UPDATE pairs SET n = {number} WHERE id = {2 * key + 1}",
        ]
        match rng.randrange(4):
            case 0:  # gone and back within the transaction
                body += [f"DELETE FROM twins WHERE k = {key}", f"INSERT INTO twins VALUES ({key}, {key}, {number})"]
            case 1:
                body += [f"UPDATE pairs SET n = -1 WHERE k = {key}", f"UPDATE pairs SET n = {number} WHERE k = {key}"]
            case 2:
                body += [f"UPDATE movers SET k = {rng.choice(self.keys)} WHERE id = {second}"]
        return ["BEGIN", *body, "COMMIT"]


@contextmanager
def numbered_writers(
    server: Server, database: str, writers: int, count: int = 0, at_once: bool = True
) -> Iterator[list[NumberedWriter]]:
    """Makes the tables and starts the writers; at the end they are stopped, and a failure of one is raised. Unless
    `at_once`, they wait for their `begin`."""
    made = [NumberedWriter(server, database, number, count) for number in range(writers)]
    server.execute(f"USE `{database}`", *TABLES, *first_rows(made))
    with ExitStack() as ending:
        for writer in made:
            if at_once:
                writer.begin.set()
            writer.start()
            ending.callback(writer.join)
            ending.callback(writer.begin.set)
            ending.callback(writer.stop.set)
        yield made
    for writer in made:
        if writer.failed is not None:
            raise writer.failed


def first_rows(writers: Sequence[NumberedWriter]) -> list[str]:
    keys = [key for writer in writers for key in writer.keys]
    pairs = ", ".join(f"({2 * key + half}, {key}, 0)" for key in keys for half in (0, 1))
    twins = ", ".join(f"({key}, {key}, 0)" for key in keys)
    movers = ", ".join(
        f"({writer.number * MOVERS + at}, {writer.keys[at % KEYS]})" for writer in writers for at in range(MOVERS)
    )
    return [
        f"INSERT INTO pairs VALUES {pairs}",
        f"INSERT INTO twins VALUES {twins}",
        f"INSERT INTO movers VALUES {movers}",
    ]
