"""Connections to MySQL that outlive their sessions, for the next logins.

A login costs MySQL a thread, a session, and a handshake where there is TLS; all of it ends with the client.
COM_CHANGE_USER makes a new session on a connection that is there, and a thread need not be. So where a client ends its
session by COM_QUIT, the connection waits a few seconds for the next client. What the session may have that others wait
for ends there and then, by COM_RESET_CONNECTION: its transaction, locks and tables; the rest, variables and names, ends
with the account. Whoever comes, MySQL asks it for its password, and lets it in or not.

A connection's capabilities are those of its first login, and its number is in the greeting, which is sent before the
client says anything. So who is to log in on it must be foreseen: by the capabilities of the last logins from the same
address (`Callers`). Who asks for others than was foreseen gets a connection of its own.

COM_CHANGE_USER runs no init_connect, so `FIT` asks ahead of it whether there is one. And an account that has a limit of
connections would have one less while one waits: its sessions' connections are not kept (`Session`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from proxy.mysql.login_packets import Greeting
from proxy.mysql.packet_stream import Lost, PacketStream
from proxy.mysql.packets import (
    CLIENT_CONNECT_WITH_DB,
    CLIENT_PLUGIN_AUTH,
    CLIENT_QUERY_ATTRIBUTES,
    COM_QUERY,
    COM_QUIT,
    COM_RESET_CONNECTION,
    OK,
    Malformed,
)

SECONDS = 3.0  # that one waits for a client
AGREED = 4
"""Logins in a row that must be alike before the next one is taken to be."""
CALLERS = 1000
"""Addresses whose logins are remembered."""
FIT = b"DO IF(@@GLOBAL.init_connect = '', 0, (SELECT 1 UNION ALL SELECT 2))"
"""One packet tells: an error where it is not."""
_RESET = bytes((COM_RESET_CONNECTION,))
_QUIT = bytes((COM_QUIT,))


class Likeness(NamedTuple):
    """What a connection must have been made with, to be a client's: capabilities in effect with MySQL, and TLS."""

    capabilities: int
    tls: bool


def likeness(capabilities: int, *, tls: bool) -> Likeness:
    """That a database is named at login is no matter of the connection."""
    return Likeness(capabilities & ~CLIENT_CONNECT_WITH_DB, tls)


@dataclass(slots=True, eq=False)
class Kept:
    """A connection whose session has ended. `since`: seconds, of the clock."""

    stream: PacketStream
    greeting: Greeting
    likeness: Likeness
    since: float

    def say(self, *commands: bytes) -> None:
        """Sends commands behind one another, each of which MySQL answers by one packet first. Raises Lost."""
        for command in commands:
            self.stream.sequence = 0
            self.stream.send(command)

    async def agrees(self) -> bool:
        """Whether the next answer is an OK packet."""
        self.stream.sequence = 1
        try:
            return (await self.stream.packet())[:1] == bytes((OK,))
        except (Lost, Malformed):
            return False

    @property
    def fit(self) -> bytes:
        """The command that asks whether a session may begin here: MySQL agrees, or it may not."""
        attributes = b"\0\1" if self.likeness.capabilities & CLIENT_QUERY_ATTRIBUTES else b""
        return bytes((COM_QUERY,)) + attributes + FIT

    def part(self) -> None:
        """Ends the connection."""
        with contextlib.suppress(Lost):
            self.say(_QUIT)
        self.stream.close()


