"""Answers on their way to what is held: those that wait for the position, those whose wait has ended, and those of
which a part is inserted.

Invariants:
1. An answer in `due` does not wait for the position any more. In one step not more of them are inserted than `most`
   says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from dataflow.fills.fill import Fill
from dataflow.fills.state import State
from dataflow.fills.under_way import FillsUnderWay
from dataflow.fills.waiting_reads import Reads
from dataflow.messages import Effect, UpqueryAnswer
from dataflow.readers.in_steps import Steps
from gtid_tracker.gtid import Gtid, MutableGtidSet

OnBroken = Callable[[Fill, Exception], list[Effect]]
INSERTED = 200  # keys of answers that waited for the position, that one step inserts: 3 ms
MOST_ARRIVED = 500  # answers whose wait ends with one event: of more, none is inserted in the same step
ENTRIES_OF_A_KEY = 10  # that are inserted while one key is held
FILL_PATIENCE = 10.0  # seconds that an answer waits for the position; a timeout resolves nothing: the fill is dropped


class Inserting:
    """`ahead_fills`: whether answers may be held ahead of the position."""

    def __init__(self, state: State, fills: FillsUnderWay, reads: Reads, *, ahead_fills: bool) -> None:
        self.due: deque[Fill] = deque()
        self.begun: deque[tuple[Fill, Steps[None]]] = deque()  # a part of them is inserted
        self.most = INSERTED
        self.on_broken: OnBroken | None = None  # what becomes of a fill whose insertion fails; None: the step fails
        self._state = state
        self._fills = fills
        self._waits = fills.waits
        self._reads = reads
        self.ahead_fills = ahead_fills

    def add(self, fill: Fill) -> list[Effect]:
        """An answer that has come. It is inserted, or waits for the position."""
        bracket = fill.bracket
        assert bracket is not None
        effects = self.insert_due() if self.due else []
        unsettled = bracket.owned.difference(bracket.executed) if bracket.owned.intervals else bracket.owned
        if not self._waits.add(bracket.needed, self._state.ring.position, fill, unsettled):
            if self._state.under_way is not None and self._state.delays(fill.reader):
                self.due.append(fill)
            else:
                effects += self._place(fill, self._state.insertion(fill))
        elif self._may_stand_ahead(fill):
            self._insert_ahead(fill)
        else:
            fill.waiting = True
            self._state.memory.count("fills_waiting_for_position")
        return effects

    def arrived(self, gtid: Gtid, position: MutableGtidSet) -> bool:
        """The position contains this transaction now. Whether some of what waited may be inserted in the same step."""
        arrived = self._waits.arrived(gtid, position)
        self.due += arrived
        return len(arrived) <= MOST_ARRIVED

    def clear_rolled_back(self, answer: UpqueryAnswer, current: Fill) -> None:
        """A GTID that was owned, and is neither owned nor executed in a later reading, was rolled back: nobody needs
        to wait for it. Unless the server was restarted in between, and lost what had been seen. `current`: the fill of
        this answer."""
        bracket = answer.bracket
        for fill, missing in self._waits.rolled_back(bracket.owned, bracket.executed).items():
            absent = bracket.asked(missing)  # a reading of some shards tells nothing of the others
            restarted = answer.connected_at >= fill.sent_at
            if fill is current or restarted or not absent or current.sent <= fill.answered:
                continue
            if self._waits.clear_absent(absent, self._state.ring.position, fill):
                self._state.memory.count("rolled_back_cleared")
                self.due.append(fill)

    def go_on(self) -> list[Effect]:
        """Inserts some of those whose wait has ended, and goes on with one of which a part is inserted."""
        effects = self.insert_due() if self.due else []
        if self.begun and self._state.under_way is None:
            effects += self._place_more(*self.begun.popleft())
        return effects

    def insert_due(self) -> list[Effect]:
        """Inserts as many of those whose wait has ended as a short step can."""
        effects: list[Effect] = []
        room = 0 if self._state.under_way is not None else self.most
        while self.due and room > 0:
            fill = self.due.popleft()
            room -= len(fill.whole) + len(fill.partial) + sum(map(len, fill.overlay)) // ENTRIES_OF_A_KEY
            effects += self._resolved(fill)
        return effects

    def _resolved(self, fill: Fill) -> list[Effect]:
        """The position contains the answer's L and Q. A fault is this fill's, not that of the event or of the answer
        which has ended its wait."""
        fill.waiting = False
        try:
            if fill.ahead:
                self._state.promote(fill)
            elif fill.id in self._fills.by_number:  # else it has ended meanwhile
                return self._place(fill, self._state.insertion(fill))
        except Exception as error:
            if self.on_broken is None:
                raise
            return self.on_broken(fill, error)
        return []

    def _place(self, fill: Fill, steps: Steps[None]) -> list[Effect]:
        """Inserts an answer at the position, or begins to, or goes on with it."""
        more = False
        try:
            for _ in steps:
                more = True
                self.begun.append((fill, steps))
                return []
            if fill.ended:
                return []  # who waited for it asks again
            self._fills.end(fill)
            return self._reads.settle_all(fill)
        finally:
            if not more and fill.pins.held:
                fill.pins.release()

    def _place_more(self, fill: Fill, steps: Steps[None]) -> list[Effect]:
        """A fault is this fill's, not that of the step."""
        try:
            return self._place(fill, steps)
        except Exception as error:
            if self.on_broken is None:
                raise
            return self.on_broken(fill, error)

    def _may_stand_ahead(self, fill: Fill) -> bool:
        """Nobody waits for it: who does must be told at the position. What is to be compared first must be at the
        position, too. Of what no read asked for it is told at the position which keys are held."""
        waited_for = any(read.waiter in self._reads.waiting for read in fill.reads)
        free = self.ahead_fills and not waited_for and fill.unasked is None and not fill.checks.doubtful()
        return free and self._state.may_stand_ahead(fill)

    def _insert_ahead(self, fill: Fill) -> None:
        """Inserts an answer at its cut; it goes on waiting for the position."""
        self._fills.end(fill)
        if self._state.insert_ahead(fill):
            fill.waiting = True
        else:
            self._waits.remove(fill)

    def drop_overdue(self) -> list[Effect]:
        """Drops answers that have waited too long for the position; who waits for them asks again."""
        effects: list[Effect] = []
        horizon = self._fills.clock() - FILL_PATIENCE
        for fill in list(self._waits):
            if fill.answered_at < horizon:
                if fill.becomes_overdue(self._state.ring.position):
                    self._state.memory.count("fills_beyond_stream")
                if fill.ahead:
                    continue
                self._state.memory.count("fills_timed_out")
                self._fills.end(fill)
                for read in list(fill.reads):
                    if read.waiter in self._reads.waiting:
                        effects += self._reads.again(read, fill.id)
        return effects

    def forget(self) -> None:
        """No answer waits for the position any more."""
        self._waits.clear()
        self.due.clear()

    @property
    def waiting(self) -> int:
        """Answers that wait for the position, or whose wait has ended."""
        return sum(1 for fills in (self._waits, self.due) for fill in fills if not fill.ahead)

    def check_invariants(self) -> None:
        """Raises AssertionError where one does not hold."""
        waiting = self._waits.places
        assert not any(fill in waiting for fill in self.due), "it is due, and waits"
