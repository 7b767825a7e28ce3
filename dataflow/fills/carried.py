"""What transactions behind a snapshot do to the entries that were made of it, before these are held."""

from __future__ import annotations

from dataflow.entries import Entries
from dataflow.held.arrangement import Arrangement
from dataflow.messages import Ddl, Record


def drop_touched(node: Arrangement, entries: Entries, record: Record) -> int:
    """Takes out what a transaction of Q concerns: it may or may not be in the answer."""
    if isinstance(record, Ddl):
        if not record.concerns(node.tables):
            return 0
        dropped = len(entries)
        entries.clear()
        return dropped
    dropped = 0
    for change in record.changes:
        if change.table in node.tables:
            for key in list(node.touched(change.table, change.pairs, entries)):
                dropped += entries.pop(key, None) is not None
    return dropped


def replay(node: Arrangement, entries: Entries, record: Record) -> bool:
    """Returns whether it is about the node's tables."""
    if isinstance(record, Ddl):
        if record.concerns(node.tables):
            entries.clear()
        return record.concerns(node.tables)
    concerned = False
    for change in record.changes:
        if change.table in node.tables:
            concerned = True
            if entries:
                node.apply(change.table, change.pairs, entries)
    return concerned
