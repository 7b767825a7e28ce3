"""The change stream of one Vitess keyspace: a VStream of vtgate, followed until it is closed.

It begins where all shards are now, goes on by itself after a lost connection, and reads all tables of the keyspace, as
a binlog is read: what is wanted may change at any time. `vitess/assemble.py` makes whole transactions of the events.

 what vtgate says                      | what is done
---------------------------------------+-------------------------------------------------------------------------------
 it is not there, or ends the stream   | the stream goes on from the last transaction of each shard, soon, then later
 the binlogs before were purged, or a  | `Gap`: everything becomes a hole, and the stream begins anew where all shards
 tablet does not have our position     | are now
 it does not let us in, or takes a     | at the start an error; later as if it were not there, and `refused` says why
 keyspace, a table or a flag for wrong |
 the same error again and again, and   | as if our position were lost: what stands in its way may be behind it
 nothing else                          |
 nothing for some heartbeats' time     | as if it were not there
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError

from dataflow.messages import Gap, StreamEvent
from gtid_tracker.bracket import NOTHING, History, history_of
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from sqltypes.errors import SourceDown, UpwellError
from sqltypes.schema import Table
from vstream import vitess_pb2 as pb
from vstream.errors import MALFORMED, StreamBroken
from vstream.source import Sink
from vstream.vitess.assemble import VitessAssembler
from vstream.vitess.errors import NO_RIGHT, Verdict, at_the_start, later, not_followed, not_told
from vstream.vitess.positions import request_of, where_shards_are

_log = structlog.get_logger(__name__)

METHOD = "/vtgateservice.Vitess/VStream"
LARGEST_RESPONSE = 16 << 20
"""Bytes: what a vtgate sends at most, as it is set up by default. gRPC makes one piece of it, in one step that takes
0.8 ms a MB. Most have 250 kB; a larger one has a single row."""
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_RESPONSE),
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # We wait between attempts ourselves; gRPC would wait for up to two minutes more.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)
SENDABLE = frozenset(map(chr, range(0x20, 0x7F)))  # what gRPC's metadata takes
NOT_SENT = "; the account was not sent: gRPC takes printable ASCII only in its name and password"
SLICE = 0.001  # seconds of events in one step of the loop
BUSY = 0.002  # seconds between two looks at who is busy
MOST_REFUSALS = 3  # in a row, without anything else, after which our position counts as lost


@dataclass(frozen=True, slots=True)
class Periods:
    """Seconds. `start`: until every shard must have told its position. `heartbeat`: after which vtgate says that it is
    there. `silence`: after which the connection counts as dead. `look`: between two looks at the shards' positions. The
    pauses: between two attempts."""

    start: float = 15.0
    heartbeat: int = 1
    silence: float = 3.0
    look: float = 1.0
    smallest_pause: float = 0.2
    largest_pause: float = 30.0


class VitessStream:
    """All methods are called on the loop's thread.

    Invariants: 1. `position` is what the sink was given; it moves only forward, but for a Gap.
    """

    def __init__(
        self,
        address: str,
        keyspace: str,
        periods: Periods = Periods(),
        account: tuple[str, str] = ("", ""),
        tls: grpc.ChannelCredentials | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`address`: `host:port` of vtgate's gRPC. `account`: user and password, which a vtgate with static accounts
        asks for. `tls`: None for plain text."""
        self.keyspace = keyspace
        self.busy: Callable[[], bool] = lambda: False
        self.reconnects = 0
        self._address, self._periods, self._tls = address, periods, tls
        user, password = account
        sendable = SENDABLE.issuperset(user + password)
        self._account = (("username", user), ("password", password)) if password and sendable else ()
        self._unsent = "" if sendable else NOT_SENT
        self._shards: tuple[str, ...] = ()
        self._clock, self._wall_clock, self._chance = clock, wall_clock, chance
        self._assembler = VitessAssembler(keyspace, MutableGtidSet(), self._give)
        self._assembler.begun = self._on_begun
        self._sink: Sink | None = None
        self._task: asyncio.Task[None] | None = None
        self._call: Any = None
        self._begun: asyncio.Future[None] | None = None
        self._connected = False
        self._received = False  # anything, on this connection
        self._ended = ""  # why we have given up this connection
        self._last = ""  # how the last one ended
        self._refused = ""
        self._refusals = 0
        # What the shards had when this connection was made; None until they have told. Before all that is received,
        # a heartbeat does not say that the position is theirs.
        self._goal: GtidSet | None = NOTHING
        self._moved = ""  # why it cannot go on from where it is: there are other shards, or they lack what has come
        self._missed = ""  # why what was missed is missed, until all shards have told where they are now
        self.drained = 0  # responses; what else has arrived gRPC does not tell
        self._received_at = clock()
        self._current_at = wall_clock()  # when the position was the source's, as far as is known

    @property
    def position(self) -> GtidSet:
        return self._assembler.position.freeze()

    @property
    def history(self) -> History:
        return history_of(self.keyspace) if self._was_begun else ""

    @property
    def shards(self) -> tuple[str, ...]:
        """Those that the keyspace has, as told last."""
        known = [shard for keyspace, shard in self._assembler.positions if keyspace == self.keyspace]
        if self._assembler.complete:  # before, only some have told where they are
            self._shards = tuple(sorted(known))
        return self._shards

    @property
    def wanted(self) -> tuple[str, ...]:
        """The tables whose changes are given, by their qualified names."""
        return self._assembler.wanted

    @property
    def writes(self) -> Mapping[str, int]:
        return self._assembler.writes

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def refused(self) -> str:
        return "" if self._connected else self._refused

    @property
    def unfit(self) -> str:
        return self._assembler.unfit

    @property
    def skew(self) -> float:
        return 0.0

    def want(self, table: Table, columns: frozenset[str]) -> None:
        self._assembler.want(table, columns)

    def unwant(self, qualified: str) -> None:
        self._assembler.unwant(qualified)

    def lag(self) -> float:
        if not self._is_current:
            return max(0.0, self._wall_clock() - self._current_at)
        silence = self._clock() - self._received_at
        return self._assembler.behind + (silence if silence > 2 * self._periods.heartbeat else 0.0)

    def age(self) -> float:
        if not self._is_current:
            return max(0.0, self._wall_clock() - self._current_at)
        return self._assembler.behind + max(0.0, self._clock() - self._received_at)

    @property
    def _is_current(self) -> bool:
        """Whether what is received tells how far behind the position is."""
        if self._goal is not None and self._goal is not NOTHING and self._assembler.position.covers(self._goal):
            self._goal = NOTHING
        return self._connected and self._goal is NOTHING

    def reconnect(self, reason: str) -> None:
        self._end(reason)

    def _end(self, reason: str) -> None:
        """Gives the connection up."""
        self._ended = reason
        if self._call is not None:
            self._call.cancel()

    # -- life ---------------------------------------------------------------------------------------------------------

    async def start(self, sink: Sink, position: GtidSet | None = None) -> GtidSet:
        """Requires: `position` is None, for a GTID set does not tell which shard has what."""
        assert self._task is None and position is None, "started twice, or somewhere"
        self._sink = sink
        loop = asyncio.get_running_loop()
        self._begun = loop.create_future()
        self._task = loop.create_task(self._run(), name="vstream")
        try:
            async with asyncio.timeout(self._periods.start):
                await asyncio.shield(self._begun)
        except TimeoutError:
            await self.close()
            raise not_told(self._address, self.keyspace, self._last) from None
        except BaseException:
            await self.close()
            raise
        return self.position

    async def close(self) -> None:
        self._sink = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        failures = 0
        async with self._channel() as channel:
            # Responses are read by us: a large one takes long, and it may be none.
            streaming = channel.unary_stream(
                METHOD, request_serializer=pb.VStreamRequest.SerializeToString, response_deserializer=bytes
            )
            opened = partial(streaming, metadata=self._account)
            while True:
                began = self._clock()
                try:
                    await self._follow(opened)
                except grpc.aio.AioRpcError as error:
                    self._on_error(error.code(), error.details() or "")
                except StreamBroken as broken:
                    self._begin_anew(str(broken))
                except (*MALFORMED, DecodeError) as error:
                    _log.exception("an event of the stream cannot be read")
                    self._begin_anew(f"an event that cannot be read: {error!r}")
                except Exception as error:  # noqa: BLE001 - the task's top level: logs and goes on
                    _log.exception("a change could not be taken")
                    self._begin_anew(f"a change could not be taken: {error!r}")
                finally:
                    self._lost()
                periods = self._periods
                # What cannot be followed may come again soon, and everything is dropped each time.
                fruitful = self._received and not self._missed
                failures = 1 if fruitful or self._clock() - began > periods.largest_pause else failures + 1
                self.reconnects += 1
                pause = min(periods.smallest_pause * 2.0 ** min(failures - 1, 20), periods.largest_pause)
                await asyncio.sleep(pause * (0.5 + self._chance() / 2))

    def _channel(self) -> grpc.aio.Channel:
        if self._tls is None:
            return grpc.aio.insecure_channel(self._address, OPTIONS)
        return grpc.aio.secure_channel(self._address, self._tls, OPTIONS)

    def _lost(self) -> None:
        if self._is_current:
            self._current_at = self._wall_clock() - self._assembler.behind - (self._clock() - self._received_at)
        if self._call is not None:
            self._call.cancel()  # what is wrong with a stream that is there is known by us only
        self._connected, self._call = False, None
        self._assembler.reset()

    async def _follow(self, opened: Any) -> None:
        """Reads until the connection is lost. Raises AioRpcError, and what the assembler raises."""
        self._ended, self._moved, self._received = "", "", False
        resumed = self._assembler.complete
        self._goal = None if resumed else NOTHING
        call = self._call = opened(request_of(self.keyspace, self._assembler.positions, self._periods.heartbeat))
        looking = asyncio.get_running_loop().create_task(self._look(opened)) if resumed else None
        try:
            await self._read(call)
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.wait((looking,))

    async def _read(self, call: Any) -> None:
        while True:
            silence = self._periods.silence if self._received else max(self._periods.start, self._periods.silence)
            try:
                async with asyncio.timeout(silence):
                    response = await call.read()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                await self._on_cancelled(call)
                return
            except TimeoutError:
                self._interrupted(f"nothing came for {silence:g} s, not even a heartbeat")
                return
            if response is grpc.aio.EOF:  # type: ignore[attr-defined]  # grpc-stubs lack it
                self._interrupted("vtgate has ended the stream")
                return
            self._received_at, self._assembler.received_at = self._clock(), self._wall_clock()
            await self._feed(response)
            self._received = True
            self.drained += 1
            self._look_connected()

    def _look_connected(self) -> None:
        if not self._connected and self._received and self._assembler.complete and self._goal is not None:
            self._connected, self._refused = True, ""
            _log.info("following the stream of vtgate", keyspace=self.keyspace, address=self._address)

    async def _look(self, opened: Any) -> None:
        """Looks whether the followed shards are the serving ones, and what they have executed. During a split or merge
        others serve for a moment, and the stream comes to them within `start` of their telling: no shard tells while
        they are switched. A received transaction may be executed a moment later. A primary that still lacks it at the
        next look has lost it, and vtgate would look for another one for ever."""
        limit = float("inf")
        lacking = NOTHING
        while True:
            try:
                async with asyncio.timeout(self._periods.start):
                    shards, executed = await where_shards_are(opened, self.keyspace)
            except (grpc.aio.AioRpcError, SourceDown, StreamBroken, DecodeError, TimeoutError, *MALFORMED) as error:
                _log.warning("the shards do not tell where they are", reason=str(error)[:500])
            else:
                if shards == self._assembler.positions.keys():
                    lacking, before = self.position.difference(executed), lacking
                    if not lacking:
                        self._goal = executed
                        self._look_connected()
                        return
                    if lost := lacking.intersection(before):
                        self._leave(f"the shards have lost what they had told: {str(lost)[:200]}")
                        return
                elif (now := self._clock()) < limit:
                    limit = min(limit, now + self._periods.start)
                else:
                    names = ", ".join(sorted("/".join(shard) for shard in shards))
                    self._leave(f"other shards serve than were followed: {names}")
                    return
            await asyncio.sleep(self._periods.look)

    def _leave(self, reason: str) -> None:
        """The stream cannot go on from its position: it is to begin anew."""
        self._moved = reason
        self._end(reason)

    async def _feed(self, response: bytes) -> None:
        """In slices. While whoever takes the transactions is busy with a large one, none is read."""
        until = time.perf_counter() + SLICE
        for _ in self._assembler.steps(response):
            while self.busy():
                await asyncio.sleep(BUSY)
            if time.perf_counter() >= until:
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE

    def _on_begun(self) -> None:
        """All shards have told where they are."""
        self._received = True
        self._look_connected()
        if self._missed:
            self._gap(self._missed)
            self._missed = ""
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    @property
    def _was_begun(self) -> bool:
        begun = self._begun
        return begun is not None and begun.done() and not begun.cancelled() and begun.exception() is None

    def _give(self, event: StreamEvent) -> None:
        self._refusals = 0
        if self._sink is not None:
            self._sink(event)

    # -- errors -------------------------------------------------------------------------------------------------------

    def _interrupted(self, reason: str, code: str = "") -> None:
        self._last = f"{code}: {reason}" if code else reason
        _log.warning("the change stream is interrupted", reason=reason[:500], code=code)

    async def _on_cancelled(self, call: Any) -> None:
        """By us, or by vtgate: gRPC's client makes the same of both."""
        if self._moved:
            self._begin_anew(self._moved)
        elif self._ended:
            self._interrupted(self._ended)
        else:
            self._on_error(grpc.StatusCode.CANCELLED, await call.details() or "")

    def _on_error(self, code: grpc.StatusCode, said: str) -> None:
        self._interrupted(said, code.name)
        if not self._was_begun:
            why = f"{said}{self._unsent}" if code in NO_RIGHT else said
            self._fail(at_the_start(code, why, self._address, self.keyspace))
            return
        verdict = later(code, said)
        if verdict in (Verdict.REFUSED, Verdict.WRONG):
            self._refused = said or code.name
        if verdict in (Verdict.WRONG, Verdict.DOUBTFUL):
            self._refusals += 1
        if verdict is Verdict.LOST or self._refusals >= MOST_REFUSALS:
            self._refusals = 0
            self._begin_anew(f"vtgate cannot go on from our position: {said[:300]}")

    def _fail(self, error: UpwellError) -> None:
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(error)

    def _begin_anew(self, reason: str) -> None:
        """Missed changes are lost: nothing that is held is kept current from here on, nor anything filled before the
        stream has begun again."""
        self._last = reason
        self._assembler.forget()
        if not self._was_begun:
            self._fail(not_followed(self._address, self.keyspace, reason))
        elif not self._missed:
            self._missed = reason
            try:
                self._gap(reason)
            except Exception:  # noqa: BLE001 - it is told again when the stream has begun
                _log.exception("lost history could not be taken")

    def _gap(self, reason: str) -> None:
        _log.error("history is lost; everything held is dropped", reason=reason)
        self._give(Gap(reason, self.position))
