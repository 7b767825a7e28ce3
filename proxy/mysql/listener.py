"""The listener for MySQL's protocol: accepts, has clients log in at MySQL, and keeps what their sessions share.

A client that connects costs a connection at MySQL, opened before the client is greeted. Logins are made a few at a
time, and what waits for its turn waits in the system's own queue: a flood of them does not take the loop from the
sessions that read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

import structlog

from gtid_tracker.gtid import GtidSet
from planner.long_lists import LONG, without_lists
from planner.matcher import QueryMatcher
from planner.scan import server_version, unwrap_version_comments
from proxy.api import Answer, ParameterValue, SessionSystem
from proxy.faults import is_fault
from proxy.mysql.announced import AnnouncedTexts
from proxy.mysql.commands import may_be_command
from proxy.mysql.grants import REMEMBERED, Grants
from proxy.mysql.handshake import LoginSettings, log_in
from proxy.mysql.long_texts import LONGEST_WRITE, is_write, write_outline
from proxy.mysql.packets import Malformed, packet
from proxy.mysql.prepared import PreparedStatement
from proxy.mysql.reads import Transactions
from proxy.mysql.rights import is_admin
from proxy.mysql.routes import Route, Target, target_of
from proxy.mysql.session import Session
from proxy.mysql.session_base import SessionBase
from proxy.mysql.statement_kind import ANYTHING, classify
from proxy.mysql.statement_kind import Kind as StatementKind
from proxy.mysql.texts import LONGEST_OTHER, Entry, TextMatcher, is_large, steering
from proxy.mysql.trackers import NewSessions
from proxy.proxied import ProxiedQueries
from sqltypes.errors import CannotForce, ConfigError, ParseError, UpwellError

log = structlog.get_logger("upwell.mysql")

BACKLOG = 4096
"""Clients that wait to be accepted. One that finds the queue full waits for the kernel's next try, seconds later."""
TARGETS = 10_000  # texts of prepared statements that are remembered
WRITES = 256  # outlines of long writes that are remembered, each of 8 KiB at most
LOGINS = 32  # at a time
TURN = 0.05  # seconds; a login that takes longer waits for somebody, and takes nothing from the others
APART = 20
"""Turns of the loop from one login to the next. A login is a dozen steps, 0.8 ms together: with several begun in each
turn, a flood of connects takes most of the loop; so 8 connections keep a third of their hits (`make bench ARGS="--only
mysql_idle"`), on two cores on which MySQL has the logins, too. Without reads the turns are over at once."""
FAREWELL = 1.0  # seconds in which clients take their last bytes, when the proxy stops
TAKE = 60.0  # seconds in which a client must take some of what it was sent: MySQL's own net_write_timeout
READS = frozenset({StatementKind.READ})


@dataclass(frozen=True, slots=True)
class MysqlOptions:
    """Sizes in bytes, times in seconds. `idle` 0: as long as MySQL itself allows."""

    host: str = "127.0.0.1"
    port: int = 3307
    transactions: Transactions = Transactions.ON
    read_your_writes: bool = True
    own_writes_wait: float = 1.0
    largest_command: int = 1 << 30
    connections: int = 10_000
    idle: float = 0.0
    admins: tuple[str, ...] = ()


