"""What MySQL tells of a session, and what of it stands in the way of a hit."""

from __future__ import annotations

from typing import Any

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import ASKED, LOG_BIN, same, switched_on
from proxy.mysql.wire.packets import (
    STATUS_AUTOCOMMIT,
    STATUS_IN_TRANS,
    STATUS_IN_TRANS_READONLY,
    STATUS_NO_BACKSLASH_ESCAPES,
    ErrorAnswer,
    Malformed,
    lenenc,
)
from proxy.mysql.wire.responses import NO_STATUS, Outcome
from proxy.mysql.wire.tracker_entries import CHARACTERISTICS, GTIDS, SCHEMA, STATE, TRANSACTION, VARIABLE, entries
from tests.support.session_states import hold

GTID = "00000000-0000-0000-0000-00000000000a:1-3"


def plain() -> SessionState:
    state = SessionState(known=True)
    assert state.plain and not state.transaction.transactional
    return state


def tracked(kind: int, data: bytes) -> bytes:
    return bytes((kind,)) + lenenc(data)


def variable(name: str, value: str) -> bytes:
    return tracked(VARIABLE, lenenc(name.encode()) + lenenc(value.encode()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("known", False),
        ("autocommit", False),
        ("in_transaction", True),
        ("hiding", True),
        ("locked", True),
        ("one_shot", "SET TRANSACTION READ ONLY;"),
        ("token", GtidSet.parse(GTID)),
        ("shown", GtidSet.parse(GTID)),
        ("passed", True),
    ],
)
def test_each_of_these_keeps_a_session_from_the_quick_way(name: str, value: Any) -> None:
    state = plain()
    hold(state, **{name: value})
    assert not state.plain
    assert state.transaction.transactional == (name in ("autocommit", "in_transaction"))


def test_an_answer_tells_its_status_and_what_was_tracked() -> None:
    state = plain()
    state.absorb(Outcome(STATUS_IN_TRANS | STATUS_IN_TRANS_READONLY, None, variable("time_zone", "+01:00"), []))
    assert (state.transaction.autocommit, state.transaction.in_transaction) == (False, True)
    assert state.transaction.status == STATUS_IN_TRANS | STATUS_IN_TRANS_READONLY
    assert state.variables.values["time_zone"] == "+01:00"
    state.absorb(Outcome(NO_STATUS, ErrorAnswer(1064, "42000", "no"), b"", []))
    assert state.transaction.in_transaction, "an error tells nothing"
    state.absorb(Outcome(STATUS_AUTOCOMMIT, None, b"", []))
    assert (state.transaction.autocommit, state.transaction.in_transaction) == (True, False)
    assert state.transaction.status == STATUS_AUTOCOMMIT


def test_flags_of_one_answer_are_not_those_of_the_next() -> None:
    state = plain()
    state.transaction.on_status(0xFFFF)
    assert state.transaction.status == 0x2203, "in a transaction that reads only, autocommit, no backslash escapes"
    state.transaction.on_status(STATUS_NO_BACKSLASH_ESCAPES | 0x0430)
    assert state.transaction.status == STATUS_NO_BACKSLASH_ESCAPES


def test_a_hit_begins_a_transaction_where_autocommit_is_off() -> None:
    state = plain()
    state.begin_with_hit()
    assert state.transaction.status == STATUS_AUTOCOMMIT
    state.transaction.on_status(0)
    assert state.transaction.status == 0
    state.begin_with_hit()
    assert state.transaction.status == STATUS_IN_TRANS
    state.variables.values["transaction_read_only"] = "ON"
    state.begin_with_hit()
    assert state.transaction.status == STATUS_IN_TRANS, "it has begun already"
    state.transaction.on_status(STATUS_IN_TRANS)
    assert not state.transaction.begun, "MySQL knows of it"
    state.transaction.on_status(0)
    state.begin_with_hit()
    assert state.transaction.status == STATUS_IN_TRANS | STATUS_IN_TRANS_READONLY
    state.transaction.on_status(STATUS_AUTOCOMMIT)
    assert state.transaction.status == STATUS_AUTOCOMMIT


