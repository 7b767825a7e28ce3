"""Sessions over MySQL's protocol that write and at once read what they wrote, and one whose rights change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pymysql

from integration.hammer import own
from integration.hammer.judge import STALE, Finding, parse
from integration.hammer.own import a_write
from integration.hammer.session_judge import RIGHTS
from integration.hammer.sessions import PASSED_ON, THIRD, Common, SessionWorker, Stopped, text_of
from integration.hammer.tables import DATABASE, VERSIONED
from integration.hammer.writers import RECONNECT, Tracked

DENIED = frozenset({1142, 1143})
ROLE = "reading"
STAR = VERSIONED["star"]
GONE = -1  # in the place of a version: the row is not there for a moment
NO_SUCH_GRANT = 1147
RESET = 0.05  # of the turns: a new session, on the same connection
EXPLAINED = 0.4  # of the answers
NEW_LOGIN = 0.3  # of the turns
PATIENCE = 60.0  # seconds in which the stream must bring a change of rights


class OwnWriter(SessionWorker):
    """Writes rows that nobody else does, and reads them: exactly what it wrote, whoever answers."""

    kind = "own writes"

    def __init__(self, common: Common, owner: int, seed: str, *, eof: bool) -> None:
        super().__init__(common, f"{seed} {owner}", eof=eof)
        self._owner = owner
        # What each key's version may be: one, or two while it is not known whether a write was done.
        self._may = dict.fromkeys(own.keys_of(owner), frozenset({0}))
        self._next = 0
        self._before = 0  # the thread at MySQL of the session before
        self._begun_anew = True
        self._manners: Sequence[str] = own.PLAIN
        self._hot = True  # it reads by one prepared statement only, again and again, which is the quickest way

    def begun(self) -> None:
        """Settles what the session before has left in doubt, once MySQL has ended that one. At the beginning of a lap
        the versions are those that the lap before has left. Then all is written anew: a session is promised what it has
        written itself, and not what the session before has."""
        if self._before:
            gone = f"SELECT id FROM information_schema.processlist WHERE id = {self._before}"
            while self.common.server.execute(gone) and not self.stop.is_set():
                self.stop.wait(RECONNECT)
        self._before = self._thread
        for key in self._may:
            found = self.ask(f"SELECT version FROM own WHERE k = {key} FOR UPDATE")
            version = found[0][0] if found else GONE
            if not self._begun_anew and version not in self._may[key]:
                what = f"key {key} is at {version}, {sorted(self._may[key])} was written"
                self.findings.append(Finding("lost", what))
            self._next = max(self._next, version) + 1
            self._may[key] = frozenset({version, self._next})
            self.ask(f"REPLACE INTO own VALUES ({key}, {self._owner}, {self._next})")
            self._may[key] = frozenset({self._next})
        self._begun_anew = False

    def turn(self) -> None:
        if self.rng.random() < RESET:
            self.client.reset()
            self._begin_anew()
            self._manners = self.rng.choice((own.PLAIN, list(own.MANNERS)))
            self._hot = self.rng.random() < 0.5
        key = self.rng.choice(list(self._may))
        self._next += 1
        name, write = a_write(self.rng, self._manners, key, self._owner, self._next)
        before = self._may[key]
        self._may[key] = before | {self._next, GONE}
        for number, text in enumerate(write.texts, 1):
            try:
                self.ask(text)
            except pymysql.MySQLError as error:
                if error.args[0] not in own.EXPECTED:
                    raise
            if number == write.inside:
                self._read(key, self._next, f"{name}, not committed")
        self._may[key] = frozenset({self._next}) if write.kept else before
        for _ in range(self.rng.randint(1, 4)):
            (version,) = self._may[key]
            self._read(key, version, name)
        self.tally["own writes"] += 1
        self.tally[f"own writes: {name}"] += 1

    def _read(self, key: int, version: int, how: str) -> None:
        """Reads the key by one of the caches. Not each answer is explained: else none would come the quick way."""
        wanted: dict[str, tuple[object, ...]] = {"own": (version,)}
        if not self._hot and all(len(may) == 1 for other, may in self._may.items() if other != key):
            others = {other: next(iter(may)) for other, may in self._may.items() if other != key}
            wanted["own_sum"] = (own.KEYS, sum(others.values()) + version)
            wanted["own_list"] = tuple(sorted([*others.items(), (key, version)]))
        name = self.rng.choice(list(wanted))
        parameters = {"own": key, "own_sum": self._owner, "own_list": list(self._may)}[name]
        rows = self.fetch(own.CACHES[name], (parameters,), passed=False, prepared=self._hot)
        got = tuple(sorted(rows)) if name == "own_list" else rows[0] if len(rows) == 1 else tuple(rows)
        served, reason, position = "not explained", "", ""
        if got != wanted[name] or self.rng.random() < (EXPLAINED / 4 if self._hot else EXPLAINED):
            served, reason, position = self.explained()
        self.tally["own writes answers"] += 1
        self.tally[f"own writes {served}"] += 1
        if got != wanted[name]:
            what = f"{name} of {parameters} behind {how}: {got}, not {wanted[name]}; {served} {reason} at {position}"
            self.findings.append(Finding(STALE, what))


class RightsChanger(SessionWorker):
    """An account that may read a table, and then may not: no answer is given from the moment at which the stream has
    brought that; and none to a session that has laid down its role."""

    user = THIRD
    kind = "rights"

    def begun(self) -> None:
        """A session that was ended may have left the right behind."""
        try:
            self._change(f"REVOKE SELECT ON {DATABASE}.heads FROM {THIRD}")
        except pymysql.MySQLError as error:
            if error.args[0] != NO_SUCH_GRANT:
                raise

    def turn(self) -> None:
        """Now and then of a new session: whether MySQL has read rights anew is in doubt once they have changed behind
        a login, and a doubt is one session's own."""
        if self.rng.random() < NEW_LOGIN:
            self.close()
            self._connect()
        if self.rng.random() < 0.5:
            self._change(f"GRANT SELECT ON {DATABASE}.heads TO {THIRD}")
            self._allowed()
            self._change(f"REVOKE SELECT ON {DATABASE}.heads FROM {THIRD}")
        else:
            self.ask(f"SET ROLE {ROLE}")
            self._allowed()
            self.ask("SET ROLE NONE")
        self._denied()
        self.tally["rights changed"] += 1

    def _change(self, sql: str) -> None:
        """As root, and waits until the stream has brought it."""
        tracked = Tracked(self.common.server)
        try:
            tracked.run(sql)
            gtid = tracked.gtid()
        finally:
            tracked.close()
        waited = 0.0
        other = self.connected()  # of the session itself nothing is asked, so its hits may still go the quick way
        try:
            while gtid not in parse(other.query("SHOW UPWELL STATUS LIKE 'position'")[0][1]):
                self.stop.wait(RECONNECT)
                waited += RECONNECT
                if self.stop.is_set():
                    raise Stopped
                if waited > PATIENCE:
                    raise pymysql.err.OperationalError(2013, "the stream has not brought a change of rights")
        finally:
            other.close()

    def _reads(self) -> list[Callable[[], object]]:
        """By text, by prepared statement, by MySQL itself."""
        parameters = STAR.ask(self.rng, self.rng.randrange(3))
        return [
            lambda: self.ask(text_of(STAR.sql, parameters)),
            lambda: self.fetch(STAR.sql, parameters, passed=False),
            lambda: self.ask(text_of(STAR.sql, parameters) + PASSED_ON),
        ]

    def _allowed(self) -> None:
        for read in (*self._reads(), *self._reads(), *self._reads()):
            read()
            served, _, _ = self.explained()
            self.tally["rights answers"] += 1
            self.tally[f"rights {served}"] += 1
        for read in self._reads()[:2] * 2:
            read()
            self.tally["rights not explained"] += 1

    def _denied(self) -> None:
        for read in self._reads():
            try:
                rows = read()
            except pymysql.MySQLError as error:
                if error.args[0] not in DENIED:
                    raise
                self.tally["rights refused"] += 1
            else:
                self.findings.append(Finding(RIGHTS, f"who may not read is answered {rows}: {self.explained()}"))
