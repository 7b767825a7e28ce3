"""Figures as people read them in a terminal, and the columns of its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from upwell.printable import one_line
from upwell.top.state import Json, State

BLOCKS = "▁▂▃▄▅▆▇█"
SIZES = ("B", "KiB", "MiB", "GiB", "TiB")


def amount(value: float) -> str:
    """`0`, `7.5`, `812`, `12.3k`, `4.56M`: five letters at most."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            part = value / (1e3 if unit == "k" else size)
            return f"{part:.{0 if part >= 100 else 1 if part >= 10 else 2}f}{unit}"
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def size(count: float) -> str:
    """`812 B`, `1.5 GiB`."""
    unit = 0
    while count >= 1024 and unit < len(SIZES) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} {SIZES[unit]}" if count >= 100 or not unit else f"{count:.1f} {SIZES[unit]}"


def took(seconds: float) -> str:
    """`0`, `85 us`, `1.2 ms`, `3.4 s`, `12 min`, `5.0 h`."""
    for unit, part in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= (2 * part if part >= 60 else part):
            value = seconds / part
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{seconds * 1e6:.0f} us" if seconds else "0"


def share(part: float) -> str:
    """`98.2%`; never 100% where something is missing."""
    return "100%" if part == 1 else f"{min(part * 100, 99.9):.1f}%"


