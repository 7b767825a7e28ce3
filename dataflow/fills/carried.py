"""What transactions behind a snapshot do to the entries that were made of it, before these are held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow.entries import Entries
from dataflow.held.arrangement import Arrangement
from dataflow.messages import Ddl

if TYPE_CHECKING:
    from dataflow.fills.fill import Record


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
