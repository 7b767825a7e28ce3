"""One session on the bench, from login to end: what happens to it, and what must hold all the time, at rest, and when
both ends have gone.

A finding is: an exception that nobody catches, or that is logged; more bytes held than a session may hold; commands
without an answer while the connection stays; an answer that is another command's; an end for no reason; a session or a
task that is left when both connections are closed.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import warnings
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, cast

from structlog.testing import capture_logs

from external_upquery.address import parse_upstream
from proxy.mysql.login.handshake import login_settings
from proxy.mysql.session.listener import MysqlListener
from proxy.mysql.session.shared import MysqlOptions
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, packet
from proxy.settings.quantities import Transactions
from tests.fuzz.bench import JumpingLoop, bench_session, none_unraised
from tests.fuzz.payloads import pieces
from tests.fuzz.shrinking import Step
from tests.fuzz.strict_client import StrictClient, commands_of
from tests.fuzz.system import BenchSystem, Counts, bench_shared
from tests.fuzz.upstream import ScriptedUpstream
from tests.support.mysql_packets import error

NOBODY_LOGS_IN = login_settings(parse_upstream("mysql://root@127.0.0.1:1"))

LIMIT = 300_000  # bytes of a command, --mysql-max-packet, mostly
MUCH = 1 << 20  # bytes: more than a session holds of any kind
EARLY = 300_000  # bytes that a login may have taken from a client beyond its end
LONG = 200.0  # seconds; more than anything takes that is under way
FLOOD = packet(b"\x03SELECT '" + b"f" * 290_000 + b"'", 0) * 6
ENDS = frozenset({"server ends", "server breaks", "farewell", "shutdown", "client ends", "client breaks"})
FAREWELLS = {"farewell": (4031, "The client was disconnected"), "shutdown": (1053, "Server shutdown in progress")}


def play(
    seed: int, capabilities: int, wild: float, steps: Sequence[Step], counts: Counts, *, strict: bool
) -> None:  # fmt: skip
    """Raises AssertionError, or whatever the session has raised, where it did what it must not."""
    loop = JumpingLoop()
    unhandled: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    with capture_logs((kept_exception,)) as logged, none_unraised(), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            loop.run_until_complete(Play(loop, seed, capabilities, wild, counts, strict=strict).run(steps))
            assert not asyncio.all_tasks(loop), "a task is left"
        finally:
            loop.close()
            gc.collect()  # destructors tell of what was never awaited, and of errors that nobody has asked for
            for context in unhandled:
                raise AssertionError(context) from context.get("exception")
            for entry in logged:
                raise AssertionError(entry) from entry.get("exc_info")


def kept_exception(logger: object, name: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A log entry with the exception that it is about."""
    if entry.get("exc_info") is True:
        entry["exc_info"] = sys.exc_info()[1]
    return entry


