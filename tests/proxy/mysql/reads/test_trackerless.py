"""What is taken for known of a session that is told nothing, behind each kind of statement."""

from __future__ import annotations

import pytest

from proxy.mysql.reads.trackerless import after_command, after_statement, learned
from proxy.mysql.state.effects import effects_of
from proxy.mysql.state.session_rules import Sent, after
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import PINNED_VALUES, ROW_LIMIT, untracked
from proxy.mysql.state.targets import elsewhere
from proxy.mysql.text.statement_kind import classify
from proxy.mysql.wire.packets import COM_PING, STATUS_AUTOCOMMIT, STATUS_IN_TRANS, ErrorAnswer
from proxy.mysql.wire.responses import NO_STATUS, Outcome
from tests.support.session_states import session_state

OK = Outcome(STATUS_AUTOCOMMIT, None, b"", [])
WITHIN = Outcome(STATUS_AUTOCOMMIT | STATUS_IN_TRANS, None, b"", [])
OUTSIDE = Sent(transactional=False, autocommit=True)
ERROR = Outcome(NO_STATUS, ErrorAnswer(1105, "HY000", "no"), b"", [])
NOTHING, WRITES, VARIABLES, BOTH = "nothing", "how far the source has come", "variables", "both"
DATABASE, ALL = "variables and the database", "all"


def behind(text: str, outcome: Outcome = OK, sent: Sent = OUTSIDE) -> SessionState:
    state = session_state(known=True, tells=False, values={"sql_mode": ""})
    state.transaction.wrote = state.transaction.touched = sent.wrote
    statement = classify(text)
    effects = effects_of(statement)
    after(state, effects, sent, outcome)
    after_statement(state, statement, effects, sent, outcome)
    return state


def asked(state: SessionState) -> str:
    """What is to be asked for."""
    if state.known:
        return NOTHING if state.token_known else WRITES
    if state.asks_first:
        return DATABASE if state.token_known else ALL
    return VARIABLES if state.token_known else BOTH


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT 1 FROM t", NOTHING),
        ("SHOW TABLES", NOTHING),
        ("SET time_zone = '+05:00'", VARIABLES),
        ("SET @x = (SELECT n FROM t)", BOTH),
        ("INSERT INTO t VALUES (1)", WRITES),
        ("SELECT * FROM t FOR UPDATE", WRITES),
        ("BEGIN", NOTHING),
        ("COMMIT", NOTHING),
        ("ROLLBACK", NOTHING),
        ("ALTER TABLE t ADD c INT", ALL),
        ("USE other", DATABASE),
        ("CALL something()", ALL),
        ("EXECUTE p", ALL),
        ("what is this", ALL),
        ("SELECT unknown_function()", BOTH),
    ],
)
def test_what_a_statement_leaves_is_asked_for(text: str, wanted: str) -> None:
    assert asked(behind(text)) == wanted


def test_an_error_leaves_nothing_known() -> None:
    assert asked(behind("SELECT 1 FROM t", ERROR)) == BOTH


@pytest.mark.parametrize(
    ("text", "touched", "wrote"),
    [
        ("BEGIN", False, False),
        ("SAVEPOINT a", False, False),
        ("SELECT 1", False, False),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", True, False),
        ("SELECT 1 FROM t", True, False),
        ("SELECT 1 FROM t FOR UPDATE", True, True),
        ("SELECT unknown_function()", True, True),
        ("INSERT INTO t VALUES (1)", True, True),
        ("EXECUTE p", True, True),
        ("what is this", True, True),
    ],
)
def test_what_a_transaction_has_done(text: str, touched: bool, wrote: bool) -> None:
    state = behind(text, WITHIN)
    assert (state.transaction.touched, state.transaction.wrote, state.token_known) == (touched, wrote, True)


@pytest.mark.parametrize("text", ["BEGIN", "SELECT 1 FROM t"])
def test_a_transaction_in_which_something_has_failed_is_not_known(text: str) -> None:
    state = behind(text, ERROR, Sent(transactional=True, autocommit=False))
    assert (
        state.transaction.touched
        and state.transaction.wrote
        and not state.known
        and not state.token_known
        and not state.askable
    )


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("COMMIT", OK), ("ROLLBACK", OK), ("BEGIN", WITHIN), ("SET autocommit = 1", OK), ("ALTER TABLE t ADD c INT", OK)],
)
@pytest.mark.parametrize("wrote", [True, False])
def test_what_a_transaction_has_written_is_asked_for_behind_it(text: str, outcome: Outcome, wrote: bool) -> None:
    state = behind(text, outcome, Sent(transactional=True, autocommit=True, in_transaction=True, wrote=wrote))
    assert (
        state.token_known is not (wrote or "ALTER" in text)
        and not state.transaction.wrote
        and not state.transaction.touched
    )


@pytest.mark.parametrize(
    ("text", "lags"),
    [
        ("SET workload = 'olap'", True),
        ("SET @a = 1, SESSION workload = 'oltp'", True),
        ("SET NAMES utf8mb4", False),
        ("SET autocommit = 0", False),
    ],
)
def test_flags_may_lag_behind(text: str, lags: bool) -> None:
    state = behind(text)
    assert state.flags_lag is lags
    state.renew()
    assert state.flags_lag is lags, "vtgate leaves it as it is"


def test_what_was_asked_in_vain_is_asked_again() -> None:
    state = behind("SELECT 1 FROM t")
    state.forget_values()
    statement = classify("SELECT 1 FROM t")
    after_statement(state, statement, effects_of(statement), Sent(False, True), OK)
    assert not state.known and not state.token_known


def test_commands_that_are_no_statements() -> None:
    state = session_state(known=True, tells=False, values={"sql_mode": ""})
    after_command(state, COM_PING)
    assert state.known and state.token_known
    after_command(state, 0x02)  # COM_INIT_DB
    assert not state.known and state.asks_first


def test_what_was_asked_in_vain_is_asked_again_behind_a_command() -> None:
    state = session_state(tells=False)
    state.forget_values()
    after_command(state, COM_PING)
    assert not state.known and not state.token_known


def test_values_that_were_asked_for_count_as_told() -> None:
    state = session_state(tells=False, values={ROW_LIMIT: "0"})
    learned(state)
    assert not untracked(state.variables.values) and state.variables.values[ROW_LIMIT] == PINNED_VALUES[ROW_LIMIT]
    assert state.variables.row_limit is None


@pytest.mark.parametrize(
    ("database", "is_one"), [("shop", True), ("", True), ("shop:-80", False), ("shop@replica", False)]
)
def test_shards_and_kinds_of_tablets_are_no_keyspaces(database: str, is_one: bool) -> None:
    assert (elsewhere(database) == "") is is_one
