"""The chart of a ranking, as PNG and within a page of HTML that loads nothing from elsewhere. Needs matplotlib."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from bulk.rank_words import cut, headline, key_shown, number
from bulk.ranking import Ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 12  # bars of a panel
LABEL, NAME = 46, 22  # letters: of a label, of the cache's name in one
BLUE, GREEN, AMBER, RED, INK, FAINT = "#3b6fb6", "#4c9f70", "#e0a43a", "#c8553d", "#22303c", "#8896a3"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9, "text.parse_math": False,
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.edgecolor": FAINT,
    "svg.fonttype": "none", "svg.hashsalt": "upwell", "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip
SHEET = """
body { font: 15px/1.45 system-ui, sans-serif; color: #22303c; margin: 2rem auto; max-width: 68rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p.told { color: #5b6b79; margin-top: 0; } svg { width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dde3e8; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: .85em ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
"""
Bar = tuple[str, float]


def draw(ranking: Ranking) -> dict[str, bytes]:
    """`rank.png` and `rank.html`."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a letter that the font lacks: a box is drawn
        figure = _figure(ranking)
        png, svg = io.BytesIO(), io.StringIO()
        figure.savefig(png, format="png", dpi=130)
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return {"rank.png": png.getvalue(), "rank.html": _page(ranking, svg.getvalue()).encode()}


def _figure(ranking: Ranking) -> Figure:
    keys = sorted(
        (
            (f"{cut(cache.name, NAME)}  {key_shown(hot.key)}", hot.score)
            for cache in ranking.caches
            for hot in cache.keys[:SHOWN]
        ),
        key=lambda bar: -bar[1],
    )[:SHOWN]
    queries = [(one.query, one.saved) for one in ranking.to_cache[:SHOWN]]
    caches = [cache for cache in ranking.caches if cache.reads][:SHOWN]
    heights = [max(2, count) + 2.2 for count in (len(keys), len(queries), len(caches))]
    figure = Figure(figsize=(10, 0.27 * sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(headline(ranking), fontsize=10, color=FAINT, x=0.01, ha="left")
    warm, cache, use = figure.subplots(3, 1, gridspec_kw={"height_ratios": heights})
    _bars(warm, "What to warm: keys by reads, of which older ones count less", keys, BLUE, "no keys were read")
    _bars(cache, "What to cache: seconds of MySQL that hits would save", queries, GREEN, "nothing that could be cached")
    _use(use, caches)
    return figure


def _bars(axes: Axes, title: str, bars: Sequence[Bar], colour: str, empty: str) -> None:
    _titled(axes, title)
    if not bars:
        _nothing(axes, empty)
        return
    places = range(len(bars))
    drawn = axes.barh(places, [value for _, value in bars], color=colour, height=0.7)
    axes.bar_label(drawn, [number(value) for _, value in bars], padding=3, fontsize=8, color=INK)
    _labelled(axes, [label for label, _ in bars])


def _use(axes: Axes, caches: Sequence[Any]) -> None:
    _titled(axes, "How caches are used: reads by outcome, those first that are read most")
    if not caches:
        _nothing(axes, "no cache was read")
        return
    left = [0.0] * len(caches)
    for name, colour in (("hits", GREEN), ("misses", AMBER), ("passed", RED)):
        values = [100 * getattr(cache, name) / cache.reads for cache in caches]
        axes.barh(range(len(caches)), values, left=left, color=colour, height=0.7, label=name)
        left = [a + b for a, b in zip(left, values, strict=True)]
    for place, cache in enumerate(caches):
        axes.text(101, place, f"{number(cache.reads)} reads", va="center", fontsize=8)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of reads")
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.12 if len(caches) > 4 else -0.3), ncols=3, frameon=False)
    _labelled(axes, [cache.name for cache in caches])


def _titled(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")


def _labelled(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), [cut(label, LABEL) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))


def _nothing(axes: Axes, why: str) -> None:
    axes.text(0.0, 0.7, why, transform=axes.transAxes, color=FAINT, va="center")
    axes.set_axis_off()
    axes.title.set_visible(True)


def _page(ranking: Ranking, svg: str) -> str:
    picture = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    warm = [(cache.name, number(cache.reads), f"{100 * cache.share:.0f} %", len(cache.keys),
             ", ".join(key_shown(hot.key) for hot in cache.keys[:5])) for cache in ranking.caches]  # fmt: skip
    to_cache = [(number(one.saved), number(one.reads), number(one.ms), one.database, one.statement or one.query)
                for one in ranking.to_cache[:50]]  # fmt: skip
    to_drop = [(one.name, number(one.reads), f"{100 * one.share:.0f} %", f"{one.hours:,.1f}", one.why, one.query)
               for one in ranking.to_drop[:50]]  # fmt: skip
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Upwell: what was read</title>",
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<style>{SHEET}</style></head><body><h1>What to warm, what to cache, what to drop</h1>",
        f"<p class='told'>{escape(headline(ranking))}</p>{picture}",
        _table("What to warm", ("cache", "reads", "hits", "keys", "hottest"), warm, 1, 4),
        _table("What to cache", ("seconds saved", "reads", "ms each", "database", "statement"), to_cache, 0, 3),
        _table("What to drop", ("cache", "reads", "hits", "hours seen", "why", "query"), to_drop, 1, 4),
        "</body></html>\n",
    ]
    return "".join(parts)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]], first: int, end: int) -> str:
    """The columns from `first` to `end` are numbers, the last one is code."""
    if not rows:
        return f"<h2>{title}</h2><p class='told'>nothing</p>"

    def cell(at: int, value: object, tag: str) -> str:
        kind = " class='n'" if first <= at < end else ""
        text = escape(cut(str(value), 2000))
        code = tag == "td" and at == len(headings) - 1
        return f"<{tag}{kind}>{f'<code>{text}</code>' if code else text}</{tag}>"

    head = "".join(cell(at, text, "th") for at, text in enumerate(headings))
    body = "".join(f"<tr>{''.join(cell(at, one, 'td') for at, one in enumerate(row))}</tr>" for row in rows)
    return f"<h2>{title}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
