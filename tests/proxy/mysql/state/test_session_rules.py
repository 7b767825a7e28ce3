"""What a statement that MySQL has answered leaves of a session, without a session: examples of each rule.

That these are MySQL's, `integration/sessions/test_mysql_sessions.py`,
`integration/transactions/test_mysql_transactions.py` and `integration/transactions/test_kinds_of_transactions.py` show.
"""

from __future__ import annotations

from typing import Any

import pytest

from proxy.mysql.state.effects import Effects, effects_of
from proxy.mysql.state.rights_read import RightsRead
from proxy.mysql.state.session_rules import Sent, after, ends_shown, untold
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import ASKED
from proxy.mysql.state.transaction_state import TransactionState
from proxy.mysql.text.statement_kind import classify
from proxy.mysql.wire.packets import STATUS_AUTOCOMMIT, STATUS_IN_TRANS, ErrorAnswer
from proxy.mysql.wire.responses import NO_STATUS, Outcome
from proxy.port.accounts import Accounts
from tests.support.session_states import hold, session_state

READ = RightsRead((3, 3, 3), (0.0, 0.0, 0.0))
ALONE, IN_ONE, OFF = STATUS_AUTOCOMMIT, STATUS_AUTOCOMMIT | STATUS_IN_TRANS, 0
FAILED = 0  # of flags: an error, which tells none


def left_by(sql: str, before: int, then: int, *, errno: int = 0, eof: bool = False, **held: Any) -> SessionState:
    """A session that had the flags `before`, MySQL has answered this with the flags `then`, or with an error."""
    return answered(sql, before, then, errno=errno, eof=eof, **held)[0]


def transaction_by(sql: str, before: int, then: int, **held: Any) -> TransactionState:
    """As `left_by`, of its transaction."""
    return left_by(sql, before, then, **held).transaction


def answered(
    sql: str, before: int, then: int, *, errno: int = 0, eof: bool = False, **held: Any
) -> tuple[SessionState, Effects, Sent]:
    state = session_state(known=True, eof=eof, values={"completion_type": "NO_CHAIN"})
    state.transaction.on_status(before)
    hold(state, **held)
    effects, sent = effects_of(classify(sql)), Sent(state.transaction.transactional, state.transaction.autocommit)
    error = ErrorAnswer(errno, "HY000", "no") if errno else None
    after(state, effects, sent, Outcome(NO_STATUS if errno else then, error, b"", []))
    return state, effects, sent


@pytest.mark.parametrize(
    ("sql", "before", "then", "touched", "wrote"),
    [
        ("SELECT id FROM t", IN_ONE, IN_ONE, True, False),
        ("SELECT id FROM t", ALONE, ALONE, False, False),
        ("SELECT 1", IN_ONE, IN_ONE, False, False),
        ("SELECT id FROM t FOR UPDATE", IN_ONE, IN_ONE, True, True),
        ("INSERT INTO t VALUES (1)", IN_ONE, IN_ONE, True, True),
        ("INSERT INTO t VALUES (1)", ALONE, ALONE, False, False),
        ("SELECT f(id) FROM t", IN_ONE, IN_ONE, True, True),
        ("SET @x = (SELECT MAX(id) FROM t)", IN_ONE, IN_ONE, True, True),
    ],
)
def test_what_a_statement_does_to_its_transaction(sql: str, before: int, then: int, touched: bool, wrote: bool) -> None:
    state = left_by(sql, before, then)
    assert (state.transaction.touched, state.transaction.wrote) == (touched, wrote)


def test_a_statement_with_an_error_has_done_what_it_may_have_done() -> None:
    state = left_by("INSERT INTO t VALUES (1)", IN_ONE, FAILED, errno=1062)
    assert (state.transaction.touched, state.transaction.wrote, state.known) == (True, True, False)
    assert not left_by("CREATE TABLE t (id INT)", ALONE, FAILED, errno=1050).known
    assert not left_by("INSERT INTO t VALUES (1)", IN_ONE, FAILED, errno=1213).known, "the transaction may be over"


@pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK"])
def test_an_end_leaves_nothing_of_the_transaction(sql: str) -> None:
    told = transaction_by(sql, IN_ONE, ALONE, touched=True, wrote=True, saved=True, unsettled=True)
    assert not (told.touched or told.wrote or told.saved or told.unsettled) and told.vacant
    told = transaction_by("BEGIN", IN_ONE, IN_ONE, touched=True, wrote=True)
    assert not (told.touched or told.wrote or told.vacant)
    assert not transaction_by(f"{sql} AND CHAIN", IN_ONE, IN_ONE).vacant


def test_a_kind_that_is_changed_in_a_transaction_is_not_yet_the_next_ones() -> None:
    changed = "SET SESSION transaction_isolation = 'READ-COMMITTED'"
    assert not transaction_by(changed, ALONE, ALONE, kind_changed=True).unsettled
    for before, then in ((IN_ONE, IN_ONE), (OFF, OFF)):
        told = transaction_by(changed, before, then, kind_changed=True)
        assert told.unsettled and not told.kind_changed
    assert transaction_by(f"{changed}; SELECT 1", ALONE, ALONE, kind_changed=True).unsettled
    assert not transaction_by(f"SET sql_auto_is_null = 0; {changed}", ALONE, ALONE, kind_changed=True).unsettled
    assert transaction_by(
        f"SET autocommit = 0; {changed}; SET autocommit = 1", ALONE, ALONE, kind_changed=True
    ).unsettled
    assert transaction_by(f"SET @x = (SELECT 1 FROM t); {changed}", ALONE, ALONE, kind_changed=True).unsettled
    assert transaction_by(f"SET sql_auto_is_null = 0; {changed}", IN_ONE, IN_ONE, kind_changed=True).unsettled
    chained = transaction_by("COMMIT", IN_ONE, ALONE, unsettled=True, values={"completion_type": "CHAIN"})
    assert chained.unsettled, "MySQL has begun another one of the kind before"


def test_a_savepoint_may_be_set_while_mysql_has_begun_nothing() -> None:
    assert transaction_by("SAVEPOINT a", OFF, OFF).saved and transaction_by("CALL p()", OFF, OFF).saved
    assert (
        not transaction_by("SAVEPOINT a", IN_ONE, IN_ONE).saved
        and not transaction_by("SAVEPOINT a", ALONE, ALONE).saved
    )
    assert transaction_by("SAVEPOINT a", IN_ONE, FAILED, errno=1064).saved


def test_tables_are_locked_until_they_are_let_go() -> None:
    assert transaction_by("LOCK TABLES t READ", ALONE, ALONE).locked
    assert not transaction_by("LOCK TABLES t READ", ALONE, FAILED, errno=1146).locked
    assert not transaction_by("UNLOCK TABLES", ALONE, ALONE, locked=True).locked
    assert not transaction_by("BEGIN", ALONE, IN_ONE, locked=True).locked


def test_what_mysql_does_not_tell_is_in_doubt() -> None:
    assert left_by("SELECT 1", ALONE, ALONE).known
    assert not left_by("SELECT f(1)", ALONE, ALONE).known, "it may have set roles"
    assert left_by("SELECT f(1)", ALONE, ALONE).token_known, "an OK packet tells"
    assert not left_by("SELECT f(1)", ALONE, ALONE, eof=True).token_known, "rows that end with EOF do not"
    assert left_by("CREATE TEMPORARY TABLE x (id INT)", ALONE, ALONE, not_hidden={("d", "t")}).hiding
    assert not left_by("SET ROLE NONE", ALONE, ALONE).known
    assert left_by("SET @x = 1", ALONE, ALONE, reported=True).hiding is False
    for write in ("INSERT INTO t VALUES (1)", "UPDATE t SET id = 1", "DELETE FROM t"):
        assert left_by(write, ALONE, ALONE).known
        assert not left_by(write, ALONE, ALONE, errno=1048).known, "a trigger may have set a variable before the error"
    assert left_by("SELECT x FROM t", ALONE, ALONE, errno=1054).known
    assert left_by("SELECT 1", ALONE, ALONE, reported=True).hiding, "it changed what its text does not say"
    assert left_by("SET SESSION session_track_gtids = OFF", ALONE, ALONE).tracks.changed


