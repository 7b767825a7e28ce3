"""What the listener for MySQL's protocol asks of the system behind it beyond the others (`proxy/port/api.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from external_upquery.mysql.other_session import Settings
from gtid_tracker.gtid import GtidSet
from proxy.port.accounts import Accounts
from proxy.port.api import (
    DEFAULT_WAIT,
    Answer,
    Cache,
    Caches,
    Demand,
    Demands,
    ListLookup,
    Lookup,
    ParameterValue,
    Served,
    System,
)
from proxy.port.as_told import AsTold
from proxy.port.changes import Changes
from proxy.port.moments import Moments
from proxy.port.reasons import Why
from sqltypes.errors import Fault
from sqltypes.expression import Key
from sqltypes.schema import ResultColumn


class SessionCache(Cache, Protocol):
    """What the listener for MySQL's protocol asks of a cache beyond the others."""

    @property
    def name(self) -> str: ...

    @property
    def plain_int(self) -> bool:
        """Whether one integer is its parameter, and its key too."""
        ...

    @property
    def generation(self) -> int:
        """Another number after each change of the cache's plan."""
        ...

    @property
    def moments(self) -> Moments:
        """What it tells of reads by a moment."""
        ...

    def encode_as(self, columns: tuple[ResultColumn, ...], forms: object) -> Why:
        """MySQL announces the answers of this query, in this format, with these columns: rows are encoded for them from
        now on. `forms`: by which equal encodings are told. Why they cannot be, "" if they can."""
        ...

    @property
    def relations(self) -> frozenset[tuple[str, str]]:
        """(schema, name) of the tables and views that the query names, those inside of views among them."""
        ...

    def peek(self, parameters: Sequence[ParameterValue]) -> bytes | None:
        """As `hit`, without being one: nothing is counted, and the key is not kept for it. Raises nothing."""
        ...

    def peek_since(self, parameters: Sequence[ParameterValue], sequence: int) -> bytes | None:
        """As `peek`, where the answer is the same now as it was at that number of `Position.sequence`. None where
        that is not known."""
        ...

    def count_hit(self, parameters: Sequence[ParameterValue]) -> None:
        """An answer of `peek_since`, or one that was a hit before, was given."""
        ...

    def count(self, served: Served) -> None:
        """An answer of `fill` was given to the client."""
        ...

    def recount(self, served: Served | None) -> None:
        """The answer of `hit` in this step of the loop was a miss, or (None) was not given to the client."""
        ...

    @property
    def told(self) -> ToldHits:
        """Takes hits as sessions were told them, to be compared."""
        ...

    async def fill(
        self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = "", *, wait: bool = True
    ) -> Answer | Why:
        """As `read`, but where MySQL is to answer, the reason is all that is given: the caller asks it. `text`: the
        client's own, with its values; "": the cache's with these. `wait` False, with a demand: not for a connection of
        the fills, where all are taken."""
        ...

    @property
    def tells(self) -> tuple[int, ...]:
        """The numbers of the parameters that may tell how MySQL announces columns (`planner/tree/announced_by.py`)."""
        ...

    @property
    def counts(self) -> bool:
        """Whether the query has SQL_CALC_FOUND_ROWS: an answer is given only where `found` is known."""
        ...

    def found(self, parameters: Sequence[ParameterValue]) -> int | None:
        """What FOUND_ROWS() is behind the answer that `hit` has now, of a query that counts; None: not known."""
        ...

    @property
    def needs(self) -> frozenset[str]:
        """Session variables, beside those that always count, on whose values the answers depend."""
        ...

    def bound(self, parameters: Sequence[ParameterValue]) -> Key | None:
        """The one key that the parameters give, for `stored`, or what is kept of several; None where nothing is stored.
        Good until `SessionCaches.version` is another, or what was kept is let go. Raises as `hit`."""
        ...

    @property
    def stored(self) -> Lookup:
        """The hit of a key of `bound`, where its bytes are at hand; None: `hit` may yet have one. Once the cache's plan
        has changed, a function taken before has None for every key, and this is another one."""
        ...

    @property
    def lists(self) -> bool:
        """Whether `stored_list` may have the answers of its IN-lists."""
        ...

    @property
    def stored_list(self) -> ListLookup:
        """The hit of a read's parameters, lists among them, where the bytes of all of its keys are at hand; None: `hit`
        may yet have one."""
        ...


class ToldHits(Protocol):
    """Hits of a cache as sessions were told them (`proxy/read/told_hits.py`)."""

    def judges(self, body: bytes, settings: Settings) -> bool:
        """Whether the hit of this step, with this body, is to be compared with what MySQL tells a session of these
        variables: then `judge` is called in the same step."""
        ...

    def judge(self, parameters: Sequence[ParameterValue], body: bytes, settings: Settings, told: AsTold | None) -> None:
        """As `judges` asks for. `told`: None where that cannot be done for such a session or read."""
        ...


class FaultLog(Protocol):
    """Faults of ours, which no client sees (`proxy/port/faults.py`)."""

    def note(self, edge: str, what: str, error: Exception, **facts: object) -> Fault: ...


class SessionCaches(Caches, Protocol):
    """All caches, as sessions find them."""

    @property
    def version(self) -> int:
        """Another number after each change of what `match` answers."""
        ...

    @property
    def rebuilding(self) -> bool:
        """Whether there are caches whose texts `match` does not know at the moment."""
        ...

    def open(self, name: str, format: str) -> SessionCache: ...

    def match(
        self, sql: str, database: str, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        """The name of the cache that this text is for, and its parameters' values."""
        ...


class SessionDemands(Demands, Protocol):
    """What sessions must be shown, and the waits for it."""

    def demand_after(self, own: GtidSet, shown: GtidSet | None = None, wait: float = DEFAULT_WAIT) -> Demand:
        """Of a call whose answer must have the session's own writes, and be not older than any hit until now, nor than
        answers that may have shown these. `wait`: seconds, for what is held."""
        ...

    async def reached(self, needed: GtidSet, seconds: float) -> bool:
        """Waits until the position has these transactions; False if it has not in time."""
        ...

    async def answers(self) -> bool:
        """Whether MySQL answers now."""
        ...


class SessionSystem(System, Protocol):
    """What the listener for MySQL's protocol asks of the system beyond the others."""

    @property
    def changes(self) -> Changes:
        """Of `SessionCaches.version`, of the version of accounts, and of what is announced of columns: what a session
        has at hand of its hits is wrong then."""
        ...

    @property
    def caches(self) -> SessionCaches: ...

    @property
    def freshness(self) -> SessionDemands: ...

    @property
    def faults(self) -> FaultLog: ...

    @property
    def accounts(self) -> Accounts: ...

    def count(self, name: str) -> None:
        """Counts one occurrence of a rule (`proxy/port/figures.py`)."""
        ...

    def note_passed(self, cache: str, why: Why) -> None:
        """MySQL has answered a read of the cache of this name, or of none (""), for this reason."""
        ...

    def written_unlogged(self, account: str, *, cause: str, schema: bool) -> None:
        """A session of the account may have written without a binlog. `cause`: by which statement or setting; `schema`:
        also tables may be others."""
        ...

    def doubt(self) -> None:
        """A statement is to be sent after which what is held now may not be true, and no stream will tell."""
        ...

    def source_up(self) -> bool:
        """Whether the change stream is connected."""
        ...
