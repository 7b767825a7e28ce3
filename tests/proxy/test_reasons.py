"""What is counted of the reasons for which MySQL answers reads."""

from __future__ import annotations

import pytest

from proxy import fill_budget, keys, router
from proxy.mysql import announced, cached_reads, grants, reads, routes
from proxy.reasons import Reason, reason_of


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        *((why, Reason.TRANSACTION) for why in (reads.OPEN, reads.CHANGED, reads.FULL, reads.UNSETTLED, reads.SAVED)),
        ("in a SERIALIZABLE transaction", Reason.TRANSACTION),
        ("SET TRANSACTION is in force for the next transaction", Reason.TRANSACTION),
        *((why, Reason.SETTING) for why in (reads.MISFLAGGED, reads.READ_OTHERWISE, reads.OTHER_CHARACTERS)),
        *((why, Reason.SETTING) for why in (reads.NARROW + " ascii", reads.ROW_LIMIT.format(5))),
        ("this session has changed optimizer_switch", Reason.SETTING),
        ("time_zone is '+05:00' in this session", Reason.SETTING),
        ("sql_mode.NO_ZERO_DATE is '' in this session", Reason.SETTING),
        ("the session has locked tables", Reason.SETTING),
        ("a temporary table hides d.t", Reason.SETTING),
        (grants.REFUSED, Reason.RIGHTS),
        *((why, Reason.COLUMNS) for why in (announced.FIRST, announced.SEVERAL, announced.OTHER_COLUMNS)),
        *((why, Reason.LATE) for why in (reads.NOT_BROUGHT, reads.NOT_TOLD, cached_reads.NOT_AT_POSITION)),
        (reads.OTHER_CACHES, Reason.PLANNED_ANEW),
        ("the schema of its tables has changed", Reason.PLANNED_ANEW),
        (f"{keys.ZERO} (compared_elsewhere)", Reason.PARAMETERS),
        *((why, Reason.PARAMETERS) for why in (routes.TYPED_BEFORE, keys.TOO_MANY, keys.COMBINED, keys.LONG)),
        ("the rows are fetched by a cursor", Reason.PARAMETERS),
        (routes.SKIPPED, Reason.ASKED),
        *((why, Reason.BUSY) for why in (fill_budget.BUSY, fill_budget.SELDOM)),
        *((why, Reason.NOT_CACHED) for why in (routes.NO_CACHE, router.NO_CACHE, router.BY_CLOCK)),
        ("the queue is full (overloaded)", Reason.OTHER),
    ],
)
def test_what_a_reason_counts_as(why: str, reason: Reason) -> None:
    assert reason_of(why) is reason
