"""What statements do to a session, by the table (`proxy/mysql/state/effects.py`) and by MySQL's own session trackers,
which tell after each statement what its transaction has read, written and locked: random sequences, judged by MySQL.

The rules are not given what the trackers tell of transactions, so that they have only the table for that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient
from proxy.mysql.state import effects
from proxy.mysql.state.effects import Bound, Locks, OfKind, effects_of
from proxy.mysql.state.session_rules import Sent, after, ends_shown
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.text.statement_kind import Kind, classify
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_SESSION_TRACK,
    STATUS_IN_TRANS,
    lenenc,
    read_lenenc,
)
from proxy.mysql.wire.responses import Exchange, Outcome, Responses
from proxy.mysql.wire.responses import Kind as AnswerKind
from proxy.mysql.wire.tracker_entries import CHARACTERISTICS, TRANSACTION, entries

DATABASE = "statement_effects"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, n INT)",
    "INSERT INTO t VALUES (1, 1), (2, 2)",
    "CREATE FUNCTION writes(x INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO log (n) VALUES (x); RETURN x; END",
    "CREATE FUNCTION looks() RETURNS INT READS SQL DATA RETURN (SELECT MAX(n) FROM t)",
    "CREATE PROCEDURE peeks() SELECT MAX(n) FROM t",
    "CREATE PROCEDURE commits() BEGIN UPDATE t SET n = n + 1 WHERE id = 1; COMMIT; END",
    "CREATE PROCEDURE begins() BEGIN START TRANSACTION; SELECT MAX(n) FROM t; END",
    "CREATE PROCEDURE hides() BEGIN CREATE TEMPORARY TABLE hidden (id INT); END",
    "CREATE VIEW seen AS SELECT id, looks() AS n FROM t",
)
STATEMENTS = (
    *("SELECT 1", "SELECT n FROM t WHERE id = 1", "TABLE t", "VALUES ROW(1)", "WITH w AS (TABLE t) SELECT * FROM w"),
    *("SELECT n FROM t WHERE id = 1 FOR UPDATE", "SELECT n FROM t LOCK IN SHARE MODE", "SELECT n FROM t INTO @a, @b"),
    *("SELECT looks()", "SELECT writes(1)", "SELECT * FROM seen", "DO writes(2)", "SELECT @x := MAX(n) FROM t"),
    *("INSERT INTO log (n) VALUES (1)", "INSERT INTO t VALUES (1, 1)", "INSERT INTO log (n) SELECT n FROM t"),
    *("UPDATE t SET n = n + 1 WHERE id = 2", "UPDATE t SET n = n WHERE id = 99", "DELETE FROM t WHERE id = 99"),
    *("REPLACE INTO t VALUES (3, 3)", "INSERT INTO nothing VALUES (1)", "UPDATE t SET n = writes(n) WHERE id = 2"),
    *("BEGIN", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "COMMIT", "ROLLBACK"),
    *("COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE SAVEPOINT a"),
    *("SET autocommit = 0", "SET autocommit = 1", "SET @x = 1", "SET @x = (SELECT MAX(n) FROM t)", "SET NAMES utf8mb4"),
    *("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET TRANSACTION READ ONLY", "SET ROLE NONE"),
    *("USE mysql", f"USE {DATABASE}", "SHOW TABLES", "DESCRIBE t", "EXPLAIN SELECT n FROM t", "SHOW WARNINGS"),
    *("LOCK TABLES t READ", "LOCK TABLES t WRITE, log WRITE", "UNLOCK TABLES", "FLUSH TABLES t WITH READ LOCK"),
    *("CREATE TABLE made (id INT)", "DROP TABLE IF EXISTS made", "ANALYZE TABLE t", "TRUNCATE TABLE log"),
    *("CREATE TEMPORARY TABLE hidden (id INT)", "CREATE TEMPORARY TABLE hidden AS SELECT * FROM t"),
    *("DROP TEMPORARY TABLE IF EXISTS hidden", "SELECT * FROM hidden", "INSERT INTO hidden VALUES (1)"),
    *("CALL peeks()", "CALL commits()", "CALL begins()", "CALL hides()", "CALL nothing()"),
    *("PREPARE s FROM 'SELECT MAX(n) FROM t'", "PREPARE s FROM 'UPDATE t SET n = 7 WHERE id = 2'", "EXECUTE s"),
    *("DEALLOCATE PREPARE s", "HANDLER t OPEN", "HANDLER t READ FIRST", "HANDLER t CLOSE", "KILL QUERY 99999999"),
    *("BEGIN; SELECT MAX(n) FROM t", "COMMIT; BEGIN", "SET autocommit = 0; SELECT 1", "DO 0; ROLLBACK AND CHAIN"),
    *("LOCK TABLES t READ; UNLOCK TABLES", "SELECT 1; CREATE TEMPORARY TABLE IF NOT EXISTS hidden (id INT)"),
)
TRACK = (
    "SET SESSION session_track_transaction_info = 'STATE', session_track_state_change = ON, session_track_schema = ON,"
    " session_track_system_variables = '*', session_track_gtids = OWN_GTID"
)
LONG = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SEQUENCES = st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def server(mysql: Server) -> Iterator[Server]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    yield mysql
    mysql.execute(f"DROP DATABASE {DATABASE}")


@dataclass
class Told:
    """What MySQL tells of a session behind a statement. `letters`: of its transaction, in the order TrRwWsSL, those
    that stand for nothing left out; None where it has told nothing of it."""

    outcome: Outcome
    letters: frozenset[str] | None


class Unmasked(RawClient):
    """A client that keeps what MySQL's trackers say."""

    def _masked(self, data: bytes) -> bytes:
        return data


