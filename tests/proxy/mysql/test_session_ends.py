"""Sessions whose ends come at bad moments, and MySQLs that say what they should not: on the fuzzer's bench, without
sockets."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.mysql.session.session import HANDLERS, Session
from proxy.mysql.session.shared import MysqlOptions
from proxy.mysql.state.session_variables import ASK
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_PLUGIN_AUTH, OK, packet
from tests.fuzz.bench import BenchTransport, JumpingLoop, bench_session, none_unraised
from tests.fuzz.payloads import cut
from tests.fuzz.system import KINDS, Counts, bench_shared
from tests.fuzz.upstream import ScriptedUpstream
from tests.support.mysql_packets import error, prepared, result_set
from tests.support.mysql_packets import packet as answer_packet


class Bench:
    """A session and its two sockets. `said`: what MySQL answers to the commands that begin so, instead."""

    def __init__(self, counts: Counts | None = None) -> None:
        self.said: dict[bytes, bytes] = {}
        self.shared = bench_shared(asyncio.get_running_loop(), MysqlOptions())
        self.upstream = ScriptedUpstream(random.Random(1), eof=False, wild=0.0)
        made = bench_session(self.shared, CLIENT_PLUGIN_AUTH | CLIENT_DEPRECATE_EOF, self._heard, counts)
        self.session: Session = made[0]
        self.client: BenchTransport = made[1]
        self.server: BenchTransport = made[2]
        self.upstream.transport = self.server

    def _heard(self, data: bytes) -> None:
        for number, payload in cut(data):
            said = [answer for begins, answer in self.said.items() if payload.startswith(begins)]
            if said:
                self.server.deliver(said[0])
            else:
                self.upstream.heard(packet(payload, number))

    async def settle(self) -> None:
        await asyncio.sleep(5)

    async def ask(self, sql: str) -> bytes:
        """What the client gets for it."""
        before = len(self.client.received)
        self.client.deliver(packet(b"\x03" + sql.encode(), 0))
        await self.settle()
        return bytes(self.client.received[before:])


def on_bench(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    """Fails for whatever the session raises or logs."""
    loop = JumpingLoop()
    unhandled: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))

    async def run() -> None:
        bench = Bench()
        await scenario(bench)
        bench.client.reset()
        bench.server.reset()
        await bench.settle()
        assert not (bench.shared.sessions or bench.shared.sessions.closing)

    with none_unraised(), capture_logs() as logged:
        loop.run_until_complete(run())
        assert not asyncio.all_tasks(loop)
        loop.close()
        gc.collect()
    assert not unhandled and not logged


READ = "SELECT id, name FROM item WHERE id = {}"


def key_of(kind: str) -> int:
    return KINDS.index(kind)


def test_a_login_is_told_at_once_and_the_first_command_waits_for_what_mysql_is_asked() -> None:
    async def scenario(bench: Bench) -> None:
        ok = bytes(bench.client.received)
        assert ok[4] == OK and len(ok) == 4 + ok[0], "told before the loop has turned, and so before MySQL was asked"
        asked, bench.server.takes = bench.server.received[:], False
        assert not asked
        bench.client.deliver(packet(b"\x0e", 0))
        await bench.settle()
        assert bytes(bench.client.received) == ok and not bench.server.received
        bench.server.take(True)
        await bench.settle()
        assert b"tag:" in bytes(bench.client.received[len(ok) :]), "MySQL answers it, as it likes"
        heard = [payload for _, payload in cut(bytes(bench.server.received))]
        assert heard[0] == b"\x03" + ASK.encode() and heard[-1] == b"\x0e"

    on_bench(scenario)


def test_a_client_that_goes_before_its_command_has_begun_leaves_nothing() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.settle()
        bench.session.relay.on_bytes(packet(b"\x03" + READ.format(key_of("held")).encode(), 0))
        bench.client.protocol.connection_lost(None)
        await bench.settle()
        assert bench.session.relay.busy

    on_bench(scenario)


def test_a_session_stays_closed_when_what_it_waited_for_has_ended() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.settle()
        bench.client.deliver(
            packet(b"\x03" + READ.format(key_of("held")).encode(), 0)
        )  # MySQL's, and what it announces
        await bench.settle()
        bench.client.deliver(packet(b"\x03" + READ.format(key_of("miss")).encode(), 0))
        await asyncio.sleep(0.005)  # the fill takes twice as long
        assert bench.session.relay.task is not None and not bench.session.relay.server.responses.exchanges
        bench.client.end()
        await bench.settle()
        assert bench.session.relay.busy
        assert bench.server.closed

    on_bench(scenario)


def test_mysql_says_goodbye_behind_what_has_ended_the_session() -> None:
    """The client's socket takes nothing more then."""

    async def scenario(bench: Bench) -> None:
        await bench.settle()
        unknown = answer_packet(b"\xfeplugin\0" + b"n" * 21)
        farewell = packet(error(4031, "HY000", "The client was disconnected"), 0)
        bench.said[b"\x11"] = unknown + farewell
        bench.client.deliver(packet(b"\x11app\0\0d\0\xff\0caching_sha2_password\0", 0) + packet(b"a", 9))
        await bench.settle()
        assert bench.client.closed

    on_bench(scenario)


PARTS = ("context", "quick", "relay", "upstream", "passing", "reads")


