"""What a client of the streams knows: patches, rates, the last hour, restarts."""

from __future__ import annotations

from tests.upwell.top.made_looks import cache, overview
from upwell.top.feed import merged
from upwell.top.state import KEPT, LATELY, State


def test_patches_change_what_they_name() -> None:
    before = {"a": 1, "b": {"c": 2, "d": 3}, "e": [1]}
    assert merged(before, {"b": {"c": None, "f": {"g": 1}}, "e": [2]}) == {
        "a": 1,
        "b": {"d": 3, "f": {"g": 1}},
        "e": [2],
    }
    assert merged(5, {"a": 1}) == {"a": 1} and merged({"a": 1}, 5) == 5


def test_rates_are_of_the_last_seconds() -> None:
    state = State()
    state.take("overview", overview(100.0, cache("c", hits=50)))
    assert state.rates("c") == (0.0, 0.0, 0.0)
    for second in range(1, LATELY + 5):
        patch = {"at": 100.0 + second, "caches": {"c": {"hits": 50 + 10 * second, "misses": second, "passed": 0}}}
        state.take("patch", patch)
    assert state.rates("c") == (10.0, 1.0, 0.0) and state.rates("unknown") == (0.0, 0.0, 0.0)
    state.take("patch", {"at": 120.0, "caches": {"new": cache("new", hits=500)}})
    assert state.rates("new") == (0.0, 0.0, 0.0)  # what it had before is no rate


def test_counters_that_begin_anew_are_no_rate() -> None:
    state = State()
    for second in range(3):
        state.take("overview", overview(100.0 + second, cache("c", hits=1000 + second)))
    state.take("lost", "gone")
    assert state.lost == "gone"
    state.take("overview", overview(110.0, cache("c", hits=4)))
    assert (state.lost, state.came_back, state.rates("c")) == ("", 110.0, (0.0, 0.0, 0.0))


def test_lines_are_live_or_of_the_last_hour() -> None:
    state = State()
    assert (state.line("hits", hour=False), state.line("hits", hour=True)) == ((), ())
    for second in range(KEPT + 5):
        state.take("overview", overview(100.0 + second, hits=float(second)))
    assert len(state.line("hits", hour=False)) == KEPT and state.line("hits", hour=False)[-1] == KEPT + 4
    state.take("sample", [[6.0, 7.0], [11.0, 8.0]])
    assert state.line("hits", hour=True) == (2.0, 7.0, 8.0) and state.line("passed", hour=True) == ()
    for number in range(800):
        state.take("sample", [[float(number), float(number)]])
    assert len(state.line("hits", hour=True)) == 720


def test_reads_that_are_not_told_are_no_lost_proxy() -> None:
    state = State()
    state.take("overview", overview(100.0))
    state.take("reads lost", "more than 4 watch reads")
    assert (state.reads_away, state.lost) == ("more than 4 watch reads", "")
    state.take("overview", overview(101.0))
    assert (state.reads_away, state.came_back) == ("more than 4 watch reads", 0.0)
    state.take("reads begun", None)
    assert state.reads_away == ""


def test_there_is_no_hit_rate_where_there_are_no_reads() -> None:
    state = State()
    state.take("overview", overview(100.0, hits=3.0))
    assert state.last("hit_rate", hour=False) == 1.0
    state.take("overview", overview(101.0))
    assert state.last("hit_rate", hour=False) is None and state.last("hits", hour=False) == 0.0
    assert state.last("hits", hour=True) == 2.0 and state.last("hit_rate", hour=True) is None


def test_the_last_reads_are_kept() -> None:
    state = State()
    for number in range(3):
        state.take("reads", {"lost": number, "reads": [{"us": n} for n in range(KEPT)]})
    assert len(state.reads) == KEPT and state.reads_lost == 3
