"""The bracket of an answer: of all of a source, or of some of its shards."""

from __future__ import annotations

from gtid_tracker.bracket import NOTHING, Bracket
from gtid_tracker.gtid import GtidSet

LEFT, RIGHT = "5e1ec7ed-0000-4000-8000-000000000001", "5e1ec7ed-0000-4000-8000-000000000002"


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(text.replace("left", LEFT).replace("right", RIGHT))


def test_what_others_have_counts_as_seen_and_is_not_in_doubt() -> None:
    bracket = Bracket("all", gtids("left:1-5"), gtids("left:8"), gtids("left:1-7"), gtids("right:1-9"))
    assert bracket.own == gtids("left:1-5")
    assert bracket.lower == gtids("left:1-5,right:1-9")
    assert bracket.uncertain == gtids("left:6-8")
    assert bracket.needed == gtids("left:1-8,right:1-9")


def test_a_quiet_shard_leaves_nothing_in_doubt() -> None:
    lower = gtids("left:1-5")
    bracket = Bracket("all", lower, NOTHING, lower, gtids("right:1-9"))
    assert not bracket.uncertain and bracket.needed is bracket.lower


def test_readings_tell_of_the_servers_that_they_name() -> None:
    some = gtids("left:1-9:red:1-3,right:1-4")
    assert Bracket("all", gtids("left:1-5"), NOTHING, gtids("left:1-6"), NOTHING).asked(some) == gtids(
        "left:1-9:red:1-3"
    )
    assert Bracket("all", NOTHING, gtids("right:7"), NOTHING, gtids("left:1")).asked(some) == gtids("right:1-4")
    assert Bracket("all", gtids("left:1-5"), NOTHING, gtids("left:1-6")).asked(some) is some