def test_what_a_transaction_has_done_ends_with_it() -> None:
    state = plain()
    state.transaction.on_status(STATUS_AUTOCOMMIT | STATUS_IN_TRANS)
    state.on_trackers(tracked(TRANSACTION, lenenc(b"T___W___")))
    assert state.transaction.wrote and state.transaction.touched and not state.transaction.locked
    state.transaction.on_status(STATUS_AUTOCOMMIT | STATUS_IN_TRANS)
    assert state.transaction.wrote and state.transaction.touched
    state.transaction.on_status(STATUS_AUTOCOMMIT)
    assert not (state.transaction.wrote or state.transaction.touched)


@pytest.mark.parametrize(
    ("told", "wrote", "touched", "locks"),
    [
        (b"T_______", False, False, False),
        (b"T_R_____", False, True, False),
        (b"T__w____", True, True, False),
        (b"T___W___", True, True, False),
        (b"_______L", False, False, True),
    ],
)
def test_the_letters_of_a_transaction(told: bytes, wrote: bool, touched: bool, locks: bool) -> None:
    state = plain()
    state.transaction.in_transaction = True
    state.on_trackers(tracked(TRANSACTION, lenenc(told)))
    assert (state.transaction.wrote, state.transaction.touched, state.transaction.locked) == (wrote, touched, locks)


def test_trackers_tell_of_the_schema_of_writes_of_changes_and_of_the_next_transaction() -> None:
    state = plain()
    state.on_trackers(tracked(SCHEMA, lenenc(b"shop")) + tracked(STATE, lenenc(b"1")))
    assert state.database == "shop" and state.tracks.reported
    state.on_trackers(tracked(STATE, lenenc(b"0")))
    assert state.tracks.reported, "it is forgotten by who looks at it"
    state.on_trackers(tracked(GTIDS, b"\0" + lenenc(GTID.encode())))
    assert state.token == GtidSet.parse(GTID)
    state.on_trackers(tracked(CHARACTERISTICS, lenenc(b"SET TRANSACTION READ ONLY;")))
    assert state.transaction.one_shot
    state.on_trackers(tracked(CHARACTERISTICS, lenenc(b"START TRANSACTION READ ONLY;")))
    assert not state.transaction.one_shot


@pytest.mark.parametrize("name", ["character_set_results", "optimizer_switch", "max_sort_length"])
def test_some_variables_are_asked_for_anew(name: str) -> None:
    state = plain()
    state.on_trackers(variable(name, "latin1"))
    assert not state.known and name not in state.variables.values


def test_what_a_variable_changes() -> None:
    state = plain()
    state.on_trackers(variable("autocommit", "OFF"))
    assert "autocommit" not in state.variables.values, "the status tells it"
    state.on_trackers(variable(LOG_BIN, "OFF"))
    assert state.may_be_unlogged and state.variables.unlogged
    state.on_trackers(variable(LOG_BIN, "1"))
    assert state.may_be_unlogged and not state.variables.unlogged
    state.on_trackers(variable("session_track_schema", "OFF"))
    assert state.tracks.changed and state.token_known and state.tracks.set_ == {"session_track_schema"}
    assert state.tracks.shown(variable("sql_mode", "")) == b"", "the client has not asked for that"
    state.on_trackers(variable("session_track_system_variables", "sql_mode"))
    assert state.tracks.shown(variable("sql_mode", "")) == variable("sql_mode", ""), "MySQL goes by what it has set"
    state.on_trackers(variable("session_track_gtids", "OFF"))
    assert not state.token_known
    state.on_trackers(variable("collation_connection", "utf8mb4_bin"))
    assert state.variables.announces[2] == "utf8mb4_bin"


