"""What is held: an `Entry` is one key of an arrangement, a `Held` one key of a reader.

Entries and the readers' answers derived from them know each other. So a change reaches exactly the answers that it
concerns, and an entry that no reader needs is gone at once.

Invariants:
1. `held in entry.dependents` iff `entry in held.deps` for every entry that is alive.
2. A `Held` whose `version` is not None was derived from `deps`, all of which are alive and unchanged since. Without
   one it has no `bodies`.
3. Taking either out of its owner unlinks both directions: what is dropped is freed by its reference count, and no
   cycle stays behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import getsizeof
from typing import Any, Protocol

from dataflow.losses import Because, Losses
from gtid_tracker.tracker import Cut
from sqltypes.expression import Key, Row

_SIZES = tuple(range(4096))
ENTRY_BYTES = 140  # an Entry and its place in the dict, which has more than it needs while keys come and go
LISTED_BYTES = 100  # a place in a dict
PARAMS_BYTES, PARAM_BYTES = 60, 60  # a tuple of parameters, and each that is no whole number
HELD_BYTES = 200  # a Held, its key, and its places in the dict and the queue


class Shared(Protocol):
    """What entries and answers change of `Memory` (`dataflow/held/arrangement.py`)."""

    used: int
    sequence: int
    version: int
    room: int
    because: Because | None

    def count(self, name: str, by: int = 1) -> None: ...


class Reader(Protocol):
    """A reader, as its keys know it. `listed`: by wire format the encodings that lists of keys find. `watches`: whom a
    change of a key is told. `empty`: of the keys in `entries`, those that have lost an entry (`EMPTY`)."""

    entries: dict[Key, Held]
    listed: list[dict[Key, bytes]]
    watches: dict[Held, Callable[[], None]]
    losses: Losses
    empty: int

    @property
    def memory(self) -> Shared: ...

    def let_go(self) -> None:
        """Forgets all keys at once."""

    def drop(self, held: Held) -> None:
        """Forgets one key."""

    def tidy(self) -> None:
        """Some were dropped."""


class Owner(Protocol):
    """An arrangement, as its entries know it. `cuts`: of the entries `ahead` of the position."""

    entries: dict[Key, Entry]
    ahead: dict[Key, Entry]
    cuts: dict[Entry, Cut]

    @property
    def memory(self) -> Shared: ...

    @property
    def readers(self) -> Iterable[Reader]:
        """Those that use it."""

    def discard(self, entry: Entry) -> object:
        """Forgets a key that no reader needs."""


class Entry:
    """One key of one arrangement. `content` is the arrangement's own; None: dropped, no longer alive.

    `since`: at the position, its content is the same after each event of the stream from this one (`Memory.sequence`)
    to the last.
    """

    __slots__ = ("content", "dependents", "key", "owner", "since", "size")

    def __init__(self, owner: Owner, key: Key, content: Any, size: int) -> None:
        self.owner = owner
        self.key = key
        self.content = content
        self.size = _SIZES[size] if size < len(_SIZES) else size  # as `shared`
        self.since = 0
        self.dependents: Held | set[Held] | None = None

    @property
    def cut(self) -> Cut | None:
        """Where it stands if it was inserted ahead of the position; None: exactly at the position."""
        cuts = self.owner.cuts
        return cuts.get(self) if cuts else None


def shared(size: int) -> int:
    """The number, as one object for all that have this size, if it is small: an int takes 32 bytes."""
    return _SIZES[size] if size < len(_SIZES) else size


class Draft(Entry):
    """A copy of an entry that nobody holds. `since` is below 0 until it is changed."""

    __slots__ = ()

    def __init__(self, owner: Owner, key: Key, content: Any, size: int) -> None:
        self.owner = owner
        self.key = key
        self.content = content
        self.size = size
        self.since = -1
        self.dependents = None


LISTED, WATCHED, GONE, EMPTY = 1, 2, 4, 8


class Held:
    """One key of one reader: the answer's encodings, one a wire format, and what it was derived from.

    `version` is equal only while the answer is the same. None: a change has come since; the answer is derived again
    when it is next asked for. `bodies` None: no encoding is stored. `params`: those that it was held for; None where
    the key is the only one itself (`ReaderNode.params_of`). `links`: `deps`, or the only one. `marks`: LISTED and
    WATCHED, which few keys are; GONE; EMPTY: it has lost an entry, and was counted for that (`lose`).
    """

    __slots__ = ("bodies", "body_size", "key", "links", "marks", "reader", "version", "visited")

    params: tuple[Any, ...] | None = None

    def __init__(self, reader: Reader, key: Key) -> None:
        self.reader = reader
        self.key = key
        self.version: int | None = None
        self.bodies: list[bytes | None] | None = None
        self.links: Entry | tuple[Entry, ...] = ()
        self.body_size = 0  # of the encodings last stored; kept while the answer is stale, they will be stored again
        self.visited = False
        self.marks = 0

    @property
    def alive(self) -> bool:
        return not self.marks & GONE

    @property
    def listed(self) -> int:
        """Are some encodings in the reader's `listed`, too?"""
        return self.marks & LISTED

    @property
    def watch(self) -> Callable[[], None] | None:
        """Is called when a change comes. A key that has one is not evicted."""
        return self.reader.watches[self] if self.marks & WATCHED else None

    @watch.setter
    def watch(self, watch: Callable[[], None] | None) -> None:
        if self.marks & WATCHED:
            del self.reader.watches[self]
            self.marks &= ~WATCHED
        if watch is not None and self.reader.entries.get(self.key) is self:  # else it was let go
            self.reader.watches[self] = watch
            self.marks |= WATCHED

    def go(self) -> None:
        """The key is not held any more."""
        self.stale()
        watch, self.watch = self.watch, None
        self.marks = GONE
        if watch is not None:
            watch()

    @property
    def deps(self) -> tuple[Entry, ...]:
        """What the answer is derived from."""
        links = self.links
        return links if links.__class__ is tuple else (links,)  # type: ignore[return-value]

    @property
    def size(self) -> int:
        """Bytes that it takes, encodings not included."""
        params = 0 if self.params is None else PARAMS_BYTES + sum([bytes_of(value) for value in self.params])
        return HELD_BYTES + params + (LISTED_BYTES if self.marks & LISTED else 0)

    def notify(self, watch: Callable[[], None] | None) -> None:
        """Sets who is told when a change comes, beside those who link the key now."""
        if isinstance(self.watch, Linking):
            self.watch.watch = watch
        else:
            self.watch = watch

    def is_linked_by(self, linking: Linking) -> bool:
        return self.watch is linking

    @property
    def unseen(self) -> bool:
        """Has nobody been given its answer by itself, and nothing shown it to be right, since it was filled?"""
        return self.version is None and not self.body_size

    def doubt(self) -> None:
        """What was filled has not been compared as it should have been: it is `unseen`."""
        self.stale()
        self.reader.memory.used -= self.body_size
        self.body_size = 0

    def body(self, format_: int) -> bytes | None:
        """The encoding in this format, if it is stored. There is no place yet for a format that came later."""
        bodies = self.bodies
        return bodies[format_] if bodies is not None and format_ < len(bodies) else None

    def list(self, format_: int) -> bytes:
        """Puts the encoding where lists of keys find it. Requires: it is stored, and the key is the reader's."""
        assert self.bodies is not None
        body = self.bodies[format_]
        assert body is not None
        if not self.listed:
            self.marks |= LISTED
            self.reader.memory.used += LISTED_BYTES
        self.reader.listed[format_][self.key] = body
        return body

    def stale(self) -> None:
        """The encodings are the answer no more."""
        self.reader.memory.version += 1
        self.version = self.bodies = None
        if self.marks & LISTED:
            self.unlist()

    def renew(self) -> None:
        """It is linked to all that it is derived from, and nothing is encoded."""
        self.bodies = None
        if self.marks & LISTED:
            self.unlist()
        self.version = self.reader.memory.version

    def filled(self) -> None:
        """It was empty, and is linked to what is held now."""
        self.marks &= ~EMPTY
        self.reader.empty -= 1

    def tell(self) -> None:
        """A change has come to a key with marks."""
        if self.marks & LISTED:
            self.unlist()
        if self.marks & WATCHED:
            self.reader.watches[self]()

    def unlist(self) -> None:
        self.marks &= ~LISTED
        self.reader.memory.used -= LISTED_BYTES
        if self.reader.entries.get(self.key, self) is self:  # else it was let go: what is listed came since
            for rows in self.reader.listed:
                rows.pop(self.key, None)


