"""What a test of logins needs beside `log_in`: a listener that forwards bytes both ways once MySQL has said OK.

Of the command phase it knows COM_CHANGE_USER, which is authentication again.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar
from unittest import mock

import uvloop

from proxy.mysql.login.auth_relay import AuthRelay, Outcome, Step
from proxy.mysql.login.handshake import LoginSettings, log_in, nothing_is_asked
from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.login.login_packets import encode_change_user, parse_change_user
from proxy.mysql.wire import packet_stream
from proxy.mysql.wire.packet_stream import PacketStream
from proxy.mysql.wire.packets import CLIENT_SESSION_TRACK, COM_CHANGE_USER, OK, ok_bytes, parse_ok
from sqltypes.errors import UpwellError

PATIENCE = 60.0


class LoginProxy:
    """Listens at 127.0.0.1:`port`. `outcomes` gets a LoggedIn or an UpwellError for every connection, in the order in
    which logins end; `ended` counts the sessions that are over."""

    def __init__(self, settings: LoginSettings) -> None:
        self.settings = settings
        self.ahead = nothing_is_asked
        self.port = 0
        self.outcomes: queue.Queue[LoggedIn | UpwellError] = queue.Queue()
        self.ended: queue.Queue[None] = queue.Queue()
        self.unhandled: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def outcome(self) -> LoggedIn | UpwellError:
        return self.outcomes.get(timeout=PATIENCE)

    def failure(self) -> UpwellError:
        outcome = self.outcome()
        assert isinstance(outcome, UpwellError), outcome
        return outcome

    def logged_in(self) -> LoggedIn:
        outcome = self.outcome()
        assert isinstance(outcome, LoggedIn), outcome
        return outcome

    def wait_until_ended(self) -> None:
        self.ended.get(timeout=PATIENCE)

    async def serve(self, started: Callable[[], None], stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.unhandled.append(repr(context)))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            self.port = listener.getsockname()[1]
            accepting = loop.create_task(self._accept(listener))
            started()
            await stop.wait()
            tasks = (accepting, *self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await Watched.all_closed()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            task = loop.create_task(self._serve_one(client))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.unhandled.append("".join(traceback.format_exception(error)))

    async def _serve_one(self, client: socket.socket) -> None:
        try:
            session = await log_in(client, self.settings, self.ahead)
        except UpwellError as error:
            self.outcomes.put(error)
        else:
            self.outcomes.put(session)
            await Forwarded(session).over.wait()
        self.ended.put(None)


class Watched(PacketStream):
    """Known until its connection is closed, also after it was handed over: the loop must not end before that."""

    known: ClassVar[set[Watched]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.known.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.known.discard(self)

    def hand_over(self, protocol: asyncio.BaseProtocol) -> bytes:
        assert isinstance(protocol, End)
        protocol.also_lost = lambda: self.known.discard(self)
        return super().hand_over(protocol)

    @classmethod
    async def all_closed(cls) -> None:
        for stream in list(cls.known):
            stream.abort()
        while cls.known:
            await asyncio.sleep(0)


class Forwarded:
    """Bytes of a session from one side to the other. Lives until one of them closes."""

    def __init__(self, session: LoggedIn) -> None:
        self.session = session
        self.over = asyncio.Event()
        self.relay: AuthRelay | None = None
        self._client, self._server = session.client, session.server
        tracked = bool(session.capabilities & CLIENT_SESSION_TRACK)
        self._client.send(ok_bytes(parse_ok(session.ok_payload, session_track=True), OK, session_track=tracked))
        from_client = End(self._on_client, self._close)
        from_server = End(self._on_server, self._close)
        early = self._client.hand_over(from_client)
        assert self._server.hand_over(from_server) == b"", "MySQL speaks when asked"
        if early:
            self._on_client(early)

    def _on_client(self, data: bytes) -> None:
        if self.relay is not None:
            self._client.sequence = data[3] + 1
            self._act(self.relay.from_client(data[4:]))
        elif data[4] == COM_CHANGE_USER:
            self._change_user(data[4:])
        else:
            self._server.transport.write(data)

    def _on_server(self, data: bytes) -> None:
        while self.relay is not None and data:
            size = int.from_bytes(data[:3], "little")
            self._server.sequence = data[3] + 1
            self._act(self.relay.from_server(data[4 : 4 + size]))
            data = data[4 + size :]
        if data:
            self._client.transport.write(data)

    def _change_user(self, payload: bytes) -> None:
        session = self.session
        change = parse_change_user(payload, session.capabilities)
        self._client.sequence, self._server.sequence = 1, 0

        def opening(answer: bytes) -> bytes:
            return encode_change_user(replace(change, auth_response=answer), session.server_capabilities)

        self.relay = AuthRelay(session.terms)
        self._act(self.relay.begin(change.plugin, change.auth_response, opening))

    def _act(self, step: Step) -> None:
        if step.new_command:
            self._server.sequence = 0
        for payload in step.to_server:
            self._server.send(payload)
        for payload in step.to_client:
            self._client.send(payload)
        if step.outcome is not None:
            assert self.relay is not None
            self.session.terms = replace(self.session.terms, nonce=self.relay.nonce)
            self.relay = None
            self._client.send(step.final)
            if step.outcome is not Outcome.ACCEPTED:
                self._close()

    def _close(self) -> None:
        self._client.close()
        self._server.close()
        self.over.set()


class End(asyncio.Protocol):
    """One side of a session in the command phase. Small messages only: each comes whole."""

    def __init__(self, received: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._received = received
        self._lost = lost
        self.also_lost: Callable[[], None] = lambda: None

    def data_received(self, data: bytes) -> None:
        self._received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost()
        self.also_lost()


@contextlib.contextmanager
def login_proxy(settings: LoginSettings) -> Iterator[LoginProxy]:
    """A `LoginProxy` on a loop in a thread. Fails at the end where something was raised that nobody caught."""
    proxy = LoginProxy(settings)
    started: queue.Queue[Callable[[], None]] = queue.Queue()

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stop_soon() -> None:
            loop.call_soon_threadsafe(stop.set)

        await proxy.serve(lambda: started.put(stop_soon), stop)

    thread = threading.Thread(target=lambda: uvloop.run(main()))
    with mock.patch.object(packet_stream, "PacketStream", Watched):
        thread.start()
        stop_it = started.get(timeout=PATIENCE)
        try:
            yield proxy
        finally:
            stop_it()
            thread.join(PATIENCE)
    assert not proxy.unhandled, "".join(proxy.unhandled)