@pytest.mark.parametrize(
    ("client", "connection", "lacks"),
    [
        ("utf8mb4", "utf8mb4", ""),
        ("ascii", "utf8mb4", "é😀"),
        ("ascii", "utf8mb3", "é😀"),
        ("utf8mb3", "utf8mb4", "😀"),
        ("utf8", "utf8", "😀"),
        ("utf8mb4", "utf8mb3", "😀"),
    ],
)
def test_texts_and_strings_with_characters_that_the_session_lacks_are_misread(
    client: str, connection: str, lacks: str
) -> None:
    state = plain()
    values = {"character_set_client": client, "character_set_connection": connection, "collation_connection": "c"}
    assert same("character_set_client", client) and same("character_set_connection", connection)
    state.learn(["u", "u", "", "", *(values.get(name, "") for name in ASKED)], bytes(16))
    for character in "a\x7fé\uffff😀":
        missing = character in lacks or (character == "\uffff" and lacks == "é😀")
        assert state.variables.misreads(f"SELECT '{character}'".encode()) == missing
        assert state.variables.misreads(b"?", (1, None, character)) == missing
        assert state.variables.misreads(b"?", ((1, "a"), ("b", character))) == missing
        assert not state.variables.misreads(b"?", (character.encode(), 1.5))
        assert ("character_set_client" in state.variables.differences(character.encode())) == missing
    assert state.variables.announces[2:4] == ("c", client)
    state.forget_values()
    assert not state.variables.misreads("😀".encode())


def test_marks_mean_something_else_in_two_modes_and_where_the_mode_is_not_known() -> None:
    state, double, backslash, none = plain(), b'SELECT "a"', b"SELECT 'a\\'b'", b"SELECT 'a'"
    for mode, texts in (
        ("", set()),
        ("ANSI,ANSI_QUOTES", {double}),
        ("NO_BACKSLASH_ESCAPES", {backslash}),
        ("ANSI_QUOTES,NO_BACKSLASH_ESCAPES", {double, backslash}),
    ):
        state.on_trackers(variable("sql_mode", mode))
        assert {text for text in (double, backslash, none) if state.variables.changes_marks(text)} == texts
    state.on_trackers(variable("sql_mode", ""))
    state.forget_values()
    assert (
        state.variables.changes_marks(double)
        and state.variables.changes_marks(backslash)
        and not state.variables.changes_marks(none)
    )


@pytest.mark.parametrize("inside", [True, False])
def test_the_isolation_of_the_transaction_under_way_stays(inside: bool) -> None:
    state = plain()
    state.transaction.in_transaction = inside
    state.on_trackers(variable("transaction_isolation", "READ-COMMITTED"))
    assert (state.transaction.touched, state.transaction.wrote) == (inside, inside)


@pytest.mark.parametrize("cut", range(1, 4))
def test_trackers_that_are_cut_off_are_refused(cut: int) -> None:
    whole = tracked(SCHEMA, b"abc") + tracked(STATE, b"\x011")
    assert entries(whole) == [(SCHEMA, b"abc"), (STATE, b"\x011")]
    with pytest.raises(Malformed):
        entries(whole[:-cut])


def test_what_the_client_asks_for_is_tracked_beside_ours() -> None:
    ours = switched_on({})["session_track_system_variables"].split(",")
    both = switched_on({"session_track_system_variables": "wait_timeout,foo,foo"})
    named = both["session_track_system_variables"].split(",")
    assert named == [*ours, *(name for name in ("wait_timeout", "foo") if name not in ours)]
    assert switched_on({"session_track_system_variables": "*"})["session_track_system_variables"] == "*"
    assert switched_on({})["session_track_gtids"] == "OWN_GTID"
    assert switched_on({"session_track_gtids": "ALL_GTIDS"})["session_track_gtids"] == "ALL_GTIDS"


def test_a_new_session_has_nothing_of_the_one_before() -> None:
    state = plain()
    hold(state, hiding=True, locked=True, reported=True, vacant=True, touched=True, wrote=True)
    hold(state, not_hidden={("d", "t")}, one_shot="SET TRANSACTION")
    state.tracks.wanted, state.tracks.set_ = {"session_track_gtids": "OFF"}, {"session_track_gtids"}
    state.renew()
    told = state.transaction
    assert not (told.locked or told.vacant or told.touched or told.wrote or told.one_shot)
    assert not (state.known or state.hiding or state.tracks.reported or state.not_hidden)
    assert not (state.tracks.wanted or state.tracks.set_)
