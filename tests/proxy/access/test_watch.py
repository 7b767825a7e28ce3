"""What watchers are told of reads that were no hits, and that nothing is told while nobody watches."""

from __future__ import annotations

import json

import pytest

from proxy.access import watch as module
from proxy.access.watch import KEPT, TAKEN, Watch
from proxy.auto.passed_reads import Judgement, ProxiedQueries
from proxy.cache.named_cache import NamedCache
from proxy.port.reasons import NO_REASON, Reason, Why
from tests.support.fake_system import FakeJudge

LATE = Reason.LATE.why("the stream is behind")


class Place:
    """A proxy's places that tell."""

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self.now = 100.0
        self.cache = NamedCache("one", "SELECT 1 WHERE id = ?", "d")
        self.proxied = ProxiedQueries(FakeJudge())
        self.passed: list[module.Passed] = []
        self.watching = Watch({"one": self.cache}, self, self.proxied.noted)
        self.watching.sessions = self.passed

    @property
    def is_told(self) -> list[bool]:
        return [self.watch is not None, self.proxied.noted != [], self.passed != []]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place()
    monkeypatch.setattr(module, "time", lambda: made.now)
    return made


def test_nobody_is_told_unless_somebody_watches(place: Place) -> None:
    assert place.is_told == [False] * 3
    with place.watching.watched():
        with place.watching.watched():
            assert place.is_told == [True] * 3
        assert place.is_told == [True] * 3
    assert place.is_told == [False] * 3 and len(place.proxied.noted) == 0


def test_each_read_is_told_in_full(place: Place) -> None:
    with place.watching.watched() as watcher:
        assert watcher.take() == (0, [])
        place.watching.missed(place.cache, (7, "a"), 1500.0, hole=True)
        place.passed[0]("one", None, LATE, 20.0)
        place.passed[0]("gone", None, LATE, 20.0)
        place.proxied.entry("SELECT x FROM t WHERE y = 3", "d").note(30.0, "me", 16)
        lost, reads = watcher.take()
        assert (lost, watcher.take()) == (0, (0, []))
    assert [(read.outcome, read.cache, read.reason, read.us, read.times) for read in reads] == [
        ("miss", "one", "not held", 1500.0, 1),
        ("passed", "one", "late", 20.0, 1),
        ("passed", "", "not worth it", 30.0, 16),
    ]
    assert [(read.query, read.key, read.why) for read in reads] == [
        ("SELECT 1 WHERE id = ?", '[7, "a"]', "not held"),
        ("SELECT 1 WHERE id = ?", "", "the stream is behind"),
        ("SELECT x FROM t WHERE y = ?", "", "no cache is for it"),
    ]


def test_a_key_that_is_missed_again_says_when_it_was_before(place: Place) -> None:
    with place.watching.watched() as watcher:
        place.watching.missed(place.cache, (7,), 1000.0, hole=True)
        place.now += 0.0005
        place.watching.missed(place.cache, (7,), 1000.0, hole=True)  # it waited for the same upquery
        place.now += 2.5
        place.watching.missed(place.cache, (7,), 1000.0, hole=False)
        place.watching.missed(place.cache, (8,), 1000.0, hole=True)
        assert [read.why for read in watcher.take()[1]] == [
            "not held", "not held", "compared first, and was missed 2.5 s before, too", "not held"
        ]  # fmt: skip


def test_a_watcher_chooses_cache_and_outcome(place: Place) -> None:
    watching = place.watching
    with watching.watched("one") as of_one, watching.watched(outcome="passed") as passed:
        watching.missed(place.cache, (7,), 1.0, hole=True)
        watching.proxied(place.proxied.entry("SELECT 1", "d"), 2.0, 1, Reason.SETTING, Why(Reason.SETTING, "a mode"))
        assert [read.us for read in of_one.take()[1]] == [1.0]
        assert [(read.us, read.reason, read.why) for read in passed.take()[1]] == [(2.0, "session setting", "a mode")]


def test_what_is_too_much_is_counted(place: Place) -> None:
    with place.watching.watched() as watcher, place.watching.watched() as slow:
        for number in range(TAKEN + 5):
            place.watching.missed(place.cache, (number,), 1.0, hole=True)
        lost, reads = watcher.take()
        assert (lost, len(reads), json.loads(reads[-1].key)) == (5, TAKEN, [TAKEN + 4])
        for number in range(KEPT):
            place.watching.passed(place.cache, (number,), LATE, 1.0)
        lost, reads = slow.take()
        assert (lost, len(reads)) == (TAKEN + 5 + KEPT - TAKEN, TAKEN)


def test_keys_that_are_long_are_not_kept(place: Place) -> None:
    with place.watching.watched() as watcher:
        long = ("x" * 201,), (tuple(range(21)),), (("x" * 201,),), tuple(range(21))
        for values in (*long, ((1, 2), "y", None, 1.5)):
            place.watching.passed(place.cache, values, LATE, 1.0)
        keys = [read.key for read in watcher.take()[1]]
    assert keys[:4] == [""] * 4 and json.loads(keys[4])[:3] == [[1, 2], "y", None]


def test_reads_and_keys_are_forgotten_with_the_last_watcher(place: Place) -> None:
    with place.watching.watched():
        place.watching.missed(place.cache, (7,), 1.0, hole=True)
    place.now += 5
    with place.watching.watched() as watcher:
        assert watcher.take() == (0, [])
        place.watching.missed(place.cache, (7,), 1.0, hole=True)
        assert [read.why for read in watcher.take()[1]] == ["not held"]


def test_of_a_shape_that_cannot_be_cached_the_refusal_is_told(place: Place) -> None:
    query = place.proxied.entry("SELECT RAND()", "d")
    query.judgement = Judgement(False, "its value differs between calls")
    with place.watching.watched() as watcher:
        place.watching.proxied(query, 2.0, 1, Reason.SHAPE, NO_REASON)
        assert [(read.reason, read.why) for read in watcher.take()[1]] == [("shape", "its value differs between calls")]
