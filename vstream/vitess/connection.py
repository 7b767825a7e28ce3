"""One VStream call, read until it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError

from gtid_tracker.bracket import NOTHING
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceDown
from vstream.errors import MALFORMED, StreamBroken
from vstream.lag import Lag
from vstream.source import Busy
from vstream.vitess.assemble import VitessAssembler
from vstream.vitess.positions import request_of, where_shards_are
from vstream.vitess.vtgate import Opened, Vtgate

_log = structlog.get_logger(__name__)

SLICE = 0.001  # seconds of events in one step of the loop


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds. `start`: in which every shard must have told where it is; `heartbeat`: after which vtgate says that it
    is there; `silence`: without a word, after which the connection counts as dead; `look`: between two looks at where
    the shards are; the pauses: between two attempts."""

    start: float = 15.0
    heartbeat: int = 1
    silence: float = 3.0
    look: float = 1.0
    smallest_pause: float = 0.2
    largest_pause: float = 30.0


PERIODS = Periods()


class Lost(Exception):
    """The connection is at its end. `code`: vtgate's status; None where it gave none, or we have ended it."""

    def __init__(self, reason: str, code: grpc.StatusCode | None = None) -> None:
        super().__init__(reason)
        self.code = code


class Connection:
    """`received`: anything. `following`: all shards have told where they are, and what they have.

    Invariants: 1. It is `following` only once something was received.
    """

    def __init__(
        self,
        vtgate: Vtgate,
        opened: Opened,
        assembler: VitessAssembler,
        periods: Periods,
        lag: Lag,
        busy: Callable[[], Busy],
    ) -> None:
        self.received = self.following = False
        self._vtgate, self._opened, self._assembler = vtgate, opened, assembler
        self._periods, self._lag, self._busy = periods, lag, busy
        # What the shards had when this connection was made; None until they have told. Before all that is received,
        # a heartbeat does not say that the position is theirs.
        self._goal: GtidSet | None = None if assembler.complete else NOTHING
        self._given_up: Exception | None = None
        self._call = opened(request_of(vtgate.keyspace, assembler.positions, periods.heartbeat))

    def check_invariants(self) -> None:
        assert self.received or not self.following, "nothing was received"

    @property
    def behind(self) -> float | None:
        """Seconds; None while what is received does not tell."""
        if self._goal is not None and self._goal is not NOTHING and self._assembler.position.covers(self._goal):
            self._goal = NOTHING
        return self._assembler.behind if self.following and self._goal is NOTHING else None

    def end(self, error: Exception) -> None:
        """Gives the connection up: `run` raises this, or what it was given up for before."""
        self._given_up = self._given_up or error
        self._call.cancel()

    def begun(self) -> None:
        """All shards have told where they are, and none had before."""
        self.received = True
        self._look_following()

    async def run(self) -> NoReturn:
        """Raises Lost; StreamBroken where the stream is to begin anew; and what the assembler raises."""
        looking = asyncio.get_running_loop().create_task(self._look()) if self._goal is None else None
        try:
            while True:
                response = await self._read()
                self._lag.heard()
                self._assembler.received_at = self._lag.received_wall
                await self._feed(response)
                self.received = True
                self._lag.drained += 1
                self._look_following()
        except grpc.aio.AioRpcError as error:
            raise Lost(error.details() or "", error.code()) from error
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.wait((looking,))
            self._call.cancel()  # what is wrong with a stream that is there is known by us only

    async def _read(self) -> bytes:
        silence = self._periods.silence if self.received else max(self._periods.start, self._periods.silence)
        try:
            async with asyncio.timeout(silence):
                response = await self._call.read()
        except asyncio.CancelledError:  # by us, or by vtgate: gRPC's client makes the same of both
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            if self._given_up is not None:
                raise self._given_up from None
            raise Lost(await self._call.details() or "", grpc.StatusCode.CANCELLED) from None
        except TimeoutError:
            raise Lost(f"nothing came for {silence:g} s, not even a heartbeat") from None
        if response is grpc.aio.EOF:  # type: ignore[attr-defined]  # grpc-stubs lack it
            raise Lost("vtgate has ended the stream")
        return bytes(response)

    async def _feed(self, response: bytes) -> None:
        """In slices. While whoever takes the transactions is busy, none is read."""
        until = time.perf_counter() + SLICE
        for _ in self._assembler.steps(response):
            while (busy := self._busy()).now():
                free = asyncio.Event()
                busy.when_free(free.set)
                await free.wait()
            if time.perf_counter() >= until:
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE

    def _look_following(self) -> None:
        if not self.following and self.received and self._assembler.complete and self._goal is not None:
            self.following = True
            _log.info("following the stream of vtgate", keyspace=self._vtgate.keyspace, address=self._vtgate.address)

    async def _look(self) -> None:
        """Whether the shards that are followed are those that serve, and what they have. While they are split or
        merged there are others for a moment: the stream comes to them. It has `start` for that from when they tell: no
        shard does while they are switched. What has come may be executed a moment later; a primary that still lacks it
        at the next look has lost it, and vtgate would look for another one for ever."""
        limit = float("inf")
        lacking = NOTHING
        while True:
            try:
                async with asyncio.timeout(self._periods.start):
                    shards, executed = await where_shards_are(self._opened, self._vtgate.keyspace)
            except (grpc.aio.AioRpcError, SourceDown, StreamBroken, DecodeError, TimeoutError, *MALFORMED) as error:
                _log.warning("the shards do not tell where they are", reason=str(error)[:500])
            else:
                if shards == self._assembler.positions.keys():
                    lacking, before = self._assembler.position.freeze().difference(executed), lacking
                    if not lacking:
                        self._goal = executed
                        self._look_following()
                        return
                    if lost := lacking.intersection(before):
                        self.end(StreamBroken(f"the shards have lost what they had told: {str(lost)[:200]}", None))
                        return
                elif (now := self._lag.clock()) < limit:
                    limit = min(limit, now + self._periods.start)
                else:
                    names = ", ".join(sorted("/".join(shard) for shard in shards))
                    self.end(StreamBroken(f"other shards serve than were followed: {names}", None))
                    return
            await asyncio.sleep(self._periods.look)
