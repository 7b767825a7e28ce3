"""What MySQL runs before a statement that asks about a hit: the table of `proxy/mysql/reads/last_hit.py`."""

from __future__ import annotations

from functools import partial

import pytest

from proxy.mysql.reads.last_hit import FOUND, FOUND_NONE, MOST_COUNTED, MOST_FOUND, LastHit, Warned
from proxy.mysql.reads.routes import Route
from proxy.mysql.text.statement_kind import classify
from proxy.mysql.wire.packets import packet

READ, COMMIT, HARMLESS = (packet(b"\3" + sql, 0) for sql in (b"SELECT id FROM t", b"COMMIT", b"SELECT 1"))
ASKS = Route(classify("SELECT FOUND_ROWS()"))
END = packet(b"\xfe\0\0\2\0", 5)
TWO_ROWS = packet(b"\0011", 3) + packet(b"\0012", 4) + END
RUNS_TWO = FOUND.format(more=1)


def passed(sql: str, *, failed: bool = False, several: bool = False) -> LastHit:
    """After a hit, and this statement behind it, which MySQL has answered."""
    last = LastHit()
    last.hit(READ, TWO_ROWS)
    last.command = b""
    last.passed(Route(classify(sql)), failed=failed, several=several)
    return last


def test_a_session_that_begins_has_found_nothing() -> None:
    last = LastHit()
    assert last.asked_by(ASKS) and last.found_text(last.command) == FOUND_NONE
    assert not last.asked_by(Route(classify("SHOW WARNINGS")))
    assert last.may_leave_none(Route(classify("SELECT FOUND_ROWS(), ROW_COUNT()")))
    last.passed(Route(classify("SELECT 1")), failed=False, several=False)
    assert not last.asked_by(ASKS) and last.found_text(last.command) == ""


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (b"SELECT id FROM t", RUNS_TWO),
        (b"SELECT id, n FROM t ORDER BY id LIMIT 2", RUNS_TWO),
        (b"SELECT id FROM t LIMIT 1, 2", ""),
        (b"SELECT id FROM t limit 2 Offset 1", ""),
    ],
)
def test_the_hits_own_command_is_run_where_it_finds_more_than_it_shows(text: bytes, runs: str) -> None:
    last = LastHit()
    last.hit(packet(b"\3" + text, 0), TWO_ROWS)
    assert last.asked_by(ASKS) and last.found_text(text) == runs


def test_a_select_of_as_many_rows_is_run_where_the_command_may_find_others() -> None:
    last = LastHit()
    last.hit(READ, TWO_ROWS)
    last.shown_again(HARMLESS, READ)
    assert (last.command, last.found_text(b"LIMIT 1, 2")) == (HARMLESS, RUNS_TWO)
    last.hit(READ, TWO_ROWS)
    assert (last.command, last.found_text(b"LIMIT 1, 2")) == (READ, "")


def test_of_what_is_held_with_its_number_no_limit_matters() -> None:
    last = LastHit()
    last.hit(packet(b"\3SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1, 2", 0), TWO_ROWS, 30)
    assert (last.found(last.command), last.found_text(last.command)) == (30, FOUND.format(more=29))
    last.hit(READ, TWO_ROWS, 0)
    assert (last.found(READ), last.found_text(READ)) == (0, FOUND_NONE)
    last.hit(READ, TWO_ROWS, MOST_COUNTED + 1)
    assert (last.found(READ), last.found_text(READ)) == (MOST_COUNTED + 1, "")
    last.hit(READ, TWO_ROWS)
    assert last.found(READ) == 2


@pytest.mark.parametrize("first", ["CALL p()", "EXECUTE s", "SET @x = 1; CALL p()"])
def test_a_procedure_that_comes_first_may_leave_what_a_session_begins_with(first: str) -> None:
    last, calls = LastHit(), Route(classify(first))
    last.passed(Route(classify("SET NAMES utf8mb4")), failed=False, several=False)
    assert last.may_leave_none(calls) and last.asked_by(calls)
    assert not last.may_leave_none(Route(classify("SELECT 1")))
    for sql, failed in (("INSERT INTO t VALUES (1)", False), ("SET x = 1", True), ("SELECT 1", False)):
        last = LastHit()
        last.passed(Route(classify(sql)), failed=failed, several=False)
        assert not last.asked_by(calls), "what it asks about is not to be hidden from it"
    last = LastHit()
    last.hit(READ, END)
    assert not last.may_leave_none(calls)


