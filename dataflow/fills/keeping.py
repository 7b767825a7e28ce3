"""A snapshot of what is held, written in steps while the stream goes on, as it is at one position.

Each block has some keys of one reader, with the entries below them. An entry that has changed since its block was begun
(`Entry.since`), or has gone, is void: `settle` looks at each when all are written. What is left is true at every
position from its block's to that of the look. So it is true at the one in between that is the snapshot's (`fix`).

Not in it: what stands ahead of the position, entries of more than LARGE bytes, and keys that have one of these below.

Invariants:
1. At the position `at` all entries that are not void were as they are written.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataflow.entries import Entry, Held
from dataflow.fills.state import State
from dataflow.held.arrangement import Arrangement
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from sqltypes.expression import Key

KEYS_OF_A_BLOCK = 250
BYTES_OF_A_BLOCK = 256 << 10
LARGE = 256 << 10  # bytes of an entry that is not written: to pickle it would be a long step
MOST_LINKS = 200  # entries below a key that is written
LOOKED_AT = 500  # keys, or entries, of a step
PROTOCOL = 5

Link = tuple[int, Key]  # the place of a node in `nodes_of` its reader, and an entry's key there


@dataclass(slots=True)
class Block:
    """Keys of one reader. `reader`: its place among those that are written. `params`: None of a key that is its only
    parameter. `links`: of each key the entry below it, by its key in the root's node, or a list of `Link`s. `places`,
    `below`, `saved`: of each entry the node's place, its key there, and what `Arrangement.saved` gave."""

    reader: int
    keys: list[Key] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)
    links: list[Key | list[Link]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    below: list[Key] = field(default_factory=list)
    saved: list[Any] = field(default_factory=list)

    def pickled(self) -> bytes:
        parts = self.keys, self.params, self.links, self.places, self.below, self.saved
        return pickle.dumps((self.reader, *parts), PROTOCOL)


def nodes_of(reader: ReaderNode) -> list[Arrangement]:
    """The reader's nodes, each once, in an order that its plan tells."""
    return list(dict.fromkeys(reader.nodes))


class Open:
    """A block that is being made. `since`: at which event of the stream it was begun. `own`: its entries."""

    __slots__ = ("block", "bytes", "hot", "own", "since")

    def __init__(self, block: Block, since: int, *, hot: bool) -> None:
        self.block = block
        self.since = since
        self.hot = hot
        self.bytes = 0
        self.own: list[Entry] = []


class Keeping:
    """One snapshot of some readers. `blocks` first, then `settle`. `keys`: how many are written; `left_out`: those of
    which an entry is large or ahead, or that have many. `hot`: of each block whether its keys were read lately."""

    def __init__(
        self, state: State, readers: Sequence[ReaderNode], most: int = KEYS_OF_A_BLOCK, looked_at: int = LOOKED_AT
    ) -> None:
        """`most`: keys of a block. `looked_at`: keys, or entries, of a step."""
        self.at = GtidSet.empty()
        self.keys = self.left_out = 0
        self.hot: list[bool] = []
        self._state = state
        self._most, self._looked_at = most, looked_at
        self._readers = readers
        self._nodes = [nodes_of(reader) for reader in readers]
        self._made: list[tuple[int, list[Entry]]] = []  # of each block since when, and its entries
        # Entries that several keys have below them, and that are written: for keys that were read lately, and others.
        # (The former are restored first.)
        self._shared: tuple[set[Entry], set[Entry]] = set(), set()

    def blocks(self) -> Iterator[bytes | None]:
        """Pickled blocks; None: a step without one. Between two steps the stream may go on."""
        for number, reader in enumerate(self._readers):
            opened: dict[bool, Open] = {}
            for some in self._state.sieve.keys_of(reader):
                for at, held in enumerate(some):
                    if at % self._looked_at == self._looked_at - 1:
                        yield None
                    if reader.entries.get(held.key) is not held:
                        continue
                    open_ = opened.get(held.visited)
                    if open_ is None:
                        since = self._state.memory.sequence
                        open_ = opened[held.visited] = Open(Block(number), since, hot=held.visited)
                    self._write(open_, held)
                    if len(open_.block.keys) >= self._most or open_.bytes >= BYTES_OF_A_BLOCK:
                        yield self._made_of(opened.pop(open_.hot))
                yield None
            for open_ in opened.values():
                yield self._made_of(open_)

    def _made_of(self, open_: Open) -> bytes | None:
        if not open_.block.keys:
            return None
        self.keys += len(open_.block.keys)
        self.hot.append(open_.hot)
        self._made.append((open_.since, open_.own))
        return open_.block.pickled()

    def _write(self, open_: Open, held: Held) -> None:
        """Writes a key, if all below it can be written."""
        block, nodes, shared = open_.block, self._nodes[open_.block.reader], self._shared[not open_.hot]
        deps = held.deps
        if not deps or len(deps) > MOST_LINKS:
            self.left_out += 1
            return
        for entry in deps:
            if entry.size > LARGE or entry.owner.entries.get(entry.key) is not entry:
                self.left_out += 1
                return
        links: list[Link] = []
        for entry in deps:
            node: Any = entry.owner
            place = 0 if node is nodes[0] else nodes.index(node)
            links.append((place, entry.key))
            if entry.dependents is not held:
                if entry in shared:
                    continue
                shared.add(entry)
            block.places.append(place)
            block.below.append(entry.key)
            block.saved.append(node.saved(entry))
            open_.own.append(entry)
            open_.bytes += entry.size
        block.keys.append(held.key)
        block.params.append(held.params)
        block.links.append(links[0][1] if len(links) == 1 and not links[0][0] else links)

    def fix(self) -> None:
        """The snapshot is of the position now. Requires: all blocks are made, and no large transaction is under way
        (`Engine.under_way`)."""
        self.at = self._state.ring.position.freeze()

    def settle(self) -> Iterator[dict[int, list[int]] | None]:
        """Looks at all that was written: None is a step, and the last is what is void, by block the numbers of its
        entries. Requires: `fix`."""
        for written in self._shared:
            while written:
                for _ in range(min(len(written), self._looked_at)):
                    written.pop()
                yield None
        void: dict[int, list[int]] = {}
        looked_at = 0
        for number, (since, own) in enumerate(self._made):
            gone = [
                place
                for place, entry in enumerate(own)
                if entry.since > since or entry.owner.entries.get(entry.key) is not entry
            ]
            if gone:
                void[number] = gone
            looked_at += len(own)
            self._made[number] = 0, []  # freed a little at a time
            if looked_at > self._looked_at:
                looked_at = 0
                yield None
        yield void