def left_by(end: Callable[[Bench], Awaitable[None]]) -> list[str]:
    """The parts of a session that are still there when it has ended so, though nobody looks for cycles."""
    left: list[str] = []

    async def run() -> None:
        bench = Bench()
        await bench.settle()
        refs = {name: weakref.ref(getattr(bench.session, name)) for name in PARTS}
        refs["session"] = weakref.ref(bench.session)
        await end(bench)
        bench.client.reset()
        bench.server.reset()
        await bench.settle()
        del bench.session
        left.extend(name for name, ref in refs.items() if ref() is not None)

    loop = JumpingLoop()
    gc.collect()
    gc.disable()
    try:
        with capture_logs():
            loop.run_until_complete(run())
        loop.close()
    finally:
        gc.enable()
    return left


@pytest.mark.parametrize("goes", ["client", "server"])
def test_nothing_is_left_of_a_session_that_ends_while_mysql_answers_a_read(goes: str) -> None:
    """The first read of a kind, from whose answer is learned how MySQL announces its columns."""

    async def end(bench: Bench) -> None:
        bench.client.deliver(packet(b"\x03" + READ.format(key_of("held")).encode(), 0))
        await asyncio.sleep(0)
        bench.said[b"\x03SELECT id"] = b""
        await bench.settle()
        assert bench.session.relay.server.responses.exchanges
        (bench.client if goes == "client" else bench.server).reset()

    assert left_by(end) == []


def test_nothing_is_left_of_a_session_whose_client_goes_before_a_task_has_begun() -> None:
    async def end(bench: Bench) -> None:
        bench.session.relay.on_bytes(packet(b"\x03" + READ.format(key_of("held")).encode(), 0))
        assert bench.session.relay.task is not None
        bench.client.protocol.connection_lost(None)

    assert left_by(end) == []


def test_a_session_that_ends_in_the_middle_of_mysqls_answers_is_over() -> None:
    """MySQL answers a hit that it was shown, with a deadlock, and the statement behind it in one piece."""

    async def scenario(bench: Bench) -> None:
        await bench.settle()
        for _ in range(3):
            await bench.ask(READ.format(key_of("held")))
        deadlock, warnings = packet(error(1213, "40001", "Deadlock found"), 1), answer_packet(b"\0\0\0\2\0\0\0")
        bench.said = {b"\x03SELECT id": deadlock + warnings, b"\x03SHOW": b""}
        before = bench.shared.passed
        bench.client.deliver(packet(b"\x03SHOW WARNINGS", 0))
        await bench.settle()
        bench.client.deliver(packet(b"\x03UPDATE item SET n = 1", 0))
        await bench.settle()
        bench.session.relay.check_invariants()
        assert bench.session.relay.closed and bench.shared.passed == before + 1

    on_bench(scenario)


@pytest.mark.parametrize("goes", ["client", "server too"])
def test_a_client_that_goes_behind_a_failed_call_leaves_nothing(goes: str) -> None:
    """MySQL is asked once more, and may go meanwhile."""

    async def end(bench: Bench) -> None:
        failed = packet(error(1146, "42S02", "no table"), 1)
        bench.said = {b"\x03CALL": failed}
        bench.client.deliver(packet(b"\x03CALL fails()", 0))
        await bench.settle()
        assert bench.session.state.hides_writes
        if goes == "server too":
            bench.upstream.be_quiet()
        bench.client.reset()
        await bench.settle()
        if goes == "server too":
            assert bench.session.relay.task is not None
            bench.server.reset()

    assert left_by(end) == []


def test_a_row_of_other_columns_than_were_asked_for_ends_the_session() -> None:
    async def scenario(bench: Bench) -> None:
        bench.said[b"\x03SELECT CURRENT_USER"] = result_set([b"\3def"], [[b"1"]])
        await bench.settle()
        assert bench.client.closed

    on_bench(scenario)


def test_an_answer_without_a_row_ends_the_session() -> None:
    async def scenario(bench: Bench) -> None:
        bench.said[b"\x03SELECT CURRENT_USER"] = answer_packet(b"\0\0\0\2\0\0\0")
        await bench.settle()
        assert bench.client.closed

    on_bench(scenario)


def test_mysql_goes_in_the_turn_in_which_it_has_answered() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.settle()
        bench.upstream.be_quiet()
        bench.client.deliver(packet(b"\x03" + READ.format(key_of("held")).encode(), 0))
        await bench.settle()
        bench.server.protocol.data_received(prepared(1, [], []))
        bench.server.reset()
        bench.server._end()
        await bench.settle()
        assert bench.client.closed or bench.client.received

    on_bench(scenario)


def test_mysql_answers_the_read_whose_fill_cannot_reach_it() -> None:
    """The fill has a connection of its own."""

    async def scenario(bench: Bench) -> None:
        await bench.settle()
        bench.said[b"\x03SELECT id"] = answer_packet(b"\0\7\0\2\0\0\0")
        assert await bench.ask(READ.format(key_of("down"))) == answer_packet(b"\0\7\0\2\0\0\0")
        assert not bench.client.closed

    on_bench(scenario)


def test_a_command_of_upwells_that_cannot_reach_mysql_is_an_error() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.settle()
        answer = await bench.ask("SHOW PROXIED QUERIES")
        assert answer[4:7] == b"\xff" + (1429).to_bytes(2, "little")
        assert not bench.client.closed

    on_bench(scenario)


def test_a_fault_behind_a_task_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that wait for a task are looked at when it has ended, with nobody there to hear of a fault."""

    def ping(session: Session, data: bytes) -> None:
        raise LookupError("planted")

    async def scenario() -> None:
        bench = Bench()
        bench.client.deliver(packet(b"\x0e", 0))  # before the session is known
        await bench.settle()
        assert bench.client.closed and bench.server.closed

    monkeypatch.setitem(HANDLERS, 0x0E, ping)
    loop = JumpingLoop()
    with capture_logs() as logged:
        loop.run_until_complete(scenario())
    loop.close()
    assert [entry["event"] for entry in logged] == ["a command of a session has failed"]
