"""`make hammer` for a moment: every disturbance once, every answer judged, everything compared at rest."""

from __future__ import annotations

from integration.hammer.disturb import DISTURBANCES
from integration.hammer.run import hammer


def test_a_brief_hammer_finds_nothing() -> None:
    result = hammer(0, seed=1, brief=True)
    print(result)
    assert not result.findings, str(result)
    tally = result.tally
    for disturb in DISTURBANCES:
        assert any(line.endswith(disturb.__name__) for line in result.log), (disturb, result.log)
    for what in ("streams killed", "connections killed", "crashes", "clean restarts", "binlogs purged unread", "DDL"):
        assert tally[what] > 0, (what, tally)
    assert result.counters["evicted"] > 0, result.counters
    assert tally["judged"] > 200 and tally["hit"] > 50 and tally["miss"] > 20, tally
    assert tally["at rest hit"] > 100, tally
    for kind in ("autocommit", "repeatable read", "read committed", "own writes", "rights"):
        assert tally[f"{kind} hit"] > 0 and tally[f"{kind} passed"] > 0, (kind, tally)
    assert tally["rights refused"] > 0 and tally["sessions killed"] > 0, tally
