"""Who may read a cache, as MySQL has said, while rights change."""

from __future__ import annotations

from typing import cast

import pytest

from proxy.api import SessionCache
from proxy.mysql.grants import REFUSED, Grants, announce
from proxy.mysql.session_state import SessionState
from sqltypes.schema import BIGINT, ResultColumn
from tests.support.mysql_packets import column

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


@pytest.mark.parametrize("payload", [b"", b"\3def", b"\xfb" * 60, bytes(40), b"\3def" + b"\4shop" * 5 + b"\xff"])
def test_what_is_no_definition_of_a_column_announces_none(payload: bytes) -> None:
    columns = (ResultColumn("id", BIGINT, False, "item"),)
    assert announce([column("id", 8)], columns)
    assert not announce([payload], columns)
