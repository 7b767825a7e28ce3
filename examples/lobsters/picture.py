"""What the load measured, as pictures: SVG within a page of HTML, and PNG.

Both are drawn from the same shapes. A page of HTML needs nothing else; PNG needs Pillow.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from examples.lobsters.chart import Series

# For both sides of a picture: the name of each ink, by day and by night.
INKS = {
    "paper": ("#ffffff", "#14181d"),
    "text": ("#1d2733", "#e6ebf0"),
    "faint": ("#5c6b7a", "#9aa8b5"),
    "grid": ("#e3e8ed", "#2b333c"),
    "shade": ("#f3f5f8", "#1c2229"),
    "alone": ("#c9711a", "#f0a04b"),
    "through": ("#2563c9", "#6ea8ff"),
}
SHARP = 2  # pixels of the PNG for one of the picture, and for each of those this many that are drawn
SMALL, NORMAL, LARGE = 11, 13, 22


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    ink: str


@dataclass(frozen=True, slots=True)
class Line:
    points: tuple[tuple[float, float], ...]
    ink: str
    thick: float = 1.0


@dataclass(frozen=True, slots=True)
class Words:
    """`x`, `y`: of the base line's beginning, or of its `end`."""

    x: float
    y: float
    text: str
    ink: str = "text"
    size: int = NORMAL
    end: bool = False


Shape = Box | Line | Words


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a picture. `told`: what it shows, for who does not see it."""

    width: float
    height: float
    told: str
    shapes: tuple[Shape, ...]


def bars(one: Series, names: tuple[str, str], width: float) -> Panel:
    """A figure at both ports as two bars."""
    values = [f"{end:,.1f} {one.unit}".rstrip() for end in one.ends]
    shapes: list[Shape] = [Words(0, 16, one.title), Words(width, 16, one.gain, end=True)]
    for place, (name, end, ink) in enumerate(zip(names, one.ends, ("alone", "through"), strict=True)):
        y = 30 + place * 38
        shapes += [
            Words(0, y + 9, name, "faint", SMALL),
            Words(width, y + 9, values[place], "text", SMALL, end=True),
            Box(0, y + 14, max(1.5, width * end / max(one.ends)), 12, ink),
        ]
    told = f"{one.title}: {names[0]} {values[0]}, {names[1]} {values[1]}, {one.gain}"
    return Panel(width, 100, told, tuple(shapes))


def lines(one: Series, warming: float, width: float, height: float = 118) -> Panel:
    """A figure over the load's rounds. `warming`: the part of them that does not count, which is shaded."""
    top, bottom = 40.0, height - 6
    shapes: list[Shape] = [
        Box(0, top, width * warming, bottom - top, "shade"),
        Words(0, 14, one.label),
        Words(width, 32, f"{one.top:,.0f}", "faint", SMALL, end=True),
        Line(((0, top), (width, top)), "grid"),
        Line(((0, bottom), (width, bottom)), "grid"),
        Words(2, 32, "warming", "faint", SMALL),
    ]
    for values, ink in ((one.alone, "alone"), (one.through, "through")):
        step = width / max(1, len(values) - 1)
        points = tuple((place * step, bottom - (bottom - top) * value / one.top) for place, value in enumerate(values))
        shapes += [Line(points, ink, 2.0)] if points else []
    return Panel(width, height, f"{one.label}, as the caches warm: in the end {one.ends[1]:,.1f}", tuple(shapes))


def beside(panels: Sequence[Panel], gap: float) -> Panel:
    """One panel of several, from left to right."""
    shapes: list[Shape] = []
    x = 0.0
    for panel in panels:
        shapes += [moved(shape, x, 0) for shape in panel.shapes]
        x += panel.width + gap
    return Panel(
        x - gap, max(panel.height for panel in panels), "; ".join(panel.told for panel in panels), tuple(shapes)
    )


def below(panels: Sequence[Panel], gap: float) -> Panel:
    """Likewise, from top to bottom."""
    shapes: list[Shape] = []
    y = 0.0
    for panel in panels:
        shapes += [moved(shape, 0, y) for shape in panel.shapes]
        y += panel.height + gap
    return Panel(
        max(panel.width for panel in panels), y - gap, "; ".join(panel.told for panel in panels), tuple(shapes)
    )


def moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Line):
        return Line(tuple((left + x, up + y) for left, up in shape.points), shape.ink, shape.thick)
    if isinstance(shape, Box):
        return Box(shape.x + x, shape.y + y, shape.width, shape.height, shape.ink)
    return Words(shape.x + x, shape.y + y, shape.text, shape.ink, shape.size, shape.end)


def svg(panel: Panel) -> str:
    """To be put into HTML: its inks are classes there."""
    drawn = "".join(map(element, panel.shapes))
    return (
        f'<svg viewBox="-2 0 {panel.width + 4:g} {panel.height:g}" role="img" '
        f'aria-label="{escape(panel.told)}">{drawn}</svg>'
    )


def element(shape: Shape) -> str:
    if isinstance(shape, Box):
        size = f'width="{shape.width:.1f}" height="{shape.height:.1f}"'
        return f'<rect class="{shape.ink}" x="{shape.x:.1f}" y="{shape.y:.1f}" {size} rx="2"/>'
    if isinstance(shape, Line):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
        return f'<polyline class="{shape.ink}" points="{points}" stroke-width="{shape.thick:g}"/>'
    end = ' text-anchor="end"' if shape.end else ""
    place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size}"'
    return f'<text class="{shape.ink}" {place}{end}>{escape(shape.text)}</text>'


def can_png() -> bool:
    return importlib.util.find_spec("PIL") is not None


def png(panel: Panel, margin: float = 24) -> bytes:
    """By day. Requires: `can_png`."""
    from PIL import Image, ImageDraw, ImageFont

    fine = SHARP * SHARP
    size = (round((panel.width + 2 * margin) * fine), round((panel.height + 2 * margin) * fine))
    image = Image.new("RGB", size, INKS["paper"][0])
    draw = ImageDraw.Draw(image)
    for shape in (moved(shape, margin, margin) for shape in panel.shapes):
        ink = INKS[shape.ink][0]
        if isinstance(shape, Box):
            corners = (shape.x * fine, shape.y * fine, (shape.x + shape.width) * fine, (shape.y + shape.height) * fine)
            draw.rounded_rectangle(corners, 2 * fine, ink)
        elif isinstance(shape, Line):
            points = [(x * fine, y * fine) for x, y in shape.points]
            draw.line(points, ink, max(1, round(shape.thick * fine)), joint="curve")
        else:
            font = ImageFont.load_default(shape.size * fine)
            place = (shape.x * fine, shape.y * fine)
            draw.text(place, shape.text, ink, font, anchor="rs" if shape.end else "ls")
    kept = io.BytesIO()
    smooth = image.resize((size[0] // SHARP, size[1] // SHARP), Image.Resampling.LANCZOS)
    smooth.quantize(64, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
    return kept.getvalue()
