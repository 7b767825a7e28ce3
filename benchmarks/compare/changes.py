"""Changes of rows that are held, from the binlog's socket to published.

The proxies are stopped (SIGSTOP), changes are written, each proxy in turn is continued, and the time that it uses until
it rests again is taken: nothing of the writer is in the figure. Half of the changes are updates, a quarter inserts, and
a quarter takes these away again, so the table stays as it is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from benchmarks import changes
from benchmarks.bench import SCRATCH
from benchmarks.changes import Case
from benchmarks.compare.figures import Pair
from benchmarks.compare.load import NotWhatItIsCalled
from benchmarks.compare.side import Side
from examples.lobsters.cached import wait_until_current
from examples.lobsters.cpu import process_seconds
from examples.lobsters.load import Connection
from gtid_tracker.gtid import GtidSet
from upwell.client import Client

REST = 0.02  # seconds without work, after which its position is asked for
PATIENCE = 120.0  # seconds
WORK = 0.001  # seconds of processor time in a REST: at most what a proxy uses that has nothing to do

# A transaction for each row: updates, inserts, deletes.
ONE_BY_ONE = f"""CREATE PROCEDURE of_one_row(number INT)
BEGIN
 DECLARE i INT DEFAULT 0;
 WHILE i < number DO
  IF i % 4 < 2 THEN UPDATE written SET amount = amount + 1 WHERE id = i % {changes.ROWS} + 1;
  ELSEIF i % 4 = 2 THEN
   INSERT INTO written VALUES (1000000 + i, {changes.group_columns("i")}, 7, 'a note of some length');
  ELSE DELETE FROM written WHERE id = 1000000 + i - 1; END IF;
  SET i = i + 1;
 END WHILE;
END"""


def schema() -> list[str]:
    return [*changes.schema(), ONE_BY_ONE]


class Changes:
    """Both sides with the case's caches, and no others on that table. `operations`: changed rows of a round."""

    note = ""

    def __init__(self, base: Side, tree: Side, connection: Connection, case: Case, operations: int) -> None:
        self._sides = base, tree
        self._connection = connection
        self._rows = case.rows_per_transaction
        self._names = [f"c{number}" for number in range(1, case.caches + 1)]
        self._held = int(changes.GROUPS * case.held)
        self._operations = operations
        for side in self._sides:
            for number, name in enumerate(self._names, 1):
                side.client.create_cache(changes.cache_sql(number), name=name, database=SCRATCH)
                for first in range(0, self._held, 100):
                    side.client.cache(name).get_many(range(first, first + 100))
            wait_until_current(side.client, connection)

    def pairs(self, count: int) -> list[Pair]:
        """So many rounds on both sides. Raises NotWhatItIsCalled where the changes do not arrive, or what was held is
        not held any more, or has other rows than MySQL."""
        found = [self._pair(number) for number in range(count)]
        for side in self._sides:
            for number, name in enumerate(self._names, 1):
                self._check(side, number, name)
        return found

    def _check(self, side: Side, number: int, name: str) -> None:
        with self._connection.cursor() as cursor:
            for key in (0, 7, max(self._held, 1) - 1):
                cursor.execute(changes.cache_sql(number).replace("?", "%s"), (key,))
                answer = side.client.cache(name).get(key)
                lost = self._held and answer.served != "hit"
                if lost or sorted(map(tuple, answer)) != sorted(cursor.fetchall()):
                    raise NotWhatItIsCalled(f"{side.tree.name}: {changes.cache_sql(number)} of {key}: {answer.served}")

    def _pair(self, number: int) -> Pair:
        found: dict[Side, float] = {}
        base, tree = self._sides
        with ExitStack() as stack:
            goes_on = {side: stack.enter_context(stopped(side.proxy.pid)) for side in self._sides}
            self._write()
            executed = GtidSet.parse(changes.scalar(self._connection, "SELECT @@GLOBAL.gtid_executed"))
            for side in self._sides[:: 1 if number % 2 else -1]:
                before = side.seconds()
                goes_on[side]()
                found[side] = (
                    at_rest(side.tree.name, side.proxy.pid, side.client, executed) - before
                ) / self._operations
        return Pair(found[base], found[tree])

    def _write(self) -> None:
        with self._connection.cursor() as cursor:
            if self._rows == 1:
                cursor.execute(f"CALL of_one_row({self._operations})")
                return
            for first in range(0, self._operations // 2, self._rows):
                last = first + self._rows - 1
                cursor.execute(f"UPDATE written SET amount = amount + 1 WHERE id BETWEEN {first + 1} AND {last + 1}")
            for first in range(0, self._operations // 4, self._rows):
                last = first + self._rows - 1
                cursor.execute(
                    f"INSERT INTO written WITH RECURSIVE n AS (SELECT {first} AS i UNION ALL SELECT i + 1 FROM n"
                    f" WHERE i < {last}) SELECT 1000000 + i, {changes.group_columns('i')}, 7, 'a note of some length'"
                    " FROM n"
                )
            for first in range(0, self._operations // 4, self._rows):
                last = first + self._rows - 1
                cursor.execute(f"DELETE FROM written WHERE id BETWEEN {1000000 + first} AND {1000000 + last}")

    def close(self) -> None:
        """Takes its caches away: the next case has others."""
        for side in self._sides:
            for name in self._names:
                side.client.drop_cache(name)


@contextmanager
def stopped(pid: int) -> Iterator[Callable[[], None]]:
    """The process does nothing until what is given back is called, or until the end."""

    def goes_on() -> None:
        os.kill(pid, signal.SIGCONT)

    os.kill(pid, signal.SIGSTOP)
    try:
        yield goes_on
    finally:
        goes_on()


def at_rest(name: str, pid: int, client: Client, executed: GtidSet) -> float:
    """The proxy's processor time when it had nothing more to do. It is asked whether it has all of `executed` only
    then: what it answers must not be in the figure. Raises NotWhatItIsCalled, which tells the `name`."""
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        used = process_seconds(pid)
        pause.wait(REST)
        if process_seconds(pid) - used < WORK and executed.issubset(GtidSet.parse(client.status().position)):
            return used
    raise NotWhatItIsCalled(f"{name}: the changes did not arrive within {PATIENCE:.0f} s")
