"""What the sample measured, as one page of HTML that loads nothing from elsewhere, and as a PNG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from examples.lobsters import screen
from examples.lobsters.chart import Series, figure, series
from examples.lobsters.closed_load import TURN, WINDOW, Asked, Round, Turn
from examples.lobsters.picture import (
    INKS,
    LARGE,
    NORMAL,
    SMALL,
    Box,
    Panel,
    Shape,
    Words,
    bars,
    below,
    beside,
    can_png,
    lines,
    png,
    svg,
)
from examples.lobsters.screen import Shown, all_ms, gain, milliseconds, shown_mean

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build"
PICTURES = ROOT / "docs" / "pictures"
NAME = "first-minute"
WIDTH, GAP = 900.0, 26.0
HTML_QUERIES, PNG_QUERIES = 20, 6

SHEET = (
    ":root { color-scheme: light dark; "
    + " ".join(f"--{name}: {day};" for name, (day, _) in INKS.items())
    + " }\n@media (prefers-color-scheme: dark) { :root { "
    + " ".join(f"--{name}: {night};" for name, (_, night) in INKS.items())
    + " } }\n"
    + "".join(f"rect.{name}, text.{name} {{ fill: var(--{name}); }}\n" for name in INKS)
    + "".join(f"polyline.{name} {{ stroke: var(--{name}); fill: none; stroke-linejoin: round; }}\n" for name in INKS)
    + """\
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
.faint { color: var(--faint); } p { margin: .4rem 0; } svg { width: 100%; height: auto; font-family: inherit; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: 1.4rem 1.8rem; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 1em; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--grid); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { color: var(--faint); font-weight: 500; } th:first-child, td:first-child { text-align: left; white-space: normal; }
td.share { background: linear-gradient(var(--shade), var(--shade)) no-repeat right / var(--part) 100%; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; } li { margin: .25rem 0; }
"""
)


def write(shown: Shown, source: str, about: str, folder: Path) -> list[str]:
    """Writes both, and returns the lines that name them. `about`: what it was measured on."""
    page, picture = folder / f"{NAME}.html", folder / f"{NAME}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page.write_text(html(shown, source, about))
        if not can_png():
            return [f"As a page: {near(page)} (for a PNG `make run` installs Pillow)"]
        picture.write_bytes(png(whole(shown, source, about)))
    except OSError as error:
        return [f"No pictures: {error.strerror}: {error.filename}"]
    return [f"As pictures: {near(page)}, {near(picture)}"]


def near(path: Path) -> str:
    """As it is named from here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def headline(figures: Sequence[Series]) -> str:
    first = figures[0]
    return f"{first.title}: {first.gain}"


def figures_of(shown: Shown, source: str) -> tuple[list[Series], list[Series]]:
    """Those that are bars, and those that are lines."""
    found = series(shown.pages, source)
    *cpu, _, _, slowest, _ = found
    mean = figure(shown.pages, "a page's time, mean", "ms", lambda costs: costs.page_ms, ("less", "more"))
    return [*cpu, mean, slowest], found


def warming(shown: Shown) -> float:
    rounds = shown.pages.rounds
    return [round_.warm for round_ in rounds].count(False) / len(rounds)


def load_in_words(shown: Shown, source: str) -> str:
    what = "read and write" if shown.written else "read"
    return f"{shown.pages.clients} clients {what} a site's pages, at {source} alone and through Upwell in turns"


def whole(shown: Shown, source: str, about: str) -> Panel:
    """The picture."""
    bar_figures, line_figures = figures_of(shown, source)
    head = Panel(
        WIDTH,
        58,
        headline(bar_figures),
        (
            Words(0, 22, headline(bar_figures), "text", LARGE),
            Words(0, 44, f"{load_in_words(shown, source)}. {about}", "faint", SMALL),
        ),
    )
    width = (WIDTH - 2 * GAP) / 3
    narrow = (WIDTH - GAP * (len(line_figures) - 1)) / len(line_figures)
    return below(
        [
            head,
            beside([bars(one, (f"{source} alone", "with Upwell"), width) for one in bar_figures], GAP),
            beside([lines(one, warming(shown), narrow) for one in line_figures], GAP),
            queries(shown, source),
        ],
        18,
    )


def queries(shown: Shown, source: str) -> Panel:
    """The queries that take most of the source's time."""
    ends = (430.0, 560.0, 690.0, 800.0, WIDTH)
    shapes: list[Shape] = [Words(0, 14, f"Queries by share of {source}'s time; ms a read")]
    heads = ("share", f"{source} alone", "with Upwell", "gain", "hits")
    shapes += [Words(x, 14, head, "faint", SMALL, end=True) for x, head in zip(ends, heads, strict=True)]
    for place, asked in enumerate(shown.pages.queries[:PNG_QUERIES]):
        y = 36 + place * 21
        share, *rest = cells(shown, asked)
        part = shown.pages.share(asked)
        shapes += [
            Words(0, y, screen.title(asked.id), size=NORMAL),
            Box(300, y - 9, max(1.0, 90 * part), 10, "alone"),
            *(Words(x, y, cell, end=True) for x, cell in zip(ends, (share, *rest), strict=True)),
        ]
    return Panel(WIDTH, 36 + 21 * PNG_QUERIES, "", tuple(shapes))


