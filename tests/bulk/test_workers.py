"""A job of a cluster without workers is ended; one that has some, or gets them in time, goes on."""

from __future__ import annotations

import threading
from itertools import chain, repeat

import pytest

from bulk.workers import NoWorkers, Watch


def watched(looks: list[int], within: float) -> tuple[Watch, threading.Event]:
    """`looks`: how many executors are seen, look after look; the last one is seen for ever."""
    ended = threading.Event()
    seen = chain(looks, repeat(looks[-1]))
    return Watch(lambda: next(seen), ended.set, within, every=0.001), ended


def test_a_job_without_workers_is_ended_and_says_so() -> None:
    watch, ended = watched([0], 0.02)
    with pytest.raises(NoWorkers, match=r"no worker for 0\.02 s"), watch.watching():
        assert ended.wait(60)
        raise RuntimeError("cancelled")


def test_a_job_that_has_workers_goes_on() -> None:
    many = threading.Event()
    looks = iter(range(100))

    def executors() -> int:
        if next(looks, None) is None:
            many.set()
        return 1

    watch = Watch(executors, many.set, 0.0, every=0.0001)
    with watch.watching():
        assert many.wait(60)
    assert not watch.without


def test_what_fails_by_itself_says_what_it_says() -> None:
    watch, _ = watched([0], 3600.0)
    with pytest.raises(RuntimeError, match="of its own"), watch.watching():
        raise RuntimeError("of its own")
