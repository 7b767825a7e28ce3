"""Who writes: transactions that put one version into many rows, and pages of the sample.

Half of the versioned writers choose their GTIDs (the GTID is owned from the start of the transaction), half let MySQL
give them at the commit, and learn them from the session's tracker.
"""

from __future__ import annotations

import random
import re
import threading
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from gtid_tracker.gtid import Gtid
from integration.hammer.judge import Finding, Group, History
from integration.hammer.tables import DATABASE, GROUPS, KEYS, PARTS, TOKENS, keys_of
from integration.servers.mysql_server import Server

PAUSE = 0.006  # seconds between transactions, on average
RECONNECT = 0.05
ROLLBACKS = 0.12
_GTID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+")
# FLUSH TABLES waits for who waits for a row, and its lock's owner waits for FLUSH TABLES: MySQL sees no deadlock there.
IMPATIENT = "innodb_lock_wait_timeout = 1"
# A transaction that another one, a DDL statement or a lock was in the way of: begun anew by an application.
IN_THE_WAY = frozenset({1205, 1213, 1412, 1062})

Statement = Callable[[str], Any]


class Tracked:
    """A connection that says which GTID its last statement was given."""

    def __init__(self, server: Server) -> None:
        self.connection = server.connect(database=DATABASE, client_flag=CLIENT.SESSION_TRACK)
        self._cursor = self.connection.cursor()
        self.run(f"SET SESSION session_track_gtids = OWN_GTID, {IMPATIENT}")

    def run(self, sql: str) -> tuple[tuple[Any, ...], ...]:
        self._cursor.execute(sql)
        return tuple(self._cursor.fetchall())

    def gtid(self) -> Gtid:
        """Of the transaction that the last statement committed."""
        result: Any = getattr(self.connection, "_result")  # noqa: B009 - PyMySQL keeps the OK packet's rest there only
        found = _GTID.search(result.message or b"")
        assert found is not None, f"no GTID in the answer {result.message!r}"
        return Gtid.parse(found[0].decode())

    def close(self) -> None:
        self.connection.close()


class Worker(threading.Thread, ABC):
    """Does `step` again and again until stopped. What goes wrong that is nobody's disturbance is a finding."""

    def __init__(self, name: str, findings: list[Finding], tally: Counter[str]) -> None:
        super().__init__(name=name, daemon=True)
        self.stop = threading.Event()
        self.findings = findings
        self.tally = tally

    @abstractmethod
    def step(self) -> None:
        """What is done again and again."""

    def close(self) -> None:
        """Called at the end, on the thread."""

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.step()
            self.close()
        except Exception as error:  # noqa: BLE001 - the top level of a thread
            self.findings.append(Finding("broken", f"{self.name}: {type(error).__name__}: {error}"))


class VersionWriter(Worker):
    """Writes a new version of a random group: in all of its rows, in one transaction."""

    def __init__(
        self, server: Server, history: History, number: int, seed: str, findings: list[Finding], tally: Counter[str]
    ) -> None:
        super().__init__(f"writer {number}", findings, tally)
        self._server, self._history = server, history
        self._rng = random.Random(f"{seed} writer {number}")
        self._uuid = str(uuid.uuid4()) if number % 2 == 0 else ""
        self._number = 1
        self._open: Tracked | None = None

    def step(self) -> None:
        self.stop.wait(self._rng.uniform(0, 2 * PAUSE))
        # A few groups are written often.
        group = min(self._rng.randrange(GROUPS), self._rng.randrange(GROUPS))
        try:
            if self._open is None:
                self._open = self._reconnect()
            self._transaction(self._open, group)
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in IN_THE_WAY:
                self.tally["writes in the way"] += 1
            else:
                self.tally["writes that lost their connection"] += 1
            self.close()
            self.stop.wait(RECONNECT)

    def close(self) -> None:
        if self._open is not None:
            connection, self._open = self._open.connection, None
            if connection.open:
                connection.close()

    def _reconnect(self) -> Tracked:
        tracked = Tracked(self._server)
        if self._uuid:  # whether the last COMMIT came through decides which number is next
            ((executed,),) = tracked.run(f"SELECT GTID_SUBSET('{self._uuid}:{self._number}', @@GLOBAL.gtid_executed)")
            self._number += executed
        return tracked

    def _transaction(self, tracked: Tracked, group: Group) -> None:
        own = Gtid(self._uuid, self._number) if self._uuid else None
        if own is not None:
            tracked.run(f"SET gtid_next = '{own}'")
        tracked.run("BEGIN")
        ((found,),) = tracked.run(f"SELECT version FROM heads WHERE k = {keys_of(group)[0]} FOR UPDATE")
        version = self._history.begin(group, found, own)
        try:
            for statement in statements(self._rng, group, version):
                tracked.run(statement)
            if self._rng.random() < ROLLBACKS:
                self._history.rolled_back(group, version)
                tracked.run("ROLLBACK")
                self.tally["rollbacks"] += 1
                return
            self._history.committing(group, version)
            tracked.run("COMMIT")
            self._history.committed(group, version, own or tracked.gtid())
            self._number += 1
            self.tally["transactions"] += 1
        except pymysql.MySQLError:
            self._history.lost_sight(group, version)
            raise


def statements(rng: random.Random, group: Group, version: int) -> list[str]:
    """What puts `version` into every row of the group, in a random order and manner."""
    keys = keys_of(group)
    span = f"k BETWEEN {keys[0]} AND {keys[-1]}"
    body = [f"UPDATE {table} SET version = {version} WHERE {span}" for table in ("heads", "shown", "hidden")]
    body += [f"UPDATE pieces SET version = {version} WHERE id = {k * PARTS + part}" for k in keys for part in range(3)]
    token = group * TOKENS + rng.randrange(TOKENS)
    ids = f"id BETWEEN {group * TOKENS} AND {(group + 1) * TOKENS - 1}"
    body += [f"UPDATE tokens SET version = {version}, k = IF(id = {token}, {rng.choice(keys)}, k) WHERE {ids}"]
    rng.shuffle(body)
    key = rng.choice(keys)
    match rng.randrange(6):
        case 0:  # gone and back
            rows = ", ".join(f"({key * PARTS + part}, {key}, {part}, {version})" for part in range(PARTS))
            body += [f"DELETE FROM pieces WHERE k = {key}", f"INSERT INTO pieces VALUES {rows}"]
        case 1:  # values that nobody may see
            body[0:0] = [f"UPDATE {table} SET version = -{version} WHERE {span}" for table in ("pieces", "heads")]
        case 2:  # at another key for a while
            body += [f"UPDATE pieces SET k = {key + KEYS * GROUPS} WHERE k = {key}"]
            body += [f"UPDATE pieces SET k = {key} WHERE k = {key + KEYS * GROUPS}"]
        case 3:  # a part of the transaction is undone
            undone = [
                f"UPDATE pieces SET version = {version} + 1000000 WHERE {span}",
                f"DELETE FROM tokens WHERE {ids}",
            ]
            body[2:2] = ["SAVEPOINT here", *undone, "ROLLBACK TO here"]
        case 4:  # rows that no cache of a group shows
            body += ["UPDATE lobsters.users SET karma = karma + 1 WHERE id = 1"]
            body += [f"UPDATE lobsters.stories SET hotness = hotness + 0.5 WHERE id = {rng.randint(1, 40)}"]
    return body