class HeldFor(Held):
    """A key that does not tell its parameters."""

    __slots__ = ("params",)

    def __init__(self, reader: Reader, key: Key, params: tuple[Any, ...]) -> None:
        super().__init__(reader, key)
        self.params = params


Entries = dict[Key, Entry]


class Linking:
    """Stands as a key's `watch` while the key is linked to many entries in steps. `changed`: has a change come to one
    that is linked already? `watch`: the key's own."""

    __slots__ = ("changed", "watch")

    def __init__(self, watch: Callable[[], None] | None) -> None:
        self.changed = False
        self.watch = watch

    def __call__(self) -> None:
        self.changed = True
        if self.watch is not None:
            self.watch()


def bytes_of(value: Any) -> int:
    """About what a parameter takes, or a tuple of them."""
    if isinstance(value, int):
        return 8
    if isinstance(value, tuple):
        return PARAMS_BYTES + sum([bytes_of(one) for one in value])
    return PARAM_BYTES + (len(value) if isinstance(value, str | bytes) else 0)


def touch(entry: Entry) -> None:
    """The entry's content has changed: every answer derived from it is stale."""
    memory = entry.owner.memory
    entry.since = memory.sequence
    dependents = entry.dependents
    if not isinstance(dependents, set):
        if dependents is not None:
            dependents.version = dependents.bodies = None
            if dependents.marks:
                dependents.tell()
        return
    memory.room -= len(dependents)
    if memory.room < 0:  # many answers are made of it: to go through them would be a long step
        for reader in entry.owner.readers:
            reader.let_go()
        return
    for held in dependents:
        held.version = held.bodies = None
        if held.marks:
            held.tell()


