"""The sample's table: what each query takes on MySQL and through Upwell."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from examples.lobsters.measure import Figures
from examples.lobsters.queries import CATALOGUE


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def times(value: float | None) -> str:
    """A ratio; small ones with a digit behind the point."""
    return "-" if value is None else f"{value:,.1f}x" if value < 100 else f"{value:,.0f}x"


def print_table(console: Console, figures: Sequence[Figures], modes: dict[str, str]) -> None:
    table = Table(
        title="One client, one query at a time; medians. CPU: of the server per execution, of Upwell per hit."
    )
    table.add_column("query", no_wrap=True)
    table.add_column("", no_wrap=True, max_width=36)
    table.add_column("mode", no_wrap=True)
    columns = "MySQL ms", "miss ms", "hit ms", "ratio", "MySQL CPU µs", "hit CPU µs", "CPU ratio"
    for title in columns:
        table.add_column(title, justify="right")
    table.add_column("equal")
    for row in figures:
        table.add_row(
            row.id,
            CATALOGUE[row.id].title,
            modes.get(row.id, ""),
            number(row.mysql_ms),
            number(row.miss_ms),
            number(row.hit_ms),
            times(row.ratio),
            number(row.mysql_cpu_us, 0),
            number(row.hit_cpu_us, 0),
            times(row.cpu_ratio),
            "no" if row.differences else "yes",
        )
    console.print(table)
