"""What transactions behind a snapshot do to the entries that were made of it, before these are held."""

from __future__ import annotations

from dataclasses import dataclass

from dataflow.entries import Entries
from dataflow.held.arrangement import Arrangement
from dataflow.messages import Ddl, Transaction

ROW_BYTES = 300  # of a row change in the ring, without its values


@dataclass(slots=True)
class Record:
    """What the ring holds of a transaction or of a DDL statement."""

    event: Transaction | Ddl
    weight: int = ROW_BYTES  # bytes, estimated

    @classmethod
    def of(cls, transaction: Transaction) -> Record:
        """Of a transaction: what its rows take as objects is more than their images in the binlog."""
        changes = transaction.changes
        rows = len(changes[0].pairs) if len(changes) == 1 else sum([len(change.pairs) for change in changes])
        return cls(transaction, ROW_BYTES * rows + 2 * transaction.size)

    def concerns(self, node: Arrangement) -> bool:
        """Is it a DDL statement on one of the node's tables?"""
        event = self.event
        return isinstance(event, Ddl) and (event.tables is None or not node.tables.isdisjoint(event.tables))


def drop_touched(node: Arrangement, entries: Entries, record: Record) -> int:
    """Takes out what a transaction of Q concerns: it may or may not be in the answer."""
    event = record.event
    if isinstance(event, Ddl):
        if not record.concerns(node):
            return 0
        dropped = len(entries)
        entries.clear()
        return dropped
    dropped = 0
    for change in event.changes:
        if change.table in node.tables:
            for key in list(node.touched(change.table, change.pairs, entries)):
                dropped += entries.pop(key, None) is not None
    return dropped


def replay(node: Arrangement, entries: Entries, record: Record) -> bool:
    """Returns whether it is about the node's tables."""
    event = record.event
    if isinstance(event, Ddl):
        if record.concerns(node):
            entries.clear()
        return record.concerns(node)
    concerned = False
    for change in event.changes:
        if change.table in node.tables:
            concerned = True
            if entries:
                node.apply(change.table, change.pairs, entries)
    return concerned
