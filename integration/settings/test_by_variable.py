"""Each function under each session variable: a part of `make by-variable`, which tries all of them."""

from __future__ import annotations

import os

import pytest

from integration.conftest import OwnMySQL
from integration.settings import by_variable
from planner.session.needs import BY_WORD

EVERY = 1 if os.environ.get("UPWELL_WHOLE") else 40
SEED = int(os.environ.get("UPWELL_VARIABLE_SEED", "1"))


def test_what_changes_an_answer_is_a_need(own_mysql: OwnMySQL) -> None:
    found = by_variable.sweep(own_mysql(), EVERY, SEED)
    assert found.asked > 500
    assert found.tried >= by_variable.GIVEN.keys() | by_variable.OF_LOGINS.keys()
    assert not found.differences, "\n".join(found.differences[:20])


def test_a_need_that_is_forgotten_is_found(own_mysql: OwnMySQL, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of days and months are those of lc_time_names, also in FROM_UNIXTIME."""
    forgotten = BY_WORD["lc_time_names"] - {"from_unixtime", "date_format"}
    monkeypatch.setitem(BY_WORD, "lc_time_names", forgotten)
    monkeypatch.setattr(by_variable, "templates", lambda: ["FROM_UNIXTIME({n}, '%W %M %e')", "DATE_FORMAT({d}, '%M')"])
    found = by_variable.sweep(own_mysql(), 1, SEED)
    assert found.asked and not found.refused, found
    assert any("FROM_UNIXTIME" in line and "lc_time_names" in line for line in found.differences), found.differences
    assert any(line.startswith("VIRTUAL DATE_FORMAT") for line in found.differences), found.differences


def test_bytes_become_a_string_by_whether_a_mode_is_strict(
    own_mysql: OwnMySQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are none, MySQL says NULL or cuts off. And how TIME rounds counts where a number becomes one."""
    made = ["CHAR({n} USING utf8mb4)", "CAST({b} AS CHAR)", "CONVERT({g}, CHAR)", "SEC_TO_TIME({n})", "MAX({v})"]
    monkeypatch.setattr(by_variable, "templates", lambda: made)
    monkeypatch.setattr(by_variable, "FILLED", 12)
    found = by_variable.sweep(own_mysql(), 1, SEED)
    assert not found.differences, "\n".join(found.differences[:20])
    assert found.depends["sql_mode"] >= set(made[:4]) and found.depends["time_zone"] >= {made[4]}