def lose(dependents: Held | set[Held] | None) -> None:
    """An entry has gone: counts the readers' keys that were derived from it, each once until it is filled again."""
    if dependents is None:
        return
    for held in dependents if isinstance(dependents, set) else (dependents,):
        reader = held.reader
        if not held.marks & EMPTY and reader.entries.get(held.key) is held:  # else it was let go, and counted
            held.marks |= EMPTY
            reader.empty += 1
            reader.losses.add(reader.memory.because)


def touch_all(entries: Sequence[Entry]) -> None:
    """As `touch`, of entries of one arrangement; the usual case without a call for each."""
    if not entries:
        return
    sequence = entries[0].owner.memory.sequence
    for entry in entries:
        held = entry.dependents
        if isinstance(held, set):
            touch(entry)
            continue
        entry.since = sequence
        if held is not None:
            held.version = held.bodies = None
            if held.marks:
                held.tell()


def relink(held: Held, deps: tuple[Entry, ...]) -> None:
    """Makes `deps` what `held` was derived from. Entries that it no longer needs, and nobody else does, are dropped."""
    links = held.links
    old = links if isinstance(links, tuple) else (links,)
    if old == deps:  # the common case: the same single entry; entries compare by identity
        return
    if held.marks & EMPTY:
        held.filled()
    held.links = deps[0] if len(deps) == 1 else deps
    for entry in deps:
        add_dependent(entry, held)
    fresh = set(deps)
    for entry in old:
        if entry not in fresh:
            release(entry, held)


def unlinked(held: Held) -> Iterator[None]:
    """`relink` to nothing of a key that is not alive, an entry in each step."""
    for entry in held.deps:
        release(entry, held)
        yield
    held.links = ()


def release(entry: Entry, held: Held) -> None:
    """`held` no longer needs `entry`; an entry that no reader needs is dropped."""
    dependents = entry.dependents
    if dependents is held:
        entry.dependents = None
    elif isinstance(dependents, set):
        dependents.discard(held)
        if not dependents:
            entry.dependents = None
    if entry.dependents is None and entry.content is not None:
        entry.owner.discard(entry)


def add_dependent(entry: Entry, held: Held) -> None:
    """Requires: `held.deps` gets the entry in the same step."""
    dependents = entry.dependents
    if dependents is None:
        entry.dependents = held
    elif isinstance(dependents, set):
        dependents.add(held)
    elif dependents is not held:
        entry.dependents = {dependents, held}


def dependents_of(entry: Entry) -> frozenset[Held]:
    """The readers' keys that were derived from the entry."""
    dependents = entry.dependents
    if dependents is None:
        return frozenset()
    return frozenset(dependents) if isinstance(dependents, set) else frozenset((dependents,))


WIDE, WIDE_LETTER = 80, 3
"""Bytes of a str that is not ASCII, and of each letter. Whoever sends it may give it its UTF-8 spelling, too: then it
has both. What a row weighs must not depend on who has read it, so all count alike: 1 and 2 bytes of a text of accents,
2 and mostly 1 of an English one with a dash; others take less before they are sent, and more then."""


def value_bytes(value: object) -> int:
    """Bytes that a value occupies, shared small objects counted as if they were its own."""
    if value.__class__ is str and not value.isascii():
        return WIDE + WIDE_LETTER * len(value)
    return getsizeof(value)


def row_bytes(row: Row) -> int:
    return getsizeof(row) + sum(map(value_bytes, row)) + 16
