"""The new proxy's part: it asks the one that owns its state directory to hand over.

What can go wrong, and what follows: the other refuses, or goes on after all, then this one has one sentence to say. The
other ends before it has answered, then this one starts by the ordinary path. It ends later, then this one has its
sockets and its lock, and serves.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import structlog

from proxy.settings.config import Config
from proxy.state_dir.folder import InUse, Lock
from proxy.state_dir.writing import Writing
from proxy.takeover.channel import Channel, connected, network
from proxy.takeover.protocol import DOUBT, LISTENERS, PASSED_ON, Hello, Malformed, Message, encoded, encoded_hello
from sqltypes.errors import ConfigError

log = structlog.get_logger("upwell.takeover")

Answer = TypeVar("Answer")

PREPARES = 180.0  # seconds that the other may take to write its snapshot
YIELDS = 60.0  # seconds that it may take to stop accepting; one that ends finishes what it answers
ENDS = 5.0  # seconds that the lock of a process may outlive its sockets
LOOK = 0.02
STARTS = "this proxy is about to take over from another one: a moment later it can be written"


class Taking:
    """From the message `take` on. `sockets`: by setting, those that listen. `token`, `grpc_port`: of the other's gRPC
    listener. `ended`: the other has; `orderly`: and has said so."""

    def __init__(self, channel: Channel, take: Message) -> None:
        """Raises Malformed."""
        self._channel = channel
        names = take.more.get("files")
        if not isinstance(names, list) or len(names) != len(channel.files) or "lock" not in names:
            raise Malformed("its files are not those that it names")
        files, channel.files = channel.files, []
        self.lock_file = -1
        self.sockets: dict[str, list[socket.socket]] = {name: [] for name in LISTENERS}
        for name, file in zip(names, files, strict=True):
            if name == "lock":
                self.lock_file = file
            elif name in self.sockets:
                self.sockets[name].append(socket.socket(fileno=file))
            else:
                os.close(file)
        token, port = take.more.get("token"), take.more.get("grpc_port")
        self.token = token if isinstance(token, str) else None
        self.grpc_port = port if isinstance(port, int) else 0
        self.ended = self.orderly = False
        self._position: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.released = asyncio.Event()
        self._early: list[Message] = []
        self._why = ""  # the other goes on
        self._serves = False
        self._hear: Callable[[Message], None] = self._early.append
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while True:
            try:
                message = await self._channel.read()
            except Malformed:
                message = None
            if message is None:
                break
            if message.word in PASSED_ON:
                self._hear(message)
            elif message.word == "yours" and not self._position.done():
                self._position.set_result(str(message.more.get("position", "")))
            elif message.word == "released":
                self.released.set()
            elif message.word == "bye":
                self.orderly = True
            elif message.word == "no":
                self._why = str(message.more.get("why", ""))
        self._channel.end()  # so the other knows, if it lives
        self.ended = True
        if not self.orderly:  # a write of its last moment may be in no binlog
            self._hear(DOUBT)
        if not self._position.done():
            self._position.set_result("")
        self.released.set()

    def follow(self, hear: Callable[[Message], None]) -> None:
        """`hear` gets each `doubt` and `distrust`, those that came before, too."""
        self._hear = hear
        for message in self._early:
            hear(message)

    def pass_on(self, message: bytes) -> None:
        """What no stream tells: the other must know, too, while it serves sessions."""
        if self._serves and not self.ended:
            self._channel.tell_again(message)

    async def ready(self) -> str:
        """Says so. The other's position when it had stopped accepting; "": it has ended, or the position is too
        long for a message. Raises ConfigError where it does neither."""
        self._channel.tell(encoded("ready"))
        position = await self._answered(self._position)
        self._look()
        return position

    async def mine(self) -> None:
        """From here on this process serves. Raises ConfigError where the other does, which has waited too long."""
        if not self._channel.tell(encoded("mine")):
            await self._answered(self._reading)  # it has ended, or has said something before
            self._look()
        self._serves = True

    async def _answered(self, what: asyncio.Future[Answer]) -> Answer:
        try:
            return await asyncio.wait_for(asyncio.shield(what), YIELDS)
        except TimeoutError:
            raise ConfigError(f"the proxy that hands over has not answered for {YIELDS:.0f} s") from None

    def _look(self) -> None:
        if self._why:
            raise ConfigError(f"the proxy that hands over goes on, and this one ends: {self._why}")

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        self._channel.close()
        for sock in (sock for some in self.sockets.values() for sock in some):
            sock.close()


@dataclass
class Owner:
    """Whose the state directory is: this process's own, or it will be once it has taken over (`taking`). `source`: the
    upstream's address without its password."""

    source: str
    lock: Lock
    writing: Writing
    taking: Taking | None


@asynccontextmanager
async def owning(config: Config, source: str) -> AsyncIterator[Owner]:
    """From the lock's being taken, or asked for, to its end. Raises ConfigError."""
    lock, taking = await _taken(config, source)
    writing = Writing()
    if taking is not None:
        writing.hold(STARTS)
    try:
        yield Owner(source, lock, writing, taking)
    finally:
        if taking is not None:
            await taking.close()
        lock.close()


async def _taken(config: Config, source: str) -> tuple[Lock, Taking | None]:
    try:
        return Lock.take(config.state_dir, source), None
    except InUse as error:
        in_use = error
    try:
        channel = connected(config.state_dir)
    except OSError:  # an earlier version, another user's, or one that has just ended
        raise in_use from None
    try:
        taking = await _asked(channel, config, source, in_use)
    except BaseException:
        channel.close()
        raise
    if taking is None:
        channel.close()
        return await _once_free(config, source), None
    lock = Lock(taking.lock_file, source)
    lock.is_ours = False  # until it has taken over
    return lock, taking


async def _asked(channel: Channel, config: Config, source: str, in_use: InUse) -> Taking | None:
    """None: the other has ended. Raises ConfigError where it refuses."""
    process, user = channel.peer
    if user != os.getuid():
        raise refused(in_use, f"it is of the user {user}, and this one of the user {os.getuid()}")
    channel.tell(encoded_hello(hello_of(config, source)))
    log.info("taking_over", of=process)
    try:
        async with asyncio.timeout(PREPARES):
            message = await channel.read()
        if message is None or message.word == "bye":
            return None
        if message.word == "take":
            return Taking(channel, message)
        raise refused(in_use, message.text("why"))
    except Malformed as error:
        raise refused(in_use, f"it has not answered as a proxy does: {error}") from None
    except TimeoutError:
        raise refused(in_use, f"it has not answered for {PREPARES:.0f} s") from None


def refused(in_use: InUse, why: str) -> ConfigError:
    return ConfigError(f"{in_use.message}; it does not hand over to this one: {why}")


async def _once_free(config: Config, source: str) -> Lock:
    """A process that ends closes its files one after the other. Raises ConfigError where it does not end."""
    until = monotonic() + ENDS
    while True:
        try:
            return Lock.take(config.state_dir, source)
        except InUse:
            if monotonic() > until:
                raise
        await asyncio.sleep(LOOK)


def hello_of(config: Config, source: str) -> Hello:
    listens = {
        "mysql-listen": config.mysql.listen,
        "grpc-listen": config.grpc_listen,
        "http-listen": config.http_listen,
    }
    at = {name: (listen.host, listen.port) for name, listen in listens.items()}
    return Hello(os.getpid(), source, network(), at)