def test_trackers_that_are_not_set_are_not_the_clients() -> None:
    text = "SET SESSION session_track_gtids = OFF"
    assert left_by(text, ALONE, ALONE).tracks.set_ == {"session_track_gtids"}
    refused = left_by(text, IN_ONE, FAILED, errno=1766)
    assert refused.tracks.changed and not refused.tracks.set_


def test_what_no_tracker_tells_of_may_be_anything() -> None:
    state = SessionState(known=True, not_hidden={("d", "t")})
    untold(state)
    assert not (state.known or state.token_known or state.not_hidden)
    assert state.hiding and state.transaction.unsettled and state.transaction.locked


def accounts_at(version: int) -> Accounts:
    found = Accounts()
    found.current_at = 100.0  # since READ, and long ago
    for _ in range(version):
        found.changed()
    return found


@pytest.mark.parametrize("sql", ["SET ROLE NONE", "SET ROLE r; SELECT 1", "CALL p()", "SELECT f(1)", "SET @x = f(1)"])
@pytest.mark.parametrize("errno", [0, 1054])
def test_where_roles_may_be_read_anew_rights_are_no_other_sessions(sql: str, errno: int) -> None:
    """Where rights have changed since they were read: else they are what they were."""
    then = FAILED if errno else ALONE
    assert left_by(sql, ALONE, then, errno=errno, rights_read=READ, accounts=accounts_at(3)).rights == (3, 3, 3)
    one, other = (left_by(sql, ALONE, then, errno=errno, rights_read=READ, accounts=accounts_at(4)) for _ in range(2))
    assert one.rights[0] == other.rights[0] == 3, "global rights are read at the login"
    assert not {3, 4}.intersection(one.rights[1:] + other.rights[1:]) and one.rights[1:] != other.rights[1:]
    assert left_by("SELECT 1", ALONE, ALONE, rights_read=READ, accounts=accounts_at(4)).rights == (3, 3, 3)


def test_roles_that_a_routine_has_set_are_no_other_sessions() -> None:
    """MySQL goes on by the database's rights of the roles before."""
    for sql, alike in (("SET ROLE NONE", True), ("CALL p()", False), ("SELECT f(1)", False)):
        state = left_by(sql, ALONE, ALONE, identity="u r", account="u", rights_read=READ, accounts=accounts_at(3))
        state.learn(["x", "u", "NONE", "", *("0" for _ in ASKED)], bytes(20))
        assert state.identity == "u NONE" and (state.rights == (3, 3, 3)) == alike


@pytest.mark.parametrize(
    ("sql", "before", "then", "ends"),
    [
        ("SELECT id FROM t", IN_ONE, IN_ONE, False),
        ("COMMIT", IN_ONE, ALONE, True),
        ("BEGIN", IN_ONE, IN_ONE, True),
        ("CALL p()", IN_ONE, ALONE, True),
        ("SET @x = 1; COMMIT; BEGIN", IN_ONE, IN_ONE, True),
        ("SET @x = 1; SELECT 1", IN_ONE, IN_ONE, False),
        ("SET autocommit = 1", OFF, ALONE, True),
        ("SET autocommit = 1; SET autocommit = 0", OFF, OFF, True),
        ("SELECT 1", OFF | STATUS_IN_TRANS, OFF | STATUS_IN_TRANS, False),
    ],
)
def test_what_was_shown_ends_with_the_transaction(sql: str, before: int, then: int, ends: bool) -> None:
    state, effects, sent = answered(sql, before, then)
    assert ends_shown(state, effects, sent, failed=False) == ends


def test_an_end_that_has_failed_is_none() -> None:
    state, effects, sent = answered("COMMIT", IN_ONE, FAILED, errno=1290)
    assert not ends_shown(state, effects, sent, failed=True)
