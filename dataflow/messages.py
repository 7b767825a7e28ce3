"""Everything the engine takes and everything it returns: read this first.

In, from the change stream: `Transaction`, `Ddl`, `Progress`, `Gap`, `Restarted`. In, from the upqueries:
`UpqueryAnswer`, `UpqueryFailed`.
Out, as effects: `UpqueryRequest` (send this SQL), `Ready` (a waiting read has its answer), `Failed` (it gets an error),
`Changes` (for subscribers), `Differs` (an answer is not MySQL's own), `Filled` (what came of a fill that no read asked
for).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dataflow.entries import Entries
from dataflow.losses import Cause
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.errors import SourceError, UpwellError
from sqltypes.expression import Key, Row, Value
from sqltypes.schema import ResultColumn, Table

Pair = tuple[Row | None, Row | None]  # (before, after): an insert has no before, a delete no after

# -- from the change stream ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TableChanges:
    """Changes of one table inside one transaction, in order.

    `table` is `Table.qualified`. A row is a tuple as wide as the table, by column position; columns that no plan wants
    are None.
    """

    table: str
    pairs: list[Pair]


@dataclass(slots=True)
class Transaction:
    """A whole transaction of the source. `committed_at`: the source's commit time, seconds since the epoch (0.0: not
    known)."""

    gtid: Gtid
    changes: Sequence[TableChanges]
    committed_at: float = 0.0
    size: int = field(default=0, compare=False)  # bytes of its row images in the binlog


@dataclass(slots=True)
class Ddl:
    """A statement that may change what a table is or holds without row events. `tables` None: not known, so all.
    `schema` False: only what it holds, so that plans stay as they are. `fault`: it stands for a change that could not
    be applied."""

    gtid: Gtid | None
    statement: str
    tables: frozenset[str] | None
    schema: bool = True
    fault: bool = False

    @property
    def cause(self) -> Cause:
        """Why what is held of the tables goes."""
        if self.fault:
            return Cause.FAULT
        return Cause.SCHEMA if self.schema else Cause.UNREAD_ROWS

    def concerns(self, tables: frozenset[str]) -> bool:
        return self.tables is None or not self.tables.isdisjoint(tables)


@dataclass(slots=True)
class Progress:
    """The stream has passed this GTID, and nothing in it concerns a wanted table. `accounts`: it may have changed who
    may read what."""

    gtid: Gtid
    accounts: bool = False


@dataclass(slots=True)
class Gap:
    """History is lost or another server answers: everything becomes a hole; the stream goes on after `position`."""

    reason: str
    position: GtidSet


@dataclass(slots=True)
class Restarted:
    """The server was started anew, and has all of the position. What it had shown beyond that it may have lost, and
    given the same GTIDs to other transactions."""

    position: GtidSet


StreamEvent = Transaction | Ddl | Progress | Gap | Restarted
Record = Transaction | Ddl  # what the ring keeps of an event

# -- upqueries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Keyed:
    """Rows of one table that have given values, canonical ones, in these columns."""

    table: Table
    columns: tuple[str, ...]
    values: Sequence[Row]


@dataclass(slots=True)
class Statement:
    """One SELECT of an upquery; its values are decoded as MySQL announces them. `before`, `after`: what is run ahead of
    it and behind it in the same session, and gives no rows. `keyed`: it reads no other rows than these; None: that is
    not known."""

    sql: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    keyed: Keyed | None = None


@dataclass(slots=True)
class UpqueryRequest:
    """Run these statements, or `checks` alone, under one bracket, in one snapshot where there is more than one, in one
    round trip.

    `tables`: `schema.name` quoted for SQL, for the metadata locks of the snapshot form. `database`: the default
    database, or "". `slow`: expected to run longer than 20 ms, which takes the snapshot form, too.
    `lower`: a reading of gtid_executed that serves as this upquery's L, so that it need not be read again (any reading
    made before the snapshot is one); None: read it.
    `exact`: what is read is locked meanwhile, so that Q is empty as a rule; where that cannot be had, the answer is
    an ordinary one. `checks`: clients' own texts, run in the same snapshot after the statements; one that fails does
    not make the upquery fail. `shards`: those that have all that is asked for; None: any may have some of it,
    as far as is known before it is sent.
    """

    id: int
    statements: tuple[Statement, ...]
    tables: tuple[str, ...]
    database: str = ""
    slow: bool = False
    lower: GtidSet | None = None
    exact: bool = False
    checks: tuple[Statement, ...] = ()
    shards: tuple[str, ...] | None = None


@dataclass(slots=True)
class OwnAnswer:
    """MySQL's own answer to a client's own text, and the columns that came with it."""

    rows: list[Row]
    columns: tuple[ResultColumn, ...] = ()


@dataclass(slots=True)
class UpqueryAnswer:
    """`results`: for each statement its rows, values in canonical form; `columns`: likewise how MySQL announced them,
    empty where nobody asks. `seconds`: time the source took. `connected_at`: when the connection that it came by was
    opened, by the engine's clock; the server has not been restarted since."""

    id: int
    bracket: Bracket
    results: tuple[list[Row], ...]
    seconds: float = 0.0
    connected_at: float = float("-inf")
    checks: tuple[OwnAnswer | SourceError, ...] = ()  # one for each of the request's
    columns: tuple[tuple[ResultColumn, ...], ...] = ()


