"""Looks whether prepared XA transactions are still there. MySQL 9.7 accepts an XA COMMIT with ONE PHASE of a prepared
one, though it should not, and writes nothing to its binlog.

 whose preparation the stream has told of  | while there is one, about once a second
-------------------------------------------+---------------------------------------------------------------------------
 yes, and MySQL may be asked               | once it is gone, and the stream, which has brought all that was executed
                                           | by then, does not tell how it ended: what it has changed becomes a hole
 yes, but the account may not see it       | at each look at one that is prepared for longer: the same
 no: it was prepared before the stream was | once it is gone: everything becomes a hole
 followed, or its history was lost since   |

The last are looked for after each login of the stream. An account without XA_RECOVER_ADMIN does not see them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Protocol

import structlog

from gtid_tracker.gtid import GtidSet
from proxy.loop.periodic import Periodic
from proxy.source.source import Upqueries
from sqltypes.errors import SourceError, UpwellError

log = structlog.get_logger("upwell.prepared")

EVERY = 1.0  # seconds
RECOVER = "XA RECOVER CONVERT XID"


class OpenXa(Protocol):
    """The XA transactions of which the stream has told (`vstream/binlog/open_xa.py`)."""

    @property
    def xids(self) -> frozenset[bytes]: ...

    def untold(self, xids: frozenset[bytes], *, over: bool) -> None: ...

    def unseen(self) -> None: ...


class XaStream(Protocol):
    """The change stream, reduced to what XA transactions need."""

    @property
    def xa(self) -> OpenXa: ...

    @property
    def position(self) -> GtidSet: ...

    @property
    def logins(self) -> int: ...


async def ask(executor: Upqueries) -> tuple[frozenset[bytes], GtidSet]:
    """Xids of the XA transactions that MySQL has prepared, and what it may have executed by then. Raises as
    `Upqueries.question`."""
    rows = await executor.question(RECOVER)
    _, owned, executed, _ = await executor.history()
    return frozenset(xid_of(int(str(row[0])), int(str(row[1])), str(row[3])) for row in rows), executed.union(owned)


def xid_of(format_id: int, first: int, digits: str) -> bytes:
    """As the binlog spells it (`vstream/binlog/events.py`). `first`: bytes of its global part.
    `digits`: those of both parts, with 0x before."""
    at = 2 + 2 * first
    return f"X'{digits[2:at].lower()}',X'{digits[at:].lower()}',{format_id}".encode()


class PreparedWatch:
    """Invariants:
    1. MySQL is asked only while a prepared transaction is known, and after a login of the stream.
    2. Only what was there at the look before is judged."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[tuple[frozenset[bytes], GtidSet]]],
        stream: XaStream,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`ask`: xids of those that MySQL has, and what it may have executed by then; SourceError: it does not say."""
        self._ask = ask
        self._stream = stream
        self._round = Periodic(self.look, EVERY, clock)
        self._login = 0  # the stream's, after which strangers were looked for
        self._before: frozenset[bytes] = frozenset()  # of which the stream has told, at the look before
        self._gone: frozenset[bytes] = frozenset()  # of them, what MySQL had no more
        self.strangers: frozenset[bytes] = frozenset()  # of which it has not told
        self._left = False  # one of these was gone at the look before
        self._told = False

    def tick(self) -> None:
        """To be called now and then."""
        if not self._stream.xa.xids:
            self._before = self._gone = frozenset()
            if not (self.strangers or self._left) and self._login == self._stream.logins:
                return
        self._round.tick()

    @property
    def knows_of_none(self) -> bool:
        """Whether it has looked since the last login, and no stranger is left."""
        return self._login == self._stream.logins and not (self.strangers or self._left)

    async def look(self) -> None:
        """Asks, and tells the stream which may have ended."""
        opened, login = self._stream.xa.xids, self._stream.logins
        try:
            there, by_then = await self._ask()
        except SourceError as error:
            self._login = login
            self._unseen(opened, error)
            return
        except UpwellError:  # out of reach: the stream finds out itself
            return
        current = by_then.issubset(self._stream.position)
        self._look_at_strangers(there, login, current=current)
        gone = self._stream.xa.xids & opened & self._before - there
        over = gone & self._gone  # twice: one that is committed just now is gone before it is executed
        if over and current:
            log.warning("xa_ended_unseen", xids=[xid.decode() for xid in sorted(over)])
            self._stream.xa.untold(over, over=True)
        self._before, self._gone = opened, gone

    def _look_at_strangers(self, there: frozenset[bytes], login: int, *, current: bool) -> None:
        """`current`: the stream has told of all that was prepared by then."""
        left = self.strangers - there
        if left or self._left:  # and once more at the next look: it may be executed in between
            log.warning("xa_ended_unseen", xids=[xid.decode() for xid in sorted(left)])
            self._stream.xa.unseen()
        self._left = bool(left)
        self.strangers -= left
        if current and login != self._login:
            self.strangers, self._login = there - self._stream.xa.xids, login

    def _unseen(self, opened: frozenset[bytes], error: SourceError) -> None:
        waiting = self._stream.xa.xids & opened & self._before
        if waiting:
            if not self._told:
                self._told = True
                log.warning("prepared_xa_not_seen", why=error.message, mend="GRANT XA_RECOVER_ADMIN to the account")
            self._stream.xa.untold(waiting, over=False)
        self._before = opened

    async def close(self) -> None:
        await self._round.close()
