"""Hints behind SELECT: one that sets sql_mode makes a query of its own, those that only plan are left out."""

from __future__ import annotations

import pytest

from planner.api import plan_query
from planner.session.needs import OF_MODE
from planner.session.session_needs import session_needs
from planner.text.hints import SETTABLE, collation_of, hint_of, mode_of, with_hint, with_whole_groups, without_mode
from planner.text.lift import lifted
from planner.text.scan import scan
from planner.tree.plan import AnswerArrangement, Mode
from sqltypes.errors import UnsupportedQuery
from tests.planner.session.test_session_needs import SCHEMA

HINT = " /*+ SET_VAR(sql_mode='NO_ZERO_DATE,STRICT_ALL_TABLES') */"
MODES = frozenset({"NO_ZERO_DATE", "STRICT_ALL_TABLES"})


def test_modes_that_a_hint_cannot_set_are_left_out() -> None:
    assert hint_of(MODES | {"ANSI_QUOTES", "PAD_CHAR_TO_FULL_LENGTH", "no such mode"}) == HINT
    assert hint_of(frozenset()) == " /*+ SET_VAR(sql_mode='NO_ENGINE_SUBSTITUTION') */", "an empty one sets nothing"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT id FROM t", f"SELECT{HINT} id FROM t"),
        (" \n select*from t", f" \n select{HINT}*from t"),
        ("SELECT\n\tDISTINCT id FROM t", f"SELECT{HINT}\n\tDISTINCT id FROM t"),
        ("(SELECT id FROM t)", f"(SELECT{HINT} id FROM t)"),
        (" ( (select id FROM t) UNION SELECT 1)", f" ( (select{HINT} id FROM t) UNION SELECT 1)"),
        ("(WITH a AS (SELECT 1) SELECT * FROM a)", None),
        ("SELECT /*+ NO_ICP(t) */ id FROM t", None),
        ("SELECT/**/id FROM t", None),
        ("SELECTED", None),
        ("WITH a AS (SELECT 1) SELECT * FROM a", f"WITH a AS (SELECT 1) SELECT{HINT} * FROM a"),
        (
            "/* x */with recursive a(n) as (SELECT ')' UNION SELECT `)` FROM t /* ) */), b AS (SELECT 1)"
            " select n FROM a",
            "/* x */with recursive a(n) as (SELECT ')' UNION SELECT `)` FROM t /* ) */), b AS (SELECT 1)"
            f" select{HINT} n FROM a",
        ),
        ("WITH a AS (SELECT 1) SELECT /* x */ * FROM a", None),
        ("WITH a AS (SELECT 1 # )\n) SELECT * FROM a", None),
        ("WITH a AS (SELECT 1 /*! + 1 */) SELECT * FROM a", None),
        (
            "WITH a AS (SELECT /*+ NO_ICP(t) */ 1) SELECT * FROM a",
            f"WITH a AS (SELECT /*+ NO_ICP(t) */ 1) SELECT{HINT} * FROM a",
        ),
        ("WITH a AS (SELECT '1) SELECT * FROM a", None),
        ("WITH a AS (SELECT 1) (SELECT * FROM a)", None),
        ("/* first */ /**/SELECT id FROM t", f"/* first */ /**/SELECT{HINT} id FROM t"),
        ("/* a * b **/ SELECT id FROM t", f"/* a * b **/ SELECT{HINT} id FROM t"),
        ("/*!80000 SELECT */ id FROM t", None),
        ("/* no end SELECT id FROM t", None),
        ("# first\nSELECT id FROM t", None),
    ],
)
def test_where_the_hint_stands(text: str, wanted: str | None) -> None:
    found = with_hint(text.encode(), HINT.encode())
    assert (None if found is None else found.decode()) == wanted


def test_the_one_spelling_is_known_again() -> None:
    text = f"SELECT{HINT} id FROM t"
    assert mode_of(scan(text)) == MODES
    assert without_mode(text) == ("SELECT id FROM t", MODES, "")
    for other in ("SELECT id FROM t", "SELECT /*+ SET_VAR(sql_mode='') */ 1", "SELECT /*+ SET_VAR(sql_mode=ANSI) */ 1"):
        assert mode_of(scan(other)) is None and without_mode(other) is None
    assert mode_of(scan("SELECT /*+ SET_VAR(sql_mode='ANSI_QUOTES') */ 1")) is None, "a hint does not set it"


NAMED = " /*+ QB_NAME(upwell_collation_utf8mb4_bin) */"


