"""Who may read a cache, as MySQL has said, while rights change."""

from __future__ import annotations

from typing import cast

import pytest

import proxy.mysql.grants
from proxy.mysql.grants import REFUSED, Grants
from proxy.mysql.session_state import SessionState
from proxy.session_api import SessionCache

CACHE = cast(SessionCache, object())
STATE = SessionState(identity="app@% NONE")


class Versions:
    """Of the caches and of accounts."""

    def __init__(self) -> None:
        self.now = (1, 1)


def grants() -> tuple[Versions, Grants]:
    versions = Versions()
    return versions, Grants(lambda: versions.now)


def test_what_mysql_has_said_holds_until_rights_change() -> None:
    versions, made = grants()
    made.note(STATE, CACHE, made.version, allowed=True)
    assert made.refusal(STATE, CACHE) == ""
    versions.now = (1, 2)
    assert made.refusal(STATE, CACHE) is None
    made.note(STATE, CACHE, made.version, allowed=False)
    assert made.refusal(STATE, CACHE) == REFUSED


def test_a_right_that_was_asked_for_before_it_was_revoked_is_not_remembered() -> None:
    versions, made = grants()
    asked = made.version
    versions.now = (1, 2)
    assert made.refusal(STATE, CACHE) is None  # another session has looked since
    made.note(STATE, CACHE, asked, allowed=True)
    assert made.refusal(STATE, CACHE) is None


def test_what_mysql_says_of_now_is_remembered_at_once() -> None:
    versions, made = grants()
    made.note(STATE, CACHE, made.version, allowed=True)
    versions.now = (1, 2)
    made.note(STATE, CACHE, made.version, allowed=True)
    made.note(STATE, CACHE, (1, 1), allowed=False)  # told late
    assert made.refusal(STATE, CACHE) == ""


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.mysql.grants, "KEPT", 2)
    _, made = grants()
    caches = [cast(SessionCache, object()) for _ in range(3)]
    for cache in caches:
        made.note(STATE, cache, made.version, allowed=True)
    assert [made.refusal(STATE, cache) for cache in caches] == [None, None, ""]