class Callers:
    """By what the last logins from each address were made: what the next one will be."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Hashable, tuple[Likeness, int]] = OrderedDict()

    def note(self, address: Hashable, like: Likeness) -> None:
        before, times = self._seen.pop(address, (like, 0))
        self._seen[address] = (like, min(times + 1, AGREED) if before == like else 1)
        if len(self._seen) > CALLERS:
            self._seen.popitem(last=False)

    def next(self, address: Hashable) -> Likeness | None:
        """None where it cannot be told."""
        like, times = self._seen.get(address, (None, 0))
        return like if times >= AGREED else None

    def forget(self, address: Hashable) -> None:
        """It was not as foreseen."""
        self._seen.pop(address, None)


class KeptConnections:
    """Of one listener. `most`: how many wait at a time, 0: none. `clock`: seconds.

    Invariants:
    1. Nobody waits for anything of a session that one in `_idle` has had, and MySQL has answered all.
    2. `_idle` and `_ending` have `most` connections together at most.
    """

    def __init__(self, most: int, clock: Callable[[], float], seconds: float = SECONDS) -> None:
        self.callers = Callers()
        self._most = most
        self._clock = clock
        self._seconds = seconds
        self._idle: list[Kept] = []  # the one that waits longest first
        self._ending: dict[Kept, asyncio.Task[None]] = {}
        self._parting: set[Kept] = set()  # where MySQL has been told, and the connection is perhaps still open

    def __len__(self) -> int:
        """How many wait for a client."""
        return len(self._idle)

    @property
    def settled(self) -> bool:
        """Whether MySQL has ended all sessions whose clients have left."""
        return not self._ending

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert len(self._idle) + len(self._ending) <= max(self._most, 0)
        assert not set(self._idle) & set(self._ending)

    # -- clients come --------------------------------------------------------------------------------------------------

    def take(self, address: Hashable) -> Kept | None:
        """A connection for a client at this address; None where one must be made. It is the caller's."""
        like = self.callers.next(address)
        if like is None:
            return None
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place].likeness == like:
                kept = self._idle.pop(place)
                if kept.stream.untouched:
                    return kept
                self._part(kept)  # MySQL has ended it
        return None

    # -- clients go ----------------------------------------------------------------------------------------------------

    def has_room(self, like: Likeness) -> bool:
        """Whether a connection of this kind may wait for somebody, in the place of the one that has waited longest if
        they are too many."""
        return bool(like.capabilities & CLIENT_PLUGIN_AUTH) and len(self._ending) < self._most

    def give(self, stream: PacketStream, greeting: Greeting, like: Likeness, *, reset: bool) -> None:
        """The session of a connection is over. `reset`: others may wait for what it has. Requires: `has_room`; MySQL
        has answered all that it was asked."""
        if len(self._idle) + len(self._ending) == self._most:
            self._part(self._idle.pop(0))
        kept = Kept(stream, greeting, like, self._clock())
        if not reset:
            self._idle.append(kept)
            return
        task = asyncio.get_running_loop().create_task(self._end_session(kept))
        self._ending[kept] = task
        task.add_done_callback(lambda _: self._ending.pop(kept, None))

    async def _end_session(self, kept: Kept) -> None:
        try:
            kept.say(_RESET)
            async with asyncio.timeout(self._seconds):
                ended = await kept.agrees()
        except (Lost, TimeoutError):
            ended = False
        except BaseException:
            kept.stream.abort()
            raise
        del self._ending[kept]
        if ended and kept.stream.untouched:
            self._idle.append(kept)
        else:
            self._part(kept)

    # -- nobody comes --------------------------------------------------------------------------------------------------

    def _part(self, kept: Kept) -> None:
        kept.part()
        self._parting.add(kept)

    def tick(self) -> None:
        """To be called now and then: who has waited long enough goes."""
        latest = self._clock() - self._seconds
        for kept in [kept for kept in self._idle if kept.since < latest or not kept.stream.untouched]:
            self._idle.remove(kept)
            self._part(kept)
        self._look_at_parting()

    def _look_at_parting(self) -> bool:
        """Whether some are still open."""
        self._parting = {kept for kept in self._parting if not kept.stream.lost}
        return bool(self._parting)

    def part_with_all(self) -> bool:
        """Ends those that wait. Whether there were any."""
        idle, self._idle = self._idle, []
        for kept in idle:
            self._part(kept)
        return bool(idle)

    def close(self) -> None:
        """Nobody comes any more."""
        self._most = 0
        self.part_with_all()
        for kept, task in self._ending.items():
            task.cancel()
            self._part(kept)

    async def closed(self, seconds: float) -> None:
        """Returns when all are, which have so long to part: TLS takes leave of the other side. Requires: `close`."""
        deadline = self._clock() + seconds
        while self._look_at_parting() and self._clock() < deadline:
            await asyncio.sleep(0.01)
        for kept in self._parting:
            kept.stream.abort()
        while self._look_at_parting():
            await asyncio.sleep(0)
