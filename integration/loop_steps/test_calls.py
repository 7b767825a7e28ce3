"""How many calls each kind of work takes: no more than its budget (`[calls]` of `benchmarks/budgets.toml`).

Calls are counted, not timed: a busy machine makes none more. Where a number must rise, its line is changed in the
commit that makes it rise, with the reason. `python -m benchmarks.calls miss` shows each call of a miss.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks import budgets
from benchmarks.calls import KINDS, Calls, measured
from integration.servers.mysql_server import Server

SHOWN = 25


def told(calls: Calls) -> str:
    """The functions that are called most, to begin with."""
    most = Counter(what for _, what in calls.tree).most_common(SHOWN)
    return "\n".join(f"{times:5} {what}" for what, times in most)


def test_no_kind_of_work_takes_more_calls_than_its_budget(mysql: Server, tmp_path: Path) -> None:
    allowed = budgets.read().calls
    assert set(allowed) == set(KINDS)
    above = []
    with measured(mysql, tmp_path) as (beside, reader):
        for name, of in KINDS.items():
            calls = of(beside, reader, allowed[name])
            print(f"{name}: {calls.count} calls, {allowed[name]} are allowed")
            if calls.count > allowed[name]:
                above.append(f"{name}: {calls.count} calls, {allowed[name]} are allowed\n{told(calls)}")
    assert not above, "\n\n".join(above)
