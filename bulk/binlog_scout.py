"""Finds where the batches of a change stream end: at most so many transactions and bytes behind where they begin.

It follows the binlog on Spark's driver, decodes no value, and keeps its connection from batch to batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pymysql

from bulk.account import account_of
from bulk.binlog_follow import PATIENCE, PAUSE, Follower, Stopped, check_history, pause
from bulk.binlog_position import Position
from external_upquery.address import Upstream
from external_upquery.login import CUT_OFF, connect
from gtid_tracker.gtid import CachedParser, GtidSet
from sqltypes.errors import SourceDown, SourceError
from sqltypes.schema import Table
from vstream.binlog.dump import DumpLost

IDLE = 0.1  # seconds that are waited for a change before there is said to be none
AWAY = frozenset({1040, 1053})  # too many connections; it is being shut down
LOOK = 1.0  # seconds after which it is asked why nothing comes

Executed = tuple[GtidSet, GtidSet]  # gtid_executed, gtid_purged


class Scout:
    """All methods are called on one thread."""

    def __init__(
        self,
        upstream: Upstream,
        tables: Sequence[Table],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = pause,
    ) -> None:
        self._upstream = upstream
        self._tables = tables
        self._clock, self._pause = clock, pause
        self._follower: Follower | None = None
        self._stopped: tuple[Position, Stopped] | None = None
        self._asking: pymysql.connections.Connection | None = None
        self._executed, self._purged = CachedParser(), CachedParser()

    def latest(self, start: Position, transactions: int | None, size: int | None, target: GtidSet | None) -> Position:
        """The end of the batch that begins at `start`: `start` itself if there is nothing new.

        The batch contains all that was committed before the call, unless it reaches a limit first: `transactions`, or
        `size` in bytes of the binlog. It ends with the transaction that reaches the limit. `target`: the set that it
        must contain; None: all that is committed now.
        """
        if self._stopped is not None and self._stopped[0] == start:
            raise self._stopped[1]
        failing_since: float | None = None
        reached = start
        while True:
            try:
                follower = self._at(reached)
                failing_since = None
                end = self._advance(follower, start, transactions, size, target)
                return start if end.gtids == start.gtids else end
            except Stopped as stopped:
                before = self._lose()
                if before is None or before.gtids == start.gtids:
                    raise
                self._stopped = before, stopped
                return before
            except (DumpLost, SourceDown, SourceError) as error:
                if isinstance(error, SourceError) and error.errno not in AWAY:
                    raise
                reached = self._lose() or reached
                failing_since = failing_since if failing_since is not None else self._clock()
                if self._clock() - failing_since > PATIENCE:
                    raise Stopped(f"the server has been away for {PATIENCE:g} s: {error}") from None
                self._pause(PAUSE)

    def _advance(
        self, follower: Follower, start: Position, transactions: int | None, size: int | None, target: GtidSet | None
    ) -> Position:
        before = follower.bytes
        if target is None:
            follower.step(IDLE)
            target = self.executed()[0]
        quiet_since = self._clock()
        while not follower.reached.covers(target):
            if transactions is not None and follower.transactions - start.transactions >= transactions:
                break
            if size is not None and follower.bytes - before >= size:
                break
            if follower.step(LOOK):
                continue
            if self._clock() - quiet_since >= LOOK:  # it may wait for what is in no binlog
                quiet_since = self._clock()
                check_history(follower.position, *self.executed())
        return follower.position

    def _at(self, position: Position) -> Follower:
        follower = self._follower
        if follower is None or follower.position.gtids != position.gtids:
            self._lose()
            follower = self._follower = Follower(account_of(self._upstream), position, self._tables)
        return follower

    def _lose(self) -> Position | None:
        """Gives the connection up. How far it came."""
        follower, self._follower = self._follower, None
        if follower is None:
            return None
        follower.close()
        return follower.position

    def executed(self) -> Executed:
        """What the server has executed, and the part of it that no binlog has any more. Raises SourceDown."""
        for last in (False, True):
            try:
                if self._asking is None:
                    self._asking = connect(self._upstream)
                with self._asking.cursor() as cursor:
                    cursor.execute("SELECT @@global.gtid_executed, @@global.gtid_purged")
                    row = cursor.fetchone()
                assert row is not None
                return self._executed.parse(str(row[0])), self._purged.parse(str(row[1]))
            except (pymysql.err.MySQLError, *CUT_OFF) as error:
                asking, self._asking = self._asking, None
                if asking is not None:
                    asking._force_close()  # type: ignore[attr-defined]  # a QUIT may have no connection to go by
                if last:
                    raise SourceDown(f"the source cannot be reached: {error}") from error
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._lose()
        if self._asking is not None:
            self._asking._force_close()  # type: ignore[attr-defined]  # likewise
            self._asking = None
