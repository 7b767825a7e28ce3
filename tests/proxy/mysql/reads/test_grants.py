"""Who may read a cache, as MySQL has said, while rights change."""

from __future__ import annotations

from typing import cast

import pytest

import proxy.mysql.reads.grants
from proxy.mysql.reads.grants import REFUSED, Grants
from proxy.mysql.state.session_state import SessionState
from proxy.port.session import SessionCache


class Plan:
    """A cache, as far as this goes."""

    def __init__(self) -> None:
        self.generation = 1


def cache() -> SessionCache:
    return cast(SessionCache, Plan())


CACHE = cache()
STATE = SessionState(identity="app@% NONE")


class Versions:
    """Of accounts."""

    def __init__(self) -> None:
        self.now = 1


def grants() -> tuple[Versions, Grants]:
    versions = Versions()
    return versions, Grants(lambda: versions.now)


def test_what_mysql_has_said_holds_until_rights_change() -> None:
    versions, made = grants()
    made.note(STATE, CACHE, made.asks(CACHE), allowed=True)
    assert made.refusal(STATE, CACHE) == ""
    versions.now = 2
    assert made.refusal(STATE, CACHE) is None
    made.note(STATE, CACHE, made.asks(CACHE), allowed=False)
    assert made.refusal(STATE, CACHE) == REFUSED


def test_a_right_that_was_asked_for_before_it_was_revoked_is_not_remembered() -> None:
    versions, made = grants()
    asked = made.asks(CACHE)
    versions.now = 2
    assert made.refusal(STATE, CACHE) is None  # another session has looked since
    made.note(STATE, CACHE, asked, allowed=True)
    assert made.refusal(STATE, CACHE) is None


def test_what_mysql_says_of_now_is_remembered_at_once() -> None:
    versions, made = grants()
    made.note(STATE, CACHE, made.asks(CACHE), allowed=True)
    versions.now = 2
    made.note(STATE, CACHE, made.asks(CACHE), allowed=True)
    made.note(STATE, CACHE, (1, 1), allowed=False)  # told late
    assert made.refusal(STATE, CACHE) == ""


def test_another_plan_of_the_cache_is_asked_about_again() -> None:
    """A view of it may have got another definer."""
    _, made = grants()
    plan = Plan()
    one = cast(SessionCache, plan)
    asked = made.asks(one)
    made.note(STATE, one, asked, allowed=True)
    plan.generation += 1
    assert made.refusal(STATE, one) is None
    made.note(STATE, one, asked, allowed=True)  # told late
    assert made.refusal(STATE, one) is None


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.mysql.reads.grants, "KEPT", 2)
    _, made = grants()
    caches = [cache() for _ in range(3)]
    for one in caches:
        made.note(STATE, one, made.asks(one), allowed=True)
    assert [made.refusal(STATE, one) for one in caches] == [None, None, ""]
