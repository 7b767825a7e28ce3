"""The first screen of `make run`: 80 columns, one screen. Measured by `two_ports.py`, put into words here.

`make screen` runs the real thing and puts what it prints between marks in README.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from textwrap import shorten

from examples.lobsters.chart import compared, times
from examples.lobsters.closed_load import Asked, Pages
from examples.lobsters.queries import CATALOGUE
from examples.lobsters.two_ports import Pair, Written

WIDTH = 80
HEIGHT = 30
SHOWN = 6  # queries
EVICT = "evict"  # the mode of a cache that writes empty
README = Path(__file__).parents[2] / "README.md"
MARKS = {"screen": "make screen", "spark": "make screen SPARK=on"}  # blocks of README.md, and what writes each


@dataclass(frozen=True)
class Serving:
    """Where everything is. `user`, `password`: of the account that is shown; "" where it has no password. `source`:
    what is behind Upwell, in a word. `client`: the command `mysql`, "" where there is none."""

    mysql: str
    mysql_port: int
    grpc: str
    http_port: int
    log: str
    user: str
    password: bool
    database: str = ""
    source: str = "MySQL"
    client: str = "mysql"


@dataclass(frozen=True)
class Shown:
    """What was measured. `written`: None for a MySQL that is not ours, which is not written to; there is nothing that
    writes in its pages either. `modes`: of each query's cache. `compared`: reads at both ports; `audited`: held answers
    that were compared with the source; `different`: of both."""

    pages: Pages
    modes: Mapping[str, str]
    written: Written | None
    compared: int
    audited: int
    different: int


def milliseconds(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def title(id: str) -> str:
    return CATALOGUE[id].title


def screen(shown: Shown, serving: Serving) -> list[str]:
    """The lines: none is wider than WIDTH but those where paths are."""
    return [*measured(shown, serving), "", *addresses(serving)]


def measured(shown: Shown, serving: Serving) -> list[str]:
    """The screen without the lines to copy."""
    return [
        *_pages(shown, serving.source),
        *_written(shown, serving.source),
        "",
        *_queries(shown, serving.source),
        verdict(shown),
    ]


def verdict(shown: Shown) -> str:
    found = "equal" if not shown.different else f"{shown.different} DIFFERENT"
    return f"{shown.compared:,} answers of both ports compared, {shown.audited:,} held ones audited: {found}"


def _pages(shown: Shown, source: str) -> list[str]:
    alone, through = shown.pages.alone, shown.pages.through
    between = ", writes between" if shown.written is not None else ""
    lines = [_row(f"Pages by {shown.pages.clients} clients{between}", f"{source} alone", "with Upwell", "")]
    if alone.mysql_cpu_ms and through.mysql_cpu_ms:
        lines.append(_times(f"{source}'s CPU a page", alone.mysql_cpu_ms, through.mysql_cpu_ms))
    within = [f"{milliseconds(port.p50_ms)} / {milliseconds(port.p99_ms)}" for port in (alone, through)]
    return [
        *lines,
        _times("a page's time", alone.page_ms, through.page_ms),
        _row("  half of the pages within / 99 %", within[0], within[1], ""),
        _row("  pages a second", f"{alone.a_second:.1f}", f"{through.a_second:.1f}", ""),
        _row("  Upwell's CPU a page", "-", f"{milliseconds(through.upwell_cpu_ms)} ms", ""),
    ]


def _times(what: str, alone: float, through: float) -> str:
    gained = compared(alone, through, "less", "more")
    return _row(f"  {what}", f"{milliseconds(alone)} ms", f"{milliseconds(through)} ms", gained)


def _row(what: str, alone: str, through: str, gain: str) -> str:
    return f"{what:34} {alone:>16} {through:>16}  {gain}".rstrip()


def _written(shown: Shown, source: str) -> list[str]:
    done = shown.written
    if done is None:
        return []
    how = "a hit" if done.served == "hit" else f"a read ({done.served})"
    return [
        f"A write, and {how} that shows it {milliseconds(done.ms)} ms after the COMMIT:",
        f"  at {source}:  {done.write}",
        f"  at Upwell: {done.read}: upvotes {done.shown[0]} -> {done.shown[1]}",
    ]


def _queries(shown: Shown, source: str) -> list[str]:
    """The queries that take most of the source's time, and the rest in a line."""
    pages = shown.pages
    first, rest = pages.queries[:SHOWN], pages.queries[SHOWN:]
    emptied = [asked for asked in first if shown.modes.get(asked.id) == EVICT and asked.hits < 1.0]
    head = f"Queries by share of {source}'s time"
    lines = [f"{head:40} {'share':>5} {source:>9} {'Upwell':>9} {'gain':>6} {'hits':>5}"]
    for asked in first:
        name = shorten(title(asked.id), 36, placeholder=" ...") + (" *" if asked in emptied else "")
        lines.append(_query(f"  {name}", pages.share(asked), [asked]) + f" {asked.hits:>5.0%}")
    if rest:
        lines.append(_query(f"  {len(rest)} others", sum(map(pages.share, rest)), rest))
    behind = " * So is one after a write to its tables." if emptied and shown.written else ""
    return [*lines, f"  ms a read. A key's first is {source}'s.{behind}"]


