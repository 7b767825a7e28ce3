"""The listener for MySQL's protocol: accepts, has clients log in at MySQL, and looks after their sessions.

A client that connects costs a connection at MySQL, opened before the client is greeted. Logins are made a few at a
time, and what waits for its turn waits in the system's own queue: a flood of them does not take the loop from the
sessions that read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

import structlog

from proxy.loop.readable import readable
from proxy.mysql.login.handshake import LoginSettings, log_in, nothing_is_asked
from proxy.mysql.reads.grants import REMEMBERED
from proxy.mysql.session.session import Session
from proxy.mysql.session.shared import Shared
from proxy.mysql.wire.packets import Malformed, packet
from sqltypes.errors import ConfigError, UpwellError

log = structlog.get_logger("upwell.mysql")

BACKLOG = 4096
"""Clients that wait to be accepted. One that finds the queue full waits for the kernel's next try, seconds later."""
LOGINS = 32  # at a time
TURN = 0.05  # seconds; a login that takes longer waits for somebody, and takes nothing from the others
APART = 20
"""Turns of the loop from one login to the next. A login is a dozen steps, 0.8 ms together: with several begun in each
turn, a flood of connects takes most of the loop; so 8 connections keep a third of their hits (`make bench ARGS="--only
mysql_idle"`), on two cores on which MySQL has the logins, too. Without reads the turns are over at once. One login
alone is no flood."""
TOLD_AT_ONCE = 50  # clients that find no place: one takes 30 us
FAREWELL = 1.0  # seconds in which clients take their last bytes, when the proxy stops
TAKE = 60.0  # seconds in which a client must take some of what it was sent: MySQL's own net_write_timeout


