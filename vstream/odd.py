"""What a transaction has beside rows that can be trusted, and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from dataflow.messages import TableChanges
from vstream.decode import MappedTable


@dataclass(slots=True)
class Odd:
    """What a transaction has beside trusted rows.

    `rewanted`: tables that were wanted otherwise when it began. `untrusted`: why rows were not decoded, by table.
    `statement`, `tables`, `schema`: a DDL in it. `written`: a statement that changed rows without row events.
    `gap`: why nothing is known of what it changed.
    """

    rewanted: set[str] = field(default_factory=set)
    untrusted: dict[str, str] = field(default_factory=dict)
    statement: str = ""
    tables: frozenset[str] | None = frozenset()
    schema: bool = False
    written: str = ""
    gap: str = ""
    heavy: bool = False


@dataclass(slots=True)
class Prepared:
    """A prepared XA transaction: its rows become visible with its XA COMMIT."""

    changes: list[TableChanges]
    seen: list[MappedTable]
    odd: Odd | None


def why(odd: Odd) -> str:
    if odd.written:
        return odd.written
    if odd.heavy:
        return "rows not kept: the transaction is too large"
    if odd.untrusted:
        return "rows not decoded: " + "; ".join(f"{name}: {why}" for name, why in sorted(odd.untrusted.items()))
    return "rows not decoded: received while what is wanted of the table changed"
