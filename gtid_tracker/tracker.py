"""The tracker of one fill arrangement: which upqueries are under way for which of its keys, and on behalf of which
path.

A path is (fill arrangement, consumer): its number is the tag. An upquery in flight is known under the key and the tag
that asked. So equal misses of one path share it, and one path's failure leaves another's alone.

An entry may be inserted ahead of the position, at the cut of its bracket (`Cut`). A reader above it has no entries of
its own that a record changes, it derives its answer from this one. So the arrangement's own tag is the only consumer
of a record, and a cut for each key is the whole of what tags would tell (docs/consistency.md, "Ahead of the position").
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet

FillT = TypeVar("FillT")


class Fate(Enum):
    """The fate of a record for an entry ahead of the position."""

    APPLIED = "applied"
    TAGGED = "tagged"  # the entry reflects it already
    DOUBTFUL = "doubtful"  # nobody knows whether the entry reflects it


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """The state of an entry ahead of the position: it reflects all of `lower`, and perhaps some of `doubt`.

    When the position contains both, the entry is like any other. Records that it reflects were skipped when they came,
    and a record of `doubt` that concerned it has dropped it.
    """

    lower: GtidSet
    doubt: GtidSet

    @classmethod
    def of(cls, bracket: Bracket) -> Cut:
        return cls(bracket.lower, bracket.uncertain)

    def fate(self, gtid: Gtid | None) -> Fate:
        """Of a record that concerns the entry. A change without a GTID can be told from no other."""
        if gtid is None or gtid in self.doubt:
            return Fate.DOUBTFUL
        return Fate.TAGGED if gtid in self.lower else Fate.APPLIED


@dataclass(slots=True)
class FillTracker(Generic[FillT]):
    """In-flight upqueries by key, tagged with the path that asked.

    Invariants: 1. For one (key, tag) at most one upquery is in flight.
    """

    in_flight: dict[Hashable, dict[int, FillT]] = field(default_factory=dict)

    def start(self, key: Hashable, tag: int, fill: FillT) -> None:
        """Requires: none is in flight for this key and path."""
        tags = self.in_flight.setdefault(key, {})
        assert tag not in tags, f"two upqueries for key {key!r} of path {tag}"
        tags[tag] = fill

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
