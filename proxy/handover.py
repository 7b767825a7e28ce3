"""How this proxy is taken over by another, and takes over from another (`proxy/takeover/` is what they say).

The one that hands over: writes its snapshot and its small files, and holds all writing; gives the lock of the state
directory and the listening sockets; pauses when the other is ready; and then serves only the sessions that it has.
The other is an ordinary start that writes nothing and accepts nobody before it is ready and the first has paused.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import monotonic

import structlog

from dataflow.engine import Engine
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from proxy.apply import Automatic
from proxy.cache.evidence import EarnedFile
from proxy.catalog.catalog import Catalog
from proxy.catalog.distrusted import Doubt, doubt_of
from proxy.fills.restart import Restart
from proxy.grpc.server import GrpcListener
from proxy.grpc.shared_port import FIRST, SECOND
from proxy.http.server import HttpListener
from proxy.mysql.session.listener import MysqlListener
from proxy.settings.config import Config
from proxy.system.system import Router
from proxy.takeover.channel import network
from proxy.takeover.giving import Given, Giving
from proxy.takeover.protocol import LARGEST, Hello, Message, encoded
from proxy.takeover.taking import Owner, Taking
from sqltypes.errors import SourceDown

log = structlog.get_logger("upwell.takeover")

READY = 120.0  # seconds that a start may take until it is ready to take over
CATCHES_UP = 2.0  # seconds that its position may lack what the other's had
LOOK = 0.02
LOOKS = 0.1  # seconds between two looks at what is still served


@dataclass
class Parts:
    """Of the proxy, what a hand-over touches."""

    router: Router
    engine: Engine
    catalog: Catalog
    restart: Restart
    automatic: Automatic
    earned: EarnedFile
    owner: Owner
    mysql: MysqlListener
    grpc: GrpcListener
    http: HttpListener

    @property
    def config(self) -> Config:
        return self.router.settings.config

    @property
    def position(self) -> MutableGtidSet:
        return self.engine.state.ring.position


class Handover:
    """From `start` to `close`. `grace`: seconds that what is answered gets at the end."""

    def __init__(self, parts: Parts, grace: float) -> None:
        self._parts = parts
        self._grace = grace
        self._paused = False
        self._starting: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None
        self._heard_from: object = None  # who has just said that what is held may not be true
        self.giving = Giving(parts.config.state_dir, self)

    # -- as `proxy.takeover.giving.Giver` ------------------------------------------------------------------------------

    def hello(self) -> Hello:
        parts, config = self._parts, self._parts.config
        mysql = parts.mysql.listening[0].getsockname()[1] if parts.mysql.listening else 0
        http = parts.http.listening[0].getsockname()[1] if parts.http.listening else 0
        listens = {
            "mysql-listen": (config.mysql.listen.host, mysql),
            "grpc-listen": (config.grpc_listen.host, parts.grpc.port),
            "http-listen": (config.http_listen.host, http),
        }
        return Hello(os.getpid(), parts.owner.source, network(), listens)

    def refuses(self) -> str:
        if self._parts.router.stopping:
            return "it is stopping"
        if os.environ.get("NOTIFY_SOCKET"):
            return "a service manager watches over it, and restarts it (systemctl restart)"
        return ""

    async def prepare(self, process: int) -> Given:
        parts = self._parts
        parts.grpc.steer(FIRST)
        await asyncio.to_thread(parts.catalog.doubts.written)
        await asyncio.to_thread(parts.earned.written)
        if parts.automatic.file is not None:
            await asyncio.to_thread(parts.automatic.file.written)
        await parts.router.fills.warm_up.saved()
        await parts.restart.saved()
        await asyncio.to_thread(parts.catalog.doubts.written)  # a snapshot may have taken long
        parts.owner.writing.hold(f"the process {process} takes over from this proxy: connect again, and ask that one")
        await parts.catalog.quiet()
        files = [("lock", parts.owner.lock.descriptor)]
        files += [("mysql-listen", sock.fileno()) for sock in parts.mysql.listening]
        files += [("http-listen", sock.fileno()) for sock in parts.http.listening]
        made = parts.grpc.token if parts.config.grpc_token is None else None  # one of the settings the other has, too
        return Given(files, {"token": made, "grpc_port": parts.grpc.port})

    async def pause(self) -> str:
        self._paused = True
        await self._parts.mysql.pause()
        return str(self._parts.position)

    def go_on(self) -> None:
        self._parts.owner.writing.go_on()
        if self._paused and not self._parts.router.stopping:
            self._parts.mysql.accept()
        self._paused = False

    def leave(self) -> None:
        self._parts.router.stopping = True
        self._parts.owner.lock.given()
        self._leaving = asyncio.get_running_loop().create_task(self._leave())

    def hear(self, message: Message) -> None:
        self._hear(message, self.giving, "the proxy that has taken over")

    async def _leave(self) -> None:
        parts = self._parts
        parts.grpc.steer(SECOND)
        await asyncio.gather(
            parts.mysql.leave(),
            parts.http.stop(self._grace),
            parts.grpc.leave(parts.config.takeover_drain, self.giving.released),
        )

    # -- what no stream tells ------------------------------------------------------------------------------------------

    def doubt(self) -> None:
        """What is held may not have been true."""
        self._pass_on(encoded("doubt"))

    def distrust(self, doubt: Doubt) -> None:
        """A cache was found wrong here."""
        message = encoded("distrust", **asdict(doubt))
        if len(message) <= LARGEST:  # a longer query the other finds out about by itself
            self._pass_on(message)

    def _pass_on(self, message: bytes) -> None:
        """Those before and after this one are told, but for who has told it."""
        taking = self._parts.owner.taking
        if self._heard_from is not self.giving:
            self.giving.pass_on(message)
        if taking is not None and self._heard_from is not taking:
            taking.pass_on(message)

    def _hear(self, message: Message, heard_from: object, who: str) -> None:
        self._heard_from = heard_from
        try:
            if message.word == "doubt":
                self._parts.router.written_unlogged(who, cause=f"{who} has told it", schema=True)
            elif (doubt := doubt_of(message.more)) is not None:
                self._parts.catalog.distrusted_by_another(doubt)
        finally:
            self._heard_from = None

    # ------------------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serves: in another proxy's place, if this one takes over. From here on, and once that one listens nowhere any
        more, others can take over from this one. Raises as `take_over`."""
        taking = self._parts.owner.taking
        self._parts.catalog.doubts.on_put = self.distrust
        if taking is not None:
            taking.follow(lambda message: self._hear(message, taking, "the proxy before"))
            await take_over(self._parts, taking)
        self._starting = asyncio.get_running_loop().create_task(self._start(taking))

    async def _start(self, taking: Taking | None) -> None:
        if taking is not None:
            await taking.released.wait()
        self.giving.start()

    async def drain(self, stop: asyncio.Event) -> None:
        """Serves the sessions that there are: until none is left and the one before has ended, too, for
        `takeover-drain`, until the one that has taken over ends, or until `stop` is set. Those in a transaction get the
        grace besides. Requires: it has been handed over."""
        began, sessions = monotonic(), self._parts.mysql.shared.sessions
        end = began + self._parts.config.takeover_drain
        served = len(sessions)
        alone = self.giving.alone
        await self._until(
            lambda: monotonic() > end or alone.is_set() or not (sessions or self._calls or self._follows), stop
        )
        for session in list(sessions):
            if not (session.relay.busy or session.state.transaction.under_way):
                session.relay.close()
        end = monotonic() + self._grace
        await self._until(lambda: monotonic() > end or not sessions, stop)
        log.info("drained", sessions=served, left=len(sessions), seconds=round(monotonic() - began, 2))

    @property
    def _calls(self) -> bool:
        """Whether gRPC's are under way."""
        return self._leaving is not None and not self._leaving.done()

    @property
    def _follows(self) -> bool:
        """Whether the proxy before this one serves sessions still: what the next one tells it comes by here."""
        taking = self._parts.owner.taking
        return taking is not None and not taking.ended

    async def _until(self, over: Callable[[], bool], stop: asyncio.Event) -> None:
        while not (over() or stop.is_set()):
            try:
                await asyncio.wait_for(stop.wait(), LOOKS)
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """Nobody can take over any more; who does waits for the end of this process."""
        tasks = [task for task in (self._starting, self._leaving) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.giving.stop()

    def close(self) -> None:
        """The last thing: whoever takes over goes on alone."""
        self.giving.close()


async def take_over(parts: Parts, taking: Taking) -> None:
    """Returns when this process serves in the other's place. Raises SourceDown where it is not ready for that,
    ConfigError where the other does not answer: then the other goes on."""
    router = parts.router
    try:
        async with asyncio.timeout(READY):
            await parts.restart.restored()
            while router.not_ready():
                await asyncio.sleep(LOOK)
    except TimeoutError:
        raise SourceDown(f"it is not ready to take over: {router.not_ready()}; the proxy before goes on") from None
    position = await taking.ready()
    await _catch_up(parts, position)
    await taking.mine()
    parts.owner.lock.taken()
    parts.owner.writing.go_on()
    parts.grpc.begin()
    parts.mysql.accept()
    await parts.http.accept()
    log.info("taken_over", held=parts.engine.memory.used)


async def _catch_up(parts: Parts, position: str) -> None:
    """Who comes here from the other does not go back in time. `position`: the other's; "": it has shown no more than
    what the source has executed by now."""
    try:
        async with asyncio.timeout(CATCHES_UP):
            wanted = GtidSet.parse(position) if position else await parts.restart.executed()
            while not parts.position.covers(wanted):
                await asyncio.sleep(LOOK)
    except TimeoutError:
        parts.router.gate.frozen()  # hits wait for the stream
