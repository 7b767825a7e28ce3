"""Figures and tables as a terminal of any width shows them."""

from __future__ import annotations

import re

import pytest

from tests.upwell.top.made_looks import cache, overview
from upwell.printable import one_line
from upwell.top.state import State
from upwell.top.words import (
    CACHES,
    PADDING,
    PLAIN,
    QUERIES,
    amount,
    detail,
    fitting,
    head,
    needless,
    ordered,
    plain_line,
    read_line,
    share,
    size,
    spark,
    took,
    totals,
)

READ = {"at": 1.5, "outcome": "miss", "cache": "c", "reason": "not held", "us": 1500.0, "times": 1}


def seen(*events: dict[str, object]) -> State:
    state = State()
    for event in events:
        state.take("overview", event)
    return state


def test_figures_are_short() -> None:
    assert [amount(value) for value in (0, 7.46, 99.96, 812.4, 9999, 12_345, 999_999, 4.56e6, 7.1e9)] == [
        "0", "7.5", "100.0", "812", "9999", "12.3k", "1000k", "4.56M", "7.10G"
    ]  # fmt: skip
    assert [size(value) for value in (0, 812, 2048, 1536 << 20, 200 << 30)] == [
        "0 B", "812 B", "2.0 KiB", "1.5 GiB", "200 GiB"
    ]  # fmt: skip
    assert [took(value) for value in (0, 85e-6, 0.0012, 0.25, 3.44, 90, 150, 18_000)] == [
        "0", "85 us", "1.2 ms", "250 ms", "3.4 s", "90.0 s", "2.5 min", "5.0 h"
    ]  # fmt: skip


def test_a_share_is_whole_only_where_nothing_is_missing() -> None:
    assert [share(part) for part in (0, 0.5, 0.99999, 1)] == ["0.0%", "50.0%", "99.9%", "100%"]


def test_lines_are_as_wide_as_they_are_asked_to_be() -> None:
    assert spark([0, 1, 2], 5) == "  ▁▅█" and spark([], 3) == "   " and spark([0, 0], 2) == "▁▁"
    assert spark([0, 0, 8, 8], 2) == "▁█" and spark([9, 0, 0, 8, 8], 3) == "█▁▇"
    assert spark([0.5, 1], 2, 1.0) == "▅█" and spark([1], 0) == ""


def test_what_a_terminal_would_obey_is_taken_out() -> None:
    assert one_line("SELECT\n  '\x1b]0;evil\x07' ") == "SELECT ' ]0;evil '"
    assert "\x1b" not in read_line({**READ, "cache": "\x1b[31m", "why": "a\nb\x1b[2J"})


@pytest.mark.parametrize("width", [-2, 0, 1, 2, 3, 5])
@pytest.mark.parametrize("columns", [CACHES, QUERIES])
def test_the_first_column_is_there_however_narrow_the_terminal_is(width: int, columns: tuple[object, ...]) -> None:
    ((column, wide),) = fitting(columns, width)  # type: ignore[arg-type]
    assert column is columns[0] and wide >= 1


@pytest.mark.parametrize("width", [20, 40, 80, 120, 300])
@pytest.mark.parametrize("columns", [CACHES, QUERIES])
def test_tables_are_as_wide_as_the_terminal(width: int, columns: tuple[object, ...]) -> None:
    found = fitting(columns, width)  # type: ignore[arg-type]
    assert found[0][0] is columns[0] and len(found) > (width >= 40)
    assert sum(wide + PADDING for _, wide in found) <= width


def test_each_column_has_room_for_the_mark_of_what_is_sorted() -> None:
    assert all(len(column.title) < column.width for column in (*CACHES, *QUERIES))


