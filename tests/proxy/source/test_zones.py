"""Zones are asked for once, shared where their clocks are the same, and forgotten when the source is started anew."""

from __future__ import annotations

import asyncio

from proxy.source.zones import MOST, SourceZones, zone_of
from sqltypes.errors import SourceDown
from sqltypes.zone import UTC, Zone


class Source:
    """A MySQL that knows some zones by name."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False
        self.connected = True
        self.told = 0
        self.known = {"Some/Where": (3600, 7200), "Some/Also": (3600, 7200), "Etc/UTC": (0, 0), "SYSTEM": (0, 0)}
        self.zones = SourceZones(self.ask, lambda: self.connected, self.on_known)

    def on_known(self) -> None:
        self.told += 1

    async def ask(self, name: str) -> Zone | None:
        self.asked.append(name)
        await asyncio.sleep(0)
        if self.down:
            raise SourceDown("no")
        first, then = self.known.get(name, (None, None))
        return zone_of(name, [(1, first, first)] if first == then else [(99, first, then), (1, first, first)])

    async def found(self, name: str) -> Zone | None:
        """What is told once what was asked for is answered."""
        self.zones.of(name)
        for _ in range(5):
            await asyncio.sleep(0)
        return self.zones.of(name)


def run(scenario: object) -> None:
    asyncio.run(scenario())  # type: ignore[operator]  # a coroutine function


def test_a_zone_is_asked_for_once() -> None:
    async def scenario() -> None:
        source = Source()
        where = await source.found("Some/Where")
        assert where is not None and (where.changes, where.offsets) == ((99,), (3600, 7200))
        assert await source.found("Some/Also") is where
        assert await source.found("Etc/UTC") is UTC
        assert await source.found("Some/Where") is where
        assert source.asked == ["Some/Where", "Some/Also", "Etc/UTC"]
        assert source.told == 3
        await source.zones.close()

    run(scenario)


def test_offsets_are_not_asked_for_and_not_too_many_are_told_apart() -> None:
    async def scenario() -> None:
        source = Source()
        told = [source.zones.of(f"+{minute // 60:02}:{minute % 60:02}") for minute in range(2 * MOST)]
        assert told[0] is UTC
        assert sum(zone is not None for zone in told) == MOST
        assert source.zones.of("+00:01") is told[1]
        assert not source.asked

    run(scenario)


def test_nothing_is_told_of_what_mysql_does_not_know_or_say() -> None:
    async def scenario() -> None:
        source = Source()
        for name in ("No/Where", "", "'+01:00", "Some/Where\\"):
            assert await source.found(name) is None
        assert source.asked == ["No/Where"]
        source.down = True
        assert await source.found("Some/Where") is None
        source.down = False
        assert await source.found("Some/Where") is not None
        await source.zones.close()

    run(scenario)


def test_a_source_that_is_not_followed_may_start_anew() -> None:
    async def scenario() -> None:
        source = Source()
        where = await source.found("Some/Where")
        source.connected = False
        assert source.zones.of("Some/Where") is None
        assert source.zones.of("+02:00") is not None
        before = source.told
        source.zones.tick()
        assert source.told == before
        source.connected = True
        source.zones.tick()
        assert source.told == before + 1
        assert source.zones.of("Some/Where") is where
        source.known["Some/Where"] = (3600, 0)
        source.zones.forget()
        other = await source.found("Some/Where")
        assert other is not None and other.offsets == (3600, 0)
        assert source.asked.count("SYSTEM") == 1
        await source.zones.close()

    run(scenario)


def test_clocks_that_are_set_twice_within_a_step_are_not_understood() -> None:
    assert zone_of("z", [(1, 0, 0), (50, 0, 3600), (90, 7200, 0)]) is None
    assert zone_of("z", []) is None
