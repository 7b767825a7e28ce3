"""How far a time zone is ahead is told for minutes in which it is the same at both ends."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from proxy.source_zones import KEPT, Ends, SourceZones
from sqltypes.errors import SourceDown

HOUR = timedelta(hours=1)
CHANGE = datetime(2024, 3, 31, 1, 0, 20)  # not at the end of a minute


class Source:
    """A MySQL that knows one zone, whose clocks are set at `CHANGE`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, datetime]] = []
        self.down = False
        self.zones = SourceZones(self.ask)

    async def ask(self, zone: str, first: datetime, last: datetime) -> Ends:
        self.asked.append((zone, first))
        await asyncio.sleep(0)
        if self.down:
            raise SourceDown("no")
        if zone != "Some/Where":
            return None, None
        return first + (1 + (first >= CHANGE)) * HOUR, last + (1 + (last >= CHANGE)) * HOUR

    async def told(self, zone: str, utc: datetime) -> timedelta | None:
        """What is told once what was asked for is answered."""
        self.zones.ahead(zone, utc)
        for _ in range(5):
            await asyncio.sleep(0)
        return self.zones.ahead(zone, utc)


def test_it_is_told_except_in_the_minute_of_a_change() -> None:
    async def scenario() -> None:
        source = Source()
        for seconds, hours in (
            (-3600, 1),
            (-21, 1),
            (-20, None),
            (-1, None),
            (0, None),
            (39, None),
            (40, 2),
            (9999, 2),
        ):
            told = await source.told("Some/Where", CHANGE + timedelta(seconds=seconds))
            assert told == (None if hours is None else hours * HOUR), seconds
        await source.zones.close()

    asyncio.run(scenario())


def test_the_next_minute_is_asked_for_ahead_and_few_are_kept() -> None:
    async def scenario() -> None:
        source = Source()
        for minute in range(10):
            begins = datetime(2024, 1, 1, 0, minute)
            for second in (0, 29, 30, 59):
                told = source.zones.ahead("Some/Where", begins + timedelta(seconds=second))
                assert told is not None or (minute, second) == (0, 0)
                for _ in range(5):
                    await asyncio.sleep(0)
        assert len(source.asked) == 11
        assert len(source.zones._known["Some/Where"]) <= KEPT
        await source.zones.close()

    asyncio.run(scenario())


def test_nothing_is_told_of_what_mysql_does_not_know_or_say() -> None:
    async def scenario() -> None:
        source = Source()
        utc = datetime(2024, 1, 1)
        for zone in ("No/Where", "", "'+01:00", "Some/Where\\"):
            assert await source.told(zone, utc) is None
        assert {zone for zone, _ in source.asked} == {"No/Where"}
        source.down = True
        assert await source.told("Some/Where", utc) is None
        source.down = False
        assert await source.told("Some/Where", utc) == HOUR
        await source.zones.close()

    asyncio.run(scenario())