class Play:
    """`strict`: the client keeps to the protocol, and what it sees is compared with what it must see."""

    def __init__(
        self, loop: JumpingLoop, seed: int, capabilities: int, wild: float, counts: Counts, *, strict: bool
    ) -> None:
        rng = self._rng = random.Random(seed)
        self._loop = loop
        self._counts = counts
        self._strict = strict
        self._wild = wild
        self._eof = not capabilities & CLIENT_DEPRECATE_EOF
        self._capabilities = capabilities
        self._options = MysqlOptions(
            largest_command=rng.choice((LIMIT, LIMIT, LIMIT, 20 << 20)),
            transactions=rng.choice((Transactions.ON, Transactions.ON, Transactions.STRICT, Transactions.OFF)),
            read_your_writes=rng.random() < 0.8,
            idle=rng.choice((0.0, 0.0, 50.0)),
            admins=rng.choice(((), ("app@%",))),
        )
        self._shared = bench_shared(loop, self._options)
        self._upstream = ScriptedUpstream(random.Random(seed + 1), self._eof, wild)
        self._upstream.isolation = rng.choice(("REPEATABLE-READ", "REPEATABLE-READ", "READ-COMMITTED", "SERIALIZABLE"))
        self._sent = bytearray()

    async def run(self, steps: Sequence[Step]) -> None:
        early = farewell = b""
        if steps and steps[0][0] == "client" and len(steps[0][1]) < EARLY and self._rng.random() < 0.2:
            early = steps[0][1]
            self._sent += early
            steps = steps[1:]
        if self._wild and self._rng.random() < 0.05:
            farewell = said("farewell")
        self._session, self._client, self._server = bench_session(
            self._shared, self._capabilities, self._upstream.heard, self._counts, (early, farewell)
        )
        self._listener = MysqlListener(self._shared, NOBODY_LOGS_IN)
        self._upstream.transport = self._server
        for name, data in steps:
            self._step(name, data)
            if name != "client" or self._rng.random() < 0.1:
                await self._settle(1)
            for _ in range(self._rng.choice((0, 0, 3))):
                await asyncio.sleep(0)
            self._check_always()
        await self._come_to_rest()
        self._check_at_rest()
        if self._strict:
            self._check_answers({name for name, _ in steps})
        await self._end()

    async def _come_to_rest(self) -> None:
        if self._upstream.quiet:
            self._server.end()
        self._client.take(True)
        self._server.take(True)
        await self._settle(20)

    async def _end(self) -> None:
        """Both ends go, in any order, or the listener does; nothing is left."""
        ways: tuple[Callable[[], object], ...] = (
            self._client.end, self._client.reset, self._server.end, self._server.reset, lambda: None,
        )  # fmt: skip
        stops = self._rng.random() < 0.2
        for _ in range(2):
            self._rng.choice(ways)()
            await self._settle(self._rng.choice((0, 0, 1)))
        if stops:
            await self._listener.stop(1.0)
        else:
            self._client.end()
        await self._settle(1)
        self._server.end()
        await self._settle(1)
        for _ in range(4):  # what does not close by itself is closed by the tick
            self._loop.jump(LONG)
            self._listener.tick()
            await self._settle(1)
        shared = self._shared
        assert not (shared.sessions or shared.sessions.closing or shared.sessions.orphans), "the session is left"
        assert self._client.closed and self._server.closed, "a connection is left"

    async def _settle(self, seconds: float) -> None:
        """Lets what is under way go on."""
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.sleep(seconds)

    # -- what must hold ------------------------------------------------------------------------------------------------

    def _check_always(self) -> None:
        relay = self._session.relay
        dialogue = relay.dialogue
        held = {
            "commands": relay.commands.held,
            "of a login": len(dialogue.left) if dialogue is not None else 0,
            "for the client": self._client.largest,
            "for MySQL": self._server.largest,
            "answers": sum(map(len, relay.client.out)),
            "of answers": 0 if self._wild else len(relay.server.responses._held),
        }
        assert all(size < MUCH for size in held.values()), f"bytes are held: {held}"
        relay.check_invariants()
        self._session.quick.check_invariants()
        held_up = relay.busy or relay.commands.pending or not relay.client.writable
        assert not (held_up and self._session.quick.hot), "the shortest way is open, and something comes first"

    def _check_at_rest(self) -> None:
        """Nothing waits but for bytes that did not come."""
        relay = self._session.relay
        if relay.closed:
            return
        commands, exchanges = relay.commands, relay.server.responses.exchanges
        if relay.busy:
            assert relay.server.alive or relay.orphan, "MySQL has gone, and the client waits"
            assert exchanges or commands.forwarding or relay.dialogue is not None, "busy with nothing"
            if not self._wild:
                assert not exchanges or self._upstream.waits, "an answer of MySQL's was overlooked"
            return
        assert relay.task is None and not exchanges and not relay.client.out, "not busy, and something is under way"
        assert self._client.reading and self._server.reading, "nothing is under way, and a socket is not read"
        assert not self._client.waiting, "bytes of the client were not read"
        head = commands._data[commands._at : commands._at + 4]
        size = int.from_bytes(head[:3], "little") + 4
        assert commands.held < 4 or commands.held < size, "a whole command waits, and nothing is under way"

    def _check_answers(self, steps: set[str]) -> None:
        if self._client.ended:
            return
        seen = StrictClient(eof=self._eof).see(bytes(self._sent), bytes(self._client.received))
        self._counts["answers looked at"] += seen.answers
        if self._client.closed:
            assert self._may_end(steps), "the connection was ended for no reason"
        else:
            assert not seen.missing, f"{seen.missing} commands have no answer"
        assert not seen.left or "farewell" in steps, f"{seen.left} bytes more than all answers"

    def _may_end(self, steps: set[str]) -> bool:
        passed = {"much time passes"} <= steps
        return (
            bool(steps & ENDS)
            or self._upstream.quiet
            or (passed and ("client does not read" in steps or self._options.idle > 0))
            or any(payload[:1] == b"\x11" for payload in commands_of(bytes(self._sent)))
        )

    # -- what happens --------------------------------------------------------------------------------------------------

    def _step(self, name: str, data: bytes) -> None:
        if name == "client":
            self._send(data)
            return
        system = cast(BenchSystem, self._shared.system)
        actions: dict[str, Callable[[], object]] = {
            "settle": lambda: None,
            "client reads": lambda: self._client.take(True),
            "client reads a little": self._client.take_some,
            "client does not read": lambda: self._client.take(False),
            "server reads": lambda: self._server.take(True),
            "server does not read": lambda: self._server.take(False),
            "caches change": system.change_caches,
            "rights change": system.change_rights,
            "the stream moves": system.move,
            "time passes": lambda: self._loop.jump(1),
            "much time passes": lambda: self._loop.jump(100),
            "MySQL is away": lambda: system.say_up(False),
            "MySQL is back": lambda: system.say_up(True),
            "server ends": self._server.end,
            "server breaks": self._server.reset,
            "client ends": self._client.end,
            "client breaks": self._client.reset,
            "farewell": lambda: self._say_farewell(name),
            "shutdown": lambda: self._say_farewell(name),
            "server is quiet": self._upstream.be_quiet,
            "tick": self._listener.tick,
            "flood": lambda: self._send(FLOOD),
        }
        actions[name]()

    def _send(self, data: bytes) -> None:
        self._sent += data
        for piece in pieces(self._rng, data):
            self._client.deliver(piece)

    def _say_farewell(self, name: str) -> None:
        self._server.deliver(said(name))
        self._server.end()


def said(farewell: str) -> bytes:
    errno, words = FAREWELLS[farewell]
    return packet(error(errno, "HY000", words), 0)
