"""Many changes at once: those of one table that concern held keys of one arrangement, in order.

What is the same for each change is done for all of them by functions of C, a column at a time: a line of Python for
each costs more than what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from typing import Any, TypeVar

from dataflow.entries import Draft, Entries, Entry
from dataflow.messages import Pair
from sqltypes.expression import Key, Row

# A change that concerns held keys: its images, and the entries of the key that each has, None for a hole.
Hit = tuple[Row | None, Row | None, Entry | None, Entry | None]
# (place, item, bytes more): after `content[place] = item` the content is what one change makes of it; at the place
# WHOLE the item is the content.
Edit = tuple[Any, Any, int]
WHOLE: Any = object()
NONE_HELD: Entries = {}  # where drafts are
Item = TypeVar("Item")


class Images:
    """The images of changes. `before`, `after`: None where no change has such an image."""

    __slots__ = ("after", "before", "missing")

    def __init__(self, pairs: Sequence[Pair]) -> None:
        before, after = [before for before, _ in pairs], [after for _, after in pairs]
        without = before.count(None), after.count(None)
        self.missing = any(without)  # some change has only one
        self.before: list[Row] | None = None if without[0] == len(pairs) else before  # type: ignore[assignment]
        self.after: list[Row] | None = None if without[1] == len(pairs) else after  # type: ignore[assignment]


@dataclass(slots=True)
class Hits:
    """`old`, `new`: by change the entries of the keys of its images.

    Without `before` and `old` all are inserts, without `after` and `new` deletes. Where `old is new` each row stays
    under its key. In these three, every change concerns its entry. All others are `mixed`.
    """

    before: list[Row] | None = None
    after: list[Row] | None = None
    old: list[Entry] | None = None
    new: list[Entry] | None = None
    mixed: list[Hit] | None = None

    def __len__(self) -> int:
        return len(self.mixed or self.old or self.new or ())

    def each(self) -> Iterator[Hit]:
        """One change after the other."""
        if self.mixed is not None:
            return iter(self.mixed)
        nothing = repeat(None)
        columns = self.before or nothing, self.after or nothing, self.old or nothing, self.new or nothing
        return zip(*columns, strict=False)

    @property
    def size(self) -> int:
        """Bytes of the entries, those of one counted for each of its changes."""
        if self.mixed is None:
            return sum([entry.size for entry in self.old or self.new or ()])
        return sum([entry.size for _, _, old, new in self.mixed for entry in (old, new) if entry is not None])

    def part(self, first: int, last: int) -> Hits:
        """Some of them, in order."""
        old = _part(self.old, first, last)
        new = old if self.new is self.old else _part(self.new, first, last)
        return Hits(
            _part(self.before, first, last), _part(self.after, first, last), old, new, _part(self.mixed, first, last)
        )


def _part(items: list[Item] | None, first: int, last: int) -> list[Item] | None:
    return None if items is None else items[first:last]


def kept(items: list[Item], which: Iterable[object]) -> list[Item]:
    """Those beside which there is something true."""
    return list(compress(items, which))


@dataclass(slots=True)
class Beside:
    """What changes make of an arrangement's entries, worked out beside them: by entry a draft, without content where
    that could not be computed, or an edit. `size`: bytes of the contents that were copied."""

    made: dict[Entry, Draft | Edit] = field(default_factory=dict)
    size: int = 0


def hits_of(
    get: Callable[[Key], Entry | None], leaves: list[Key] | None, enters: list[Key] | None, images: Images
) -> Hits | None:
    """The changes that concern what is held; None: no change does. `leaves`, `enters`: the keys of the images."""
    before, after = images.before, images.after
    if leaves is None or enters is None or leaves == enters:
        held = list(map(get, leaves or enters or ()))
        if None in held:
            before = kept(before, held) if before is not None else None
            after = kept(after, held) if after is not None else None
        entries = [entry for entry in held if entry is not None]
        if not entries:
            return None
        return Hits(before, after, None if leaves is None else entries, None if enters is None else entries)
    assert before is not None and after is not None
    both = zip(before, after, map(get, leaves), map(get, enters), strict=True)
    mixed: list[Hit] = [hit for hit in both if hit[2] is not None or hit[3] is not None]
    return Hits(mixed=mixed) if mixed else None