def test_rows_are_ordered_by_numbers_or_names() -> None:
    state = seen(overview(1.0))
    rows = [cache("b", hits=5, misses=5), cache("a", hits=1), cache("c", misses=1)]
    by_name, by_hits = CACHES[0], CACHES[1]
    names = [row["name"] for row in ordered(rows, by_hits, state, reverse=False)]
    assert (
        names == ["a", "b", "c"] and [row["name"] for row in ordered(rows, by_hits, state, reverse=True)] == names[::-1]
    )
    assert [row["name"] for row in ordered(rows, by_name, state, reverse=False)] == ["a", "b", "c"]
    assert [row["name"] for row in ordered(rows, by_name, state, reverse=True)] == ["c", "b", "a"]


@pytest.mark.parametrize("width", [40, 60, 200])
def test_totals_and_head_keep_to_the_width(width: int) -> None:
    state = seen(overview(1.0, hits=1234.0))
    lines = totals(state, width)
    assert max(map(len, lines)) <= width and len(head(state, "h:1", width)) <= width
    told = "  ".join(lines)
    assert all(
        part in told for part in ("hits 100%", "reads 1234/s", "upqueries 2 (1 wait)", "memory 3.0 MiB of 1.0 GiB")
    )
    assert totals(state, width, 2) == lines[:2]
    idle = "  ".join(totals(seen(overview(1.0)), width))
    assert idle.startswith("hits -")


def test_the_head_says_what_is_wrong() -> None:
    state = State()
    assert head(state, "h:1", 80) == "waiting for h:1"
    state = seen(overview(1.0))
    assert head(state, "h:1", 80) == "Upwell 1.2.3 beside mysql://h:1 position u:1-5"
    assert "not ready: why" in head(seen(overview(1.0, ready="why")), "h:1", 80)
    down = overview(1.0)
    down["source"]["up"] = False
    assert "MySQL cannot be reached" in head(seen(down), "h:1", 80)
    state.take("lost", "refused")
    assert head(state, "h:1", 80) == "lost, trying again: refused"
    state.take("overview", overview(9.0))
    assert re.search("connected again at [0-9:]+ position u:1-5$", head(state, "h:1", 80))


def test_a_read_is_a_line_with_and_without_texts() -> None:
    assert read_line(READ)[12:] == " miss     1.5 ms  c  not held"
    whole = {
        **READ,
        "outcome": "passed",
        "cache": "",
        "reason": "shape",
        "query": "SELECT ?",
        "key": "[7]",
        "times": 16,
    }
    assert read_line({**whole, "why": "no"})[12:] == " passed   1.5 ms  SELECT ? [7] (one of 16)  shape: no"
    assert read_line({**READ, "cache": "", "outcome": "passed"})[12:] == " passed   1.5 ms  no cache  not held"


def test_a_line_stands_under_its_heading() -> None:
    cells = plain_line(seen(overview(1.0, hits=5.0)))
    assert len(cells) == 10 * len(PLAIN) - 1 and cells.split()[1:5] == ["100%", "5", "0", "0"]


def test_a_cache_is_told_whole_with_or_without_its_texts() -> None:
    one = cache("c", hits=10, passed=3, passed_by_reason={"late": 1, "rights": 2}, sql="SELECT\n?", why="all well")
    state = seen(overview(1.0, one))
    state.take("reads", {"lost": 2, "reads": [READ, {**READ, "cache": "other"}]})
    rows = detail(state, "c", "query: SELECT ?\nmode: maintain")
    told = dict(rows)
    assert (told["query"], told["state"], told["passed"]) == ("SELECT ?", "ready all well", "2 rights")
    assert told["emptied"] == "d.t 10 (25.0% needlessly), memory 3, d.t (large change) 1 (25.0% needlessly)"
    assert (told["plan"], told["no hits"]) == ("query: SELECT ?", read_line(READ)) and ("", "1 late") in rows
    assert dict(detail(seen(overview(1.0, cache("c"))), "c", ""))["query"].startswith("shown with the token")
    older = {
        name: value for name, value in one.items() if name not in ("emptied", "emptied_by", "compared", "needless")
    }
    assert "emptied" not in dict(detail(seen(overview(1.0, older)), "c", "")), "a proxy of an older version"
    assert (needless(one), needless(older)) == (0.25, -1.0)
    assert detail(state, "gone", "") == [("", "there is no cache gone any more")]