def test_an_answer_that_counts_warnings_is_told_of() -> None:
    last = LastHit()
    last.hit(READ, Warned(TWO_ROWS))
    assert last.warned and last.found(READ) == 2
    last.command = b""
    assert not last.warned


def test_an_end_that_mysql_does_not_see_leaves_the_rows() -> None:
    last = LastHit()
    last.hit(READ, TWO_ROWS)
    last.ended_here(COMMIT, last.command)
    assert (last.command, last.found_text(last.command)) == (COMMIT, RUNS_TWO)


@pytest.mark.parametrize(
    ("sql", "failed", "several", "kept"),
    [
        ("SET @x = 1", False, False, True),
        ("SELECT 1", False, False, False),
        ("SELECT 1", True, False, True),
        ("CALL p()", True, False, False),
        ("SELECT 1; SELECT 2", True, False, True),
        ("SELECT 1; SELECT 2", True, True, False),
    ],
)
def test_another_statement_leaves_the_rows_or_has_rows_of_its_own(
    sql: str, failed: bool, several: bool, kept: bool
) -> None:
    last = passed(sql, failed=failed, several=several)
    assert last.asked_by(ASKS) == kept and last.found_text(last.command) == (RUNS_TWO if kept else "")
    assert not last.asked_by(Route(classify("SHOW WARNINGS"))), "it is not about the hit"


@pytest.mark.parametrize("text", [b"SELECT a FROM t LIMIT 2, 3", b"TABLE t ORDER BY a LIMIT 3 OFFSET 2"])
def test_what_stood_before_an_offset_is_not_known_once_the_command_is_gone(text: bytes) -> None:
    for end in ("let_go", "shown_again", "begun_anew"):
        last = LastHit()
        last.hit(text, END)
        assert last.found(text) is None
        {"let_go": partial(last.let_go, text), "shown_again": partial(last.shown_again, HARMLESS, text)}.get(
            end, last.begun_anew
        )()
        assert last.rows == b"" and last.found(b"") is None, end


def test_no_row_is_none_and_a_long_answer_is_not_kept() -> None:
    last = LastHit()
    last.hit(READ, END)
    last.shown_again(HARMLESS, READ)
    assert last.found_text(last.command) == FOUND_NONE
    last.hit(READ, bytes(MOST_FOUND + 1))
    last.shown_again(HARMLESS, READ)
    assert last.found_text(last.command) == "" and last.command == HARMLESS


def test_a_session_that_begins_anew_is_told_of_the_one_before() -> None:
    last = LastHit()
    last.hit(READ, TWO_ROWS)
    last.begun_anew()
    assert last.asked_by(ASKS) and last.found_text(last.command) == RUNS_TWO
    assert not last.asked_by(Route(classify("SHOW WARNINGS"))), "that is forgotten"


def test_an_end_behind_what_mysql_has_answered_hides_no_hit() -> None:
    last = LastHit()
    last.passed(Route(classify("SELECT 1")), failed=False, several=False)
    for _ in range(2):
        last.ended_here(COMMIT, last.command)
        assert last.command and not last.is_unseen
    last.hit(READ, TWO_ROWS)
    assert last.is_unseen
    for _ in range(2):
        last.ended_here(COMMIT, last.command)
        assert last.is_unseen


@pytest.mark.parametrize(
    ("sql", "failed", "runs"),
    [
        ("UPDATE t SET n = 1", False, FOUND_NONE),
        ("SET NAMES utf8mb4", False, FOUND_NONE),
        ("COMMIT", False, FOUND_NONE),
        ("SELECT 1", False, ""),
        ("CALL something()", False, ""),
        ("UPDATE t SET n = 1", True, RUNS_TWO),
        ("UPDATE t SET n = 1; SELECT 1", True, ""),
        ("no statement", True, RUNS_TWO),
    ],
)
def test_vtgate_counts_the_rows_of_each_answer_and_none_of_an_error(sql: str, failed: bool, runs: str) -> None:
    last = LastHit()
    last.hit(READ, TWO_ROWS)
    last.command = b""
    last.passed(Route(classify(sql)), failed=failed, several=False, by_vtgate=True)
    assert last.found_text(last.command) == runs
