"""The load's chart in a terminal of any width, in a pipe, and without colours."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from examples.lobsters.chart import BLOCKS, LETTERS, Chart, compared, drawn, line, series
from examples.lobsters.closed_load import Pages, Round, Turn


def turn(page_ms: float, mysql_ms: float | None, hits: int) -> Turn:
    return Turn((page_ms,) * 6, mysql_ms, 60.0, 100, hits)


def load(rounds: int, *, readable: bool = True) -> Pages:
    """Upwell gets quicker; MySQL does not."""
    made = [
        Round(
            turn(100.0, 600.0 if readable else None, 0),
            turn(100.0 / place, 600.0 / place if readable else None, min(99, 10 * place)),
            warm=place > rounds // 3,
        )
        for place in range(1, rounds + 1)
    ]
    return Pages(2, made, ())


def printed(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("rounds", [1, 2, 7, 40, 200])
@pytest.mark.parametrize("width", [20, 40, 50, 80, 200])
def test_each_line_fits_however_many_rounds_there_are(width: int, rounds: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    with Chart(console, "MySQL").shown() as tell:
        for done in range(1, rounds + 1):
            tell(Pages(2, load(rounds).rounds[:done], ()), done / rounds)
    lines = printed(console)
    assert max(map(len, lines)) <= min(width, 80)
    assert len([line for line in lines if line]) <= 11


def test_in_a_pipe_it_is_there_once_and_has_no_colours() -> None:
    console = Console(file=io.StringIO(), width=80)
    with Chart(console, "MySQL").shown() as tell:
        for done in range(1, 13):
            tell(Pages(2, load(12).rounds[:done], ()), done / 12)
        assert not [line for line in printed(console) if line.strip()], "nothing before the end"
    text = "\n".join(printed(console))
    assert text.count("pages a second") == 1 and "\x1b" not in text


def test_on_a_terminal_it_is_drawn_again_after_each_round() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    with Chart(console, "MySQL").shown() as tell:
        for done in range(1, 5):
            tell(Pages(2, load(12).rounds[:done], ()), done / 12)
            assert "\n".join(printed(console)).count("pages a second") == done
    assert "warming" in printed(console)[-2] and "\x1b[2K" not in printed(console)[-1], "it stays at the end"


def test_what_has_no_blocks_gets_letters() -> None:
    kept = io.BytesIO()
    with io.TextIOWrapper(kept, encoding="ascii") as file:
        with Chart(Console(file=file, width=80), "MySQL").shown() as tell:
            tell(load(12), 1.0)
        file.flush()
        assert LETTERS[-1] * 20 in kept.getvalue().decode("ascii")


def test_both_ports_are_told_apart_by_words() -> None:
    lines = str(drawn(load(12), 1.0, "vtgate", 80)).splitlines()
    assert [line[24:31].strip() for line in lines[1:-1]] == ["vtgate", "Upwell"] * 4 + ["Upwell"]
    assert "|- warming" in lines[-1] and "|- these count" in lines[-1]
    cpu = next(line for line in lines if line.startswith("vtgate's CPU"))
    assert cpu.count(BLOCKS[-1]) == 40 and cpu.endswith("100.0")


def test_the_figure_at_the_end_is_of_the_pages_that_count() -> None:
    pages = load(12)
    found = {one.title: one for one in series(pages, "MySQL")}
    assert found["pages a second"].ends == (pages.alone.a_second, pages.through.a_second)
    warming = Pages(2, pages.rounds[:2], ())
    assert series(warming, "MySQL")[1].ends[1] == pytest.approx(2 * 1000 / 75), "of the last rounds until then"


def test_where_mysqls_cpu_cannot_be_read_nothing_is_said_of_it() -> None:
    assert series(load(12, readable=False), "MySQL")[0].title == "pages a second"


def test_blocks_are_stretched_and_squeezed() -> None:
    assert line([0.0, 8.0], 8.0, 6, BLOCKS) == "▁▁▁███"
    assert line([0.0, 8.0, 8.0, 8.0], 8.0, 2, BLOCKS) == "▅█"


def test_a_loss_is_not_called_a_gain() -> None:
    assert compared(30.0, 10.0, "less", "more") == "3.0x less"
    assert compared(10.0, 125.0, "less", "more") == "12x more"
    assert compared(0.0, 1.0, "less", "more") == ""
    assert compared(100.0, 104.0, "less", "more") == compared(104.0, 100.0, "less", "more") == "the same"
