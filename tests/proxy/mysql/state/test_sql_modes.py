"""What a session's sql_mode makes of texts."""

from __future__ import annotations

import pytest

from proxy.mysql.state.session_variables import ALWAYS, MODES, PINNED_VALUES, same
from proxy.mysql.state.sql_modes import hint_for, marks_of, value_of


@pytest.mark.parametrize(
    ("mode", "marks"),
    [
        ("", b""),
        (PINNED_VALUES["sql_mode"], b""),
        ("REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ANSI", b'"'),
        ("no_backslash_escapes", b"\\"),
        ("ANSI_QUOTES,NO_BACKSLASH_ESCAPES", b'"\\'),
    ],
)
def test_two_modes_change_what_a_mark_means(mode: str, marks: bytes) -> None:
    assert marks_of(mode) == marks


@pytest.mark.parametrize(
    ("mode", "different"),
    [
        ("", {"NO_ZERO_DATE", "NO_ZERO_IN_DATE", "STRICT"}),
        ("NO_ENGINE_SUBSTITUTION", {"NO_ZERO_DATE", "NO_ZERO_IN_DATE", "STRICT"}),
        ("NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION", {"NO_ZERO_DATE", "STRICT"}),
        ("STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE", set()),
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


PINNED_MODES = PINNED_VALUES["sql_mode"]


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ({}, b""),
        ({"sql_mode": PINNED_MODES}, b""),
        ({"sql_mode": PINNED_MODES, "collation_connection": "utf8mb4_0900_ai_ci"}, b""),
        (
            {"sql_mode": PINNED_MODES, "collation_connection": "utf8mb4_bin"},
            b" /*+ QB_NAME(upwell_collation_utf8mb4_bin) */",
        ),
        (
            {"sql_mode": PINNED_MODES, "collation_connection": "latin1_swedish_ci"},
            b" /*+ QB_NAME(upwell_collation_latin1_swedish_ci) */",
        ),
        ({"sql_mode": PINNED_MODES, "collation_connection": "binary"}, b" /*+ QB_NAME(upwell_collation_binary) */"),
        (
            {"sql_mode": "", "collation_connection": "utf8mb4_general_ci"},
            b" /*+ QB_NAME(upwell_collation_utf8mb4_general_ci) SET_VAR(sql_mode='NO_ENGINE_SUBSTITUTION') */",
        ),
        (
            {"sql_mode": PINNED_MODES.replace("STRICT_TRANS_TABLES,", "")},
            b" /*+ SET_VAR(sql_mode='ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE,"
            b"ONLY_FULL_GROUP_BY') */",
        ),
        ({"sql_mode": PINNED_MODES.replace("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES")}, b""),
        ({"sql_mode": ""}, b" /*+ SET_VAR(sql_mode='NO_ENGINE_SUBSTITUTION') */"),
    ],
)
def test_the_hint_tells_what_of_a_session_is_another(values: dict[str, str], hint: bytes) -> None:
    assert hint_for(values) == hint
