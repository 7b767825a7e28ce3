"""Connections to the source: opened on demand up to a limit, kept, replaced when lost.

Opening blocks a thread, never the loop. After a failed attempt the pool does not try again for a moment, so a source
that is down costs its callers nothing: see `refusal`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from external_upquery.address import Upstream
from external_upquery.connection import Connection
from external_upquery.login import CONNECT_SECONDS, Login, log_in
from external_upquery.protocol import Answer, ResultSet, query
from sqltypes.errors import SourceDown, UpwellError

RETRY_AFTER = 0.2  # seconds after a failed attempt without another one
STALLED_AFTER = 0.5  # seconds after which an attempt at a source that was down counts as failed
LOGIN_THREADS = 4
_PACKET = query("SELECT @@session.max_allowed_packet")


class Packet:
    """max_allowed_packet of a pool's sessions, which bounds the strings that MySQL makes in them. A session has it from
    its login on. `bytes`: None before the first login, 0 if sessions differ. `on_change` is called with each change."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self.bytes: int | None = None
        self._on_change = on_change

    def note(self, told: int) -> None:
        """Of one more session."""
        found = told if self.bytes in (None, told) else 0
        if found != self.bytes:
            self.bytes = found
            self._on_change()


class Pool:
    """`on_open` gets each new connection; `on_failure` is called when an attempt fails. Both on the loop.

    Invariants:
    1. `size` counts the connections that are alive; `idle` are those of them that nobody has taken.
    2. size + opening <= limit.
    """

    def __init__(
        self,
        upstream: Upstream,
        limit: int,
        on_open: Callable[[Connection], None],
        on_failure: Callable[[UpwellError], None],
        connect_seconds: float = CONNECT_SECONDS,
        packet: Packet | None = None,
    ) -> None:
        self.limit = limit
        self.idle: list[Connection] = []
        self.size = 0
        self.opening = 0
        self.failures = 0
        self._packet = packet or Packet()
        self.error: UpwellError | None = None  # of the last attempt; None once one has succeeded
        self._upstream = upstream
        self._connect_seconds = connect_seconds
        self._on_open = on_open
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(LOGIN_THREADS, thread_name_prefix="upwell-login")
        self._tried_at = 0.0
        self._failed_at = float("-inf")
        self._members: set[Connection] = set()
        self._closed = False
        self._lock = threading.Lock()
        self._fresh: set[socket.socket] = set()  # logged in by a thread, not yet seen by the loop
        self._doomed: list[int] = []
        self._killing = False
        self._told = asyncio.Event()  # unset while the source is being told to end sessions
        self._told.set()

    @property
    def full(self) -> bool:
        """Whether all connections that there may be are taken."""
        return not self.idle and self.size >= self.limit

    def take(self) -> Connection | None:
        """An idle connection, the one used last: the others may end by the source's own timeout."""
        return self.idle.pop() if self.idle else None

    def give_back(self, connection: Connection) -> None:
        if connection.alive:
            self.idle.append(connection)

    def refusal(self) -> UpwellError | None:
        """Why there will be no connection soon: the last attempt's error, where that is recent or the next one
        hangs.
        """
        if self.size or self.error is None:
            return None
        now = self._loop.time()
        recent = now - self._failed_at < RETRY_AFTER
        stalled = self.opening > 0 and now - self._tried_at > STALLED_AFTER
        return self.error if recent or stalled else None

    def grow(self) -> None:
        """Begins to open one more connection, within the limit, unless an attempt has just failed."""
        now = self._loop.time()
        if self._closed or self.size + self.opening >= self.limit or now - self._failed_at < RETRY_AFTER:
            return
        if self.error is not None and self.opening:
            return
        self.opening += 1
        self._tried_at = now
        self._log_in(self._on_opened)

    def _log_in(self, done: Callable[[asyncio.Future[Login]], None]) -> None:
        self._loop.run_in_executor(self._threads, self._log_in_now).add_done_callback(done)

    def _log_in_now(self) -> Login:
        """In a thread. What nobody takes, because the loop has ended meanwhile, is closed by `close` or here."""
        login = log_in(self._upstream, self._connect_seconds)
        with self._lock:
            if not self._closed:
                self._fresh.add(login.socket)
                return login
        login.socket.close()
        raise SourceDown("the proxy is stopping")

    def _on_opened(self, login: asyncio.Future[Login]) -> None:
        self.opening -= 1
        error = login.exception()
        if error is not None:
            self._failed_at = self._loop.time()
            self.failures += 1
            self.error = error if isinstance(error, UpwellError) else SourceDown(f"logging in failed: {error!r}")
            self._on_failure(self.error)
            return
        if self._closed:
            return
        self._fresh.discard(login.result().socket)
        self.error = None
        self._failed_at = float("-inf")
        connection = Connection(login.result(), self._loop, self._on_lost)
        self.size += 1
        self._members.add(connection)
        if self._upstream.kind != "mysql":  # each of vtgate's tablets has one of its own
            self._on_open(connection)
        else:
            connection.run(_PACKET, 1, lambda outcome: self._on_packet(connection, outcome))

    def _on_packet(self, connection: Connection, outcome: list[Answer] | UpwellError) -> None:
        if isinstance(outcome, UpwellError):
            return  # the connection is lost
        (answer,) = outcome
        if isinstance(answer, ResultSet):
            self._packet.note(int(str(answer.rows[0][0])))
        self._on_open(connection)

    def _on_lost(self, connection: Connection) -> None:
        self.size -= 1
        self._members.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)

    def kill(self, connection: Connection) -> None:
        """Drops a connection and ends the source's work for it.

        It kills the whole session, not its query: a late KILL QUERY would hit the next statement. (vtgate has no KILL;
        it ends the work of a lost connection by itself.)
        """
        if self._upstream.kind != "mysql":
            connection.abort()
            return
        self._doomed.append(connection.thread_id)
        self._told.clear()
        connection.abort()
        self._kill_next()

    async def killed(self) -> None:
        """Waits until the source has been told of all that `kill` was asked for."""
        await self._told.wait()

    def _kill_next(self) -> None:
        if self._killing or self._closed:
            return
        if not self._doomed:
            self._told.set()
            return
        self._killing = True
        self._log_in(self._on_killer)

    def _on_killer(self, login: asyncio.Future[Login]) -> None:
        if login.exception() is not None:
            # Nobody can reach the source: its sessions end when it writes to the closed sockets.
            self._doomed.clear()
            self._killing = False
            self._told.set()
            return
        if self._closed:
            return
        self._fresh.discard(login.result().socket)
        killer = Connection(login.result(), self._loop)
        doomed, self._doomed = self._doomed, []

        self._members.add(killer)

        def finished(outcome: object) -> None:
            self._members.discard(killer)
            killer.close()
            self._killing = False
            self._kill_next()

        # A session that has ended meanwhile gives an error that says so.
        killer.run(b"".join(query(f"KILL {thread_id}") for thread_id in doomed), len(doomed), finished)

    def close(self) -> None:
        """Closes all connections; those of runs in flight too."""
        with self._lock:
            self._closed = True
            for sock in self._fresh:
                sock.close()
        for connection in tuple(self._members):
            connection.close()
        self._threads.shutdown(wait=False)
