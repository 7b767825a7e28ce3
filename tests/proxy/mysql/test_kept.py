"""Which client a kept connection is foreseen for, and how many are kept how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from proxy.mysql.kept import AGREED, CALLERS, Callers, KeptConnections, Likeness, likeness
from proxy.mysql.login_packets import parse_greeting
from proxy.mysql.packet_stream import PacketStream
from proxy.mysql.packets import CLIENT_CONNECT_WITH_DB, CLIENT_PLUGIN_AUTH
from tests.fuzz.bench import BenchTransport
from tests.support.scripted_mysql import greeting

LIKE = Likeness(CLIENT_PLUGIN_AUTH, False)
OTHER = Likeness(CLIENT_PLUGIN_AUTH, True)
GREETING = parse_greeting(greeting())


def test_a_client_is_foreseen_by_those_before_it() -> None:
    callers = Callers()
    for _ in range(AGREED):
        assert callers.next("a") is None
        callers.note("a", LIKE)
    assert callers.next("a") == LIKE and callers.next("b") is None
    callers.note("a", OTHER)
    assert callers.next("a") is None
    for _ in range(AGREED):
        callers.note("a", LIKE)
    assert callers.next("a") == LIKE
    callers.forget("a")
    assert callers.next("a") is None


def test_no_more_addresses_are_remembered_than_that() -> None:
    callers = Callers()
    for number in range(CALLERS + 1):
        for _ in range(AGREED):
            callers.note(number, LIKE)
    assert callers.next(0) is None and callers.next(1) == LIKE and callers.next(CALLERS) == LIKE


def test_a_database_is_no_matter_of_the_connection() -> None:
    assert likeness(CLIENT_PLUGIN_AUTH | CLIENT_CONNECT_WITH_DB, tls=False) == LIKE


def on_a_loop(script: Callable[[KeptConnections, list[float]], None], most: int = 2) -> None:
    async def run() -> None:
        now = [0.0]
        kept = KeptConnections(most, lambda: now[0], 3.0)
        for _ in range(AGREED):
            kept.callers.note("a", LIKE)
        script(kept, now)
        kept.check_invariants()
        kept.close()
        assert not len(kept)

    asyncio.run(run())


def stream() -> PacketStream:
    return PacketStream.taken_over(BenchTransport(), None)  # type: ignore[arg-type]


def test_those_wait_that_came_last_and_the_last_one_goes_on() -> None:
    def script(kept: KeptConnections, now: list[float]) -> None:
        streams = [stream() for _ in range(3)]
        for each in streams:
            assert kept.has_room(LIKE)
            kept.give(each, GREETING, LIKE, reset=False)
            kept.check_invariants()
        assert [each.transport.is_closing() for each in streams] == [True, False, False]
        assert kept.take("b") is None, "nobody has come from there"
        taken = kept.take("a")
        assert taken is not None and taken.stream is streams[2]
        streams[1].data_received(b"\xff")  # MySQL has said something
        assert kept.take("a") is None and streams[1].transport.is_closing()

    on_a_loop(script)


def test_one_of_another_kind_is_not_taken() -> None:
    def script(kept: KeptConnections, now: list[float]) -> None:
        kept.give(stream(), GREETING, OTHER, reset=False)
        assert kept.take("a") is None and len(kept) == 1

    on_a_loop(script)


def test_nobody_waits_longer_than_that() -> None:
    def script(kept: KeptConnections, now: list[float]) -> None:
        kept.give(stream(), GREETING, LIKE, reset=False)
        now[0] = 3.0
        kept.tick()
        assert len(kept) == 1
        now[0] = 3.1
        kept.tick()
        assert not len(kept)

    on_a_loop(script)


def test_none_is_kept_where_none_is_wanted_or_could_be_asked_for_its_password() -> None:
    on_a_loop(lambda kept, now: _assert(not kept.has_room(LIKE)), most=0)
    on_a_loop(lambda kept, now: _assert(not kept.has_room(Likeness(0, False))))


def _assert(holds: bool) -> None:
    assert holds
