"""The change source of a MySQL server: its binlog, read on the event loop.

The login runs in a thread; then the socket belongs to the loop (beside a decoding thread the loop was 5 ms late at the
median). A lost connection is taken up again at the processed position. History that is lost, or an event that is not
understood, becomes a `Gap`, and service goes on.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from dataflow.messages import Ddl, Gap, Restarted, StreamEvent
from gtid_tracker.bracket import History
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from sqltypes.errors import ConfigError, SourceError, UpwellError
from sqltypes.schema import Table
from sqltypes.source_checks import Finding, Severity
from vstream.binlog.asking import Asking
from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Account, Replica, Session
from vstream.binlog.decode import TableDecoders
from vstream.binlog.dump import DumpBroken, DumpLost, DumpReader
from vstream.binlog.open_xa import OpenXa
from vstream.errors import HistoryLost
from vstream.history import ANOTHER, Followed, Known, why_lost
from vstream.lag import Lag
from vstream.pauses import Pauses
from vstream.source import NEVER, Busy, Resume, Sink

_log = structlog.get_logger(__name__)

_SMALLEST_PAUSE, _LARGEST_PAUSE = 0.2, 10.0  # seconds before the next connection
_COUNTED_WHILE_DOWN = 4  # failures, which make it 1.6: where nobody answers, to try again costs nobody anything
NO_RIGHT = frozenset({1044, 1045, 1142, 1227, 3118})  # also: the account is locked
HISTORY_LOST = 1236  # MySQL refuses the dump: purged binlogs, or a position that it does not have


class Refusal:
    """`why`: why MySQL lets us in no more, or gives us no binlog; "" while it does."""

    def __init__(self) -> None:
        self.why = ""

    def tell(self, why: str) -> None:
        """It is so now. Logs that once."""
        if why and why != self.why:
            _log.warning("the source refuses its change stream", reason=why)
        self.why = why


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
        self.history: History = ""  # of the server that answered last
        self.unfit = ""  # why its stream would lack changes; "" while it can be followed
        self.taken_up: Followed | None = None  # from where it went on at the start
        self.pauses = Pauses(_SMALLEST_PAUSE, _LARGEST_PAUSE, chance)
        self.logins = 0  # after which the binlog was followed
        # DDL statements that the stream has brought, and of which it is not known that the server has executed them: it
        # writes them to its binlog a moment before.
        self.defining = GtidSet.empty()
        self.busy = NEVER
        self._replica = Replica(account, server_id or 1 + int(chance() * 0xFFFFFFFE), heartbeat)
        self._lag = Lag(heartbeat, clock, wall_clock)
        self.asking = Asking(ask)
        tables = TableDecoders(in_steps=True, definitions=self.asking.definitions)
        self._assembler = Assembler(tables, MutableGtidSet(), self._give)
        self.xa = OpenXa(self._assembler.prepared, self._give)
        self._sink: Sink | None = None
        self._reader: DumpReader | None = None
        self._task: asyncio.Task[None] | None = None
        self._no_way = ""  # why MySQL does not go on from the position
        self._doubted = ""  # why the login under way is not to be followed
        self._refusal = Refusal()
        self.skew = 0.0
        self._known: Known | None = None  # what the server told of itself at the last login
        self._broken_at: tuple[Gtid | None, int | None] | None = None

    @property
    def resets(self) -> int:
        """RESET statements that the server had executed at the last login."""
        return self._known.resets if self._known is not None else 0

    @property
    def writes(self) -> Mapping[str, int]:
        """How many statements have changed rows of a table until now, by its qualified name."""
        return self._assembler.tables.writes

    @property
    def position(self) -> GtidSet:
        return self._assembler.position.freeze()

    @property
    def refused(self) -> str:
        return "" if self._reader is not None and self._reader.received else self._refusal.why

    @property
    def connected(self) -> bool:
        return self._reader is not None

    @property
    def recognised(self) -> bool:
        reader = self._reader
        return reader is not None and reader.received and self._assembler.resume.expected is None

    def want(self, table: Table, columns: frozenset[str]) -> None:
        self._assembler.want(table, columns)

    def unwant(self, qualified: str) -> None:
        self._assembler.unwant(qualified)

    def reconnect(self, reason: str) -> None:
        """Logs in again and looks which server answers. Called by a part that doubts that this source is the one which
        is asked elsewhere. A login under way may have looked before the doubt came, so another one follows it."""
        if self._reader is not None:
            self._reader.end(reason)
        else:
            self._doubted = reason

    def lag(self) -> float:
        return self._lag.lag(self._behind)

    def age(self) -> float:
        return self._lag.age(self._behind)

    @property
    def drained(self) -> int:
        return self._lag.drained

    @property
    def _behind(self) -> float | None:
        """Seconds; None before the connection has brought anything."""
        committed_at = self._assembler.committed_at
        if self._reader is None or not committed_at:
            return None
        return max(0.0, self._lag.received_wall + self.skew - committed_at)

    @property
    def followed(self) -> Followed | None:
        """Not while something is under way that no later stream will tell of: rows of an XA transaction that is
        prepared, or what is left out."""
        if self._known is None or self.unfit or self._no_way or self.xa.xids:
            return None
        known, tables = replace(self._known, findings=()), self.asking.definitions.known
        return Followed(self.position, self._assembler.resume.last, known, tables)

    async def start(
        self, sink: Sink, position: GtidSet | None = None, busy: Busy = NEVER, resume: Resume | None = None
    ) -> GtidSet:
        assert self._task is None, "started twice"
        session = await self._replica.log_in()
        if session.no_right:
            session.close()
            raise ConfigError(f"this source cannot be followed: {session.no_right}")
        _tell(session.findings, ())
        self._sink, self.busy = sink, busy
        self.asking.start(named=_names_columns(session))
        self.history, self._known, self.skew = session.server_uuid, _known(session), session.skew
        before = await _resumed(session, resume) if resume is not None else None
        self.taken_up = before
        if before is not None:  # as after a lost connection, which `_attempt` looks at
            self._known, self._assembler.resume.last = before.known, before.last
            self.asking.definitions.take_up(before.tables)
            position = before.position
        start = session.executed if position is None else position
        self._assembler.position.update(start)
        self._lag.current()
        self._task = asyncio.get_running_loop().create_task(self._run(session), name="binlog")
        return start

    async def close(self) -> None:
        self._sink = None
        await self.asking.close()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _give(self, event: StreamEvent) -> None:
        if isinstance(event, Ddl) and event.schema and event.gtid is not None:
            self.defining = self.defining.add(event.gtid)
        if self._sink is not None:
            self._sink(event)

    # -- connections --------------------------------------------------------------------------------------------------

    async def _run(self, session: Session | None) -> None:
        pauses = self.pauses
        while True:
            if await self._attempt(session):
                pauses.failures = pauses.failures if self._no_way else 1
                self._refusal.tell("")
            session = None
            await pauses.wait()

    async def _attempt(self, session: Session | None) -> bool:
        """Logs in, unless it was done, and reads until the connection is lost. Whether anything has come."""
        pauses, reader = self.pauses, None
        try:
            if session is None:
                self._doubted = ""
                session = await self._replica.log_in()
            _tell(session.findings, self._known.findings if self._known is not None else ())
            self._check_identity(session)
            pauses.failures += 1
            reader = await self._ask_for_dump(session)
            await self._read(reader)
        except DumpLost as lost:
            pauses.failures += lost.errno in NO_RIGHT
            self._on_dump_lost(lost)
        except HistoryLost as lost:
            assert session is not None
            self._begin_anew(session, str(lost))
        except DumpBroken as broken:
            self._on_broken(broken)
        except ConfigError as error:
            pauses.failures += 1
            if self.unfit != str(error):  # it was fit once: what it leaves out now is never made up for
                self.unfit = str(error)
                self._gap(self.unfit)
        except SourceError as error:
            pauses.failures += 1
            self._refusal.tell(str(error))
        except UpwellError as error:
            pauses.failures = min(pauses.failures + 1, _COUNTED_WHILE_DOWN)
            _log.warning("the change stream cannot connect", error=str(error), reason=error.reason)
        finally:
            if session is not None:
                session.close()
        return reader is not None and reader.received

    async def _read(self, reader: DumpReader) -> None:
        """Always raises."""
        try:
            await reader.run()
        finally:
            self._lag.lost(self._behind)
            self._reader = None

    async def _ask_for_dump(self, session: Session) -> DumpReader:
        """The last transaction is asked for again: if it is not the same one, the source's history is another. Where
        none was read yet, the source's newest one is, to be compared with later."""
        self.logins += 1
        position, assembler = self.position, self._assembler
        again = assembler.resume.last[0] if assembler.resume.last is not None else session.newest
        if again is not None and again in position:
            position = position.difference(GtidSet.of((again,)))
        await self._replica.request_dump(session, position)
        if self._doubted:
            raise DumpLost(self._doubted)
        reader = self._reader = DumpReader(session, assembler, self._lag, self)
        assembler.committed_at = 0.0
        assembler.resume.connect()
        _log.info("following the binlog", server=session.server_uuid)
        return reader

    def _check_identity(self, session: Session) -> None:
        """Another server, or one that lost what it had: our history is not its history."""
        known, told = self._known, _known(session)
        reason = why_lost(self.position, self._assembler.resume.last, known, told)
        if self._no_way:
            reason = f"the source does not go on from our position: {self._no_way}"
            session.newest = None  # what comes behind it may be just that
        elif not reason and self.unfit:
            reason = "changes were left out of the stream meanwhile"
        self.unfit = ""
        self._assembler.tables.charsets = session.charsets
        self.asking.definitions.note(named=_names_columns(session))
        if reason:
            self._begin_anew(session, reason)
        elif known is not None and known.restarted(told):
            self._give(Restarted(self.position))
        self.history, self._known, self.skew = session.server_uuid, told, session.skew

    def _begin_anew(self, session: Session, reason: str) -> None:
        told, self._no_way = bool(self._no_way), ""
        self._assembler.begin_anew(MutableGtidSet(session.executed))
        self.history, self._known, self.skew = session.server_uuid, _known(session), session.skew
        self._gap(reason, told=told)

    def _on_dump_lost(self, lost: DumpLost) -> None:
        """MySQL does not go on from the position. What comes next has no GTID, or is in no binlog any more. So nothing
        held is believed, nor any fill until the next login, which tells where the source is."""
        self._refusal.tell(str(lost) if lost.errno in NO_RIGHT else "")
        if lost.errno == HISTORY_LOST:
            self._no_way = str(lost)
            self._gap(self._no_way)
        elif not self._refusal.why:
            _log.warning("the change stream is interrupted", reason=str(lost), errno=lost.errno)

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
                self._assembler.position.add(broken.gtid)
            elif broken.kind is not None:
                self._assembler.tolerated.add(broken.kind)
        self._broken_at = spot
        self._gap(str(broken))


async def _resumed(session: Session, resume: Resume) -> Followed | None:
    """From where to go on; None: not from where another process has come to. A server that was started anew meanwhile
    may have been written to without a binlog, which nobody was there to see."""
    before = await resume(session.server_uuid)
    if before is None:
        return None
    now = _known(session)
    why = why_lost(before.position, before.last, before.known, now)
    if not why and before.known.restarted(now):
        why = "the source was started anew meanwhile"
    if why:
        _log.warning("what was kept of the last run is dropped", reason=why)
        return None
    return before


def _known(session: Session) -> Known:
    history = session.server_uuid, session.executed, session.purged, session.started, session.settings
    return Known(*history, session.skew, session.resets, session.findings)


def _names_columns(session: Session) -> bool:
    return session.names.severity is Severity.OK


def _tell(findings: Iterable[Finding], before: Sequence[Finding]) -> None:
    """Logs, once, what keeps this source from being cached well."""
    for finding in findings:
        if finding not in before:
            _log.warning("source", seen=finding.seen, needed=finding.needed, mend="; ".join(finding.mend))
