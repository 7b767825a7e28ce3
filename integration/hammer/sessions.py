"""Who reads over MySQL's protocol: in autocommit and in transactions, by text and by prepared statement, in both of the
protocol's dialects. Each answer is judged when it comes, alone and behind those before it.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import pymysql

from integration.hammer.judge import MUST_COUNT, SWAPS, Finding, Group, History, Seen, judge
from integration.hammer.readers import INTERRUPTED, Trouble, shows
from integration.hammer.session_judge import LOCKED, NOT_COUNTED, Floor, OneState, stale
from integration.hammer.tables import DATABASE, GROUPS, VERSIONED
from integration.hammer.writers import IMPATIENT, IN_THE_WAY, RECONNECT, Worker
from integration.servers.mysql_server import Server
from integration.support.wire_client import Prepared, Row, WireClient

APP, THIRD = "app", "third"  # accounts, both without a password
PATIENCE = 60.0  # seconds in which an answer must come
PAUSE = 0.004  # seconds between reads, on average
LOST = frozenset({1040, 1053, 1105, 1927, 2003, 2006, 2013, 3032, 4031})
# A prepared statement met DDL or FLUSH TABLES too often; semi-synchronous replication was switched in a transaction.
BEGUN_ANEW = IN_THE_WAY | {1615, 3100}
AHEAD = "held ahead of the position"
CHANGED = "what the REPEATABLE READ transaction was shown has changed"
PASSED_ON = " /* upwell: skip */"
NOTHING: Mapping[Group, int] = {}
SWITCHES = (
    "SET NAMES utf8mb4",
    "SET sql_mode = DEFAULT",
    "SET @x = 1",
    f"USE {DATABASE}",
    "SELECT 1; SELECT 2",
    "DO 0",
    "SHOW WARNINGS",
    "SET SESSION session_track_schema = OFF",
    "CREATE TEMPORARY TABLE IF NOT EXISTS aside SELECT 1",
    "SELECT DATABASE(), FOUND_ROWS()",
)


@dataclass(frozen=True, slots=True)
class Common:
    """What all sessions of a lap share. `port`: of the proxy's MySQL listener."""

    server: Server
    port: int
    history: History
    trouble: Trouble
    findings: list[Finding]
    tally: Counter[str]


class Stopped(Exception):
    """The worker was told to stop in the middle of a turn."""


