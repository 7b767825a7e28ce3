"""What the clocks of a zone say, and when. That MySQL says the same: `integration/clock/test_zone_instants.py`."""

from __future__ import annotations

import pytest

from sqltypes.zone import UTC, Zone, fixed

HOUR = 3600
BERLIN = Zone("Europe/Berlin", (1711846800, 1729990800), (HOUR, 2 * HOUR, HOUR))  # of 2024
ODD = Zone("Africa/Monrovia", (63593070,), (-2670, 0))  # its minutes were another's until 1972


@pytest.mark.parametrize(
    ("zone", "instant", "local"),
    [
        (BERLIN, "2024-03-31 00:59:59", "2024-03-31 01:59:59"),
        (BERLIN, "2024-03-31 01:00:00.500000", "2024-03-31 03:00:00.500000"),
        (BERLIN, "2024-12-31 23:30:00", "2025-01-01 00:30:00"),
        (ODD, "1972-01-07 00:44:29", "1972-01-06 23:59:59"),
        (ODD, "1972-01-07 00:44:30", "1972-01-07 00:44:30"),
        (fixed("-09:30"), "1970-01-01 00:00:01", "1969-12-31 14:30:01"),
        (fixed("+14:00"), "2038-01-19 03:14:07", "2038-01-19 17:14:07"),
    ],
)
def test_an_instant_and_what_the_clocks_say(zone: Zone, instant: str, local: str) -> None:
    assert zone.local(instant) == local
    assert zone.instant(local) == instant


@pytest.mark.parametrize("local", ["2024-03-31 02:00:00", "2024-03-31 02:59:59.9", "2024-10-27 02:00:00.1"])
def test_what_the_clocks_say_never_or_twice(local: str) -> None:
    assert BERLIN.instant(local) is None


@pytest.mark.parametrize("local", ["2024-03-31 03:00:00", "2024-10-27 01:59:59", "2024-10-27 03:00:00"])
def test_beside_those_hours_it_is_known(local: str) -> None:
    instant = BERLIN.instant(local)
    assert instant is not None and BERLIN.local(instant) == local


def test_the_zero_date_is_shown_as_it_is_and_what_no_timestamp_can_be_is_no_instant() -> None:
    for zone in (BERLIN, UTC, fixed("+02:00")):
        assert zone is not None
        assert zone.local("0000-00-00 00:00:00.00") == "0000-00-00 00:00:00.00"
        for far in ("0001-01-01 00:00:00", "1969-12-31 00:00:00", "9999-12-31 23:59:59", "2038-01-21 00:00:00"):
            assert zone.instant(far) is None
    east = fixed("+02:00")
    assert east is not None
    ends = "1970-01-01 02:00:00", "1970-01-01 02:00:01", "2038-01-19 05:14:07.5", "2038-01-19 05:14:08"
    assert [east.instant(end) is None for end in ends] == [True, False, False, True]


def test_what_is_no_date_is_not_taken() -> None:
    with pytest.raises(ValueError, match="month"):
        BERLIN.instant("2024-00-10 00:00:00")


def test_names_that_tell_an_offset() -> None:
    assert fixed("+00:00") is fixed("-00:00") is UTC
    assert fixed("Europe/Berlin") is fixed("UTC") is fixed("SYSTEM") is None
    west = fixed("-02:30")
    assert west is not None and west.offsets == (-9000,) and west.is_steady
