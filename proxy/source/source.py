"""The source that is cached: all that the rest of the proxy needs of it, of whatever kind.

The composition root makes one from the upstream's address (`proxy/source/sources.py`). A kind of source is one class
with these parts, and a line there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from dataflow.fills.shards import Shards
from dataflow.messages import Keyed, UpqueryRequest
from external_upquery.address import Upstream
from external_upquery.executor import Deliver
from external_upquery.mysql.other_session import OtherSession
from external_upquery.passed import Passed
from gtid_tracker.bracket import History
from gtid_tracker.gtid import GtidSet
from planner.text.bare_names import BareNames
from proxy.source.kept_schema import KeptSchema, Schema
from sqltypes.errors import UpwellError
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn
from vstream.history import Followed
from vstream.source import Busy, ChangeSource, Resume, ShardAt, Sink

FindShards = Callable[[Keyed], Awaitable[None] | None]
"""Waits until the source was asked on which shards these rows are, where `shards_of` does not know it yet. None: there
is nothing to wait for."""


class Upqueries(Protocol):
    """Questions to the source, each with a bracket if its answer is to be held. Times are those of the loop's clock.
    Every method raises SourceError, SourceDown, DeadlinePassed, Overloaded."""

    counters: Counter[str]

    @property
    def in_flight(self) -> int:
        """Requests that run at the source now."""
        ...

    @property
    def queued(self) -> int:
        """Requests that wait for a connection."""
        ...

    @property
    def full(self) -> bool:
        """Whether any fill would wait for a connection."""
        ...

    @property
    def held_back(self) -> int:
        """Requests that wait because their table or shard has its part of the connections."""
        ...

    def would_wait(self, shards: Shards, tables: tuple[str, ...]) -> bool:
        """Whether a fill would wait for a connection. `shards`, `tables`: as `UpqueryRequest` has them."""
        ...

    @property
    def connections(self) -> int: ...

    def running_at(self, shard: str) -> int:
        """Requests that run now and wait for this shard, alone or beside others."""
        ...

    @property
    def down(self) -> UpwellError | None:
        """Why the source cannot be reached, None while it can as far as is known."""
        ...

    def submit(self, request: UpqueryRequest, deliver: Deliver, deadline: float | None = None) -> None:
        """Runs a request; `deliver` gets its answer or its error, later, on the loop, unless it is cancelled before."""
        ...

    def cancel(self, request_id: int) -> None:
        """Nobody wants this answer any more: it is not delivered, and the source stops working for it soon."""
        ...

    async def question(self, sql: str) -> list[Row]:
        """The rows of a statement about the source itself, which no database that is selected changes."""
        ...

    async def query(
        self, sql: str, database: str = "", *, deadline: float | None = None, answer_limit: int = ...
    ) -> tuple[tuple[ResultColumn, ...], list[Row]]:
        """One statement that only reads: its columns and rows, none for a statement that gives none. `answer_limit`:
        bytes of rows."""
        ...

    async def read(
        self,
        sql: str,
        database: str = "",
        *,
        deadline: float | None = None,
        after: GtidSet | None = None,
        patience: float = 0.0,
        tables: Sequence[str] = (),
    ) -> Passed:
        """As `query`, with what the source had executed before it. `after`: a set that it first waits for, `patience`
        seconds at most; whether it came shows in `executed`. `tables`: as `UpqueryRequest` has them; none: not
        known."""
        ...

    async def describe(
        self, sql: str, database: str = "", *, deadline: float | None = None, tables: Sequence[str] = ()
    ) -> tuple[tuple[ResultColumn, ...], int]:
        """The columns that a statement would give, with their own collations, and the number of its `?`. It is not
        run. `tables`: as for `read`."""
        ...

    async def executed(self) -> GtidSet:
        """What the source has executed by now."""
        ...

    async def history(self) -> tuple[History, GtidSet, GtidSet, str]:
        """Which server answers, which GTIDs are owned, what is executed by then, and the settings on which rights
        depend (no stream tells of their changes)."""
        ...


class Source(Protocol):
    """`upstream`: its address, for both edges: Upwell's own questions, and the sessions of clients. `session_trackers`:
    whether it tells sessions what their statements leave, as MySQL does."""

    @property
    def shards_of(self) -> Callable[[Keyed], Shards] | None:
        """Which shards have certain rows (`dataflow/fills/shards.py`). None of a source without shards."""
        ...

    @property
    def find_shards(self) -> FindShards | None:
        """None of a source without shards."""
        ...

    @property
    def shards_at(self) -> Mapping[str, ShardAt]:
        """By shard, what the stream has brought of it; none of a source without shards."""
        ...

    @property
    def session_trackers(self) -> bool: ...

    @property
    def kept_schema(self) -> KeptSchema | None:
        """None of a source whose stream does not tell of all changes of tables that nobody has wanted."""
        ...

    @property
    def other_session(self) -> OtherSession | None:
        """Asks under the variables of a client's session; None of a source that cannot be asked so."""
        ...

    @property
    def bare_names(self) -> BareNames | None:
        """Of tables that a session finds which has selected no database; None: it finds none."""
        ...

    @property
    def upstream(self) -> Upstream: ...

    @property
    def stream(self) -> ChangeSource: ...

    @property
    def followed(self) -> Followed | None:
        """As the stream's; None also while something may be open that only this process can see the end of."""
        ...

    async def look_for_open(self) -> None:
        """Looks whether something is."""
        ...

    @property
    def upqueries(self) -> Upqueries: ...

    @property
    def schema(self) -> Schema: ...

    async def start(self, sink: Sink, busy: Busy, resume: Resume | None = None) -> str:
        """Connects, and begins to give changes to the sink, from now on, or from where `resume` says. The source's
        version. Raises SourceDown, SourceError, ConfigError (it cannot be followed, with the reason)."""
        ...

    def tick(self) -> None:
        """To be called now and then while the stream is connected: looks at what a stream of this kind leaves out."""
        ...

    async def stop(self, patience: float) -> None:
        """Ends everything. The source is told to end what it still runs; `patience`: seconds that this may take."""
        ...
