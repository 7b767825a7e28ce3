"""Who connects over and over, writes, and reads: each connection is to be accepted, each answer to be new enough."""

from __future__ import annotations

import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pymysql

from integration.servers.mysql_server import Server
from upwell.client import Client

PATIENCE = 60.0  # seconds that a connection or an answer may take
SHARED = 0
SQL = "SELECT n FROM counter WHERE id = {}"
PREPARED = SQL.format("?")


class Visitor(threading.Thread, ABC):
    """Goes on until `stop` is set, or something is wrong: `failed` says what. `visits`: how many connections were
    served."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.stop = threading.Event()
        self.failed = ""
        self.visits = 0

    def run(self) -> None:
        doing = time.monotonic()
        while not self.stop.is_set() and not self.failed:
            doing = time.monotonic()
            try:
                self.visit()
            except Exception:  # noqa: BLE001 - told by the test
                now, took = time.strftime("%H:%M:%S", time.gmtime()), time.monotonic() - doing
                self.failed = f"{self.name} at {now}, visit {self.visits}, after {took:.3f} s: {traceback.format_exc()}"
            self.visits += 1

    @abstractmethod
    def visit(self) -> None:
        """Connects, and asks or writes once. Raises where something is wrong."""


class Writer(Visitor):
    """Counts the shared row up, at MySQL itself. `begun` and `committed`: the last such number."""

    def __init__(self, mysql: Server, database: str) -> None:
        super().__init__("writer")
        self.begun = self.committed = 0
        self._connection = mysql.connect(database=database, autocommit=True)

    def visit(self) -> None:
        self.begun += 1
        with self._connection.cursor() as cursor:
            cursor.execute(f"UPDATE counter SET n = {self.begun} WHERE id = {SHARED}")
        self.committed = self.begun
        self.stop.wait(0.002)


class SqlVisitor(Visitor):
    """Over MySQL's protocol. It writes a row of its own: so its reads have that, and all that was committed before."""

    def __init__(self, port: int, database: str, number: int, writer: Writer) -> None:
        super().__init__(f"client {number}")
        self._port, self._database, self._number, self._writer = port, database, number, writer
        self._n = 0

    def visit(self) -> None:
        with pymysql.connect(
            host="127.0.0.1", port=self._port, user="root", database=self._database, autocommit=True,
            connect_timeout=PATIENCE, read_timeout=PATIENCE,
        ) as connection, connection.cursor() as cursor:  # fmt: skip
            least = self._writer.committed
            self._n += 1
            cursor.execute(f"UPDATE counter SET n = {self._n} WHERE id = {self._number}")
            for _ in range(2):
                assert self._read(cursor, self._number) == self._n
                found = self._read(cursor, SHARED)
                assert least <= found <= self._writer.begun, (least, found, self._writer.begun)
                least = found

    def _read(self, cursor: pymysql.cursors.Cursor, key: int) -> int:
        cursor.execute(SQL.format(key))
        ((found,),) = cursor.fetchall()
        return int(found)


class GrpcVisitor(Visitor):
    """Over gRPC, a client for each visit; its reads show what the visits before have shown, and `least`."""

    def __init__(self, target: str, writer: Writer, mysql: Server) -> None:
        super().__init__("client of gRPC")
        self._target, self._writer, self._mysql = target, writer, mysql
        self._shown = 0

    def visit(self) -> None:
        least = max(self._shown, self._writer.committed)
        ((executed,),) = self._mysql.execute("SELECT @@GLOBAL.gtid_executed")
        with Client(self._target, timeout=PATIENCE) as client:
            session = client.session()
            session.wrote(executed)
            for _ in range(2):
                ((found,),) = [tuple(row) for row in session.cache("counter").get(SHARED)]
                assert least <= found <= self._writer.begun, (least, found, self._writer.begun)
                least = self._shown = int(found)


@contextmanager
def visiting(visitors: Sequence[Visitor]) -> Iterator[None]:
    """They go on meanwhile. Fails with what was wrong at any of them, or if one stood still."""
    for visitor in visitors:
        visitor.start()
    try:
        yield
    finally:
        for visitor in visitors:
            visitor.stop.set()
        for visitor in visitors:
            visitor.join(2 * PATIENCE)
    wrong = [
        visitor.failed or f"{visitor.name} stands still" for visitor in visitors if visitor.failed or visitor.is_alive()
    ]
    assert not wrong, "\n".join(wrong)


def more_visits(visitors: Sequence[Visitor], count: int) -> None:
    """Returns when each has been served so often from now on, or has failed."""
    pause = threading.Event()
    wanted = {visitor: visitor.visits + count for visitor in visitors}
    while any(visitor.visits < least and not visitor.failed for visitor, least in wanted.items()):
        pause.wait(0.005)


def made(mysql: Server, database: str, count: int) -> None:
    """The table of the visitors, of whom each has a row."""
    rows = ", ".join(f"({number}, 0)" for number in range(count + 1))
    mysql.execute(
        f"USE `{database}`", "CREATE TABLE counter (id INT PRIMARY KEY, n INT)", f"INSERT INTO counter VALUES {rows}"
    )
