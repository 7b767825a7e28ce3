"""Which transactions are expected to need MySQL behind hits."""

from __future__ import annotations

from proxy.mysql.session.snapshot_forecast import MOST_CACHES, SnapshotForecast


def noted(*looked: bool) -> SnapshotForecast:
    forecast = SnapshotForecast()
    for each in looked:
        forecast.note("c", each)
    return forecast


def test_what_the_last_transactions_did_the_next_one_is_expected_to_do() -> None:
    assert not noted().expects("c") and not noted(False, False).expects("c")
    assert noted(True).expects("c") and not noted(True).expects("another")
    assert not noted(True, False).expects("c")
    assert noted(*[True, False, False] * 9).expects("c"), "a third of them do"
    assert not noted(*[True] * 9, *[False] * 4).expects("c")


def test_no_more_caches_are_remembered_than_that() -> None:
    forecast = noted(True)
    for number in range(MOST_CACHES):
        forecast.note(str(number), True)
    assert not forecast.expects("c") and len(forecast._scores) <= MOST_CACHES