def cells(shown: Shown, asked: Asked) -> tuple[str, ...]:
    """Share, milliseconds at either port, gain, hits."""
    both = asked.mysql_ms, asked.upwell_ms
    share = f"{shown.pages.share(asked):.0%}"
    return share, *(shown_mean(ms) for ms in both), gain(*both), f"{asked.hits:.0%}"


def html(shown: Shown, source: str, about: str) -> str:
    bar_figures, line_figures = figures_of(shown, source)
    names = (f"{source} alone", "with Upwell")
    key = "".join(
        f'<i style="background: var(--{ink})"></i>{name}' for name, ink in zip(names, ("alone", "through"), strict=True)
    )
    title = escape(headline(bar_figures))
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="faint">{escape(load_in_words(shown, source))}. {escape(about)}</p>',
        f'<p class="key faint">{key}</p>',
        f'<div class="panels">{"".join(svg(bars(one, names, 300)) for one in bar_figures)}</div>',
        *_slower(shown, source),
        "<h2>As the caches warm</h2>",
        f'<div class="panels">{"".join(svg(lines(one, warming(shown), 300)) for one in line_figures)}</div>',
        *_written(shown, source),
        f"<h2>Queries by share of {source}'s time</h2>",
        f'<div class="scroll"><table>{"".join(_rows(shown, source))}</table></div>',
        '<p class="faint">Milliseconds a read, misses among them. A gain below 1x is a loss: most of its reads are of '
        f"keys that nobody has read before. Such a read is {source}'s, with Upwell's part on top.</p>",
        "<h2>How it was measured</h2>",
        f"<ul>{''.join(f'<li>{escape(one)}</li>' for one in _how(shown, source))}</ul>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title>\n<style>\n{SHEET}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _slower(shown: Shown, source: str) -> list[str]:
    alone, through = shown.pages.alone, shown.pages.through
    if through.p50_ms <= alone.p50_ms:
        return []
    quick, slower = milliseconds(alone.p50_ms), milliseconds(through.p50_ms)
    return [
        f"<p>Half of the pages are quick at {source}, too ({quick} ms). Through Upwell they take {slower} ms while "
        f"most of their keys are new: {through.hits:.0%} of the reads were hits.</p>"
    ]


def _written(shown: Shown, source: str) -> list[str]:
    done = shown.written
    if done is None:
        return []
    return [
        "<h2>A write, and the read that shows it</h2>",
        f"<p>At {source}: <code>{escape(done.write)}</code></p>",
        f"<p>At Upwell: <code>{escape(done.read)}</code>: upvotes {done.shown[0]} becomes {done.shown[1]}, "
        f"{milliseconds(done.ms)} ms after the COMMIT ({escape(done.served)}; the median of several).</p>",
    ]


def _rows(shown: Shown, source: str) -> list[str]:
    heads = ("query", "share", f"{source} alone", "with Upwell", "gain", "hits")
    rows = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for asked in shown.pages.queries[:HTML_QUERIES]:
        share, *rest = cells(shown, asked)
        part = f'<td class="share" style="--part: {shown.pages.share(asked):.1%}">{share}</td>'
        rows.append(
            f"<tr><td>{escape(screen.title(asked.id))}</td>{part}"
            + "".join(f"<td>{cell}</td>" for cell in rest)
            + "</tr>"
        )
    others = shown.pages.queries[HTML_QUERIES:]
    if others:
        both = all_ms(others)
        share = f"{sum(map(shown.pages.share, others)):.0%}"
        rest = [share, *(shown_mean(ms) for ms in both), gain(*both), ""]
        rows.append(f"<tr><td>{len(others)} others</td>" + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>")
    return rows


def _how(shown: Shown, source: str) -> list[str]:
    pages = shown.pages
    alone, through = pages.alone, pages.through
    warming_rounds = [each for each in pages.rounds if not each.warm]
    from_nothing = f": {source} has just loaded the sample, and Upwell's caches are empty" if shown.written else ""
    warmed = [sum(len(turn.page_ms) for turn in turns) for turns in both_turns(warming_rounds)]
    return [
        f"{pages.clients} clients visit one page after the other without a pause. Each has a connection to either "
        "port, by the same driver, with the same account and settings.",
        f"A turn at a port takes {TURN} s, and until the pages end that were begun. The ports take turns, and which is "
        "first changes. What a turn writes goes to the same port as its reads.",
        f"{warmed[0]:,} pages at {source} and {warmed[1]:,} at Upwell warm them{from_nothing}. The figures are of the "
        f"{alone.pages:,} and {through.pages:,} pages that follow. In the charts each point is of {WINDOW} rounds.",
        f"{source}'s CPU is that of its whole process: queries, writes, Upwell's misses, the binlog. Upwell itself "
        f"takes {milliseconds(through.upwell_cpu_ms)} ms of CPU a page.",
        "Pages come in the mix that the operator of a link-sharing site has counted. All of its queries have a cache, "
        "those that gain nothing among them.",
        screen.verdict(shown) + ".",
    ]


def both_turns(rounds: Sequence[Round]) -> tuple[list[Turn], list[Turn]]:
    return [each.alone for each in rounds], [each.through for each in rounds]
