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

import grpc
import structlog
from google.protobuf.message import DecodeError

from dataflow.messages import Gap, StreamEvent
from gtid_tracker.bracket import History, history_of
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from sqltypes.errors import UpwellError
from sqltypes.schema import Table
from vstream.errors import MALFORMED, StreamBroken
from vstream.lag import Lag
from vstream.pauses import Pauses
from vstream.source import NEVER, Busy, Resume, ShardAt, Sink
from vstream.vitess.assemble import VitessAssembler
from vstream.vitess.connection import PERIODS, Connection, Lost, Periods
from vstream.vitess.errors import NO_RIGHT, Refusals, at_the_start, not_followed, not_told
from vstream.vitess.vtgate import Vtgate

_log = structlog.get_logger(__name__)


class VitessStream:
    """All methods are called on the loop's thread.

    Invariants: 1. `position` is what the sink was given; it moves only forward, but for a Gap.
    """

    def __init__(
        self,
        address: str,
        keyspace: str,
        periods: Periods = PERIODS,
        account: tuple[str, str] = ("", ""),
        tls: grpc.ChannelCredentials | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`address`, `account`, `tls`: as of `Vtgate`."""
        self.busy = NEVER
        self.pauses = Pauses(periods.smallest_pause, periods.largest_pause, chance)
        self._vtgate = Vtgate(address, keyspace, account, tls)
        self._periods = periods
        self._shards: tuple[str, ...] = ()
        self._assembler = VitessAssembler(keyspace, MutableGtidSet(), self._give, begun=self._on_begun)
        self._sink: Sink | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun: asyncio.Future[None] | None = None
        self._connection: Connection | None = None
        self._lag = Lag(periods.heartbeat, clock, wall_clock)
        self._last = ""  # how the last connection ended
        self._refusals = Refusals()
        self._missed = ""  # why what was missed is missed, until all shards have told where they are now

    @property
    def position(self) -> GtidSet:
        return self._assembler.position.freeze()

    @property
    def history(self) -> History:
        return history_of(self._vtgate.keyspace) if self._was_begun else ""

    @property
    def shards(self) -> tuple[str, ...]:
        """Those that the keyspace has, as told last."""
        known = [shard for keyspace, shard in self._assembler.positions if keyspace == self._vtgate.keyspace]
        if self._assembler.complete:  # before, only some have told where they are
            self._shards = tuple(sorted(known))
        return self._shards

    @property
    def at(self) -> Mapping[str, ShardAt]:
        """By shard, what was given to the sink of it."""
        late, following = self._assembler.late, self._behind is not None
        return {
            shard[1]: ShardAt(position, self._lag.lag(late[shard][0] if following else None), late[shard][1])
            for shard, position in sorted(self._assembler.positions.items())
        }

    @property
    def wanted(self) -> tuple[str, ...]:
        """The tables whose changes are given, by their qualified names."""
        return self._assembler.wanted

    @property
    def writes(self) -> Mapping[str, int]:
        return self._assembler.writes

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.following

    @property
    def refused(self) -> str:
        return "" if self.connected else self._refusals.why

    @property
    def unfit(self) -> str:
        return self._assembler.unfit

    @property
    def skew(self) -> float:
        return 0.0

    @property
    def drained(self) -> int:
        return self._lag.drained  # responses; what else has arrived gRPC does not tell

    def want(self, table: Table, columns: frozenset[str]) -> None:
        self._assembler.want(table, columns)

    def unwant(self, qualified: str) -> None:
        self._assembler.unwant(qualified)

    def lag(self) -> float:
        return self._lag.lag(self._behind)

    def age(self) -> float:
        return self._lag.age(self._behind)

    @property
    def _behind(self) -> float | None:
        return self._connection.behind if self._connection is not None else None

    def reconnect(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.end(Lost(reason))

    # -- life ---------------------------------------------------------------------------------------------------------

    @property
    def followed(self) -> None:
        """A GTID set does not tell which shard has what."""
        return

    taken_up = None

    @property
    def recognised(self) -> bool:
        return self.connected

    async def start(
        self, sink: Sink, position: GtidSet | None = None, busy: Busy = NEVER, resume: Resume | None = None
    ) -> GtidSet:
        """Requires: `position` is None, as `followed` is."""
        assert self._task is None and position is None, "started twice, or somewhere"
        self._sink, self.busy = sink, busy
        loop = asyncio.get_running_loop()
        self._begun = loop.create_future()
        self._task = loop.create_task(self._run(), name="vstream")
        try:
            async with asyncio.timeout(self._periods.start):
                await asyncio.shield(self._begun)
        except TimeoutError:
            await self.close()
            raise not_told(self._vtgate.address, self._vtgate.keyspace, self._last) from None
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
        periods, pauses, clock = self._periods, self.pauses, self._lag.clock
        async with self._vtgate.channel() as channel:
            opened = self._vtgate.opened(channel)
            while True:
                began = clock()
                connection: Connection | None = None
                try:
                    connection = Connection(
                        self._vtgate, opened, self._assembler, periods, self._lag, lambda: self.busy
                    )
                    await self._follow(connection)
                except Lost as lost:
                    self._on_lost(str(lost), lost.code)
                except StreamBroken as broken:
                    self._begin_anew(str(broken))
                except (*MALFORMED, DecodeError) as error:
                    _log.exception("an event of the stream cannot be read")
                    self._begin_anew(f"an event that cannot be read: {error!r}")
                except Exception as error:  # noqa: BLE001 - the task's top level: logs and goes on
                    _log.exception("a change could not be taken")
                    self._begin_anew(f"a change could not be taken: {error!r}")
                # What cannot be followed may come again soon, and everything is dropped each time.
                fruitful = connection is not None and connection.received and not self._missed
                pauses.failures = 1 if fruitful or clock() - began > periods.largest_pause else pauses.failures + 1
                await pauses.wait()

    async def _follow(self, connection: Connection) -> None:
        """Reads until the connection is lost; always raises."""
        self._connection = connection
        try:
            await connection.run()
        finally:
            self._lag.lost(connection.behind)
            if connection.following:
                self._refusals.why = ""
            self._connection = None
            self._assembler.reset()

    def _on_begun(self) -> None:
        """All shards have told where they are."""
        if self._connection is not None:
            self._connection.begun()
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
        self._refusals.count = 0
        if self._sink is not None:
            self._sink(event)

    # -- errors -------------------------------------------------------------------------------------------------------

    def _on_lost(self, reason: str, code: grpc.StatusCode | None) -> None:
        self._last = f"{code.name}: {reason}" if code is not None else reason
        _log.warning(
            "the change stream is interrupted", reason=reason[:500], code=code.name if code is not None else ""
        )
        if code is None:
            return
        if not self._was_begun:
            why = f"{reason}{self._vtgate.unsent}" if code in NO_RIGHT else reason
            self._fail(at_the_start(code, why, self._vtgate.address, self._vtgate.keyspace))
        elif self._refusals.position_is_lost(code, reason):
            self._begin_anew(f"vtgate cannot go on from our position: {reason[:300]}")

    def _fail(self, error: UpwellError) -> None:
        if self._begun is not None and not self._begun.done():
            self._begun.set_exception(error)

    def _begin_anew(self, reason: str) -> None:
        """Missed changes are lost: nothing that is held is kept current from here on, nor anything filled before the
        stream has begun again."""
        self._last = reason
        self._assembler.forget()
        if not self._was_begun:
            self._fail(not_followed(self._vtgate.address, self._vtgate.keyspace, reason))
        elif not self._missed:
            self._missed = reason
            try:
                self._gap(reason)
            except Exception:  # noqa: BLE001 - it is told again when the stream has begun
                _log.exception("lost history could not be taken")

    def _gap(self, reason: str) -> None:
        _log.error("history is lost; everything held is dropped", reason=reason)
        self._give(Gap(reason, self.position))
