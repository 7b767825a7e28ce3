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

from examples.lobsters.queries import CATALOGUE
from examples.lobsters.two_ports import Pages, Pair

WIDTH = 80
HEIGHT = 24
SHOWN = 6  # queries
EVICT = "evict"  # the mode of a cache that writes empty
README = Path(__file__).parents[2] / "README.md"
MARKS = {"screen": "make screen", "spark": "make screen SPARK=on"}  # blocks of README.md, and what writes each


@dataclass(frozen=True)
class Serving:
    """Where everything is. `user`, `password`: of the account that is shown; "" where it has no password. `source`:
    what is behind Upwell, in a word. `client`: the command `mysql`."""

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
    """What was measured. `seen_ms`: None for a MySQL that is not ours, which is not written to; there is nothing that
    writes in its pages either. `modes`: of each query's cache."""

    pages: Pages
    modes: Mapping[str, str]
    seen_ms: float | None
    seen_by: str
    compared: int
    different: int


def milliseconds(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def times(value: float) -> str:
    return f"{value:,.0f}x" if value >= 10 else f"{value:.1f}x"


def title(id: str) -> str:
    return CATALOGUE[id].title


def screen(shown: Shown, serving: Serving) -> list[str]:
    """The lines: none is wider than WIDTH but that of the log, where its path is."""
    return [*measured(shown, serving), "", *addresses(serving)]


def measured(shown: Shown, serving: Serving) -> list[str]:
    """The screen without the lines to copy."""
    verdict = "equal" if not shown.different else f"{shown.different} DIFFERENT"
    return [
        *_pages(shown, serving.source),
        *_written(shown),
        "",
        *_queries(shown, serving.source),
        f"{shown.compared:,} answers of both ports compared: {verdict}",
    ]


def _pages(shown: Shown, source: str) -> list[str]:
    pages = shown.pages
    alone, through = pages.alone, pages.through
    between = ", writes between" if shown.seen_ms is not None else ""
    lines = [_row(f"A page ({pages.count} at each{between})", f"{source} alone", "with Upwell", "")]
    if alone.mysql_cpu_ms and through.mysql_cpu_ms:
        lines.append(_times(f"{source}'s CPU", alone.mysql_cpu_ms, through.mysql_cpu_ms, "less"))
    lines.append(_times("the page's time", alone.page_ms, through.page_ms, "as fast"))
    lines.append(_row("  Upwell's CPU", "-", f"{milliseconds(through.upwell_cpu_ms)} ms", ""))
    return lines


def _times(what: str, alone: float, through: float, word: str) -> str:
    return _row(
        f"  {what}", f"{milliseconds(alone)} ms", f"{milliseconds(through)} ms", f"{times(alone / through)} {word}"
    )


def _row(what: str, alone: str, through: str, gain: str) -> str:
    return f"{what:39} {alone:>12} {through:>12}  {gain}".rstrip()


def _written(shown: Shown) -> list[str]:
    if shown.seen_ms is None:
        return []
    what = "a hit" if shown.seen_by == "hit" else f"a read ({shown.seen_by})"
    return [f"A write at MySQL: {what} at Upwell shows it {milliseconds(shown.seen_ms)} ms after the COMMIT"]


def _queries(shown: Shown, source: str) -> list[str]:
    """The queries that take most of the source's time, and the rest in a line."""
    pages = shown.pages
    first, rest = pages.queries[:SHOWN], pages.queries[SHOWN:]
    emptied = [asked for asked in first if shown.modes.get(asked.id) == EVICT and asked.hits < 1.0]
    head = f"Queries by share of {source}'s time; ms a read"
    lines = [f"{head:44} {'share':>5} {source:>9} {'Upwell':>9} {'hits':>5}"]
    for asked in first:
        name = shorten(title(asked.id), 40, placeholder=" ...") + (" *" if asked in emptied else "")
        lines.append(_query(f"  {name}", pages.share(asked), asked.mysql_ms, asked.upwell_ms) + f" {asked.hits:>5.0%}")
    if rest:
        mysql = [ms for asked in rest for ms in asked.mysql_ms]
        upwell = [ms for asked in rest for ms in asked.upwell_ms]
        lines.append(_query(f"  {len(rest)} others", sum(map(pages.share, rest)), mysql, upwell))
    behind = " * So is the one behind a write to its tables." if emptied and shown.seen_ms is not None else ""
    return [*lines, f"  A key's first read is {source}'s.{behind}"]


def _query(name: str, share: float, mysql: Sequence[float], upwell: Sequence[float]) -> str:
    shown = (milliseconds(fmean(each)) if each else "-" for each in (mysql, upwell))
    return "{:44} {:>5.0%} {:>9} {:>9}".format(name, share, *shown)


def mysql_command(serving: Serving) -> str:
    """A line to copy."""
    password = " -p" if serving.password else ""
    return (
        f"{serving.client} -h 127.0.0.1 -P {serving.mysql_port} -u {serving.user}{password} {serving.database}".rstrip()
    )


def account(serving: Serving) -> str:
    return "your account at MySQL" if serving.password else f"{serving.user} without a password"


def addresses(serving: Serving) -> list[str]:
    """Three lines to copy, and where the rest is."""
    return [
        f"Serving until Ctrl-C. To copy (the account: {account(serving)}):",
        f"  {mysql_command(serving)}",
        f"  .venv/bin/upwell cache ls --grpc {serving.grpc}",
        f"  curl http://127.0.0.1:{serving.http_port}/",
        "All caches filled by Spark, and audited: make demo SPARK=on",
        f"{serving.source} itself: {serving.mysql}. Upwell's log:",
        f"  {serving.log}",
    ]


def next_steps(serving: Serving) -> list[str]:
    """For a MySQL that was given and has nothing cached yet."""
    return [
        "Nothing is cached yet. What to do next:",
        f"  1. Let your application, or the line above, read through port {serving.mysql_port}.",
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
        if line.startswith("  A key's first read"):
            line = line.partition(" *")[0]
        line = re.sub(r"^  (?!\d+ others).*?((?: +[\d.,%-]+){3,})$", r"  ...\1", line)
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
