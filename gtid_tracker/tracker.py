"""The tracker of one fill arrangement: which upqueries are under way for which of its keys, and on behalf of which
path.

A path is (fill arrangement, consumer): its number is the tag. An upquery in flight is known under the key and the tag
that asked, so
that equal misses of one path share it, and one path's failure leaves another's alone.

What an insertion does with the ring is in `dataflow/fill.py`; entries are inserted at the position
(docs/consistency.md, "Insertion").
Insertion ahead of the position, with a cut for each key and tag, would add `cuts: dict[key, dict[tag, GtidSet]]` here
and one test in
`Arrangement.apply`: readers derive everything from their arrangements, so the arrangement's own tag would be the only
one consulted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

FillT = TypeVar("FillT")


@dataclass(slots=True)
class FillTracker(Generic[FillT]):
    """In-flight upqueries by key, tagged with the path that asked.

    Invariants: 1. For one (key, tag) at most one upquery is in flight.
    """

    in_flight: dict[Hashable, dict[int, FillT]] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)

    def find(self, key: Hashable, tag: int) -> FillT | None:
        """The upquery under way for this key and path."""
        tags = self.in_flight.get(key)
        return tags.get(tag) if tags is not None else None

    def start(self, key: Hashable, tag: int, fill: FillT) -> None:
        """Requires: `find(key, tag)` is None."""
        tags = self.in_flight.setdefault(key, {})
        assert tag not in tags, f"two upqueries for key {key!r} of path {tag}"
        tags[tag] = fill
        self.counters["asked"] += 1

    def end(self, key: Hashable, tag: int, fill: FillT) -> None:
        """Ends this fill for the key; nothing happens if another has taken its place."""
        tags = self.in_flight.get(key)
        if tags is not None and tags.get(tag) is fill:
            del tags[tag]
            if not tags:
                del self.in_flight[key]

    def clear(self) -> None:
        """Forgets all: a new generation of the node has begun."""
        self.in_flight.clear()
