"""What is remembered of the hits of a REPEATABLE READ transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proxy.cache.key_binder import keys_in
from proxy.mysql.reads.gate import FULL, transaction_rule
from proxy.mysql.reads.shown import SHOWN_BYTES, SHOWN_KEYS, Shown
from proxy.port.api import ParameterValue
from proxy.settings.quantities import Transactions
from tests.support.session_states import session_state


class Peeked:
    """A cache of which it is counted how many keys are looked at."""

    def __init__(self, body: bytes = b"rows") -> None:
        self.generation = 1
        self.name = "c"
        self.keys = 0
        self.body = body

    def peek(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        self.keys += keys_in(parameters)
        return self.body


def shown_to(cache: Any, reads: Sequence[Sequence[ParameterValue]]) -> tuple[Shown, str]:
    """A transaction that reads these, each once the stream has brought something, until a rule ends its hits."""
    state = session_state(values={"transaction_isolation": "REPEATABLE-READ"})
    shown = Shown()
    for number, parameters in enumerate(reads, 1):
        again = shown.again(cache, parameters) is not None
        rule = transaction_rule(state, Transactions.ON, shown, parameters, again=again)
        if rule:
            return shown, rule
        assert shown.holds(number, "")
        shown.note(cache, parameters, cache.body)
    return shown, ""


@pytest.mark.parametrize(
    ("reads", "hits"),
    [
        ([(number,) for number in range(3000)], 1000),
        ([(tuple(range(first, first + 100)),) for first in range(3000)], 10),
        ([(tuple(range(first, first + 1000)),) for first in range(10)], 1),
        ([(tuple(range(first, first + 30)), tuple(range(30))) for first in range(10)], 1),
        ([(tuple(range(5000)),), (1,)], 1),
    ],
)
def test_so_many_keys_are_looked_at_again_after_an_event(reads: Any, hits: int) -> None:
    """A session without autocommit that was shown ten lists of 1,000 ids looked at 10,000 keys before each read."""
    cache = Peeked()
    shown, rule = shown_to(cache, reads)
    assert (rule, len(shown.answers)) == (FULL, hits)
    cache.keys = 0
    assert shown.holds(10_000, "")
    assert cache.keys <= SHOWN_KEYS or hits == 1


def test_so_many_bytes_are_remembered() -> None:
    shown, rule = shown_to(Peeked(bytes(SHOWN_BYTES // 4)), [(number,) for number in range(10)])
    assert (rule, len(shown.answers)) == (FULL, 5)


def test_what_is_shown_again_counts_once_and_nothing_after_the_end() -> None:
    cache: Any = Peeked()
    shown, rule = shown_to(cache, [(7,)] * 2000)
    assert rule == "" and (shown.keys, shown.size) == (1, 4)
    shown.note(cache, ((1, 2, 3),), b"other")
    assert (shown.keys, shown.size) == (4, 9)
    shown.clear()
    assert (shown.keys, shown.size, shown.full((tuple(range(5000)),))) == (0, 0, False)


def test_an_answer_that_has_changed_is_told() -> None:
    cache: Any = Peeked()
    shown = Shown()
    shown.note(cache, (7,), b"rows")
    assert shown.holds(2, "a position") and (shown.sequence, shown.position) == (2, "a position")
    cache.body = b"others"
    assert shown.holds(2, "another") and not shown.holds(3, "another")
    state = session_state(values={"transaction_isolation": "READ-COMMITTED"})
    assert transaction_rule(state, Transactions.ON, Shown(), (7,), again=False) == ""
