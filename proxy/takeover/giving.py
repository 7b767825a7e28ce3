"""The old proxy's part: it hands over to another process that asks for it, and goes on as before if that fails.

Invariants:
1. It hands over to one process at a time. Who connects and says nothing holds up nobody.
2. Until the other has said `mine` this proxy serves, or can go on to serve. Once it has, this one never does, however
   late it hears of that.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from proxy.loop.readable import readable
from proxy.takeover.channel import Channel, listening
from proxy.takeover.protocol import (
    DOUBT,
    PASSED_ON,
    Hello,
    Malformed,
    Message,
    encoded,
    encoded_position,
    hello_of,
    why_not,
)

log = structlog.get_logger("upwell.takeover")

FIRST = 5.0  # seconds in which who connects must say what it wants
START = 180.0  # seconds that the other may take to start
ANSWER = 30.0  # seconds for its last word
AGAIN = 0.1  # seconds after a connection that could not be accepted
PEERS = 8  # connections at a time


@dataclass(frozen=True, slots=True)
class Given:
    """`files`: open files by what they are for. `more`: what the other must know besides."""

    files: Sequence[tuple[str, int]]
    more: Mapping[str, object]


class Giver(Protocol):
    """The proxy, as far as it is handed over."""

    def hello(self) -> Hello: ...

    def refuses(self) -> str:
        """Why it hands over to nobody, as half a sentence; "" if it does."""
        ...

    async def prepare(self, process: int) -> Given:
        """Writes what the other is to read, and holds its own writing. `go_on` or `leave` follows."""
        ...

    async def pause(self) -> str:
        """Accepts nobody from now on; the position that clients have seen."""
        ...

    def go_on(self) -> None:
        """Nobody has taken over: all is as before."""
        ...

    def leave(self) -> None:
        """The other serves: only what is under way here is still served."""
        ...

    def hear(self, message: Message) -> None:
        """`doubt` or `distrust`, of the one that serves."""
        ...


class Gone(Exception):
    """The other has not taken over, with the reason as half a sentence."""


class Giving:
    """From `start` to `close`."""

    def __init__(self, folder: Path, giver: Giver) -> None:
        self._folder = folder
        self._giver = giver
        self._accepting: asyncio.Task[None] | None = None
        self._peers: set[asyncio.Task[None]] = set()
        self._under_way: Channel | None = None
        self._told = False  # the other has what it starts with
        self._to_tell: list[bytes] = []  # once it has
        self._promised = False  # it may say `mine` at any moment
        self.given_to: Channel | None = None  # the other has taken over
        self.handed_over = asyncio.Event()
        self.alone = asyncio.Event()  # who has taken over has ended, or is not heard any more
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listens in the folder. Where that cannot be, nobody can take over, and the log says so."""
        try:
            sock = listening(self._folder)
        except OSError as error:
            log.warning("no_handover", why=f"nobody can take over from this proxy: {error.strerror or error}")
            return
        self._accepting = asyncio.get_running_loop().create_task(self._accept(sock))

    async def _accept(self, sock: socket.socket) -> None:
        with sock:
            while True:
                await readable(sock)
                try:
                    channel = Channel(sock.accept()[0])
                except OSError:  # it has gone, or no file is left
                    await asyncio.sleep(AGAIN)
                    continue
                if len(self._peers) >= PEERS:
                    channel.close()
                    continue
                task = asyncio.get_running_loop().create_task(self._serve(channel))
                self._peers.add(task)
                task.add_done_callback(self._peers.discard)

    async def _serve(self, channel: Channel) -> None:
        try:
            process, user = channel.peer
            if user != os.getuid():
                channel.tell(encoded("no", why=f"it is of the user {os.getuid()}, and this one of the user {user}"))
                return
            async with asyncio.timeout(FIRST):
                message = await channel.read()
            if message is None:
                return
            asks = hello_of(message)
            why = self._giver.refuses() or why_not(asks, self._giver.hello())
            if not why and self._under_way is not None:
                why = "it hands over to another process already"
            if why:
                channel.tell(encoded("no", why=why))
                return
            await self._hand_over(channel, process)
        except (Malformed, TimeoutError) as error:
            channel.tell(encoded("no", why=f"it has not understood: {str(error) or 'nothing was said'}"))
        finally:
            if channel is not self.given_to and channel is not self._under_way:
                channel.close()

    async def _hand_over(self, channel: Channel, process: int) -> None:
        log.info("handing_over", to=process)
        self._under_way, self._to_tell = channel, []
        try:
            await self._steps(channel, process)
        except (Gone, Malformed) as error:
            if self._promised and await _has_said_mine(channel):
                self._given(channel, process)
                return
            self._end(str(error))
            log.warning("not_handed_over", to=process, why=f"{error}; this proxy goes on")
            self._giver.go_on()
        except Exception:
            self._end("it has a fault")
            self._giver.go_on()
            raise

    async def _steps(self, channel: Channel, process: int) -> None:
        coming = asyncio.ensure_future(channel.read())
        preparing = asyncio.ensure_future(self._giver.prepare(process))
        try:
            await asyncio.wait((coming, preparing), return_when=asyncio.FIRST_COMPLETED)
            if not preparing.done():
                raise Gone("it has gone" if coming.result() is None else "it does not wait for its turn")
            given = preparing.result()
            names, files = [name for name, _ in given.files], [file for _, file in given.files]
            if not channel.tell(encoded("take", files=names, **given.more), files):
                raise Gone("it has gone")
            self._told = True
            for message in self._to_tell:
                channel.tell_again(message)
            _must_be(await _within(coming, START), "ready")
            position = await self._giver.pause()
            self._promised = True
            if not channel.tell(encoded_position(position)):
                raise Gone("it has gone")
            _must_be(await _within(channel.read(), ANSWER), "mine")
        finally:
            for task in (coming, preparing):
                if not task.done():
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
        self._given(channel, process)

    def _given(self, channel: Channel, process: int) -> None:
        self.given_to, self._under_way, self._promised = channel, None, False
        if self._accepting is not None:
            self._accepting.cancel()  # the socket's name is the other's now
        log.info("handed_over", to=process)
        self._giver.leave()
        self._following = asyncio.get_running_loop().create_task(self._follow(channel))
        self.handed_over.set()

    async def _follow(self, channel: Channel) -> None:
        """What the one that serves says of what is held here, until it ends."""
        while (message := await _heard(channel)) is not None:
            if message.word in PASSED_ON:
                self._giver.hear(message)
        self._giver.hear(DOUBT)  # a write of its last moment may be in no binlog
        self.alone.set()

    def _end(self, why: str) -> None:
        channel, self._under_way = self._under_way, None
        self._told = self._promised = False
        if channel is not None:
            channel.tell(encoded("no", why=why))
            channel.close()

    def pass_on(self, message: bytes) -> None:
        """What no stream tells: the other must know, too."""
        channel = self.given_to or self._under_way
        if channel is not None and channel is self._under_way and not self._told:
            self._to_tell.append(message)
        elif channel is not None:
            channel.tell_again(message)

    def released(self) -> None:
        """This process listens nowhere any more."""
        if self.given_to is not None:
            self.given_to.tell(encoded("released"))

    async def stop(self) -> None:
        """This proxy is about to end. Whoever is taking over waits until it has."""
        if self._promised and self._peers:
            await asyncio.wait(self._peers, timeout=ANSWER)
        tasks = [*self._peers, *filter(None, [self._accepting, self._following])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._under_way is not None and not self._promised:
            self._giver.go_on()

    def close(self) -> None:
        """The last thing: the other goes on alone."""
        for channel in (self.given_to, self._under_way):
            if channel is not None:
                channel.tell(encoded("bye"))
                channel.close()
        self.given_to = self._under_way = None


async def _heard(channel: Channel) -> Message | None:
    try:
        return await channel.read()
    except Malformed:
        return None


async def _has_said_mine(channel: Channel) -> bool:
    """Whether the other has said so by now; if not, it cannot any more. Waits for nothing."""
    channel.hear_no_more()
    while (message := await _heard(channel)) is not None:
        if message.word == "mine":
            return True
    return False


async def _within(reading: Awaitable[Message | None], seconds: float) -> Message | None:
    try:
        return await asyncio.wait_for(reading, seconds)
    except TimeoutError:
        raise Gone(f"it has said nothing for {seconds:.0f} s") from None


def _must_be(message: Message | None, word: str) -> None:
    """Raises Gone."""
    if message is None:
        raise Gone("it has ended before it was ready" if word == "ready" else "it has ended")
    if message.word != word:
        raise Gone(f"it has said {message.word!r}")