class Shared:
    """What all sessions of the listener share."""

    def __init__(
        self,
        system: SessionSystem,
        options: MysqlOptions,
        matcher: QueryMatcher,
        proxied: ProxiedQueries,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.system = system
        self.options = options
        self.clock = clock
        self._matcher = matcher
        self.texts: TextMatcher[Route] = TextMatcher(matcher)
        self.grants = Grants(lambda: (system.caches_version, system.accounts_version))
        self.announced = AnnouncedTexts()
        self.now = clock()  # as of the last tick
        self.passed = 0  # statements that MySQL has answered
        # Is told of each read of a cache that MySQL has answered: its values, why, and in how many microseconds.
        self.on_passed: Callable[[str, Sequence[ParameterValue] | None, str, float], None] | None = None
        self.large = Route(ANYTHING)
        self.new_sessions = NewSessions()
        self.sessions: set[SessionBase] = set()
        self.orphans: set[SessionBase] = set()
        self.closing: set[SessionBase] = set()
        self.fills: set[asyncio.Task[Answer | str]] = set()  # that their sessions may have left alone
        self.position = system.position
        self.sequence = system.sequence
        self.seconds_since_change = system.seconds_since_change
        self._proxied = proxied
        self._targets: dict[tuple[bytes, str, bool, bool], Target] = {}
        self._targets_of = -1  # the version of the caches that they are of
        self._writes: dict[bytes, Route] = {}  # by their outlines

    def server_is(self, version: str) -> None:
        """What MySQL has told of itself in its greeting: texts are read as that version reads them."""
        if server_version(version) != self._matcher.version:
            self._writes.clear()
        self._matcher.read_as(server_version(version))

    def route(self, text: bytes, database: str) -> Route:
        """What is known of a text, whatever its literals are."""
        entry, _ = self.texts.find(text, database)
        return entry.attached or self.attach(entry, text, database)

    def attach(self, entry: Entry[Route], text: bytes, database: str) -> Route:
        """Finds out about a text of which nothing is known yet."""
        if entry.large and _is_long_by_placeholders(text):
            entry.attached = self._route(text, database)
        elif entry.large:
            entry.attached = Route(ANYTHING, may_be_command(text)) if may_be_command(text) else self.large
        elif len(text) > LONGEST_OTHER and is_write(text):
            entry.attached = self._write(write_outline(text)) if len(text) <= LONGEST_WRITE else self.large
        else:
            entry.attached = self._route(text, database)
        return entry.attached

    def _write(self, outline: bytes) -> Route:
        """Of a long write: one route for all that differ in values and rows."""
        route = self._writes.get(outline)
        if route is None:
            if is_large((outline,)):
                return self.large
            if len(self._writes) >= WRITES:
                self._writes.clear()
            statement = classify(outline.decode("utf-8", "replace"), self._matcher.version)
            route = self._writes[outline] = Route(statement)
        return route

    def _route(self, text: bytes, database: str) -> Route:
        sql = text.decode("utf-8", "replace")
        version = self._matcher.version
        if version is not None:
            with suppress(ParseError):
                sql = unwrap_version_comments(sql, version)
        short = without_lists(sql)[0] if "/*!" not in sql else sql
        if len(short) > LONGEST_OTHER and is_large((short.encode(),)):
            return self.large
        statement = classify(short, version)
        noted = self._proxied.texts(sql, database) if statement.kind in READS else None
        return Route(statement, may_be_command(text), noted)

    def target(self, statement: PreparedStatement, *, eof: bool) -> Target:
        """What a prepared statement is for: one object for all sessions that have prepared this text."""
        version = self.system.caches_version
        if version != self._targets_of or len(self._targets) >= TARGETS:
            self._targets.clear()
            self._targets_of = version
        key = statement.text, statement.database, eof, statement.attributes
        target = self._targets.get(key)
        if target is None:
            route = self.route(statement.text, statement.database)
            target = self._targets[key] = target_of(
                statement, route, self.system, eof=eof, steer=steering(statement.text)
            )
        return target

    def note_fault(self, what: str, error: Exception, **facts: object) -> str:
        """A read or a command could not be understood: the reason for which MySQL answers it."""
        if is_fault(error):
            error = self.system.faults.note("session", what, error, **facts)
        return f"{error.reason}: {error.message}" if isinstance(error, UpwellError) else repr(error)

    def figures(self) -> dict[str, int]:
        """Counters and gauges that are kept here, by name."""
        return {"mysql_sessions": len(self.sessions), "mysql_passed": self.passed}

    def forced(self, why: str) -> CannotForce:
        return CannotForce(f"the query asks for an answer from a cache, and MySQL would have to answer: {why}")

    def is_admin(self, account: str) -> bool:
        return is_admin(account, self.options.admins)

    async def reached(self, own: GtidSet) -> bool:
        """Waits, for a bounded time, until the stream has brought a session's own writes."""
        return await self.system.reached(own, self.options.own_writes_wait)

    def keep_fill(self, task: asyncio.Task[Answer | str]) -> None:
        """It goes on, whatever becomes of the session that has begun it."""
        self.fills.add(task)
        task.add_done_callback(self._fill_ended)

    def _fill_ended(self, task: asyncio.Task[Answer | str]) -> None:
        self.fills.discard(task)
        if not task.cancelled():
            task.exception()  # who waits for it still has it from the task

    def orphaned(self, session: SessionBase) -> None:
        self.orphans.add(session)

    def ending(self, session: SessionBase) -> None:
        self.sessions.discard(session)
        self.orphans.discard(session)
        self.closing.add(session)

    def ended(self, session: SessionBase) -> None:
        """Both connections are closed."""
        self.closing.discard(session)


def _is_long_by_placeholders(text: bytes) -> bool:
    """Whether all that makes a text too large to be looked at is lists of `?`."""
    if text.count(b"?") < LONG:
        return False
    short = without_lists(text.decode("utf-8", "replace"))[0].encode()
    return len(short) < len(text) and not is_large((short,))


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

    async def start(self) -> int:
        """Listens; the port. Raises ConfigError where it cannot."""
        options = self.shared.options
        try:
            infos = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = infos[0]
            listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
        except OSError as error:
            raise ConfigError(
                f"cannot listen for MySQL's protocol on {options.host}:{options.port}: {error.strerror or error}"
            ) from None
        listening.setblocking(False)
        self._listening.append(listening)
        self._accepting.append(asyncio.create_task(self._accept(listening)))
        port: int = listening.getsockname()[1]
        return port

    async def stop(self, grace: float) -> None:
        """Takes no more clients, lets what is under way end for `grace` seconds, then ends all sessions."""
        tasks = [*self._accepting, *self._logins, self._looking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listening in self._listening:  # the loop has let go of it
            listening.close()
        shared = self.shared
        deadline = shared.clock() + grace
        while any(session.busy for session in shared.sessions) and shared.clock() < deadline:
            await asyncio.sleep(0.02)
        for session in list(shared.sessions):
            session.close()
        deadline = min(deadline, shared.clock() + FAREWELL)
        while shared.closing and shared.clock() < deadline:
            await asyncio.sleep(0.01)
        for session in list(shared.closing):
            session.abort()
        while shared.closing:
            await asyncio.sleep(0)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._turns.acquire()
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:  # no more files: those that wait stay in the queue
                self._turns.release()
                log.warning("accept_failed", why=str(error))
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
            for _ in range(APART):
                await asyncio.sleep(0)

    async def _serve(self, client: socket.socket) -> None:
        shared = self.shared
        client.setblocking(False)
        if len(shared.sessions) + len(self._logins) > shared.options.connections:
            refused = b"\xff" + (1040).to_bytes(2, "little") + b"Too many connections"  # as before a login: no SQLSTATE
            with suppress(OSError):
                client.send(packet(refused, 0))
            client.close()
            return
        if client.family in (socket.AF_INET, socket.AF_INET6):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            logged_in = await log_in(client, self._settings)
        except UpwellError as error:
            shared.system.count("mysql_logins_failed")
            log.info("login_failed", why=error.message)
            return
        shared.system.count("mysql_logins")
        if logged_in.client.lost or logged_in.server.lost:  # a wire would never hear of it
            logged_in.client.abort()
            logged_in.server.abort()
            return
        shared.server_is(logged_in.server_version)
        session = Session(shared, logged_in)
        shared.sessions.add(session)
        try:
            session.begin(logged_in)
        except Malformed:  # MySQL's OK
            session.close()

    async def _end_orphans(self) -> None:
        """The stream alone does not tell that MySQL is back: of what shuts down, it is the last to go."""
        orphans = list(self.shared.orphans)
        if await self.shared.system.answers():
            for session in orphans:
                session.close()

    def tick(self) -> None:
        """To be called now and then. A session whose connection MySQL ended goes, unless MySQL cannot be reached at
        all: then it keeps its hits."""
        shared = self.shared
        if shared.orphans and shared.system.source_up() and self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._end_orphans())
        now = shared.now = shared.clock()
        if now - self._lapsed_at > REMEMBERED:
            self._lapsed_at = now
            shared.grants.forget()
            for session in shared.sessions:
                session.heads.clear()
        for session in list(shared.sessions):
            session.note_use(now)
            if session.stalled and session.stands_still(now, TAKE):
                session.close()
                session.abort()
            elif session.busy:
                continue
            elif shared.options.idle and now - session.active_at > shared.options.idle:
                session.close()
            elif now - session.server_used_at > session.state.keep_alive > now - session.active_at:
                session.ping_server()
        for session in list(shared.closing):
            if now - session.closed_at > TAKE:
                session.abort()


class Turn:
    """One of a semaphore's, given back once."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns: asyncio.Semaphore | None = turns

    def end(self, _: object = None) -> None:
        if self._turns is not None:
            self._turns.release()
            self._turns = None
