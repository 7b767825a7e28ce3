"""What `upwell bench --mysql` has measured, in figures and in words."""

from __future__ import annotations

import os
from collections import Counter

from bulk.bench import BUSY, DIRECT, NO_IDLE, QUANTILES, THROUGH, Asked, Measured, Side
from external_upquery.address import is_loopback
from upwell.command import print_json

TITLES = {THROUGH: "through", DIRECT: "direct"}
SHOWN_ERRORS = 3
SHARE = 0.15  # of the machine's processors: what a client takes beyond that others may lack
TITLE = 22  # letters of the longest one

Figures = dict[str, float | int | None]


def quantile(times: Counter[int], part: float) -> float:
    """Milliseconds within which that part of the answers came. Requires: there is one."""
    left = part * times.total()
    for microseconds in sorted(times):
        left -= times[microseconds]
        if left <= 0:
            break
    return microseconds / 1e3


def figures(side: Side, *, mysql_known: bool) -> Figures:
    """Of one side, by name; None where it is not known."""
    seen = side.seen
    answers = seen.times.total()
    found: Figures = {"answers": answers, "errors": seen.errors.total(), "seconds": round(seen.seconds, 3)}
    found["per_second"] = answers / seen.seconds if seen.seconds else 0.0
    for name, part in QUANTILES.items():
        found[f"{name}_ms"] = quantile(seen.times, part) if answers else None
    found["max_ms"] = max(seen.times) / 1e3 if answers else None
    found["mysql_cpu_us"] = side.mysql / answers * 1e6 if mysql_known and answers else None
    found["client_cpu"] = max(seen.cpu, default=0.0)
    return found


def bottlenecks(asked: Asked, measured: Measured) -> list[str]:
    """Where the load itself held the figures down: a sentence each."""
    found = []
    cores = os.cpu_count() or 1
    for name, side in measured.sides.items():
        if not side.seen.seconds:
            continue
        server = asked.through if name == THROUGH else asked.direct
        assert server is not None
        used = max(side.seen.cpu, default=0.0)
        idle = side.idle / (side.seen.seconds * cores)
        if used > BUSY:
            found.append(
                f"{TITLES[name]}: the client was the bottleneck: a process of it used {used:.0%} of a processor."
                f" More --processes (now {len(side.seen.cpu)}), or a machine of its own, may give more"
            )
        elif idle < NO_IDLE and sum(side.seen.cpu) > SHARE * cores and (is_loopback(server.host) or server.unix_socket):
            found.append(
                f"{TITLES[name]}: no processor of this machine had time left, and the client took"
                f" {sum(side.seen.cpu):.1f} of {cores}: from another machine there may be more"
            )
    return found


def notes(asked: Asked, measured: Measured) -> list[str]:
    """What must be known to read the figures: a sentence each."""
    found = []
    counts = measured.counts
    if counts is None:
        found.append("the server of --mysql is no Upwell: it knows no EXPLAIN LAST STATEMENT")
    elif not measured.cache:
        found.append(f"no cache answers this statement: {measured.why}")
    if not measured.mysql_known:
        found.append("MySQL's CPU is not known: its process is not on this machine, or its account may not look")
    for name, side in measured.sides.items():
        for text, count in side.seen.errors.most_common(SHOWN_ERRORS):
            found.append(f"{TITLES[name]}: {count:,} times: {text}")
    return [*found, *bottlenecks(asked, measured)]


def show(asked: Asked, measured: Measured, keys: int) -> None:
    sides = {name: figures(side, mysql_known=measured.mysql_known) for name, side in measured.sides.items()}
    how = "prepared" if asked.prepared else "text"
    print(
        f"{keys:,} keys, {asked.spread}; {asked.connections} connections, {how};"
        f" {max(side.seen.seconds for side in measured.sides.values()):.1f} s of each"
    )
    lines = [["", *(TITLES[name] for name in sides)], *(_line(*line, sides) for line in _LINES)]
    lines = [line for line in lines if any(line[1:])]
    width = max(len(cell) for line in lines for cell in line[1:])
    for title, *cells in lines:
        print("  ".join([title.ljust(TITLE), *(cell.rjust(width) for cell in cells)]).rstrip())
    if (counts := measured.counts) is not None:
        rate = "no read" if counts.hit_rate is None else f"hit rate {counts.hit_rate:.2%}"
        whose = f"cache {measured.cache}" if measured.cache else "all reads of this Upwell"
        print(f"{whose}: {rate} ({counts.hits:,} hits, {counts.misses:,} misses, {counts.passed:,} passed)")
    for note in notes(asked, measured):
        print(note)


_LINES = (
    ("reads a second", "per_second", "{:,.0f}"),
    *((f"{name} ms", f"{name}_ms", "{:,.3f}") for name in QUANTILES),
    ("longest ms", "max_ms", "{:,.3f}"),
    ("MySQL's CPU, us a read", "mysql_cpu_us", "{:,.1f}"),
    ("client's CPU", "client_cpu", "{:.0%}"),
)


def _line(title: str, name: str, form: str, sides: dict[str, Figures]) -> list[str]:
    """A line of the table; with both sides also how many times the direct figure the other one is."""
    values = [side[name] for side in sides.values()]
    cells = [title, *("" if value is None else form.format(value) for value in values)]
    if len(values) > 1 and name != "client_cpu" and all(values):
        through, direct = (float(value or 0) for value in values)
        cells.append(f"{through / direct:.2f}x")
    return cells


def show_json(asked: Asked, measured: Measured, keys: int) -> None:
    counts = measured.counts
    print_json(
        {
            "sql": asked.sql,
            "keys": keys,
            "spread": asked.spread,
            "connections": asked.connections,
            "prepared": asked.prepared,
            **{name: figures(side, mysql_known=measured.mysql_known) for name, side in measured.sides.items()},
            "cache": measured.cache or None,
            "why": measured.why or None,
            "hits": counts and counts.hits,
            "misses": counts and counts.misses,
            "passed": counts and counts.passed,
            "hit_rate": counts and counts.hit_rate,
            "interrupted": measured.interrupted,
            "notes": notes(asked, measured),
        }
    )
