"""The first screen of `make run`: its shape, its size, and that README.md shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.lobsters import screen
from examples.lobsters.bulk import HEAD
from examples.lobsters.chart import times
from examples.lobsters.closed_load import Asked, Pages, Round, Turn
from examples.lobsters.queries import CATALOGUE
from examples.lobsters.screen import Serving, Shown, milliseconds
from examples.lobsters.two_ports import Pair, Written

SERVING = Serving("127.0.0.1:43210", 3307, "127.0.0.1:50051", 8080, "/tmp/upwell-run-x/upwell.log", "root", False, "db")


def pair(id: str, mysql_ms: float, upwell_ms: float, hits: float = 1.0) -> Pair:
    return Pair(id, mysql_ms, 3 * mysql_ms, upwell_ms, hits, 12)


def asked(id: str, mysql_ms: float, upwell_ms: float = 0.5, hits: float = 1.0) -> Asked:
    return Asked(id, [mysql_ms] * 10, [upwell_ms] * 10, hits)


def words(line: str) -> str:
    return " ".join(line.split())


PAIRS = [pair(id, 1.5**place, 1.0) for place, id in enumerate(list(CATALOGUE)[:17])]
QUERIES = [asked(id, 20.0 - place) for place, id in enumerate(list(CATALOGUE)[:17])]
ALONE = Turn((80.0,) * 100, 6104.0, 0.0, 1000, 0)
THROUGH = Turn((10.0,) * 90 + (110.0,) * 10, 421.7, 350.0, 1000, 900)
COSTS = Pages(2, [Round(ALONE, THROUGH, warm=True)], QUERIES)
WRITTEN = Written(
    "UPDATE stories SET upvotes = upvotes + 1 WHERE id = 9", "SELECT * FROM stories WHERE id = 9", (3, 4), "hit", 1.94
)
SHOWN = Shown(COSTS, {}, WRITTEN, 618, 7_000, 0)
PICTURES = "As pictures: build/first-minute.html, build/first-minute.png"


def test_it_is_one_screen_of_80_columns() -> None:
    longest = sorted(CATALOGUE, key=lambda id: len(CATALOGUE[id].title))[-17:]
    slow = replace(COSTS, queries=[asked(id, 123_456.7, 12_345.6, 0.5) for id in longest])
    wide = replace(SHOWN, pages=slow, modes=dict.fromkeys(longest, "evict"), compared=1_000_000)
    for shown in (SHOWN, wide):
        lines = screen.screen(shown, SERVING)
        assert len(lines) <= screen.HEIGHT
        assert max(map(len, lines)) <= screen.WIDTH


def test_what_a_page_costs_comes_first() -> None:
    head, cpu, page, within, often, own, written, source, upwell, *_ = screen.screen(SHOWN, SERVING)
    assert words(head) == "Pages by 2 clients, writes between MySQL alone with Upwell"
    assert words(cpu) == "MySQL's CPU a page 61.0 ms 4.22 ms 14x less"
    assert words(page) == "a page's time 80.0 ms 20.0 ms 4.0x less"
    assert words(within) == "half of the pages within / 99 % 80.0 / 80.0 10.0 / 110.0"
    assert words(often) == "pages a second 25.0 100.0"
    assert words(own) == "Upwell's CPU a page - 3.50 ms"
    assert written == "A write, and a hit that shows it 1.94 ms after the COMMIT:"
    assert source == "  at MySQL:  UPDATE stories SET upvotes = upvotes + 1 WHERE id = 9"
    assert upwell == "  at Upwell: SELECT * FROM stories WHERE id = 9: upvotes 3 -> 4"


def test_then_the_queries_by_their_share_of_mysqls_time_and_the_rest_in_one_line() -> None:
    lines = screen.screen(SHOWN, SERVING)
    first = next(place for place, line in enumerate(lines) if line.startswith("Queries by share"))
    whole = sum(20.0 - place for place in range(17))
    for place, line in enumerate(lines[first + 1 : first + 7]):
        gain = times((20.0 - place) / 0.5)
        assert line.split()[-5:] == [f"{(20 - place) / whole:.0%}", milliseconds(20.0 - place), "0.50", gain, "100%"]
    rest = sum(20.0 - place for place in range(6, 17))
    assert lines[first + 7].split() == ["11", "others", f"{rest / whole:.0%}", milliseconds(rest / 11), "0.50", "18x"]


def test_a_query_that_writes_empty_says_so() -> None:
    emptied = [asked(id, 9.0, hits=0.5) for id in list(CATALOGUE)[:8]]
    modes = {each.id: "evict" if place == 1 else "maintained" for place, each in enumerate(emptied)}
    shown = replace(SHOWN, pages=replace(COSTS, queries=emptied), modes=modes)
    lines = screen.screen(shown, SERVING)
    (marked,) = (line for line in lines if " * " in line and "%" in line)
    assert CATALOGUE[emptied[1].id].title[:30] in marked
    assert "  ms a read. A key's first is MySQL's. * So is one after a write to its tables." in lines
    for other in (replace(shown, modes=dict.fromkeys(modes, "maintained")), replace(SHOWN, modes=modes)):
        assert not [line for line in screen.screen(other, SERVING) if "*" in line and "SELECT" not in line]


def test_it_says_what_was_compared_and_where_everything_is() -> None:
    text = "\n".join(screen.screen(SHOWN, SERVING))
    assert "618 answers of both ports compared, 7,000 held ones audited: equal" in text
    assert "  mysql -h 127.0.0.1 -P 3307 -u root db\n" in text
    assert "root without a password" in text and "/tmp/upwell-run-x/upwell.log" in text
    unpacked = "\n".join(screen.screen(SHOWN, replace(SERVING, client="/tmp/upwell-run-x/mysql")))
    assert "  /tmp/upwell-run-x/mysql -h 127.0.0.1 -P 3307 -u root db\n" in unpacked


def test_no_line_to_copy_names_a_program_that_is_not_there() -> None:
    text = "\n".join(screen.screen(SHOWN, replace(SERVING, client="")))
    assert (
        "Serving port 3307" in text
        and "upwell top --http 127.0.0.1:8080" in text
        and " -h 127.0.0.1" not in text
        and "curl http" in text
    )


def test_a_gain_below_one_is_said_to_be_a_loss() -> None:
    slower = replace(COSTS, rounds=[Round(THROUGH, ALONE, warm=True)], queries=[asked("S2", 0.5, 1.0, 0.0)])
    page, query = (line for line in screen.screen(replace(SHOWN, pages=slower), SERVING) if line.startswith("  a "))
    assert page.split()[-2:] == ["4.0x", "more"] and query.split()[-5:] == ["100%", "0.50", "1.00", "0.5x", "0%"]


def test_the_demo_names_nothing_that_has_ended() -> None:
    text = "\n".join(screen.measured(SHOWN, SERVING))
    assert "61.0 ms" in text and "618 answers" in text
    assert not [word for word in ("127.0.0.1", "Ctrl-C", "copy", "/tmp") if word in text]


def test_answers_that_differ_and_reads_that_are_no_hits_are_not_hidden() -> None:
    passed = replace(SHOWN, different=2, written=replace(WRITTEN, served="passed"))
    text = "\n".join(screen.screen(passed, SERVING))
    assert "7,000 held ones audited: 2 DIFFERENT" in text
    assert "a read (passed) that shows it" in text


def test_a_mysql_that_is_not_ours_is_not_written_to_so_less_is_told() -> None:
    theirs = replace(SERVING, password=True, database="")
    unread = [Round(replace(ALONE, mysql_ms=None), replace(THROUGH, mysql_ms=None), warm=True)]
    shown = replace(SHOWN, written=None, pages=replace(COSTS, rounds=unread))
    text = "\n".join(screen.screen(shown, theirs))
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
    serving = replace(SERVING, database="lobsters")
    printed = [*screen.measured(SHOWN, serving), PICTURES, "", *screen.addresses(serving)]
    assert screen.outline(shown) == screen.outline(printed)


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