@dataclass(slots=True)
class UpqueryFailed:
    id: int
    error: UpwellError


# -- effects ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ready:
    """The read `waiter` has its answer: `rows` of the output columns, ordered and cut. `position`: the cut that it
    reflects."""

    waiter: int
    rows: list[Row]
    position: GtidSet
    horizon: GtidSet | None = None  # where more than `position` may be in it: all that may be
    settled: bool = field(default=False, compare=False)  # derived at the position, not what one snapshot saw


class GivenUp(Enum):
    """Why the engine leaves a read to MySQL, if it is no error of a value (`UpwellError.reason`)."""

    CACHE_DROPPED = "cache_dropped"  # or planned anew
    DIFFERS = "differs"  # an answer was not MySQL's own
    UNCHECKED = "unchecked"  # it could not be compared
    HOT_KEY = "hot_key"  # the key was written during each of the attempts
    BEHIND = "behind"  # neither the position nor the upquery has what is demanded; to be asked again when that does

    @property
    def reason(self) -> str:
        """The word that is counted."""
        return self.value


@dataclass(slots=True)
class Failed:
    """The read `waiter` fails with `error`. Where that is None it is to be passed through to MySQL, for `why`."""

    waiter: int
    error: UpwellError | None
    why: GivenUp | UpwellError | None = None


@dataclass(slots=True)
class Changes:
    """For a subscriber: the rows that went and the rows that came. `snapshot`: the first, all rows. `lost`: it has
    ended, the reason."""

    subscription: int
    removed: list[Row] = field(default_factory=list)
    added: list[Row] = field(default_factory=list)
    lost: str = ""
    snapshot: bool = False


class Finding(Enum):
    """What came of a check."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNKNOWN = "unknown"


class Check(Protocol):
    """Compares what a reader derives from a fill with MySQL's own answer to the client's text.

    Both come from one snapshot: the text runs in the upquery's transaction. So they must be equal, but for what MySQL
    may choose. The class that decides that knows columns and encodings (`proxy/checking/fill_check.py`).
    """

    @property
    def sql(self) -> str: ...

    @property
    def held(self) -> Callable[[list[int]], None] | None:
        """Is told the version of each of the read's keys, if the answer agreed and is held as it was compared."""
        ...

    def compare(self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]) -> Finding:
        """`rows`: what the reader derives from `levels`, the fill's entries; None where it cannot."""
        ...

    def compare_in_steps(
        self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]
    ) -> Generator[None, None, Finding]:
        """`compare`, of many rows."""
        ...

    @property
    def on_differs(self) -> Callable[[Differs], None]:
        """Whom the engine's `Differs` is told."""
        ...


@dataclass(slots=True)
class Differs:
    """A check has found an answer that is not MySQL's own: the cache that asked for it is not to be believed.
    `sent_at`: when the answer was asked for, by the engine's clock."""

    check: Check
    bracket: Bracket
    sent_at: float


@dataclass(slots=True)
class Filled:
    """The fill `id`, which no read asked for, has ended. `asked`: its keys; `holes`: those of them that it left as they
    were, each with its parameters. `rows`: those that MySQL has sent. Of an audit, `holes` could not be compared, and
    of the others `different` are held otherwise than MySQL has them. `error`: the upquery's, where that is why."""

    id: int
    asked: int
    holes: list[tuple[Key, tuple[Value, ...]]]
    rows: int = 0
    different: list[tuple[Key, tuple[Value, ...]]] = field(default_factory=list)
    error: UpwellError | None = None


Effect = UpqueryRequest | Ready | Failed | Changes | Differs | Filled
