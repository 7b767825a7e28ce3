"""What a session's sql_mode makes of texts."""

from __future__ import annotations

import pytest

from proxy.mysql.session_variables import ALWAYS, MODES, PINNED_VALUES, same
from proxy.mysql.sql_modes import READINGS, Reading, reading_of, value_of

ANSI, PLAIN_ESCAPES, BOTH = READINGS[True, False], READINGS[False, True], READINGS[True, True]


def test_a_reading_is_one_object_for_all_sessions() -> None:
    assert reading_of("") is None and reading_of(PINNED_VALUES["sql_mode"]) is None
    assert reading_of("REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ANSI") is ANSI
    assert reading_of("no_backslash_escapes") is PLAIN_ESCAPES
    assert reading_of("ANSI_QUOTES,NO_BACKSLASH_ESCAPES") is BOTH


def test_what_has_a_double_quote_is_not_read_where_it_may_be_a_name() -> None:
    assert ANSI.of(b'SELECT "a"') is None and ANSI.of(b"SELECT 'a\\b'") == b"SELECT 'a\\b'"


def test_what_has_a_backslash_is_not_read_where_it_is_no_escape() -> None:
    for reading in (PLAIN_ESCAPES, BOTH):
        assert reading.of(b"SELECT 'a\\b'") is None
        assert reading.of(b"SELECT 'a'") == b"SELECT 'a'"
    assert BOTH.of(b'SELECT "a"') is None
    assert Reading.changes(b"SELECT 'a\\b'") and Reading.changes(b'SELECT "a"') and not Reading.changes(b"SELECT 'a'")


@pytest.mark.parametrize(
    ("mode", "different"),
    [
        ("", {"NO_ZERO_DATE", "NO_ZERO_IN_DATE"}),
        ("NO_ENGINE_SUBSTITUTION", {"NO_ZERO_DATE", "NO_ZERO_IN_DATE"}),
        ("NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION", {"NO_ZERO_DATE"}),
        (PINNED_VALUES["sql_mode"], set()),
        (PINNED_VALUES["sql_mode"] + ",STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO", set()),
        (PINNED_VALUES["sql_mode"] + ",ANSI,PIPES_AS_CONCAT,IGNORE_SPACE,ANSI_QUOTES", {"PIPES_AS_CONCAT"}),
    ],
)
def test_each_mode_counts_for_itself(mode: str, different: set[str]) -> None:
    values = {"sql_mode": mode}
    assert same("sql_mode", mode)
    assert {name for name in MODES if not same(name, value_of(name, values))} == {
        f"sql_mode.{each}" for each in different
    }


def test_a_mode_that_is_not_known_may_change_anything() -> None:
    assert "sql_mode" in ALWAYS and not same("sql_mode", "MAXDB")
    assert not same("sql_mode", "NO_BACKSLASH_ESCAPES"), "drivers see it in the status flags of each answer"