@pytest.mark.parametrize(
    ("modes", "collation", "hint"),
    [
        (None, "utf8mb4_bin", NAMED),
        (None, "", ""),
        (MODES, "utf8mb4_bin", f"{NAMED[:-3]} {HINT.removeprefix(' /*+ ')}"),
    ],
)
def test_a_query_is_named_for_its_collation(modes: frozenset[str] | None, collation: str, hint: str) -> None:
    text = f"SELECT{hint} id FROM t"
    assert hint_of(modes, collation) == hint
    assert collation_of(text) == collation and mode_of(scan(text)) == modes
    assert without_mode(text) == (("SELECT id FROM t", modes, collation) if hint else None)
    assert collation_of(f"/* of an ORM */ {text}") == collation
    for asked in ("PREPARE upwell FROM", "SET @upwell_text ="):
        assert collation_of(f"{asked} '{text.replace(chr(39), chr(92) + chr(39))}'") == collation
    for before, after in (("(", " LIMIT 1) UNION SELECT 1"), ("WITH a AS (SELECT ')' FROM t) ", ", a")):
        other = f"{before}{text}{after}"
        assert collation_of(other) == collation and mode_of(scan(other)) == modes
        assert without_mode(other) == ((f"{before}SELECT id FROM t{after}", modes, collation) if hint else None)
        assert collation_of(f"PREPARE upwell FROM '{other.replace(chr(39), chr(92) + chr(39))}'") == collation


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT '{NAMED}' FROM t",
        f"SELECT id FROM t WHERE EXISTS (SELECT{NAMED} 1 FROM t)",
        f"WITH a AS (SELECT{NAMED} 1 FROM t) SELECT 1",
        "SELECT /*+ QB_NAME(upwell_collation_Latin1_bin) */ id FROM t",
        "SELECT /*+ QB_NAME(upwell_collation__bin) */ id FROM t",
        "SELECT /*+ QB_NAME(upwell_collation_) */ id FROM t",
        "SELECT /*+ QB_NAME(other) */ id FROM t",
        f"SET @upwell_0 = 'SELECT{NAMED}'",
    ],
)
def test_what_tells_no_collation(text: str) -> None:
    assert collation_of(text) == ""


def test_whole_groups_are_asked_for_where_the_mode_has_them_not() -> None:
    assert with_whole_groups(f"SELECT{HINT} id FROM t") == (
        "SELECT /*+ SET_VAR(sql_mode='NO_ZERO_DATE,ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES') */ id FROM t"
    )
    assert with_whole_groups("SELECT id FROM t") is None
    assert with_whole_groups("SELECT 'no end") is None
    assert with_whole_groups(f"SELECT{hint_of(MODES | {'ONLY_FULL_GROUP_BY'})} id FROM t") is None


def test_a_query_with_modes_is_held_as_mysql_answers_it_under_them() -> None:
    plan = plan_query(lifted(f"SELECT{HINT} at, name FROM t WHERE name = 'x' AND day > '2024-00-00'"), "d", SCHEMA)
    root = plan.reader.root
    assert plan.mode is Mode.EVICT and isinstance(root, AnswerArrangement)
    assert HINT.strip() in root.sql and HINT.strip() in plan.sql, "another query than the one without"
    assert all(each.filter is None for each in root.inputs), "conditions are computed here as the default mode does"
    needs = session_needs(plan, SCHEMA)
    assert needs.isdisjoint({OF_MODE + mode for mode in SETTABLE})


def test_a_key_that_is_a_date_empties_everything() -> None:
    plan = plan_query(f"SELECT{HINT} id FROM t WHERE at = ?", "d", SCHEMA)
    root = plan.reader.root
    assert isinstance(root, AnswerArrangement)
    assert all(set(each.key_columns) == {None} for each in root.inputs)


@pytest.mark.parametrize(
    "hint",
    [
        "NO_ICP(t)",
        "no_icp(t) MRR(t)",
        "JOIN_ORDER(t, z)",
        "QB_NAME(q)",
        "NO_INDEX_MERGE(@q t PRIMARY)",
        "",
        "MAX_EXECUTION_TIME(9)",
        "RESOURCE_GROUP(g) set_var( sort_buffer_size = 400000 )",
        "SET_VAR(max_execution_time=9)",
    ],
)
def test_hints_that_plan_change_nothing(hint: str) -> None:
    plain = plan_query("SELECT id, name FROM t WHERE id = ?", "d", SCHEMA)
    hinted = plan_query(f"SELECT /*+ {hint} */ id, name FROM t WHERE id = ?", "d", SCHEMA)
    assert hinted.reader == plain.reader and hinted.mode is Mode.MAINTAIN


@pytest.mark.parametrize(
    "hint",
    [
        "SET_VAR(sql_mode='')",
        "SET_VAR(time_zone='+01:00')",
        "NO_ICP(t) SET_VAR(a=b)",
        "SET_VAR(sort_buffer_size=a)",
    ],
)
def test_other_hints_are_refused(hint: str) -> None:
    with pytest.raises(UnsupportedQuery):
        plan_query(f"SELECT /*+ {hint} */ id FROM t WHERE id = ?", "d", SCHEMA)
