"""The interface between a change stream and its consumer; one implementation for each kind of source.

A source delivers whole transactions, one at a time, by calling its sink synchronously on the event loop's thread. It
resumes by itself after a lost connection, at the last transaction that it gave to the sink, and never gives one twice.
It skips nothing that it does not understand: it says `Ddl` (the tables concerned become holes) or `Gap` (everything
does).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dataflow.messages import StreamEvent
from gtid_tracker.bracket import History
from gtid_tracker.gtid import GtidSet
from sqltypes.schema import Table
from vstream.history import Followed

Sink = Callable[[StreamEvent], None]
Resume = Callable[[History], Awaitable[Followed | None]]
"""How far the stream of this history had come when it was last followed; None: it begins where the source is now."""


@dataclass(frozen=True, slots=True)
class ShardAt:
    """Where the stream of one shard is. `position`: as its source spells it. `lag`: seconds, as `ChangeSource.lag`; a
    shard that has had no transaction lately is not known to be late. `last_at`: when its last transaction was
    received, in seconds since 1970; 0: none was."""

    position: str
    lag: float
    last_at: float


def never() -> bool:
    return False


def at_no_time(call: Callable[[], None]) -> None:
    """Of who is never busy."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Whether the sink still works on the last message, or takes none yet; meanwhile nothing else is decoded. (A
    message about lost history does not wait.) `now`: says so. `when_free`: calls what it is given once, as soon as that
    is over. Requires: it is busy now."""

    now: Callable[[], bool] = never
    when_free: Callable[[Callable[[], None]], None] = at_no_time


NEVER = Busy()


class ChangeSource(Protocol):
    """A stream of changes in commit order."""

    @property
    def position(self) -> GtidSet:
        """All that was given to the sink, the start position included."""
        ...

    @property
    def history(self) -> History:
        """Whose changes these are; "" before the source was reached."""
        ...

    @property
    def followed(self) -> Followed | None:
        """From where another process can go on; None: it cannot."""
        ...

    @property
    def taken_up(self) -> Followed | None:
        """From where it went on at its start; None: from where the source was."""
        ...

    @property
    def connected(self) -> bool:
        """True while transactions or heartbeats arrive."""
        ...

    @property
    def recognised(self) -> bool:
        """Whether what comes is known to go on from the position: the last transaction has come again, as it was."""
        ...

    @property
    def refused(self) -> str:
        """Why the source does not let its changes be read (a right that was revoked); "" while it does."""
        ...

    @property
    def unfit(self) -> str:
        """Why the stream lacks changes of the source, so that nothing held may be served; "" while it lacks none."""
        ...

    async def start(
        self, sink: Sink, position: GtidSet | None = None, busy: Busy = NEVER, resume: Resume | None = None
    ) -> GtidSet:
        """Connects and begins to deliver all transactions that are not in `position` (None: the source's position now,
        or where `resume` says, if the source's history is still that one). Returns the start.

        Raises SourceDown, SourceError (wrong credentials, a privilege that is missing) or ConfigError (a source that
        cannot be followed, with the reason) if the first connection fails; later ones are retried without end.
        """
        ...

    def want(self, table: Table, columns: frozenset[str]) -> None:
        """From now on changes of the table are delivered, with these columns decoded; replaces what was wanted of it.

        Takes effect with the next transaction. If one is half received and concerns the table, a `Ddl` replaces it.
        """
        ...

    def unwant(self, qualified: str) -> None:
        """The table (`schema.name`) is of no interest any more; not an error if it never was."""
        ...

    def lag(self) -> float:
        """How far the position is behind the source, in seconds, as measured last; grows while disconnected."""
        ...

    def age(self) -> float:
        """For how many seconds the position may have lacked something: an upper bound, as far as the clocks agree.
        `lag` takes a short silence for rest; this does not."""
        ...

    @property
    def drained(self) -> int:
        """Another number whenever all has been taken that had arrived."""
        ...

    @property
    def skew(self) -> float:
        """Seconds by which the source's clock is ahead of ours, as measured at the last login."""
        ...

    @property
    def writes(self) -> Mapping[str, int]:
        """How many statements have changed rows of a table until now, by its qualified name."""
        ...

    def reconnect(self, reason: str) -> None:
        """Connects again and looks whose history answers: for a caller that doubts that it is still the same."""
        ...

    async def close(self) -> None:
        """Ends the stream; the sink is not called any more."""
        ...
