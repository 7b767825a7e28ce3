"""What is counted of the reasons for which MySQL answers reads."""

from __future__ import annotations

import pickle

import pytest

from proxy.auto import fill_budget
from proxy.cache import key_binder
from proxy.mysql.reads import announced, bound_types, gate, grants, routes
from proxy.mysql.session import cached_reads
from proxy.port.reasons import NO_REASON, PassedReads, Reason, Why, of_error
from proxy.system import system
from sqltypes.errors import (
    BadParameters,
    ComparedElsewhere,
    Fault,
    Overloaded,
    SourceDown,
    TooStale,
    UnknownCache,
    UpwellError,
)


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        *((why, Reason.TRANSACTION) for why in (gate.OPEN, gate.CHANGED, gate.FULL, gate.UNSETTLED, gate.SAVED)),
        *((why, Reason.TRANSACTION) for why in (gate.IS_SERIALIZABLE, gate.ONE_SHOT, gate.HAS_WRITTEN)),
        *((why, Reason.SETTING) for why in (gate.MISFLAGGED, gate.READ_OTHERWISE, gate.OTHER_CHARACTERS, gate.LOCKED)),
        (grants.REFUSED, Reason.RIGHTS),
        *((why, Reason.COLUMNS) for why in (announced.FIRST, announced.SEVERAL, announced.OTHER_COLUMNS)),
        *((why, Reason.LATE) for why in (gate.NOT_BROUGHT, gate.NOT_TOLD, cached_reads.NOT_AT_POSITION)),
        (gate.OTHER_CACHES, Reason.PLANNED_ANEW),
        *((why, Reason.PARAMETERS) for why in (key_binder.TOO_MANY, key_binder.COMBINED, key_binder.LONG)),
        *((why, Reason.PARAMETERS) for why in (bound_types.BY_CURSOR, bound_types.BOUND_BEFORE)),
        (routes.SKIPPED, Reason.ASKED),
        *((why, Reason.BUSY) for why in (fill_budget.BUSY, fill_budget.SELDOM)),
        *((why, Reason.NOT_CACHED) for why in (routes.NO_CACHE, system.NO_CACHE, system.BY_CLOCK)),
    ],
)
def test_what_a_reason_counts_as(why: Why, reason: Reason) -> None:
    assert why.reason is reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ComparedElsewhere(key_binder.ZERO), Reason.PARAMETERS),
        (BadParameters("2 parameters were given"), Reason.PARAMETERS),
        (TooStale("the position lacks x:1"), Reason.LATE),
        (SourceDown("MySQL does not answer"), Reason.LATE),
        (UnknownCache("cache 'x' does not exist"), Reason.PLANNED_ANEW),
        (Overloaded("the queue is full"), Reason.OTHER),
        (Fault("failed"), Reason.OTHER),
    ],
)
def test_an_error_that_leaves_a_read_to_mysql_counts_by_its_class_and_is_told_whole(
    error: UpwellError, reason: Reason
) -> None:
    assert of_error(error) == error.told
    assert of_error(error).reason is reason


def test_a_reason_is_its_text_and_none_is_false() -> None:
    why = Reason.LATE.why("the stream is behind")
    assert why == "the stream is behind" and f"{why}." == "the stream is behind."
    assert why and not NO_REASON and not Reason.SETTING.why("")


def test_a_reason_is_the_same_in_another_process() -> None:
    again = pickle.loads(pickle.dumps(gate.OPEN))
    assert again == gate.OPEN and again.reason is Reason.TRANSACTION and again.other_state


def test_reads_where_mysql_would_be_of_another_state_are_told_apart() -> None:
    """There a transaction is shown what it was shown before."""
    others = (gate.OPEN, gate.CHANGED, gate.FULL, gate.OTHER_CACHES, announced.FIRST, announced.SEVERAL)
    assert all(why.other_state for why in (*others, cached_reads.NOT_AT_POSITION))
    assert not any(why.other_state for why in (gate.MISFLAGGED, gate.IS_SERIALIZABLE, grants.REFUSED, routes.NO_CACHE))


def test_the_top_reason_of_a_cache_is_told_with_its_last_text() -> None:
    reads = PassedReads({Reason.LATE: 2})
    for text in ("one", "two"):
        reads.add(Reason.SETTING.why(text))
    reads.add(gate.OPEN)
    assert reads.top == (Reason.SETTING.value, "two")
    assert (reads.total, reads.ever) == (3, {Reason.LATE: 2, Reason.SETTING: 2, Reason.TRANSACTION: 1})
