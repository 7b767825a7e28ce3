"""What is counted of the reasons for which MySQL answers reads."""

from __future__ import annotations

import pytest

from proxy.auto import fill_budget
from proxy.cache import key_binder
from proxy.mysql.reads import announced, gate, grants, routes
from proxy.mysql.session import cached_reads
from proxy.port.reasons import Reason, reason_of
from proxy.system import system


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        *((why, Reason.TRANSACTION) for why in (gate.OPEN, gate.CHANGED, gate.FULL, gate.UNSETTLED, gate.SAVED)),
        ("in a SERIALIZABLE transaction", Reason.TRANSACTION),
        ("SET TRANSACTION is in force for the next transaction", Reason.TRANSACTION),
        *((why, Reason.SETTING) for why in (gate.MISFLAGGED, gate.READ_OTHERWISE, gate.OTHER_CHARACTERS)),
        *((why, Reason.SETTING) for why in (gate.NARROW + " ascii", gate.ROW_LIMIT.format(5))),
        ("this session has changed optimizer_switch", Reason.SETTING),
        ("time_zone is '+05:00' in this session", Reason.SETTING),
        ("sql_mode.NO_ZERO_DATE is '' in this session", Reason.SETTING),
        ("the session has locked tables", Reason.SETTING),
        ("a temporary table hides d.t", Reason.SETTING),
        (grants.REFUSED, Reason.RIGHTS),
        *((why, Reason.COLUMNS) for why in (announced.FIRST, announced.SEVERAL, announced.OTHER_COLUMNS)),
        *((why, Reason.LATE) for why in (gate.NOT_BROUGHT, gate.NOT_TOLD, cached_reads.NOT_AT_POSITION)),
        (gate.OTHER_CACHES, Reason.PLANNED_ANEW),
        ("the schema of its tables has changed", Reason.PLANNED_ANEW),
        (f"{key_binder.ZERO} (compared_elsewhere)", Reason.PARAMETERS),
        *(
            (why, Reason.PARAMETERS)
            for why in (routes.TYPED_BEFORE, key_binder.TOO_MANY, key_binder.COMBINED, key_binder.LONG)
        ),
        ("the rows are fetched by a cursor", Reason.PARAMETERS),
        (routes.SKIPPED, Reason.ASKED),
        *((why, Reason.BUSY) for why in (fill_budget.BUSY, fill_budget.SELDOM)),
        *((why, Reason.NOT_CACHED) for why in (routes.NO_CACHE, system.NO_CACHE, system.BY_CLOCK)),
        ("the queue is full (overloaded)", Reason.OTHER),
    ],
)
def test_what_a_reason_counts_as(why: str, reason: Reason) -> None:
    assert reason_of(why) is reason