def _query(name: str, share: float, asked: Sequence[Asked]) -> str:
    mysql, upwell = all_ms(asked)
    return f"{name:40} {share:>5.0%} {shown_mean(mysql):>9} {shown_mean(upwell):>9} {gain(mysql, upwell):>6}"


def all_ms(asked: Sequence[Asked]) -> tuple[list[float], list[float]]:
    """Of all their reads, at either port."""
    return [ms for each in asked for ms in each.mysql_ms], [ms for each in asked for ms in each.upwell_ms]


def shown_mean(ms: Sequence[float]) -> str:
    return milliseconds(fmean(ms)) if ms else "-"


def gain(mysql: Sequence[float], upwell: Sequence[float]) -> str:
    """How many times the one is of the other, on the mean: below 1 it is a loss."""
    return times(fmean(mysql) / fmean(upwell)) if mysql and upwell else "-"


def mysql_command(serving: Serving) -> str:
    """A line to copy."""
    password = " -p" if serving.password else ""
    return (
        f"{serving.client} -h 127.0.0.1 -P {serving.mysql_port} -u {serving.user}{password} {serving.database}".rstrip()
    )


def account(serving: Serving) -> str:
    return "your account at MySQL" if serving.password else f"{serving.user} without a password"


def addresses(serving: Serving) -> list[str]:
    """Lines to copy, and where the rest is."""
    return [
        f"Serving port {serving.mysql_port} until Ctrl-C. In a browser: http://127.0.0.1:{serving.http_port}/",
        f"To copy (the account: {account(serving)}):",
        *([f"  {mysql_command(serving)}"] if serving.client else []),
        f"  .venv/bin/upwell top --http 127.0.0.1:{serving.http_port}",
        f"  .venv/bin/upwell cache ls --grpc {serving.grpc}",
        f"  curl http://127.0.0.1:{serving.http_port}/",
        f"{serving.source} itself: {serving.mysql}. Upwell's log:",
        f"  {serving.log}",
    ]


def next_steps(serving: Serving) -> list[str]:
    """For a MySQL that was given and has nothing cached yet."""
    line = ", or the line above," if serving.client else ""
    return [
        "Nothing is cached yet. What to do next:",
        f"  1. Let your application{line} read through port {serving.mysql_port}.",
        "  2. SHOW PROXIED QUERIES; there lists what was asked, and what can be cached.",
        "  3. CREATE CACHE FROM SELECT ... WHERE id = ?;  keeps a query's answers, and",
        "     EXPLAIN LAST STATEMENT; says whether a read was a hit.",
        "  `upwell serve --auto-cache=on` does 2 and 3 by itself.",
    ]


def table(pairs: Sequence[Pair], source: str = "MySQL") -> list[str]:
    """Every query, by gain."""
    lines = [f"{'query':7} {'':44} {f'{source} ms':>9} {'first ms':>9} {'Upwell ms':>10} {'gain':>9} {'hits':>5} equal"]
    for pair in sorted(pairs, key=lambda pair: -pair.gain):
        lines.append(
            f"{pair.id:7} {title(pair.id)[:44]:44} {milliseconds(pair.mysql_ms):>9} {milliseconds(pair.first_ms):>9}"
            f" {milliseconds(pair.upwell_ms):>10} {times(pair.gain):>9} {pair.hits:5.0%} "
            f"{'no' if pair.differences else 'yes'}"
        )
    return lines


def outline(lines: Sequence[str]) -> list[str]:
    """The lines without what another run, another machine or another choice of queries prints."""
    found = []
    for line in lines:
        if line.startswith("  ms a read"):
            line = line.partition(" *")[0]
        line = re.sub(r"^  (?!\d+ others).*?((?: +(?:-|\d[\d.,%x]*)){3,})$", r"  ...\1", line)
        line = re.sub(r"(\d[\d.,]*x (less|more)|the same)$", "0x less", line)
        line = re.sub(r"^As pictures: .*", "As pictures: ...", line)
        line = re.sub(r"^  \S+(?= -h )", "  mysql", line)
        line = re.sub(r"^  /\S+$", "  ...", line)
        found.append(re.sub(r" +", " ", re.sub(r"\d[\d.,]*", "0", line)))
    return found


def block_of(text: str, name: str) -> list[str]:
    """The lines between the marks of this name."""
    return _around(text, name)[1].splitlines()


def with_block(text: str, name: str, lines: Sequence[str]) -> str:
    """The text with these lines between the marks of this name. Raises ValueError where it has none."""
    before, _, after = _around(text, name)
    return before + "".join(f"{line}\n" for line in lines) + after


def _around(text: str, name: str) -> tuple[str, str, str]:
    """What stands before the lines, the lines, and what stands behind them."""
    begin, end = f"<!-- {name}: written by `{MARKS[name]}` -->\n```\n", f"```\n<!-- /{name} -->\n"
    before, found, rest = text.partition(begin)
    lines, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"no {begin.splitlines()[0]} and {end.splitlines()[-1]} in the text")
    return before + begin, lines, end + after