class MysqlListener:
    """From `start` to `stop`. Made and used on the running event loop."""

    def __init__(self, shared: Shared, logins: LoginSettings) -> None:
        self.shared = shared
        self._settings = logins
        self._lapsed_at = shared.now
        self._listening: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._logins: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._looking.set_result(None)
        self._turns = asyncio.Semaphore(LOGINS)
        self._spare: int | None = None  # a file that is kept for who comes when no other is left

    @property
    def client_tls(self) -> ssl.SSLContext | None:
        """What clients are shown; None: there is no TLS."""
        return self._settings.client_tls

    async def start(self, given: Sequence[socket.socket] = ()) -> int:
        """Listens; the port. `given`: sockets that listen already, where somebody else may still accept: so `accept`
        must follow. Raises ConfigError where it cannot."""
        listening = given[0] if given else self._bound()
        listening.setblocking(False)
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._listening.append(listening)
        if not given:
            self.accept()
        port: int = listening.getsockname()[1]
        return port

    def _bound(self) -> socket.socket:
        options = self.shared.options
        try:
            infos = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = infos[0]
            return socket.create_server(address[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"cannot listen for MySQL's protocol on {options.host}:{options.port}: {error.strerror or error}"
            ) from None

    @property
    def listening(self) -> Sequence[socket.socket]:
        """The sockets where clients connect."""
        return self._listening

    def accept(self) -> None:
        """Takes clients, from now on."""
        self._accepting += [asyncio.create_task(self._accept(listening)) for listening in self._listening]

    async def pause(self) -> None:
        """Takes no clients until `accept`: they wait in the system's queue. None is lost."""
        accepting, self._accepting = self._accepting, []
        for task in accepting:
            task.cancel()
        await asyncio.gather(*accepting, return_exceptions=True)

    async def leave(self) -> None:
        """Takes no clients any more: another process does, at the same sockets."""
        await self.pause()
        for listening in self._listening:
            listening.close()
        self._listening = []

    async def stop(self, grace: float) -> None:
        """Takes no more clients, lets what is under way end for `grace` seconds, then ends all sessions."""
        await self.leave()
        tasks = [*self._logins, self._looking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        shared = self.shared
        deadline = shared.clock() + grace
        while any(session.relay.busy for session in shared.sessions) and shared.clock() < deadline:
            await asyncio.sleep(0.02)
        for session in list(shared.sessions):
            session.relay.close()
        deadline = min(deadline, shared.clock() + FAREWELL)
        while shared.sessions.closing and shared.clock() < deadline:
            await asyncio.sleep(0.01)
        for session in list(shared.sessions.closing):
            session.relay.abort()
        while shared.sessions.closing:
            await asyncio.sleep(0)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._turns.acquire()
            try:
                client = await _accepted(listening)
            except OSError as error:
                self._turns.release()
                log.warning("accept_failed", why=str(error))
                self._refuse(listening)
                await asyncio.sleep(0.1)
                continue
            except BaseException:
                self._turns.release()
                raise
            task = loop.create_task(self._serve(client))
            self._logins.add(task)
            task.add_done_callback(self._logins.discard)
            turn = Turn(self._turns)
            task.add_done_callback(turn.end)
            loop.call_later(TURN, turn.end)
            for _ in range(APART if len(self._logins) > 1 else 0):
                await asyncio.sleep(0)

    def _refuse(self, listening: socket.socket) -> None:
        """No file is left: those that wait are told, by the file that is kept for that."""
        if self._spare is None:
            return
        os.close(self._spare)
        self._spare = None
        with suppress(OSError):  # nobody waits any more
            for _ in range(TOLD_AT_ONCE):
                client, _ = listening.accept()
                client.setblocking(False)
                _too_many(client)
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)

    async def _serve(self, client: socket.socket) -> None:
        shared = self.shared
        client.setblocking(False)
        if len(shared.sessions) + len(self._logins) > shared.options.connections:
            _too_many(client)
            return
        if client.family in (socket.AF_INET, socket.AF_INET6):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = shared.new_sessions.first if shared.positions is None else None
        try:
            logged_in = await log_in(client, self._settings, nothing_is_asked if first is None else first.packets)
        except UpwellError as error:
            shared.system.count("mysql_logins_failed")
            log.info("login_failed", why=error.message)
            return
        shared.system.count("mysql_logins")
        if logged_in.client.lost or logged_in.server.lost:  # a wire would never hear of it
            logged_in.client.abort()
            logged_in.server.abort()
            return
        shared.server_is(logged_in.greeting.version)
        session = Session(shared, logged_in)
        shared.sessions.add(session)
        try:
            session.begin(logged_in, first)
        except Malformed:  # MySQL's OK
            session.relay.close()

    async def _end_orphans(self) -> None:
        """The stream alone does not tell that MySQL is back: of what shuts down, it is the last to go."""
        orphans = list(self.shared.sessions.orphans)
        if await self.shared.system.freshness.answers():
            for session in orphans:
                session.relay.close()

    def tick(self) -> None:
        """To be called now and then. A session whose connection MySQL ended goes, unless MySQL cannot be reached at
        all: then it keeps its hits."""
        shared = self.shared
        if shared.sessions.orphans and shared.system.source_up() and self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._end_orphans())
        now = shared.now = shared.clock()
        if now - self._lapsed_at > REMEMBERED:
            self._lapsed_at = now
            shared.grants.forget()
            for session in shared.sessions:
                session.forget_rights()
        for session in list(shared.sessions):
            relay, context = session.relay, session.context
            context.note_use(now)
            if relay.client.stands_still(now, TAKE):
                relay.close()
                relay.abort()
            elif relay.busy:
                continue
            elif shared.options.idle and now - context.active_at > shared.options.idle:
                relay.close()
            elif now - context.server_used_at > context.state.variables.keep_alive > now - context.active_at:
                session.ping_server()
        for session, since in list(shared.sessions.closing.items()):
            if now - since > TAKE:
                session.relay.abort()


class Turn:
    """One of a semaphore's, given back once."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns

    def end(self, _: object = None) -> None:
        if self._turns is not None:
            self._turns.release()
            self._turns = None


async def _accepted(listening: socket.socket) -> socket.socket:
    """The next client. The loop's own `sock_accept` would lose one that comes in the step in which it is cancelled."""
    while True:
        await readable(listening)
        with suppress(BlockingIOError, InterruptedError, ConnectionAbortedError):  # it has gone, or another took it
            return listening.accept()[0]


def _too_many(client: socket.socket) -> None:
    """Tells a client that there is no place for it."""
    refused = b"\xff" + (1040).to_bytes(2, "little") + b"Too many connections"  # as before a login: no SQLSTATE
    with suppress(OSError):
        client.send(packet(refused, 0))
    client.close()
