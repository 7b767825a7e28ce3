"""The fills under way, without an engine around them."""

from __future__ import annotations

import pytest

from dataflow.fills.fill import Fill, Unasked
from dataflow.fills.source_history import SourceHistory
from dataflow.fills.under_way import FillsUnderWay
from tests.support.engine_rig import ROWS, Rig, gtids


class Some:
    """Fills of one reader, at a clock of their own."""

    def __init__(self) -> None:
        self.reader = Rig(ROWS).readers[0]
        self.now = 5.0
        self.source = SourceHistory()
        self.fills = FillsUnderWay(lambda: self.now, self.source, None)

    def begun(self, *keys: int, unasked: Unasked | None = None) -> Fill:
        fill = self.fills.new(self.reader, {key: (key,) for key in keys}, {}, {}, unasked)
        fill.generations = tuple(node.generation for node in self.reader.nodes)  # as its request does
        self.fills.begin(fill)
        self.fills.check_invariants()
        return fill

    def leads_to(self, key: int) -> Fill | None:
        found: Fill | None = self.reader.program.root.tracker.in_flight.get(key, {}).get(self.reader.tag)
        return found


def test_a_fill_is_found_by_its_keys_until_it_ends() -> None:
    some = Some()
    some.source.floor = gtids(1)
    fill = some.begun(1, 2)
    assert some.leads_to(1) is some.leads_to(2) is fill and some.fills.unanswered == {fill.id}
    assert (fill.sent_at, fill.floor) == (5.0, gtids(1))
    some.now = 7.0
    some.fills.answered(fill, 2.0)
    assert fill.answered > fill.sent and fill.answered_at == 7.0 and not some.fills.unanswered
    some.fills.check_invariants()
    some.fills.end(fill)
    some.fills.end(fill)
    assert fill.ended and some.leads_to(1) is None and not some.fills.by_number
    some.fills.check_invariants()


def test_what_a_reader_s_upqueries_take_is_smoothed() -> None:
    some = Some()
    for seconds in (1.0, 2.0):
        some.fills.answered(some.begun(int(seconds)), seconds)
    assert some.fills.latency == {some.reader.tag: pytest.approx(1.3)}


def test_no_key_leads_to_a_fill_that_no_read_asked_for() -> None:
    some = Some()
    unasked = Unasked()
    fill = some.begun(1, unasked=unasked)
    assert some.leads_to(1) is None and not some.fills.unanswered
    some.fills.answered(fill, 60.0)
    assert not some.fills.latency, "a large fill's upqueries take longer than a read's"
    other = some.begun(1)
    some.fills.end(fill)
    some.fills.end(fill)
    assert unasked.ended == [fill] and some.leads_to(1) is other
    some.fills.check_invariants()


def test_those_of_a_step_that_failed_end() -> None:
    some = Some()
    before = some.begun(1)
    count = some.fills.count
    fills = [some.begun(key) for key in (2, 3)]
    some.fills.new(some.reader, {4: (4,)}, {}, {})  # its request could not be built
    some.fills.end_since(count)
    assert [fill.ended for fill in (before, *fills)] == [False, True, True]
    assert list(some.fills.by_number) == [before.id]


def test_a_fill_that_its_keys_do_not_lead_to_is_found_out() -> None:
    some = Some()
    fill = some.begun(1)
    some.reader.program.root.tracker.clear()
    with pytest.raises(AssertionError, match="does not lead"):
        some.fills.check_invariants()
    some.fills.end(fill)
    some.fills.check_invariants()
    other = some.begun(2)
    some.fills.unanswered.clear()
    with pytest.raises(AssertionError, match="how many upqueries"):
        some.fills.check_invariants()
    assert not other.ended
