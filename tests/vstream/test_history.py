"""Whether a position is of the history that a server tells at a login."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gtid_tracker.gtid import Gtid, GtidSet
from vstream.binlog.connection import newest_of
from vstream.history import Known, why_lost

SERVER, OTHER = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


def gtids(numbers: str) -> GtidSet:
    return GtidSet.parse(f"{SERVER}:{numbers}") if numbers else GtidSet.empty()


BEFORE = Known(SERVER, gtids("1-5"), gtids(""), 1000.0, ("9.7.0", "OFF"))
LAST = Gtid(SERVER, 5), b"its event"


def later(
    executed: str = "1-5", purged: str = "", started: float = 1000.4, server: str = SERVER, cascades: str = "OFF"
) -> Known:
    return Known(server, gtids(executed), gtids(purged), started, ("9.7.0", cascades))


@pytest.mark.parametrize(
    ("now", "last"),
    [
        (later(), LAST),
        (later("1-9"), LAST),
        (later("1-9", purged="1-4"), LAST),
        (later(started=2000.0), LAST),  # the last transaction is compared then
        (later(), None),
        (later("1-9"), None),
    ],
)
def test_the_same_history(now: Known, last: tuple[Gtid, bytes] | None) -> None:
    assert why_lost(gtids("1-5"), last, BEFORE, now) == ""


@pytest.mark.parametrize(
    ("now", "last", "why"),
    [
        (later("1-4"), LAST, "does not have all"),
        (later(""), None, "does not have all"),
        (later("1-9", purged="1-6"), LAST, "purged binlogs"),
        (later("1-9", server=OTHER), LAST, "another server"),
        (later("1-9", purged="1-5"), LAST, "cannot be compared"),
        (later(started=2000.0), None, "no transaction to compare"),
        (later(started=500.0), None, "no transaction to compare"),
        (later(purged="1-5"), None, "no transaction to compare"),
        (later(started=2000.0, cascades="ON"), LAST, "started anew with innodb_native_foreign_keys=ON"),
    ],
)
def test_another_history_or_one_that_cannot_be_told(now: Known, last: tuple[Gtid, bytes] | None, why: str) -> None:
    assert why in why_lost(gtids("1-5"), last, BEFORE, now)


def test_at_the_first_login_there_is_nothing_to_compare_with() -> None:
    assert why_lost(gtids("1-5"), None, None, later()) == ""
    assert why_lost(gtids("1-5"), None, None, replace(later(), purged=gtids("1-7"))) != ""


@pytest.mark.parametrize(
    ("executed", "purged", "newest"),
    [
        ("1-5", "", 5),
        ("1-5", "1-4", 5),
        ("1-5", "1-5", None),  # in no binlog any more
        ("1-5", "3-5", 2),
        ("", "", None),
    ],
)
def test_the_newest_transaction_that_the_binlog_has(executed: str, purged: str, newest: int | None) -> None:
    other = GtidSet.parse("ffffffff-0000-0000-0000-000000000000:1-9")
    found = newest_of(SERVER, gtids(executed).union(other), gtids(purged))
    assert found == (Gtid(SERVER, newest) if newest else None)
