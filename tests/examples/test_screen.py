"""The first screen of `make run`: its shape, its size, and that README.md shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.lobsters import screen
from examples.lobsters.queries import CATALOGUE
from examples.lobsters.screen import Serving, Shown
from examples.lobsters.two_ports import PageCosts, Pair

SERVING = Serving("127.0.0.1:43210", 3307, "127.0.0.1:50051", 8080, "/tmp/upwell-run-x/upwell.log", "root", False, "db")


def pair(id: str, mysql_ms: float, upwell_ms: float, hits: float = 1.0) -> Pair:
    return Pair(id, mysql_ms, 3 * mysql_ms, upwell_ms, hits, 12)


PAIRS = [pair(id, 1.5**place, 1.0) for place, id in enumerate(list(CATALOGUE)[:17])]
SHOWN = Shown(PAIRS, 1.94, "hit", PageCosts(150, 61.04, 4.217), 618, 0)


def test_it_is_one_screen_of_80_columns() -> None:
    longest = sorted(CATALOGUE, key=lambda id: len(CATALOGUE[id].title))[-17:]
    wide = replace(SHOWN, pairs=[pair(id, 123_456.7, 0.01) for id in longest], compared=1_000_000)
    for shown in (SHOWN, wide):
        lines = screen.screen(shown, SERVING)
        assert len(lines) <= screen.HEIGHT
        assert max(map(len, lines)) <= screen.WIDTH


def test_six_queries_by_gain_and_the_least_gain_is_among_them() -> None:
    shown = screen.by_gain(PAIRS)
    gains = [each.gain for each in shown]
    assert len(shown) == 6 and gains == sorted(gains, reverse=True)
    assert gains[-1] == min(each.gain for each in PAIRS) == 1.0
    assert gains[0] == max(each.gain for each in PAIRS)
    assert screen.by_gain(PAIRS[:3]) == list(reversed(PAIRS[:3]))


def test_the_slow_query_is_one_that_is_a_hit() -> None:
    passed = pair("S2", 9000, 9000, hits=0.0)
    assert screen.slowest([*PAIRS, passed]) == PAIRS[-1]


def test_it_says_what_was_measured() -> None:
    text = "\n".join(screen.screen(SHOWN, SERVING))
    assert "a hit at Upwell shows it 1.94 ms after the COMMIT" in text
    assert "61.0 ms alone, 4.22 ms with Upwell (150 pages each)" in text
    assert "618 answers compared: equal" in text
    assert "  mysql -h 127.0.0.1 -P 3307 -u root db\n" in text
    assert "root without a password" in text and "/tmp/upwell-run-x/upwell.log" in text


def test_answers_that_differ_and_reads_that_are_no_hits_are_not_hidden() -> None:
    text = "\n".join(screen.screen(replace(SHOWN, different=2, seen_by="passed"), SERVING))
    assert "618 answers compared: 2 DIFFERENT" in text
    assert "a read (passed) at Upwell shows it" in text


def test_a_mysql_that_is_not_ours_is_not_written_to_so_less_is_told() -> None:
    theirs = replace(SERVING, password=True, database="")
    text = "\n".join(screen.screen(replace(SHOWN, seen_ms=None, pages=None), theirs))
    assert "COMMIT" not in text and "CPU" not in text
    assert "mysql -h 127.0.0.1 -P 3307 -u root -p\n" in text and "your account at MySQL" in text


def test_with_nothing_cached_it_says_what_to_do() -> None:
    steps = "\n".join(screen.next_steps(SERVING))
    assert "port 3307" in steps and "SHOW PROXIED QUERIES" in steps and "CREATE CACHE FROM" in steps
    assert max(map(len, screen.next_steps(SERVING))) <= screen.WIDTH


def test_every_query_is_in_the_table() -> None:
    lines = screen.table(PAIRS)
    assert len(lines) == len(PAIRS) + 1
    assert {line.split()[0] for line in lines[1:]} == {each.id for each in PAIRS}


def test_readme_shows_what_the_command_prints() -> None:
    shown = screen.block_of(screen.README.read_text())
    assert screen.outline(shown) == screen.outline(screen.screen(SHOWN, replace(SERVING, database="lobsters")))


def test_the_block_is_replaced_and_nothing_else() -> None:
    text = f"before\n{screen.BEGIN}old\n{screen.END}after\n"
    made = screen.with_block(text, ["new", "lines"])
    assert made == f"before\n{screen.BEGIN}new\nlines\n{screen.END}after\n"
    assert screen.block_of(made) == ["new", "lines"]
    with pytest.raises(ValueError, match="no <!-- screen"):
        screen.with_block("no marks", [])
