"""What a snapshot has comes to be held again (`dataflow/fills/keeping.py`).

The engine begins at the snapshot's position, so what is inserted there is true, and the stream keeps it current like
all that is held. Where the stream goes on before all is inserted, `note` is told of each event. An entry that an event
since has concerned is left out: it is a hole. The others are the same at the position.

The keys above are linked as they were. None is encoded, and none counts as compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from dataflow.entries import HELD_BYTES, Entry, Held, HeldFor, add_dependent
from dataflow.fills.insertion import let_go_unneeded
from dataflow.fills.keeping import Block, Link, nodes_of
from dataflow.fills.state import State
from dataflow.held.arrangement import Arrangement, Seen
from dataflow.messages import StreamEvent, Transaction
from dataflow.readers.reader import ReaderNode
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key

NOTHING: frozenset[int] = frozenset()
MANY_ROWS = 2_000  # of one change: to note them all would be a long step, so nothing more of its nodes is inserted


class Restoring:
    """Of one snapshot. `readers`: those of the snapshot by their places, None where one is not there any more, or its
    plan is another. `held`: how many keys are held again; `touched`: entries that were left out.

    Requires: made while the engine is at the snapshot's position.
    """

    def __init__(self, state: State, readers: Sequence[ReaderNode | None]) -> None:
        self.held = self.touched = 0
        self._state = state
        self._readers = readers
        self._nodes = [[] if reader is None else nodes_of(reader) for reader in readers]
        # By node what has been touched, and the generation: where that is another, nothing of it is inserted.
        self._seen: dict[Arrangement, Seen] = {node: {} for nodes in self._nodes for node in nodes}
        self._generations = {node: node.generation for node in self._seen}
        self._by_table: dict[str, list[Arrangement]] = {}
        for node in self._seen:
            for table in node.tables:
                self._by_table.setdefault(table, []).append(node)

    def note(self, event: StreamEvent) -> None:
        """An event has been processed. (What is no transaction of rows empties arrangements.)"""
        if not isinstance(event, Transaction):
            return
        for change in event.changes:
            for node in self._by_table.get(change.table, ()):
                if len(change.pairs) > MANY_ROWS:
                    self._generations[node] = -1
                    continue
                try:
                    node.note_touched(change.table, change.pairs, self._seen[node])
                except EvaluationError:
                    self._generations[node] = -1

    @property
    def nodes(self) -> list[Arrangement]:
        """All into which something may have been inserted."""
        return list(self._seen)

    @property
    def may_hold(self) -> bool:
        """Not while a large transaction is worked out: it has not read what would be inserted."""
        return self._state.under_way is None

    def hold(self, pickled: tuple[Any, ...], void: Collection[int] = NOTHING, *, hot: bool = False) -> None:
        """Holds a block that was read. `void`: the numbers of its entries that are not true. `hot`: its keys were read
        lately. Requires: `may_hold`. Raises whatever something does that is no block."""
        block = Block(*pickled)
        reader, nodes = self._readers[block.reader], self._nodes[block.reader]
        if reader is None or not reader.installed:
            return
        placed = self._placed(block, nodes, void)
        root = nodes[0].entries
        links: Any  # an entry's key, or a list
        for key, params, links in zip(block.keys, block.params, block.links, strict=True):
            if links.__class__ is list:
                self._link(reader, key, params, _found(nodes, links), hot)
            else:
                self._link(reader, key, params, root.get(links), hot)
        for entry in placed:
            if entry.dependents is None:
                let_go_unneeded(entry)

    def _placed(self, block: Block, nodes: Sequence[Arrangement], void: Collection[int]) -> list[Entry]:
        """The entries that are inserted."""
        placed: list[Entry] = []
        for number, (place, key, saved) in enumerate(zip(block.places, block.below, block.saved, strict=True)):
            node = nodes[place]
            if number in void or key in node.entries or node.generation != self._generations[node]:
                continue
            entry = node.restored(key, saved)
            if node.was_touched(entry, self._seen[node]):
                self.touched += 1
                continue
            node.insert(entry)
            placed.append(entry)
        return placed

    def _link(
        self, reader: ReaderNode, key: Key, params: Any, links: Entry | tuple[Entry, ...] | None, hot: bool
    ) -> None:
        """The key is held, and stale. None: what is below it is not all held."""
        if links is None or key in reader.entries:
            return
        held = Held(reader, key) if params is None else HeldFor(reader, key, params)
        held.links = links
        held.visited = hot
        if isinstance(links, tuple):
            for entry in links:
                add_dependent(entry, held)
        else:
            add_dependent(links, held)
        reader.entries[key] = held
        self._state.memory.used += HELD_BYTES if params is None else held.size
        self._state.sieve.add(held)
        self.held += 1


def _found(nodes: Sequence[Arrangement], links: Sequence[Link]) -> Entry | tuple[Entry, ...] | None:
    """The entries that are linked; None where one is not held."""
    found: list[Entry] = []
    for place, key in links:
        entry = nodes[place].entries.get(key)
        if entry is None:
            return None
        found.append(entry)
    return found[0] if len(found) == 1 else tuple(found)
