"""The first screen of `make run`: 80 columns, one screen. Measured by `two_ports.py`, put into words here.

`make screen` runs the real thing and puts what it prints between two marks in README.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.lobsters.queries import CATALOGUE
from examples.lobsters.two_ports import PageCosts, Pair

WIDTH = 80
HEIGHT = 24
SHOWN = 6  # queries
README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- screen: written by `make screen` -->\n```\n", "```\n<!-- /screen -->\n"


@dataclass(frozen=True)
class Serving:
    """Where everything is. `user`, `password`: of the account that is shown; "" where it has no password. `source`:
    what is behind Upwell, in a word."""

    mysql: str
    mysql_port: int
    grpc: str
    http_port: int
    log: str
    user: str
    password: bool
    database: str = ""
    source: str = "MySQL"


@dataclass(frozen=True)
class Shown:
    """What was measured. None where it cannot be: a MySQL that is not ours is not written to."""

    pairs: Sequence[Pair]
    seen_ms: float | None
    seen_by: str
    pages: PageCosts | None
    compared: int
    different: int


def milliseconds(value: float) -> str:
    return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"


def times(value: float) -> str:
    return f"{value:,.0f}x" if value >= 100 else f"{value:.1f}x"


def by_gain(pairs: Sequence[Pair], count: int = SHOWN) -> list[Pair]:
    """From the largest gain to the smallest, in even steps between: the smallest is always among them."""
    ranked = sorted(pairs, key=lambda pair: -pair.gain)
    if len(ranked) <= count:
        return ranked
    return [ranked[round(place * (len(ranked) - 1) / (count - 1))] for place in range(count)]


def slowest(pairs: Sequence[Pair]) -> Pair:
    """The query that takes MySQL longest, of those that Upwell answers with hits."""
    return max(pairs, key=lambda pair: (pair.hits > 0.9, pair.mysql_ms))


def title(id: str) -> str:
    return CATALOGUE[id].title


def screen(shown: Shown, serving: Serving) -> list[str]:
    """The lines: none is wider than WIDTH but that of the log, where its path is."""
    lines = [*_slow(slowest(shown.pairs), serving), *_written(shown), "", *_queries(shown.pairs, serving.source), ""]
    if shown.pages is not None:
        lines.append(
            f"MySQL's CPU for a page: {milliseconds(shown.pages.before_ms)} ms alone, "
            f"{milliseconds(shown.pages.after_ms)} ms with Upwell ({shown.pages.pages} pages each)"
        )
    verdict = "equal" if not shown.different else f"{shown.different} DIFFERENT"
    lines.append(f"{shown.compared:,} answers compared: {verdict}")
    return [*lines, "", *addresses(serving)]


def _slow(pair: Pair, serving: Serving) -> list[str]:
    rows = (
        (serving.source, serving.mysql, pair.mysql_ms, ""),
        ("Upwell", f"127.0.0.1:{serving.mysql_port}", pair.upwell_ms, f"{times(pair.gain)} as fast"),
    )
    return [
        f"One slow query, two ports, the same driver: {title(pair.id)[:34]}",
        *(f"  {name:7} {address:22} {milliseconds(ms):>9} ms   {gain}".rstrip() for name, address, ms, gain in rows),
    ]


def _written(shown: Shown) -> list[str]:
    if shown.seen_ms is None:
        return []
    what = "a hit" if shown.seen_by == "hit" else f"a read ({shown.seen_by})"
    return [f"A write at MySQL: {what} at Upwell shows it {milliseconds(shown.seen_ms)} ms after the COMMIT"]


def _queries(pairs: Sequence[Pair], source: str) -> list[str]:
    shown = by_gain(pairs)
    title_of_all = f"{len(shown)} of {len(pairs)} cached queries, by gain"
    head = f"{title_of_all:46} {f'{source} ms':>9} {'Upwell ms':>10} {'gain':>9}"
    return [
        head,
        *(
            f"  {title(pair.id)[:44]:44} {milliseconds(pair.mysql_ms):>9} {milliseconds(pair.upwell_ms):>10}"
            f" {times(pair.gain):>9}"
            for pair in shown
        ),
    ]


def mysql_command(serving: Serving) -> str:
    """A line to copy."""
    password = " -p" if serving.password else ""
    return f"mysql -h 127.0.0.1 -P {serving.mysql_port} -u {serving.user}{password} {serving.database}".rstrip()


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
        line = re.sub(r"(the same driver: ).*", r"\1...", line)
        line = re.sub(r"^  \S.*?( +[\d.,]+ +[\d.,]+ +[\d.,]+x)$", r"  ...\1", line)
        line = re.sub(r"^  /.*", "  ...", line)
        found.append(re.sub(r" +", " ", re.sub(r"\d[\d.,]*", "0", line)))
    return found


def block_of(text: str) -> list[str]:
    """The lines between the marks."""
    return text.partition(BEGIN)[2].partition(END)[0].splitlines()


def with_block(text: str, lines: Sequence[str]) -> str:
    """The text with these lines between its marks. Raises ValueError where it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN.splitlines()[0]} and {END.splitlines()[-1]} in the text")
    return before + begin + "".join(f"{line}\n" for line in lines) + end + after
