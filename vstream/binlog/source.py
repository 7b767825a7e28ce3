"""The change source of a MySQL server: its binlog, read on the event loop.

The login runs in a thread; then the socket belongs to the loop (beside a decoding thread the loop was 5 ms late at the
median). A lost connection is taken up again at the processed position. History that is lost, or an event that is not
understood, becomes a `Gap`, and service goes on.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog

from dataflow.messages import Ddl, Gap, Restarted, StreamEvent
from gtid_tracker.bracket import History
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.errors import ConfigError, SourceError, UpwellError
from sqltypes.schema import Table
from sqltypes.source_checks import Finding, Severity
from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Account, Session, log_in
from vstream.binlog.decode import TableDecoders
from vstream.binlog.definitions import Definitions, told
from vstream.binlog.dump import DumpBroken, DumpLost, DumpReader, never
from vstream.errors import HistoryLost
from vstream.history import ANOTHER, Known, why_lost
from vstream.source import Sink

_log = structlog.get_logger(__name__)

_SMALLEST_PAUSE, _LARGEST_PAUSE = 0.2, 10.0  # seconds before the next connection
_ASKED_AGAIN = 1.0  # seconds
_COUNTED_WHILE_DOWN = 4  # failures, which make it 1.6: where nobody answers, to try again costs nobody anything
NO_RIGHT = frozenset({1044, 1045, 1142, 1227, 3118})  # also: the account is locked
HISTORY_LOST = 1236  # MySQL refuses the dump: purged binlogs, or a position that it does not have


class BinlogSource:
    """One server's change stream. All methods are called on the loop's thread.

    Invariants: 1. `position` is what the sink was given; it moves only forward, but for a Gap.
    """

    def __init__(
        self,
        account: Account,
        heartbeat: float = 1.0,
        server_id: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        ask: Callable[[], Awaitable[GtidSet]] | None = None,
    ) -> None:
        """`heartbeat`: seconds. `server_id`: must be used by no other reader of that server; made up if not given.
        `ask`: what the server owns and has executed now; without it rows are not decoded where the binlog does not name
        columns. Raises UpwellError."""
        self.account = account
        self.history: History = ""  # of the server that answered last
        self.unfit = ""  # why its stream would lack changes; "" while it can be followed
        self.reconnects = 0
        self.logins = 0  # after which the binlog was followed
        # DDL statements that the stream has brought, and of which it is not known that the server has executed them: it
        # writes them to its binlog a moment before.
        self.defining = GtidSet.empty()
        self.resets = 0  # RESET statements that the server had executed at the last login
        self._heartbeat = heartbeat
        self._server_id = server_id or 1 + int(chance() * 0xFFFFFFFE)
        self._clock, self._wall_clock, self._chance = clock, wall_clock, chance
        self._position = MutableGtidSet()
        self._ask = ask
        self._definitions = Definitions()
        self._definitions.on_waiting = self._ask_soon
        self._asking: asyncio.Task[None] | None = None
        tables = TableDecoders(in_steps=True, definitions=self._definitions)
        self._assembler = Assembler(tables, self._position, self._give)
        self._assembler.heard = self._on_heartbeat
        self._sink: Sink | None = None
        self._busy: Callable[[], bool] = never
        self._reader: DumpReader | None = None
        self._task: asyncio.Task[None] | None = None
        self.skew = 0.0
        self._drained = 0  # on earlier connections
        self._idle = False  # the last thing heard was a heartbeat
        self._current_at = wall_clock()  # when the position was the source's, as far as is known
        self._received = False  # anything, on the connection before this one
        self._no_way = ""  # why MySQL does not go on from the position
        self._doubted = ""  # why the login under way is not to be followed
        self._refused = ""  # why MySQL did not give us its binlog the last time
        self._known: Known | None = None  # what the server told of itself at the last login
        self._broken_at: tuple[Gtid | None, int | None] | None = None
        self._told: tuple[Finding, ...] = ()

    @property
    def writes(self) -> Mapping[str, int]:
        """How many statements have changed rows of a table until now, by its qualified name."""
        return self._assembler.tables.writes

    @property
    def position(self) -> GtidSet:
        return self._position.freeze()

    @property
    def refused(self) -> str:
        return "" if self._reader is not None and self._reader.received else self._refused

    @property
    def unsettled(self) -> int:
        """Tables whose rows are not decoded yet: the binlog does not name columns (`vstream/binlog/definitions.py`)."""
        return 0 if self._definitions.named else len(self._definitions.waiting())

    @property
    def connected(self) -> bool:
        return self._reader is not None

    def want(self, table: Table, columns: frozenset[str]) -> None:
        self._assembler.want(table, columns)

    def unwant(self, qualified: str) -> None:
        self._assembler.unwant(qualified)

    @property
    def open_xa(self) -> frozenset[bytes]:
        """Xids of the XA transactions that are prepared, and have not ended as far as the stream tells."""
        return self._assembler.open_xa

    def untold(self, xids: frozenset[bytes], *, over: bool) -> None:
        """They may have ended without an event. `over`: they have."""
        self._assembler.untold(xids, over=over)

    def unseen(self) -> None:
        """One that was prepared before the binlog was followed may have ended without an event."""
        self._give(Ddl(None, "an XA transaction may have ended", None, schema=False))

    def reconnect(self, reason: str) -> None:
        """Logs in anew and looks who answers; for one who doubts that this is the source that is asked elsewhere.
        A login that is under way has looked before the doubt came: another one follows it."""
        if self._reader is not None:
            self._reader.end(reason)
        else:
            self._doubted = reason

    def lag(self) -> float:
        reader = self._reader
        if reader is None or not (self._idle or self._assembler.committed_at):
            return max(0.0, self._wall_clock() - self._current_at)
        silence = self._clock() - reader.received_at
        return self._measured(reader) + (silence if silence > 2 * self._heartbeat else 0.0)

    def age(self) -> float:
        reader = self._reader
        if reader is None or not (self._idle or self._assembler.committed_at):
            return max(0.0, self._wall_clock() - self._current_at)
        return self._measured(reader) + max(0.0, self._clock() - reader.received_at)

    @property
    def drained(self) -> int:
        return self._drained + (self._reader.drained if self._reader is not None else 0)

    @property
    def busy(self) -> Callable[[], bool]:
        return self._busy

    @busy.setter
    def busy(self, busy: Callable[[], bool]) -> None:
        self._busy = busy
        if self._reader is not None:
            self._reader.busy = busy

    def _measured(self, reader: DumpReader) -> float:
        if self._idle:
            return 0.0
        return max(0.0, reader.received_wall + self.skew - self._assembler.committed_at)

    async def start(self, sink: Sink, position: GtidSet | None = None) -> GtidSet:
        assert self._task is None, "started twice"
        session = await self._log_in()
        if session.no_right:
            session.close()
            raise ConfigError(f"this source cannot be followed: {session.no_right}")
        self._tell(session)
        start = session.executed if position is None else position
        self._sink = sink
        self._definitions.note(named=session.names.severity is Severity.OK)
        self._position.update(start)
        self.history, self._known = session.server_uuid, _known(session)
        self._current_at = self._wall_clock()
        self._task = asyncio.get_running_loop().create_task(self._run(session), name="binlog")
        return start

    async def close(self) -> None:
        self._sink = None
        tasks = [task for task in (self._task, self._asking) if task is not None]
        self._task = self._asking = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _give(self, event: StreamEvent) -> None:
        self._idle = False
        if isinstance(event, Ddl) and event.schema and event.gtid is not None:
            self.defining = self.defining.add(event.gtid)
        if self._sink is not None:
            self._sink(event)

    def _on_heartbeat(self) -> None:
        # The server sends one only when there is nothing else to send.
        self._idle = True

    # -- definitions of tables ----------------------------------------------------------------------------------------

    def _ask_soon(self) -> None:
        if self._ask is not None and self._sink is not None and self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask_on(self._ask), name="definitions")

    async def _ask_on(self, ask: Callable[[], Awaitable[GtidSet]]) -> None:
        """Asks the source until all wanted tables are known to be as they were reflected."""
        try:
            while asked := self._definitions.waiting():
                with suppress(UpwellError):
                    told(asked, await ask())
                if not self._definitions.unasked:
                    await asyncio.sleep(_ASKED_AGAIN)
        finally:
            self._asking = None

    # -- connections --------------------------------------------------------------------------------------------------

    async def _log_in(self) -> Session:
        self._doubted = ""
        return await asyncio.get_running_loop().run_in_executor(None, log_in, self.account)

    async def _run(self, session: Session | None) -> None:
        failures = 0
        while True:
            try:
                session = session or await self._log_in()
                self._tell(session)
                self._check_identity(session)
                failures += 1
                await self._follow(session)
            except DumpLost as lost:
                failures += lost.errno in NO_RIGHT
                self._on_dump_lost(lost)
            except HistoryLost as lost:
                assert session is not None
                self._begin_anew(session, str(lost))
            except DumpBroken as broken:
                self._on_broken(broken)
            except ConfigError as error:
                failures += 1
                self._on_unfit(str(error))
            except SourceError as error:
                failures += 1
                self._on_refused(str(error))
            except UpwellError as error:
                failures = min(failures + 1, _COUNTED_WHILE_DOWN)
                _log.warning("the change stream cannot connect", error=str(error), reason=error.reason)
            finally:
                if session is not None:
                    session.close()
                session = None
            if self._received:
                failures, self._received = failures if self._no_way else 1, False
                self._on_refused("")
            self.reconnects += 1
            pause = min(_SMALLEST_PAUSE * 2 ** (failures - 1), _LARGEST_PAUSE)
            await asyncio.sleep(pause * (0.5 + self._chance() / 2))

    async def _follow(self, session: Session) -> None:
        """Reads until the connection is lost; always raises. The last transaction is asked for again: if it is not the
        same one, the source's history is another. Where none was read yet, the source's newest one is, to be compared
        with later."""
        self.logins += 1
        position, last = self.position, self._assembler.last
        again = last[0] if last is not None else session.newest
        if again is not None and again in position:
            position = position.difference(GtidSet.of((again,)))
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, session.request_dump, position, self._server_id, self._heartbeat)
        if self._doubted:
            raise DumpLost(self._doubted)
        reader = DumpReader(session, self._assembler, self._heartbeat, self._clock, self._wall_clock, self._busy)
        self._idle = False
        self._assembler.committed_at = 0.0
        self._assembler.expected = last
        self._assembler.expected_file = b"" if last is not None else self._assembler.file
        self.resets = session.resets
        self._reader = reader
        _log.info("following the binlog", server=session.server_uuid)
        try:
            await reader.run()
        finally:
            self._received = reader.received
            self._drained += reader.drained + 1
            if self._idle or self._assembler.committed_at:
                self._current_at = reader.received_wall - self._measured(reader)
            self._reader = None

    def _check_identity(self, session: Session) -> None:
        """Another server, or one that lost what it had: our history is not its history."""
        known, told = self._known, _known(session)
        reason = why_lost(self.position, self._assembler.last, known, told)
        if self._no_way:
            reason = f"the source does not go on from our position: {self._no_way}"
            session.newest = None  # what comes behind it may be just that
        elif not reason and self.unfit:
            reason = "changes were left out of the stream meanwhile"
        self.unfit = ""
        self.skew = session.skew
        self._assembler.tables.charsets = session.charsets
        self._definitions.note(named=session.names.severity is Severity.OK)
        if reason:
            self._begin_anew(session, reason)
        elif known is not None and known.restarted(told):
            self._give(Restarted(self.position))
        self.history, self._known = session.server_uuid, told

    def _begin_anew(self, session: Session, reason: str) -> None:
        told, self._no_way = bool(self._no_way), ""
        self._position = MutableGtidSet(session.executed)
        self._assembler.begin_anew(self._position)
        self.history, self._known = session.server_uuid, _known(session)
        self._gap(reason, told=told)

    def _on_refused(self, why: str) -> None:
        """MySQL lets us in no more, or gives us no binlog; "" : it does again. Told once."""
        if why and why != self._refused:
            _log.warning("the source refuses its change stream", reason=why)
        self._refused = why

    def _on_dump_lost(self, lost: DumpLost) -> None:
        """Where MySQL does not go on from the position, what comes next has no GTID, or is in no binlog any more:
        nothing held is believed, and what is filled until the next login, which tells where the source is, neither."""
        self._on_refused(str(lost) if lost.errno in NO_RIGHT else "")
        if lost.errno == HISTORY_LOST:
            self._no_way = str(lost)
            self._gap(self._no_way)
        elif not self._refused:
            _log.warning("the change stream is interrupted", reason=str(lost), errno=lost.errno)

    def _on_unfit(self, why: str) -> None:
        """It was fit once, and was started anew with other settings: what it leaves out is never made up for."""
        if why != self.unfit:
            self.unfit = why
            self._gap(why)

    def _tell(self, session: Session) -> None:
        """Logs, once, what keeps this source from being cached well."""
        for finding in session.findings:
            if finding not in self._told:
                _log.warning("source", seen=finding.seen, needed=finding.needed, mend="; ".join(finding.mend))
        self._told = tuple(session.findings)

    def _gap(self, reason: str, *, told: bool = False) -> None:
        """`told`: it is in the log already."""
        self.defining = GtidSet.empty()
        if reason.startswith(ANOTHER):
            _log.warning("another MySQL server answers: cache emptied, refilling", reason=reason)
        elif not told:
            _log.error("history is lost: cache emptied, refilling", reason=reason)
        self._give(Gap(reason, self.position))

    def _on_broken(self, broken: DumpBroken) -> None:
        """Everything is dropped and read again from the position; what breaks a second time is passed over."""
        spot = (broken.gtid, broken.kind)
        if self._broken_at == spot:
            if broken.gtid is not None:
                self._position.add(broken.gtid)
            elif broken.kind is not None:
                self._assembler.tolerated.add(broken.kind)
        self._broken_at = spot
        self._gap(str(broken))


def _known(session: Session) -> Known:
    return Known(session.server_uuid, session.executed, session.purged, session.started, session.settings)
