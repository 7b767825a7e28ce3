"""How many calls each kind of work takes: no more than its budget (`[calls]` of `benchmarks/budgets.toml`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks import budgets
from benchmarks.calls import KINDS, Calls, Work, all_counted, counted, proxy_and_reader
from integration.servers.mysql_server import Server

SHOWN = 25


def told(calls: Calls) -> str:
    """The functions that are called most, to begin with."""
    most = Counter(what for _, what in calls.tree).most_common(SHOWN)
    return "\n".join(f"{times:5} {what}" for what, times in most)


def test_no_kind_of_work_takes_more_calls_than_its_budget(mysql: Server, tmp_path: Path) -> None:
    allowed = {one.figure: int(one.bound) for one in budgets.read().entries if one.benchmark == "calls"}
    assert set(allowed) == set(KINDS)
    above = []
    for name, calls in all_counted(mysql, tmp_path).items():
        print(f"{name}: {calls.count} calls, {allowed[name]} are allowed")
        if calls.count > allowed[name]:
            above.append(f"{name}: {calls.count} calls, {allowed[name]} are allowed\n{told(calls)}")
    assert not above, "\n\n".join(above)


def test_what_is_rarely_cheap_and_what_is_another_kind_of_work_does_not_count(mysql: Server, tmp_path: Path) -> None:
    with proxy_and_reader(mysql, tmp_path) as (beside, reader):
        reader.hold(reader.execute)
        turn = iter(range(1_000))

        def sometimes_dear() -> None:
            for _ in range(1 if next(turn) % 10 == 0 else 3):
                reader.execute(1)

        assert counted(beside, reader, Work(sometimes_dear, served="hit", steady=True)).count == 6
        assert counted(beside, reader, Work(sometimes_dear, served="hit")).count == 2
        with pytest.raises(AssertionError, match="hit"):
            counted(beside, reader, Work(lambda: reader.execute(1), served="passed", steady=True))
        with pytest.raises(AssertionError, match="miss"):
            counted(beside, reader, Work(lambda: reader.execute(1), served="miss"))
