"""The change stream of one Vitess keyspace: a VStream of vtgate, followed until it is closed.

It begins where all shards are now, goes on by itself after a lost connection, and reads all tables of the keyspace, as
a binlog is read: what is wanted may change at any time. `vitess_assemble.py` makes whole transactions of the events.

 what vtgate says                      | what is done
---------------------------------------+-------------------------------------------------------------------------------
 it is not there, or ends the stream   | the stream goes on from the last transaction of each shard, soon, then later
 the binlogs before were purged, or a  | `Gap`: everything becomes a hole, and the stream begins anew where all shards
 tablet does not have our position     | are now
 it does not let us in, or takes a     | at the start an error; later as if it were not there, and `refused` says why
 keyspace, a table or a flag for wrong |
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc
import structlog

from dataflow.messages import Gap, StreamEvent
from gtid_tracker.bracket import History, history_of
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from sqltypes.errors import ConfigError, SourceDown, SourceError
from sqltypes.schema import Table
from vstream import vitess_pb2 as pb
from vstream.broken import MALFORMED, StreamBroken
from vstream.source import Sink
from vstream.vitess_assemble import VitessAssembler

_log = structlog.get_logger(__name__)

METHOD = "/vtgateservice.Vitess/VStream"
CURRENT = "current"
ALL_TABLES = "/.*/"
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)
START = 15.0  # seconds in which every shard must have told where it is
SILENCE = 3  # heartbeat periods without a word, after which the connection counts as dead
SLICE = 0.001  # seconds of events in one step of the loop
BETWEEN_LOOKS = 8  # events, at the clock
SMALLEST_PAUSE, LARGEST_PAUSE = 0.2, 30.0  # seconds between two attempts
BUSY = 0.002  # seconds between two looks at who is busy
LOST = ("purged", "GTIDSet Mismatch", "position ahead", "1236", "1789")
"""What vtgate's message has where the history is not there any more."""
WRONG = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED}
    | {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED}
)


