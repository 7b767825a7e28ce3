"""What a session was shown beyond the position: what must be asked or waited for before a cache may answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.mysql.cached_reads import NOT_BROUGHT, NOT_TOLD, NOTHING, CachedReads
from proxy.mysql.session_state import SessionState

GTIDS = GtidSet.parse("00000000-0000-0000-0000-00000000000a:1-3")
RR, RC = "REPEATABLE-READ", "READ-COMMITTED"


def look(
    *,
    shown: bool,
    has: bool = False,
    passed: bool = False,
    isolation: str = "",
    asked: bool = False,
    behind: bool = False,
) -> tuple[str, SessionState]:
    """What the gate says, a step by its name. `isolation` "": in no transaction. `has`: the position has what was
    shown."""
    state = SessionState(passed=passed, values={"transaction_isolation": isolation})
    state.in_transaction = isolation != ""
    state.shown = GTIDS if shown else NOTHING
    steps: list[str] = []
    session: Any = SimpleNamespace(
        state=state,
        shown=SimpleNamespace(answers={}),
        _has=lambda gtids: has,
        _ask_shown=lambda read: steps.append("ask"),
        _until_shown=lambda read: steps.append("wait"),
    )
    found = CachedReads._was_shown(session, cast(Any, SimpleNamespace(asked=asked, behind=behind)))
    if isinstance(found, str):
        return found, state
    cast(Any, found)()
    return steps[0], state


def test_what_mysql_has_answered_is_asked_for_once() -> None:
    assert look(shown=False, passed=True)[0] == "ask"
    assert look(shown=True, passed=True, isolation=RR)[0] == "ask"
    assert look(shown=False, passed=True, asked=True)[0] == NOT_TOLD


def test_what_the_position_has_counts_no_more() -> None:
    found, state = look(shown=True, has=True)
    assert (found, state.shown) == ("", NOTHING)
    found, state = look(shown=True)
    assert (found, state.shown) == ("", GTIDS), "a fill may have it"


@pytest.mark.parametrize(("isolation", "found", "behind"), [(RR, "wait", NOT_BROUGHT), (RC, "", ""), ("", "", "")])
def test_a_transaction_of_one_state_waits_and_once(isolation: str, found: str, behind: str) -> None:
    """A fill is of no use to it: its answer is not at the position."""
    assert look(shown=True, isolation=isolation)[0] == found
    assert look(shown=True, isolation=isolation, behind=True)[0] == behind
    assert look(shown=False, isolation=isolation)[0] == ""
