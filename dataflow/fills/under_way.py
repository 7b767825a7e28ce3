"""The fills under way: those that are sent, that are answered and wait for the position, and that are being inserted.

Invariants:
1. A fill in `by_number` has not ended. Each key that reads have asked it for leads to it, by its root's tracker, unless
   the root was emptied since.
2. `unanswered` has those in `by_number` that a read asked for and that have no answer yet.
3. A fill in `waits` is in `by_number`, or its entries are held ahead of the position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataflow.fills.fill import Fill, Unasked
from dataflow.fills.shards import Shards, ShardsOf
from dataflow.fills.source_history import SourceHistory
from dataflow.readers.derivation import Params
from dataflow.readers.in_steps import Holes
from dataflow.readers.reader import ReaderNode
from gtid_tracker.progress import PositionWaits
from sqltypes.expression import Key


class FillsUnderWay:
    """`clock` gives seconds, monotonic. `shards_of`: where the source has shards."""

    def __init__(self, clock: Callable[[], float], source: SourceHistory, shards_of: ShardsOf | None) -> None:
        self.clock = clock
        self.source = source
        self.shards_of = shards_of
        self.by_number: dict[int, Fill] = {}
        self.unanswered: set[int] = set()
        self.waits: PositionWaits[Fill] = PositionWaits()  # answers that wait for the position
        self.latency: dict[int, float] = {}  # by tag: seconds that a reader's upqueries take, smoothed
        self.count = 0  # of requests and answers

    def new(
        self,
        reader: ReaderNode,
        whole: dict[Key, Params],
        partial: dict[Key, Params],
        holes: Holes,
        unasked: Unasked | None = None,
    ) -> Fill:
        """A fill with a number of its own. It is under way from `begin` on."""
        self.count = number = self.count + 1
        fill = Fill(number, reader, whole, partial, holes, sent=number, sent_at=self.clock(), unasked=unasked)
        fill.floor = self.source.floor
        return fill

    def begin(self, fill: Fill) -> None:
        """The fill's request is built, and will be sent."""
        self.by_number[fill.id] = fill
        if fill.unasked is not None:
            return  # a read of its keys does not wait for it
        self.unanswered.add(fill.id)
        reader = fill.reader
        tracker = reader.program.root.tracker
        for asked in (fill.whole, fill.partial):
            for key in asked:
                tracker.start(key, reader.tag, fill)

    def answered(self, fill: Fill, seconds: float) -> None:
        """The fill's answer has come. Its upquery took so long."""
        self.count += 1
        fill.answered, fill.answered_at = self.count, self.clock()
        self.unanswered.discard(fill.id)
        if fill.unasked is None:
            tag = fill.reader.tag
            self.latency[tag] = 0.7 * self.latency.get(tag, seconds) + 0.3 * seconds

    def end(self, fill: Fill) -> None:
        """Nothing comes of the fill any more. Not an error if it has ended."""
        fill.ended = True
        begun = self.by_number.pop(fill.id, None) is not None
        self.unanswered.discard(fill.id)
        if fill.waiting:
            self.waits.remove(fill)
            fill.waiting = False
        if fill.unasked is not None:
            if begun:
                fill.unasked.ended.append(fill)
            return  # no tracker knows of it
        tracker = fill.reader.program.root.tracker
        for asked in (fill.whole, fill.partial):
            for key in asked:
                tracker.end(key, fill.reader.tag, fill)

    def end_since(self, count: int) -> None:
        """Ends those that are new since `count` was that: their requests are lost."""
        for number in range(count + 1, self.count + 1):
            if number in self.by_number:
                self.end(self.by_number[number])

    def where(self, reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> Shards:
        """The shards that have all of these keys; None: any may have some of it, or there are none."""
        return (self.shards_of(reader, keys) or None) if self.shards_of is not None else None

    def check_invariants(self) -> None:
        """Raises AssertionError where one does not hold."""
        for number, fill in self.by_number.items():
            assert fill.id == number and not fill.ended, f"fill {number} has ended"
            root, tag = fill.reader.nodes[0], fill.reader.tag
            if fill.unasked is None and fill.generations[0] == root.generation:
                for key in fill.keys:
                    assert root.tracker.in_flight.get(key, {}).get(tag) is fill, f"{key!r} does not lead to its fill"
        asked = {number for number, fill in self.by_number.items() if fill.unasked is None and not fill.answered}
        assert self.unanswered == asked, "who asks for more must know how many upqueries are under way"
        for fill in self.waits:
            assert fill.waiting and (fill.ahead or self.by_number.get(fill.id) is fill), "it waits for nobody"
