"""What a transaction has beside rows that can be trusted, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataflow.messages import Ddl, Progress, TableChanges, Transaction
from gtid_tracker.gtid import Gtid
from vstream.binlog.decode import MappedTable


@dataclass(slots=True)
class Odd:
    """What a transaction has beside trusted rows.

    `rewanted`: tables that were wanted in another way when it began. `untrusted`: why rows were not decoded, by table.
    `statement`, `tables`, `schema`: a DDL in it. `written`: a statement that changed rows without row events.
    `deleted`, `updated`: tables with such rows whose changes by foreign keys are in no event.
    `gap`: why its changes are unknown.
    """

    rewanted: set[str] = field(default_factory=set)
    untrusted: dict[str, str] = field(default_factory=dict)
    statement: str = ""
    tables: frozenset[str] | None = frozenset()
    schema: bool = False
    written: str = ""
    gap: str = ""
    heavy: bool = False
    deleted: set[str] = field(default_factory=set)
    updated: set[str] = field(default_factory=set)

    def add_tables(self, tables: frozenset[str] | None) -> None:
        """Rows of these were changed, or may have been; None: of any."""
        self.tables = None if tables is None or self.tables is None else self.tables | tables


@dataclass(slots=True)
class Prepared:
    """A prepared XA transaction: its rows become visible with its XA COMMIT. `gtid`: of the preparation."""

    gtid: Gtid
    changes: list[TableChanges]
    seen: list[MappedTable]
    odd: Odd | None

    @property
    def tables(self) -> frozenset[str] | None:
        """Of which it has rows, or may have; None: any."""
        odd = self.odd or Odd()
        odd.add_tables(frozenset(mapped.name for mapped in self.seen))
        return odd.tables


def told(
    odd: Odd, gtid: Gtid, changes: list[TableChanges], seen: Sequence[MappedTable], stamp: float, size: int
) -> Ddl | Transaction | Progress:
    """What is said of the transaction at its end. Requires: it has no gap. `seen`: the tables that it announces;
    `stamp`: when it was committed; `size`: of its rows, in bytes."""
    names = {mapped.name for mapped in seen}
    if odd.statement or odd.written or odd.untrusted or odd.heavy or odd.rewanted & names:
        touched = {mapped.name for mapped in seen if mapped.decoders is not None or mapped.untrusted}
        touched |= odd.untrusted.keys() | odd.rewanted & names
        tables = odd.tables | touched if odd.tables is not None else None
        # Where rows do not fit what is known of their table, another one may be there by that name.
        schema = odd.schema or any(mapped.odd for mapped in seen)
        for mapped in seen:
            mapped.odd = False  # to look at the schema once is enough
        return Ddl(gtid, odd.statement or why(odd), tables, schema)
    return Transaction(gtid, changes, stamp, size) if changes else Progress(gtid)


def why(odd: Odd) -> str:
    if odd.written:
        return odd.written
    if odd.heavy:
        return "rows not kept: the transaction is too large"
    if odd.untrusted:
        return "rows not decoded: " + "; ".join(f"{name}: {why}" for name, why in sorted(odd.untrusted.items()))
    return "rows not decoded: received while what is wanted of the table changed"