def spark(values: Sequence[float], width: int, top: float = 0.0) -> str:
    """The values as a line of blocks, the last one to the right; several in one place by their average. `top`: what the
    highest block stands for; 0: the largest value."""
    if not values or width < 1:
        return " " * width
    per = -(-len(values) // width)
    head = len(values) % per
    parts = [values[:head]] if head else []
    parts += [values[at : at + per] for at in range(head, len(values), per)]
    means = [sum(part) / len(part) for part in parts]
    highest = top or max(means) or 1.0
    steps = len(BLOCKS) - 1
    drawn = "".join(BLOCKS[min(steps, round(mean / highest * steps))] for mean in means)
    return drawn.rjust(width)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


@dataclass(frozen=True, slots=True)
class Column:
    """`width`: in letters; at least, where it `grows`. `value`: by which rows are sorted. `text`: how it is shown."""

    title: str
    width: int
    value: Callable[[Json, State], Any]
    text: Callable[[Any], str] = amount
    grows: bool = False

    @property
    def is_text(self) -> bool:
        return self.text is one_line


def _hit_rate(cache: Json, state: State) -> float:
    reads = cache["hits"] + cache["misses"] + cache["passed"]
    return cache["hits"] / reads if reads else 0.0


def needless(cache: Json) -> float:
    """Of the answers that changes emptied and that were compared with the next one, the part that was equal; -1: none
    was compared."""
    compared = sum(cache.get("compared", {}).values())
    return sum(cache["needless"].values()) / compared if compared else -1.0


def emptied(cache: Json) -> str:
    """Why its keys went away, what emptied the most first."""
    found = []
    for cause, tables in cache.get("emptied_by", {}).items():
        for table, keys in tables.items():
            what = (table if cause == "change" else f"{table} ({cause})") if table else cause
            compared = cache["compared"].get(table, 0)
            needlessly = f" ({share(cache['needless'].get(table, 0) / compared)} needlessly)" if compared else ""
            found.append((keys, f"{what} {keys:,}{needlessly}"))
    return ", ".join(told for _, told in sorted(found, key=lambda item: -item[0]))


CACHES = (
    Column("cache", 10, lambda cache, state: cache["name"], one_line, grows=True),
    Column("hits", 6, _hit_rate, share),
    Column("hits/s", 7, lambda cache, state: state.rates(cache["name"])[0]),
    Column("miss/s", 7, lambda cache, state: state.rates(cache["name"])[1]),
    Column("pass/s", 7, lambda cache, state: state.rates(cache["name"])[2]),
    Column("saved", 8, lambda cache, state: cache["saved_seconds"], took),
    Column("keys", 7, lambda cache, state: cache["keys"]),
    Column("size", 9, lambda cache, state: cache["bytes"], size),
    Column("miss p50", 9, lambda cache, state: cache["miss_p50_us"] / 1e6, took),
    Column("miss p99", 9, lambda cache, state: cache["miss_p99_us"] / 1e6, took),
    Column("emptied", 8, lambda cache, state: cache.get("emptied", 0)),
    Column("needless", 9, lambda cache, state: needless(cache), lambda part: share(part) if part >= 0 else "-"),
    Column("passed", 7, lambda cache, state: cache["passed"]),
    Column("mode", 8, lambda cache, state: cache["mode"], one_line),
    Column("state", 10, lambda cache, state: cache["state"], one_line),
    Column("trust", 13, lambda cache, state: cache["trust"], one_line),
)
QUERIES = (
    Column("query", 40, lambda query, state: query["query"], one_line, grows=True),
    Column("MySQL", 8, lambda query, state: query["total_ms"] / 1e3, took),
    Column("reads", 7, lambda query, state: query["count"]),
    Column("p50", 8, lambda query, state: query["p50_us"] / 1e6, took),
    Column("can be", 7, lambda query, state: query["cacheable"], one_line),
    Column("why", 30, lambda query, state: query["reason"], one_line),
)
SORTED_BY = {"caches": "saved", "queries": "MySQL"}  # at first
PADDING = 2  # beside each column


def fitting(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns for which there is room, with their widths; those that matter most come first. The first is always
    there."""
    found: list[tuple[Column, int]] = []
    left = width
    for column in columns:
        wide = max(1, min(column.width, width // 2)) if column.grows else column.width
        if found and wide + PADDING > left:
            break
        left -= wide + PADDING
        found.append((column, wide))
    return [(column, wide + max(0, left) if column.grows else wide) for column, wide in found]


def ordered(rows: Sequence[Json], column: Column, state: State, *, reverse: bool) -> list[Json]:
    """Numbers the largest first, texts by the alphabet; `reverse`: the other way round."""
    return sorted(rows, key=lambda row: column.value(row, state), reverse=reverse is column.is_text)


def totals(state: State, width: int, most: int | None = None) -> list[str]:
    """What the proxy does as a whole, in lines of at most so many letters. `most`: so many lines; what matters comes
    first."""
    seen = state.overview
    rates, memory, upqueries = seen["rates"], seen["memory"], seen["upqueries"]
    waiting = f" ({upqueries['waiting']} wait)" if upqueries["waiting"] else ""
    parts = [
        f"hits {share(rates['hit_rate']) if rates['reads'] else '-'}",
        f"reads {amount(rates['reads'])}/s",
        f"misses {amount(rates['misses'])}/s",
        f"passes {amount(rates['passed'])}/s",
        f"a miss {took(rates['miss_seconds'])}",
        f"upqueries {upqueries['in_flight']}{waiting}",
        f"memory {size(memory['used'])} of {size(memory['limit'])}",
        f"lag {took(seen['source']['lag_seconds'])}",
        f"sessions {amount(seen['connections']['sessions'])}",
    ]
    parts += [f"filling {fill['cache']}: {amount(fill['held'])} of {amount(fill['keys'])}" for fill in seen["fills"]]
    lines = [""]
    for part in map(one_line, parts):
        wider = f"{lines[-1]}  {part}" if lines[-1] else part
        if len(wider) <= width:
            lines[-1] = wider
        else:
            lines.append(cut(part, width))
    return lines[:most]


def head(state: State, place: str, width: int) -> str:
    """Which proxy it is, and what is wrong with it."""
    if state.lost:
        return cut(f"lost, trying again: {one_line(state.lost)}", width)
    seen = state.overview
    if not seen:
        return cut(f"waiting for {place}", width)
    source = seen["source"]
    wrong = seen["ready"] and f"not ready: {seen['ready']}"
    wrong = wrong or ("" if source["up"] else "MySQL cannot be reached")
    back = f"connected again at {clock(state.came_back)} " if state.came_back else ""
    told = wrong or f"{back}position {source['position']}"
    return cut(one_line(f"Upwell {seen['version']} beside {source['address']}  {told}"), width)


def clock(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S")


def read_line(read: Json) -> str:
    """A read that was no hit."""
    at = datetime.fromtimestamp(read["at"]).strftime("%H:%M:%S.%f")[:-3]
    times = f" (one of {read['times']})" if read["times"] > 1 else ""
    what = read["cache"] or read.get("query", "") or "no cache"
    key = f" {read['key']}" if read.get("key") else ""
    why = read.get("why") or read["reason"]
    named = why if read["outcome"] == "miss" or why == read["reason"] else f"{read['reason']}: {why}"
    return f"{at} {read['outcome']:6} {took(read['us'] / 1e6):>8}  {one_line(f'{what}{key}{times}')}  {one_line(named)}"


PLAIN = ("time", "hits", "reads/s", "misses/s", "passes/s", "a miss", "upqueries", "memory", "lag")


def plain_line(state: State) -> str:
    """One look as a line under PLAIN."""
    seen = state.overview
    rates = seen["rates"]
    cells = (
        clock(seen["at"]), share(rates["hit_rate"]) if rates["reads"] else "-", amount(rates["reads"]),
        amount(rates["misses"]), amount(rates["passed"]), took(rates["miss_seconds"]),
        str(seen["upqueries"]["in_flight"]), size(seen["memory"]["used"]), took(seen["source"]["lag_seconds"]),
    )  # fmt: skip
    return " ".join(cell.rjust(9) for cell in cells)


def detail(state: State, name: str, plan: str) -> list[tuple[str, str]]:
    """All of one cache, as (title, text); "" for a title: goes on from above."""
    cache = state.overview.get("caches", {}).get(name)
    if cache is None:
        return [("", f"there is no cache {name} any more")]
    hits, misses, passed = state.rates(name)
    reasons = sorted(cache["passed_by_reason"].items(), key=lambda item: -item[1])
    rows = [
        ("query", cache.get("sql", "shown with the token (--token-file)")),
        ("database", cache["database"]),
        ("state", " ".join(filter(None, [cache["state"], cache.get("why", "")]))),
        ("mode", cache["mode"]),
        ("trust", f"{cache['trust']} ({amount(cache['checked'])} answers were MySQL's own)"),
        ("made by", " ".join(filter(None, [cache["origin"], cache.get("account", ""), cache.get("reason", "")]))),
        ("decided", cache.get("decided", "")),
        ("tables", ", ".join(cache["tables"])),
        ("reads", f"{cache['hits']:,} hits, {cache['misses']:,} misses, {cache['passed']:,} passed"),
        ("a second", f"{amount(hits)} hits, {amount(misses)} misses, {amount(passed)} passed"),
        ("hit rate", share(_hit_rate(cache, state))),
        ("saved", f"{took(cache['saved_seconds'])} of MySQL"),
        ("held", f"{cache['keys']:,} keys, {size(cache['bytes'])}"),
        ("hits take", f"{took(cache['hit_p50_us'] / 1e6)} (p50), {took(cache['hit_p99_us'] / 1e6)} (p99)"),
        ("misses take", f"{took(cache['miss_p50_us'] / 1e6)} (p50), {took(cache['miss_p99_us'] / 1e6)} (p99)"),
        ("emptied", emptied(cache)),
        *(("passed" if not place else "", f"{count:,} {reason}") for place, (reason, count) in enumerate(reasons)),
        ("last one", cache.get("passed_why", "")),
    ]
    found = [(title, one_line(text)) for title, text in rows if text]
    found += [("" if place else "plan", one_line(line)) for place, line in enumerate(plan.splitlines())]
    reads = [read for read in state.reads if read["cache"] == name][-10:]
    found += [("" if place else "no hits", read_line(read)) for place, read in enumerate(reversed(reads))]
    return found
