"""What upqueries tell of the server: readings of several connections arrive in any order."""

from __future__ import annotations

from dataflow.fills.source_history import SourceHistory
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet, MutableGtidSet

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NOTHING = GtidSet.empty()


def executed(last: int) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:1-{last}")


def bracket(lower: int, upper: int) -> Bracket:
    return Bracket(SERVER, executed(lower), NOTHING, executed(upper))


def test_an_older_reading_that_comes_later_is_not_the_newest_lower_bound() -> None:
    history = SourceHistory()
    assert history.contradiction(bracket(6, 7), None) == ""
    # Two connections were asked at the same time; the answer of the one that read first comes last.
    assert history.contradiction(bracket(5, 5), None) == ""
    lower = history.known_lower(5, MutableGtidSet(executed(5)))
    assert lower == executed(7)
    assert history.floor == executed(6)
    assert history.contradiction(Bracket(SERVER, executed(7), NOTHING, executed(7)), history.floor) == ""


def test_a_reading_that_lacks_what_was_known_when_it_was_asked_for_tells_of_a_loss() -> None:
    history = SourceHistory()
    assert history.contradiction(bracket(6, 7), None) == ""
    assert "lost transactions" in history.contradiction(bracket(5, 5), history.floor)


def test_another_server_is_another_history() -> None:
    history = SourceHistory()
    assert history.contradiction(bracket(6, 7), None) == ""
    other = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
    assert other in history.contradiction(Bracket(other, executed(7), NOTHING, executed(7)), history.floor)


def test_a_reading_is_no_lower_bound_once_more_has_been_received() -> None:
    history = SourceHistory()
    history.contradiction(bracket(6, 7), None)
    assert history.known_lower(8, MutableGtidSet(executed(8))) is None
