"""The first screen of `make run`: its shape, its size, and that README.md shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.lobsters import screen
from examples.lobsters.bulk import HEAD
from examples.lobsters.queries import CATALOGUE
from examples.lobsters.screen import Serving, Shown, milliseconds
from examples.lobsters.two_ports import Asked, PageCosts, Pages, Pair

SERVING = Serving("127.0.0.1:43210", 3307, "127.0.0.1:50051", 8080, "/tmp/upwell-run-x/upwell.log", "root", False, "db")


def pair(id: str, mysql_ms: float, upwell_ms: float, hits: float = 1.0) -> Pair:
    return Pair(id, mysql_ms, 3 * mysql_ms, upwell_ms, hits, 12)


def asked(id: str, mysql_ms: float, upwell_ms: float = 0.5, hits: float = 1.0) -> Asked:
    return Asked(id, [mysql_ms] * 10, [upwell_ms] * 10, hits)


PAIRS = [pair(id, 1.5**place, 1.0) for place, id in enumerate(list(CATALOGUE)[:17])]
QUERIES = [asked(id, 20.0 - place) for place, id in enumerate(list(CATALOGUE)[:17])]
COSTS = Pages(150, PageCosts(80.0, 61.04, 0.0), PageCosts(20.0, 4.217, 3.5), QUERIES)
SHOWN = Shown(COSTS, {}, 1.94, "hit", 618, 0)


def test_it_is_one_screen_of_80_columns() -> None:
    longest = sorted(CATALOGUE, key=lambda id: len(CATALOGUE[id].title))[-17:]
    slow = replace(COSTS, queries=[asked(id, 123_456.7, 12_345.6, 0.5) for id in longest])
    wide = replace(SHOWN, pages=slow, modes=dict.fromkeys(longest, "evict"), compared=1_000_000)
    for shown in (SHOWN, wide):
        lines = screen.screen(shown, SERVING)
        assert len(lines) <= screen.HEIGHT
        assert max(map(len, lines)) <= screen.WIDTH


def test_what_a_page_costs_comes_first() -> None:
    head, cpu, page, own, written, *_ = screen.screen(SHOWN, SERVING)
    assert head.split()[:5] == ["A", "page", "(150", "at", "each,"]
    assert cpu.split() == ["MySQL's", "CPU", "61.0", "ms", "4.22", "ms", "14x", "less"]
    assert page.split() == ["the", "page's", "time", "80.0", "ms", "20.0", "ms", "4.0x", "as", "fast"]
    assert own.split() == ["Upwell's", "CPU", "-", "3.50", "ms"]
    assert written == "A write at MySQL: a hit at Upwell shows it 1.94 ms after the COMMIT"


def test_then_the_queries_by_their_share_of_mysqls_time_and_the_rest_in_one_line() -> None:
    lines = screen.screen(SHOWN, SERVING)
    first = next(place for place, line in enumerate(lines) if line.startswith("Queries by share"))
    whole = sum(20.0 - place for place in range(17))
    for place, line in enumerate(lines[first + 1 : first + 7]):
        assert line.split()[-4:] == [f"{(20 - place) / whole:.0%}", milliseconds(20.0 - place), "0.50", "100%"]
    rest = sum(20.0 - place for place in range(6, 17))
    assert lines[first + 7].split() == ["11", "others", f"{rest / whole:.0%}", milliseconds(rest / 11), "0.50"]


def test_a_query_that_writes_empty_says_so() -> None:
    emptied = [asked(id, 9.0, hits=0.5) for id in list(CATALOGUE)[:8]]
    modes = {each.id: "evict" if place == 1 else "maintained" for place, each in enumerate(emptied)}
    shown = replace(SHOWN, pages=replace(COSTS, queries=emptied), modes=modes)
    lines = screen.screen(shown, SERVING)
    (marked,) = (line for line in lines if " * " in line and "%" in line)
    assert CATALOGUE[emptied[1].id].title[:30] in marked
    assert "  A key's first read is MySQL's. * So is the one behind a write to its tables." in lines
    for other in (replace(shown, modes=dict.fromkeys(modes, "maintained")), replace(SHOWN, modes=modes)):
        assert not [line for line in screen.screen(other, SERVING) if "*" in line]


def test_it_says_what_was_compared_and_where_everything_is() -> None:
    text = "\n".join(screen.screen(SHOWN, SERVING))
    assert "618 answers of both ports compared: equal" in text
    assert "  mysql -h 127.0.0.1 -P 3307 -u root db\n" in text
    assert "root without a password" in text and "/tmp/upwell-run-x/upwell.log" in text
    unpacked = "\n".join(screen.screen(SHOWN, replace(SERVING, client="/tmp/upwell-run-x/mysql")))
    assert "  /tmp/upwell-run-x/mysql -h 127.0.0.1 -P 3307 -u root db\n" in unpacked


def test_the_demo_names_nothing_that_has_ended() -> None:
    text = "\n".join(screen.measured(SHOWN, SERVING))
    assert "61.0 ms" in text and "618 answers" in text
    assert not [word for word in ("127.0.0.1", "Ctrl-C", "copy", "/tmp") if word in text]


def test_answers_that_differ_and_reads_that_are_no_hits_are_not_hidden() -> None:
    text = "\n".join(screen.screen(replace(SHOWN, different=2, seen_by="passed"), SERVING))
    assert "618 answers of both ports compared: 2 DIFFERENT" in text
    assert "a read (passed) at Upwell shows it" in text


def test_a_mysql_that_is_not_ours_is_not_written_to_so_less_is_told() -> None:
    theirs = replace(SERVING, password=True, database="")
    unread = replace(COSTS, alone=PageCosts(80.0, None, 0.0), through=PageCosts(20.0, None, 3.5))
    text = "\n".join(screen.screen(replace(SHOWN, seen_ms=None, pages=unread), theirs))
    assert "COMMIT" not in text and "MySQL's CPU" not in text and "writes between" not in text
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
    shown = screen.block_of(screen.README.read_text(), "screen")
    assert screen.outline(shown) == screen.outline(screen.screen(SHOWN, replace(SERVING, database="lobsters")))


def test_readme_shows_what_filling_by_spark_prints() -> None:
    lines = screen.block_of(screen.README.read_text(), "spark")
    assert lines[0] == HEAD and max(map(len, lines)) <= screen.WIDTH
    (total,) = (line for line in lines if " of them " in line)
    assert total.split()[-1] == "0", "nothing differs"


def test_the_block_is_replaced_and_nothing_else() -> None:
    other = "<!-- spark: written by `make screen SPARK=on` -->\n```\nspark\n```\n<!-- /spark -->\n"
    block = "<!-- screen: written by `make screen` -->\n```\n{}```\n<!-- /screen -->\n"
    text = f"before\n{block.format('old' + chr(10))}after\n{other}"
    made = screen.with_block(text, "screen", ["new", "lines"])
    assert made == f"before\n{block.format('new' + chr(10) + 'lines' + chr(10))}after\n{other}"
    assert screen.block_of(made, "screen") == ["new", "lines"] and screen.block_of(made, "spark") == ["spark"]
    with pytest.raises(ValueError, match="no <!-- screen"):
        screen.with_block("no marks", "screen", [])