class Witness:
    """A session at MySQL itself, with all trackers on."""

    def __init__(self, server: Server) -> None:
        self._client = Unmasked(
            server.host, server.port, user=server.user, password=server.password, database=DATABASE,
            capabilities=CLIENT_DEPRECATE_EOF | CLIENT_SESSION_TRACK | CLIENT_MULTI_STATEMENTS,
        )  # fmt: skip
        self.ask(TRACK)

    def ask(self, sql: str) -> Told:
        found: list[Outcome] = []
        responses = Responses(
            lambda data: None,
            lambda payload: None,
            deprecate_eof=True,
            session_track=True,
            keep_state=lambda state: state,
        )
        responses.expect(Exchange(AnswerKind.RESULT, found.append))
        responses.feed(self._client.query(sql))
        (outcome,) = found
        letters: frozenset[str] | None = None
        kept = b""
        for kind, data in entries(outcome.state):
            if kind == TRANSACTION:
                letters = frozenset(read_lenenc(data, 0)[0].decode()) - {"_"}
            elif kind != CHARACTERISTICS:
                kept += bytes((kind,)) + lenenc(data)
        outcome.state = kept
        return Told(outcome, letters)

    def hides(self) -> bool:
        """Whether the session has a temporary table of the name that the statements use."""
        self.ask(f"USE {DATABASE}")
        return b"CREATE TEMPORARY" in self._client.query("SHOW CREATE TABLE hidden")

    def close(self) -> None:
        self._client.close()


def differences(server: Server, sequence: Sequence[str]) -> list[str]:
    """Where MySQL knows of something that the rules do not, behind each statement."""
    witness = Witness(server)
    state = SessionState(known=True, database=DATABASE)
    state.variables.values["completion_type"] = "NO_CHAIN"
    found: list[str] = []
    letters: frozenset[str] = frozenset()
    try:
        for sql in sequence:
            state.known = state.token_known = True  # what is asked anew is not what is judged here
            now = state.transaction
            found_effects, sent = effects_of(classify(sql)), Sent(now.transactional, now.autocommit)
            was_in = now.in_transaction
            told = witness.ask(sql)
            failed = told.outcome.error is not None
            before = letters
            after(state, found_effects, sent, told.outcome)
            ended = ends_shown(state, found_effects, sent, failed=failed)
            doubted = not state.known
            letters = letters if told.letters is None else told.letters
            if failed:  # an error tells nothing: the next OK packet brings what has gathered
                told = witness.ask("DO 0")
                state.absorb(told.outcome)
                letters = letters if told.letters is None else told.letters
            if doubted:  # all of it is asked before the next read
                state.transaction.touched = state.transaction.wrote = state.transaction.in_transaction
                state.transaction.locked = "L" in letters
                continue
            found += [f"{sql}: {what}" for what in unknown(state, letters)]
            # Of a transaction that goes on the letters stay. CREATE TEMPORARY TABLE alone has MySQL forget them all,
            # and tell of that transaction no more.
            lost = bool(letters) and before - letters - {"T", "I", "S", "s"}
            if was_in and (lost or not state.transaction.in_transaction) and not ended:
                found.append(f"{sql}: the transaction before has ended")
        if witness.hides() and not state.hiding:
            found.append("a temporary table is there")
    finally:
        witness.close()
    return found


def unknown(state: SessionState, letters: frozenset[str]) -> Iterator[str]:
    """What MySQL tells of the transaction under way, and the rules do not know."""
    if state.transaction.flags & STATUS_IN_TRANS:
        if "R" in letters and not state.transaction.touched:
            yield "rows were read"
        if letters & {"w", "W"} and not state.transaction.wrote:
            yield "rows were written or locked"
    if "L" in letters and not state.transaction.locked:
        yield "tables are locked"


@LONG
@given(SEQUENCES)
def test_the_rules_know_what_mysql_knows(server: Server, sequence: list[str]) -> None:
    assert not differences(server, sequence)


def sequences() -> Iterator[list[str]]:
    """Each statement behind some beginnings of transactions."""
    read, write = "SELECT n FROM t WHERE id = 1", "UPDATE t SET n = n + 1 WHERE id = 2"
    for first in (
        [],
        ["BEGIN"],
        ["BEGIN", read],
        ["BEGIN", write],
        ["SET autocommit = 0"],
        ["SET autocommit = 0", read],
    ):
        for statement in STATEMENTS:
            yield [*first, statement, "SELECT 1", "COMMIT"]


def test_each_statement_in_a_transaction(server: Server) -> None:
    for sequence in sequences():
        assert not differences(server, sequence), sequence


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Kind.WRITE, {"locks": Locks.NEVER}),
        (Kind.LOCKING_READ, {"locks": Locks.NEVER}),
        (Kind.COMMIT, {"bound": Bound.NONE}),
        (Kind.ROLLBACK, {"bound": Bound.NONE}),
        (Kind.BEGIN, {"bound": Bound.NONE}),
        (Kind.LOCK_TABLES, {"table_locks": None}),
        (Kind.TEMPORARY, {"temporary": False}),
    ],
    ids=lambda item: item.value if isinstance(item, Kind) else next(iter(item)),
)
def test_a_row_of_the_table_that_is_wrong_is_found(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: Kind, change: dict[str, object]
) -> None:
    wrong: dict[Kind, OfKind] = {**effects.OF_KINDS, kind: dataclasses.replace(effects.OF_KINDS[kind], **change)}  # type: ignore[arg-type]
    monkeypatch.setattr(effects, "OF_KINDS", wrong)
    assert any(differences(server, sequence) for sequence in sequences())