class VitessStream:
    """All methods are called on the loop's thread.

    Invariants: 1. `position` is what the sink was given; it moves only forward, but for a Gap.
    """

    def __init__(
        self,
        address: str,
        keyspace: str,
        account: tuple[str, str] = ("", ""),
        tls: grpc.ChannelCredentials | None = None,
        heartbeat: int = 1,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`address`: `host:port` of vtgate's gRPC. `account`: user and password, which a vtgate with static accounts
        asks for. `tls`: None for plain text. `heartbeat`: seconds."""
        self.keyspace = keyspace
        self.busy: Callable[[], bool] = lambda: False
        self.unfit = ""
        self.reconnects = 0
        self._address, self._heartbeat, self._tls = address, heartbeat, tls
        user, password = account
        self._account = (("username", user), ("password", password)) if password else ()
        self._shards: tuple[str, ...] = ()
        self._clock, self._wall_clock, self._chance = clock, wall_clock, chance
        self._position = MutableGtidSet()
        self._assembler = self._anew()
        self._sink: Sink | None = None
        self._task: asyncio.Task[None] | None = None
        self._call: Any = None
        self._begun: asyncio.Future[None] | None = None
        self._connected = False
        self._refused = ""
        self._missed = ""  # why what was missed is missed, until all shards have told where they are now
        self._idle = False  # the last thing heard was a heartbeat
        self._received_at = clock()
        self._current_at = wall_clock()  # when the position was the source's, as far as is known

    def _anew(self) -> VitessAssembler:
        made = VitessAssembler(self.keyspace, self._position, self._give)
        made.heard = self._on_heartbeat
        return made

    @property
    def position(self) -> GtidSet:
        return self._position.freeze()

    @property
    def history(self) -> History:
        return history_of(self.keyspace) if self._was_begun else ""

    @property
    def shards(self) -> tuple[str, ...]:
        """Those that the keyspace has, as told last."""
        known = [shard for keyspace, shard in self._assembler.positions if keyspace == self.keyspace]
        if known:
            self._shards = tuple(sorted(known))
        return self._shards

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
    def skew(self) -> float:
        return 0.0

    def want(self, table: Table, columns: frozenset[str]) -> None:
        self._assembler.want(table, columns)

    def unwant(self, qualified: str) -> None:
        self._assembler.unwant(qualified)

    def lag(self) -> float:
        if not self._connected:
            return max(0.0, self._wall_clock() - self._current_at)
        silence = self._clock() - self._received_at
        return self._measured() + (silence if silence > 2 * self._heartbeat else 0.0)

    def age(self) -> float:
        if not self._connected:
            return max(0.0, self._wall_clock() - self._current_at)
        return self._measured() + max(0.0, self._clock() - self._received_at)

    def _measured(self) -> float:
        """A heartbeat comes only where no shard has anything else."""
        committed = self._assembler.committed_at
        return 0.0 if self._idle or not committed else max(0.0, self._wall_clock() - committed)

    def reconnect(self, reason: str) -> None:
        _log.warning("the change stream is begun anew", reason=reason)
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
            async with asyncio.timeout(START):
                await asyncio.shield(self._begun)
        except TimeoutError:
            await self.close()
            raise SourceDown(f"vtgate at {self._address} does not tell where keyspace {self.keyspace!r} is") from None
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
            opened = channel.unary_stream(
                METHOD,
                request_serializer=pb.VStreamRequest.SerializeToString,
                response_deserializer=pb.VStreamResponse.FromString,
            )
            while True:
                try:
                    await self._follow(opened)
                except grpc.aio.AioRpcError as error:
                    self._on_error(error)
                except StreamBroken as broken:
                    self._begin_anew(str(broken))
                except MALFORMED as error:
                    _log.exception("an event of the stream cannot be read")
                    self._begin_anew(f"an event that cannot be read: {error!r}")
                finally:
                    self._lost()
                failures = 1 if self._connected_once() else failures + 1
                self.reconnects += 1
                pause = min(SMALLEST_PAUSE * 2 ** (failures - 1), LARGEST_PAUSE)
                await asyncio.sleep(pause * (0.5 + self._chance() / 2))

    def _channel(self) -> grpc.aio.Channel:
        if self._tls is None:
            return grpc.aio.insecure_channel(self._address, OPTIONS)
        return grpc.aio.secure_channel(self._address, self._tls, OPTIONS)

    def _connected_once(self) -> bool:
        """Whether the last connection has brought anything."""
        return self._clock() - self._received_at < 2 * SILENCE * self._heartbeat

    def _lost(self) -> None:
        if self._connected:
            self._current_at = self._wall_clock() - self._measured() - (self._clock() - self._received_at)
        self._connected, self._call = False, None
        self._assembler.reset()

    def _request(self) -> pb.VStreamRequest:
        known = self._assembler.positions
        gtids = [pb.ShardGtid(keyspace=keyspace, shard=shard, gtid=gtid) for (keyspace, shard), gtid in known.items()]
        return pb.VStreamRequest(
            tablet_type=pb.PRIMARY,
            vgtid=pb.VGtid(shard_gtids=gtids or [pb.ShardGtid(keyspace=self.keyspace, gtid=CURRENT)]),
            filter=pb.Filter(rules=[pb.Rule(match=ALL_TABLES)]),
            flags=pb.VStreamFlags(
                heartbeat_interval=self._heartbeat,
                include_reshard_journal_events=True,
                exclude_keyspace_from_table_name=True,
            ),
        )

    async def _follow(self, opened: Any) -> None:
        """Reads until the connection is lost. Raises AioRpcError, and what the assembler raises."""
        call = self._call = opened(self._request(), metadata=self._account)
        self._idle = False
        while True:
            try:
                async with asyncio.timeout(max(START, SILENCE * self._heartbeat)):
                    response = await call.read()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                return  # the call was cancelled, for a reason that is logged
            except TimeoutError:
                _log.warning("the change stream is interrupted", reason="nothing comes, not even a heartbeat")
                call.cancel()
                return
            if response is grpc.aio.EOF:  # type: ignore[attr-defined]  # grpc-stubs lack it
                _log.warning("the change stream is interrupted", reason="vtgate has ended it")
                return
            self._received_at = self._clock()
            await self._feed(response)
            self._on_begun(response)

    async def _feed(self, response: pb.VStreamResponse) -> None:
        """In slices. While whoever takes the transactions is busy with a large one, none is read."""
        until = time.perf_counter() + SLICE
        for number, event in enumerate(response.events):
            while self.busy():
                await asyncio.sleep(BUSY)
            if number % BETWEEN_LOOKS == 0 and time.perf_counter() >= until:
                await asyncio.sleep(0)
                until = time.perf_counter() + SLICE
            self._assembler.feed(event)

    def _on_begun(self, response: pb.VStreamResponse) -> None:
        """Every shard is named in each position, and all have told once none is at `current`."""
        if self._connected:
            return
        told = [event.vgtid for event in response.events if event.type == pb.VGTID]
        if (told and all(one.gtid != CURRENT for one in told[-1].shard_gtids)) or (self._idle and self._was_begun):
            self._connected, self._refused = True, ""
            _log.info("following the stream of vtgate", keyspace=self.keyspace, address=self._address)
            if self._missed:
                self._gap(self._missed)
                self._missed = ""
            if self._begun is not None and not self._begun.done():
                self._begun.set_result(None)

    @property
    def _was_begun(self) -> bool:
        return self._begun is not None and self._begun.done()

    def _on_heartbeat(self) -> None:
        self._idle = True

    def _give(self, event: StreamEvent) -> None:
        self._idle = False
        if self._sink is not None:
            self._sink(event)

    # -- errors -------------------------------------------------------------------------------------------------------

    def _on_error(self, error: grpc.aio.AioRpcError) -> None:
        code, said = error.code(), error.details() or ""
        if code is grpc.StatusCode.CANCELLED and self._was_begun:
            return  # by ourselves
        if not self._was_begun:
            assert self._begun is not None
            self._begun.set_exception(self._at_the_start(code, said))
            return
        if any(word in said for word in LOST):
            self._begin_anew(f"vtgate cannot go on from our position: {said[:300]}")
        elif code in WRONG:
            self._refused = said
        _log.warning("the change stream is interrupted", reason=said[:500], code=code.name)

    def _at_the_start(self, code: grpc.StatusCode, said: str) -> Exception:
        if code is grpc.StatusCode.UNAVAILABLE:
            return SourceDown(f"vtgate's gRPC is not at {self._address}: {said[:300]}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return ConfigError(f"at {self._address} is no vtgate: expected the port of its --grpc-port")
        if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
            return SourceError(1045, "28000", f"vtgate does not let its changes be read: {said[:300]}")
        return ConfigError(f"vtgate gives no stream of keyspace {self.keyspace!r}: {said[:300]}")

    def _begin_anew(self, reason: str) -> None:
        """What was missed is missed: nothing that is held is kept current from here on, and what is filled before the
        stream has begun again is not, either."""
        self._assembler.forget()
        self._missed = reason
        self._gap(reason)

    def _gap(self, reason: str) -> None:
        _log.error("history is lost; everything held is dropped", reason=reason)
        self._give(Gap(reason, self.position))
