"""`make hammer` for a moment: every disturbance once, every answer judged, everything compared at rest."""

from __future__ import annotations

from collections import Counter

from integration.hammer.disturb import DISTURBANCES
from integration.hammer.run import hammer

KINDS = ("autocommit", "repeatable read", "read committed", "own writes", "rights")


def seen(tally: Counter[str]) -> bool:
    """Whether every kind of reader was answered from memory, and by MySQL."""
    return (
        tally["judged"] > 200
        and tally["hit"] > 50
        and tally["miss"] > 20
        and tally["at rest hit"] > 100
        and all(tally[f"{kind} hit"] > 0 and tally[f"{kind} passed"] > 0 for kind in KINDS)
        and tally["rights refused"] > 0
        and tally["sessions killed"] > 0
    )


def test_a_brief_hammer_finds_nothing() -> None:
    result = hammer(0, seed=1, brief=True, enough=seen)
    print(result)
    assert not result.findings, str(result)
    tally = result.tally
    for disturb in DISTURBANCES:
        assert any(line.endswith(disturb.__name__) for line in result.log), (disturb, result.log)
    for what in (
        "streams killed",
        "connections killed",
        "crashes",
        "clean restarts",
        "takeovers",
        "binlogs purged unread",
        "DDL",
    ):
        assert tally[what] > 0, (what, tally)
    assert result.counters["evicted"] > 0, result.counters
    assert seen(tally), tally
