"""The load as it happens, in a terminal or a pipe: a line of blocks for each figure at each port.

Nothing depends on colours. What is narrower than 80 columns gets fewer blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.text import Text

from examples.lobsters.closed_load import TURN, PageCosts, Pages

BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.,:-=+#"  # where the terminal's encoding has no blocks
LABEL, PORT, FIGURE = 24, 7, 9  # columns
MOST, LEAST = 40, 4  # blocks; none where fewer than the least have room
ALONE, THROUGH = "yellow", "cyan"


@dataclass(frozen=True)
class Series:
    """One figure at both ports. `alone`, `through`: a value for each round, with those just before it; `ends`: of all
    pages that count, of the last rounds while there are none. `alone` is empty for what only Upwell has. `gain`: what
    Upwell makes of it, in words."""

    title: str
    unit: str
    alone: Sequence[float]
    through: Sequence[float]
    ends: tuple[float, float]
    gain: str

    @property
    def top(self) -> float:
        return 100.0 if self.unit == "%" else max(*self.alone, *self.through, 1e-9)

    @property
    def label(self) -> str:
        return f"{self.title}, {self.unit}" if self.unit else self.title


def times(value: float) -> str:
    return f"{value:,.0f}x" if value >= 10 else f"{value:.1f}x"


def compared(alone: float, through: float, less: str, more: str) -> str:
    """`3.0x less`: `through` beside `alone`; `the same` where the two are within a twentieth."""
    if not alone or not through:
        return ""
    if max(alone, through) < 1.05 * min(alone, through):
        return "the same"
    return f"{times(alone / through)} {less}" if alone >= through else f"{times(through / alone)} {more}"


def figure(
    pages: Pages, title: str, unit: str, value: Callable[[PageCosts], float], words: tuple[str, str] | None
) -> Series:
    """`words`: for less of it and for more; None: MySQL alone has nothing of the kind."""
    history = pages.history()
    counted = (pages.alone, pages.through) if any(round_.warm for round_ in pages.rounds) else history[-1]
    ends = value(counted[0]), value(counted[1])
    alone = [value(each) for each, _ in history] if words else []
    gain = compared(*ends, *words) if words else f"{ends[1]:.0f} {unit}"
    return Series(title, unit, alone, [value(each) for _, each in history], ends, gain)


def series(pages: Pages, source: str) -> list[Series]:
    """What is drawn of the load; without MySQL's CPU where it cannot be read."""
    readable = pages.rounds[0].alone.mysql_ms is not None
    cpu = [(f"{source}'s CPU a page", "ms", lambda costs: costs.mysql_cpu_ms or 0.0, ("less", "more"))]
    return [
        *(figure(pages, *one) for one in (cpu if readable else [])),
        figure(pages, "pages a second", "", lambda costs: costs.a_second, ("fewer", "as many")),
        figure(pages, "page's time, p50", "ms", lambda costs: costs.p50_ms, ("less", "more")),
        figure(pages, "page's time, p99", "ms", lambda costs: costs.p99_ms, ("less", "more")),
        figure(pages, "hits", "%", lambda costs: costs.hits * 100, None),
    ]


def drawn(pages: Pages, part: float, source: str, width: int, blocks: str = BLOCKS) -> Text:
    """The chart in so many columns. `part`: how much of the load is done."""
    room = min(MOST, width - LABEL - PORT - FIGURE)
    room = 0 if room < LEAST else room
    filled = min(room, max(1, round(room * part)))
    text = Text(no_wrap=True, overflow="crop")
    text.append(f"Pages by {pages.clients} clients, {TURN} s at each port in turns\n", "bold")
    for one in series(pages, source):
        lanes = [(source, one.alone, one.ends[0], ALONE)] if one.alone else []
        title = one.label
        for name, values, end, ink in [*lanes, ("Upwell", one.through, one.ends[1], THROUGH)]:
            text.append(f"{title:{LABEL}}{name:{PORT}}")
            text.append(f"{line(values, one.top, filled, blocks):{room}}", ink)
            text.append(f"{end:{FIGURE},.1f}\n")
            title = ""
    warming = [round_.warm for round_ in pages.rounds].count(False)
    edge = min(filled, max(1, round(filled * warming / len(pages.rounds))))
    text.append(" " * (LABEL + PORT) + scale("warming", edge) + scale("these count", filled - edge))
    return text


def line(values: Sequence[float], top: float, columns: int, blocks: str) -> str:
    """The values over so many columns: a column has the mean of its values, or shares one with its neighbours."""
    found = []
    for column in range(columns):
        begin = column * len(values) // columns
        some = values[begin : max(begin + 1, (column + 1) * len(values) // columns)]
        part = sum(some) / len(some) / top
        found.append(blocks[min(len(blocks) - 1, int(part * len(blocks)))])
    return "".join(found)


def scale(word: str, columns: int) -> str:
    """`|- word --` of that many columns; shorter than the word: its mark alone."""
    return (
        f"|{f'- {word} '[: columns - 1]:-<{columns - 1}}"
        if columns > len(word) + 3
        else "|".ljust(columns, "-")[:columns]
    )


class Chart:
    """Drawn again after each round on a terminal, once at the end elsewhere."""

    def __init__(self, console: Console, source: str) -> None:
        self._console, self._source = console, source
        self._blocks = BLOCKS if console.encoding.startswith("utf") else LETTERS

    @contextmanager
    def shown(self) -> Iterator[Callable[[Pages, float], None]]:
        """What is to be told of each round. Between rounds nothing is drawn: that would take from what is measured."""
        with Live(console=self._console, auto_refresh=False) as live:
            yield lambda pages, part: live.update(
                drawn(pages, part, self._source, self._console.width, self._blocks), refresh=self._console.is_terminal
            )
        if not self._console.is_terminal:
            self._console.line()
