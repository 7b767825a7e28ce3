"""Reads that are compared for some seconds: often where a second begins, for there answers by the clock change; now and
then in between, so that other tests have the processors."""

from __future__ import annotations

from threading import Event
from time import time

NEAR = 0.05  # of a second, before and behind its beginning; on a busy machine MySQL is asked for much of it
BETWEEN = 0.005  # seconds between two comparisons elsewhere, so that most of them are there


def breathe() -> None:
    """To be called between two comparisons: returns at once near the beginning of a second."""
    past = time() % 1
    if NEAR < past < 1 - NEAR:
        Event().wait(min(BETWEEN, 1 - NEAR - past))
