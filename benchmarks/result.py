"""What a benchmark gives back: figures and tables. Printed, and written as JSON.

What a figure may be stands in `budgets.toml`.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).with_name("results")

Cell = str | int | float | None


@dataclass(slots=True)
class Figure:
    """One number. `name`: by which `budgets.toml` finds it, the same in each run."""

    name: str
    value: float
    unit: str = ""


@dataclass(slots=True)
class Sheet:
    """A table of the report."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)


@dataclass(slots=True)
class Result:
    """Of one benchmark. `partial`: some of its figures cannot be had here, or with these options; a note says why."""

    name: str
    figures: list[Figure] = field(default_factory=list)
    sheets: list[Sheet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    partial: bool = False


def text(value: Cell) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value


def show(console: Console, result: Result, verdict: Callable[[Figure], str] = lambda figure: "") -> None:
    """`verdict`: what is printed behind a figure."""
    for sheet in result.sheets:
        table = Table(title=sheet.title)
        for title in sheet.columns:
            table.add_column(title, justify="left" if title == sheet.columns[0] else "right")
        for row in sheet.rows:
            table.add_row(*(text(cell) for cell in row))
        console.print(table)
    for note in result.notes:
        console.print(note, markup=False, soft_wrap=True)
    for figure in result.figures:
        line = f"{result.name}: {figure.name}: {text(figure.value)} {figure.unit}  {verdict(figure)}"
        console.print(line.rstrip(), markup=False, soft_wrap=True)


def write(result: Result, mysql_version: str, met: dict[str, bool]) -> Path:
    """One file a benchmark; the newest run replaces the one before. `met`: by figure, whether its budget is kept."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{result.name}.json"
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "mysql": mysql_version,
    }
    path.write_text(json.dumps({"machine": machine, "met": met, **asdict(result)}, indent=1) + "\n")
    return path