def literal(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def text_of(sql: str, parameters: Sequence[Any]) -> str:
    """The query with its parameters in it."""
    for value in parameters:
        sql = sql.replace("?", literal(value), 1)
    return sql


def marks_of(sql: str, parameters: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    """The query as it is prepared, a mark a value; and the values."""
    marked, values = "", []
    for value in parameters:
        before, _, sql = sql.partition("?")
        several = value if isinstance(value, list) else [value]
        marked += before + ", ".join("?" * len(several))
        values += several
    return marked + sql, tuple(values)


class SessionWorker(Worker):
    """A session with the proxy, and another one when that has ended."""

    user = APP
    kind = "session"
    isolation = ""
    one_state = False  # all that MySQL answers in a transaction is of one snapshot

    def __init__(self, common: Common, seed: str, *, eof: bool) -> None:
        super().__init__(f"{self.kind} {seed}", common.findings, common.tally)
        self.common, self.history = common, common.history
        self.rng = random.Random(f"{self.kind} {seed}")
        self._eof = eof
        self._open: WireClient | None = None
        self._since = self._begun = 0.0  # when the session, and its statement under way, began
        self._prepared: dict[str, Prepared] = {}
        self.floor = Floor()
        self._asked = ""
        self._thread = 0  # at MySQL
        self._by_prepared = False  # the last read
        self._reason = ""  # of the last answer that was explained

    @abstractmethod
    def turn(self) -> None:
        """What is done again and again, in one session as long as it lasts."""

    def step(self) -> None:
        self.stop.wait(self.rng.uniform(0, 2 * PAUSE))
        try:
            if self._open is None:
                self._connect()
            self.turn()
        except Stopped:
            pass
        except (pymysql.MySQLError, OSError, ValueError) as error:
            self._refused(error)

    def _connect(self) -> None:
        self._since = self._begun = monotonic()
        self._open = self.connected()
        self._begin_anew()
        self.ask(f"SET SESSION {IMPATIENT}")
        if self.isolation:
            self.ask(f"SET SESSION TRANSACTION ISOLATION LEVEL {self.isolation}")
        self.tally["sessions"] += 1
        ((self._thread,),) = self.ask("SELECT CONNECTION_ID()")
        self.begun()

    def connected(self) -> WireClient:
        """A session of the account with the proxy."""
        return WireClient(
            eof=self._eof,
            patience=PATIENCE,
            host="127.0.0.1",
            port=self.common.port,
            user=self.user,
            database=DATABASE,
        )

    def begun(self) -> None:
        """A session has begun."""

    def _begin_anew(self) -> None:
        self._prepared = {}
        self.floor = Floor()

    def _refused(self, error: Exception) -> None:
        """The session or a statement of it has failed: excused by a disturbance, or a finding."""
        number = error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else 2013
        if isinstance(error, TimeoutError):
            number = 0
        until = self.common.trouble.until
        if number in BEGUN_ANEW:
            self.tally["statements of sessions in the way"] += 1
        elif (number in LOST and self._since < until) or (number in INTERRUPTED and self._begun < until):
            self.tally["sessions that ended while something was down"] += 1
        else:
            what = f"{self.name}, asked for {self._asked[:200]}: {type(error).__name__}: {error}"
            self.findings.append(Finding("error", what + (self._at_mysql() if number == 0 else "")))
        self.close()
        self.stop.wait(RECONNECT)

    def _at_mysql(self) -> str:
        """What MySQL is doing for the session, and for the proxy."""
        of = f"user IN ('{self.user}', 'proxy') AND command != 'Sleep'"
        rows = self.common.server.execute(f"SELECT * FROM information_schema.processlist WHERE {of}")
        return "".join(f"\n  {row}" for row in [(self._thread, "is its own"), *rows])

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None

    # -- statements ----------------------------------------------------------------------------------------------------

    @property
    def client(self) -> WireClient:
        assert self._open is not None
        return self._open

    def ask(self, sql: str) -> list[Row]:
        self._begun, self._asked = monotonic(), sql
        return self.client.query(sql)

    def fetch(self, query: str, parameters: tuple[Any, ...], *, passed: bool, prepared: bool = False) -> list[Row]:
        """The rows, by text or by prepared statement."""
        self._by_prepared = not passed and (prepared or self.rng.random() < 0.5)
        if not self._by_prepared:
            return self.ask(text_of(query, parameters) + (PASSED_ON if passed else ""))
        sql, values = marks_of(query, parameters)
        self._begun, self._asked = monotonic(), sql
        typed = sql not in self._prepared
        if typed:
            self._prepared[sql] = self.client.prepare(sql)
        return self.client.execute(self._prepared[sql], *values, typed=typed or self.rng.random() < 0.2)

    def explained(self) -> tuple[str, str, str]:
        """Of the last statement: served, reason, position."""
        served, _, reason, position = self.ask("EXPLAIN LAST STATEMENT")[0]
        return served, reason or "", position or ""

    def answer(self, name: str, group: Group, *, passed: bool = False) -> Seen:
        """Reads a key of that group from the cache, has it explained, and judges it alone."""
        parameters = VERSIONED[name].ask(self.rng, group)
        before = {number: self.history.last(number) for number in (*range(GROUPS), SWAPS)}
        rows = self.fetch(VERSIONED[name].sql, parameters, passed=passed)
        served, self._reason, position = self.explained()
        at_position = served == "hit" and self._reason != AHEAD
        found = told(name, parameters, rows, served, position, before, bounded=at_position)
        found = replace(found, chosen=passed, prepared=self._by_prepared)
        # In REPEATABLE READ what MySQL answers is as old as the transaction's snapshot.
        self.findings += judge(self.history, replace(found, before=NOTHING) if self.one_state else found)
        self.tally[f"{self.kind} answers"] += 1
        self.tally[f"{self.kind} {served}"] += 1
        if served == "passed":
            self.tally[f"{self.kind} passed because {self._reason.partition(':')[0]}"] += 1
        return found

    def unexplained(self, name: str, group: Group) -> None:
        """A read of which nothing is told: it is no mix, was committed, and is not older than what was shown before."""
        parameters = VERSIONED[name].ask(self.rng, group)
        rows = self.fetch(VERSIONED[name].sql, parameters, passed=False)
        found = told(name, parameters, rows, "unknown")
        wrong = judge(self.history, found) + self.floor.judge(self.history, found, Counter())
        if wrong:
            self.findings += [*wrong, Finding("explained", f"{self.explained()}; before: {self.floor}")]
        self.tally[f"{self.kind} answers"] += 1
        self.tally[f"{self.kind} not explained"] += 1


def told(
    name: str,
    parameters: tuple[Any, ...],
    rows: list[Row],
    served: str,
    position: str = "",
    before: Mapping[Group, int] = NOTHING,
    *,
    bounded: bool = False,
) -> Seen:
    """An answer as the judges take it."""
    shown, sides, wrong = shows(name, parameters, rows)
    return Seen(name, parameters, served, position, shown, sides, wrong, before, rows=rows, bounded=bounded)


def a_group(rng: random.Random) -> Group:
    """A few groups are written, and so read, often."""
    return min(rng.randrange(GROUPS), rng.randrange(GROUPS))


class AutocommitReader(SessionWorker):
    """Reads in autocommit. Several reads come before one that is explained: else no hit would go the quick way."""

    kind = "autocommit"

    def turn(self) -> None:
        chance = self.rng.random()
        if chance < 0.03:
            self._switch()
            return
        one = a_group(self.rng) if self.rng.random() < 0.5 else None  # what goes back, goes back in a group
        for _ in range(self.rng.randrange(4)):
            self.unexplained(self.rng.choice(list(VERSIONED)), a_group(self.rng) if one is None else one)
        name = self.rng.choice(list(VERSIONED))
        found = self.answer(name, a_group(self.rng) if one is None else one, passed=chance > 0.85)
        self.findings += self.floor.judge(self.history, found, self.tally)
        if found.served == "passed":
            self.findings += stale(found, found.before)

    def _switch(self) -> None:
        """Something that changes the session, or only seems to."""
        match self.rng.randrange(4):
            case 0:
                self.client.reset()
                self._begin_anew()
            case 1:
                self.client.change_user(APP, DATABASE)
                self._begin_anew()
            case 2:
                self.close()
                return
            case _:
                self.ask(self.rng.choice(SWITCHES))
        self.tally["sessions switched"] += 1


class TransactionReader(SessionWorker):
    """REPEATABLE READ: as long as caches answer, all of it is one state; once MySQL has, all of that is."""

    kind = "repeatable read"
    isolation = "REPEATABLE READ"
    one_state = True

    def turn(self) -> None:
        names = self.rng.sample(list(VERSIONED), 4)
        groups = [self.rng.randrange(GROUPS) for _ in range(3)]
        for name in names:  # what is held already may be hit
            for group in groups:
                self.unexplained(name, group)
        if self.rng.random() < 0.3:  # no snapshot is left of the transaction before
            found = self.answer(names[0], groups[0], passed=True)
            self.findings += self.floor.judge(self.history, found, self.tally) + stale(found, found.before)
        by_autocommit = self.rng.random() < 0.5
        self.ask("SET autocommit = 0" if by_autocommit else "START TRANSACTION")
        state = OneState()
        for _ in range(self.rng.randint(2, 9)):
            passed = self.rng.random() < 0.12
            if passed:
                ((_, position),) = self.ask("SHOW UPWELL STATUS LIKE 'position'")
                state.before_passing(self.history, position)
            found = self.answer(self.rng.choice(names), self.rng.choice(groups), passed=passed)
            state.changed |= not state.opened and self._reason == CHANGED
            if not state.has_told(found):
                self.findings += self.floor.judge(self.history, found, self.tally)
            self.findings += state.judge(self.history, found)
            self.stop.wait(self.rng.choice((0, 0, 0.002, 0.02)))
        self.ask(self.rng.choice(("COMMIT", "ROLLBACK")))
        if by_autocommit:
            self.ask("SET autocommit = 1")
        self._count(state)

    def _count(self, state: OneState) -> None:
        how = "of hits only" if not state.opened else "of MySQL only" if not state.hits else "of both"
        self.tally[f"{self.kind} transactions {how}"] += 1
        self.tally["mixed snapshots seen"] += state.mixed
        self.tally[MUST_COUNT] += state.must_count


class CommittedReader(SessionWorker):
    """READ COMMITTED: each answer is the newest state, until the transaction locks; then all is MySQL's."""

    kind = "read committed"
    isolation = "READ COMMITTED"

    def turn(self) -> None:
        self.ask("BEGIN")
        locked = False
        for _ in range(self.rng.randint(2, 7)):
            if self.rng.random() < 0.1:
                self.ask(f"SELECT k FROM own WHERE k = {self.rng.randrange(12)} FOR SHARE")
                locked = True
            name = self.rng.choice(list(VERSIONED))
            found = self.answer(name, a_group(self.rng), passed=self.rng.random() < 0.1)
            self.findings += self.floor.judge(self.history, found, self.tally)
            if found.served == "passed":
                self.findings += stale(found, found.before)
            elif locked:
                self.findings.append(Finding(LOCKED, "a cache answers in a transaction that has locked", found))
        self.ask(self.rng.choice(("COMMIT", "ROLLBACK")))
        self.tally[f"{self.kind} transactions"] += 1


def not_counted(tally: Counter[str], counted: int) -> list[Finding]:
    """Mixed snapshots that the proxy must have counted, and has not."""
    must = tally[MUST_COUNT]
    if counted >= must:
        return []
    return [Finding(NOT_COUNTED, f"{must} transactions had a mixed snapshot, {counted} are counted")]
