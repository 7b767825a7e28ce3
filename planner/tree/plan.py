"""The plan of a cached query: what the planner decides and the engine builds.

Every arrangement (one index of one node: key -> content) stands on a linear path above base tables, and is filled by
SQL that MySQL computes for it. A reader takes its key to its root arrangement. Then it looks up further arrangements by
values of the rows so far, in order, left-deep. What is left of the query (filter, aggregate, projection, order, limit)
it computes from those rows. All content is kept in the arrangements; a reader holds derived answers only, and is told
which arrangement keys each was derived from.

    reader(key) = limit(order(distinct(project(having(aggregate(filter(root[key] |x| step1[..] |x| step2[..])))))))

Columns have names here; `dataflow/graph/build.py` turns names into positions. Equal arrangements (dataclass equality)
exist once in the engine, whichever query asked for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

from planner.tree.untyped import TYPED, Sent
from sqltypes.expression import ColumnRef, Expr, ParamRef
from sqltypes.schema import ResultColumn, SqlType, Table
from sqltypes.spellings import shows_as_is


class Mode(Enum):
    MAINTAIN = "maintain"  # deltas are computed from held state
    EVICT = "evict"  # a change makes the keys that it affects holes


class Caution(IntEnum):
    """What of the planner's analysis is not believed in evict mode."""

    NONE = 0
    KEYS = 1  # conditions, and which columns are read: only the equalities that tell the keys of a changed row count
    TABLES = 2  # nothing: any change of the query's tables empties all answers


class AggregateFunction(Enum):
    COUNT_STAR = "count(*)"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate. `name` is the column under which the result is known above (source = the arrangement's or
    reader's alias)."""

    function: AggregateFunction
    argument: Expr | None  # None for COUNT(*)
    type: SqlType
    name: str

    @property
    def is_spelled(self) -> bool:
        """Whether the value is one row's of several that may be equal and spelled otherwise."""
        if self.argument is None or self.function not in (AggregateFunction.MIN, AggregateFunction.MAX):
            return False
        return not shows_as_is(self.argument.type)


@dataclass(frozen=True, slots=True)
class OrderTerm:
    expr: Expr
    descending: bool = False


# --------------------------------------------------------------------------------------------------------------------
# Arrangements. In their expressions every ColumnRef has the source "" (the arrangement's own base table), so that
# equal arrangements
# of different queries are equal objects.


@dataclass(frozen=True)
class RowsArrangement:
    """Rows of one table that pass `filter`, narrowed to `columns`, by `key` (columns of the table, in order; () holds
    them all)."""

    table: Table
    key: tuple[str, ...]
    columns: tuple[str, ...]
    filter: Expr | None = None


@dataclass(frozen=True)
class AggregateArrangement:
    """Groups of one table: `key` is part of `group` (both columns of the table). An entry of a key is all groups with
    that key.

    Rows that it gives upwards: the group columns in order, then the aggregates in order, then the hidden `COUNT(*)` as
    "count(*)", then for each column of `spelled` whether all rows of the group spell it alike.
    SUM over no non-null value is NULL. Every AVG is kept as sum and count. SUM and AVG of FLOAT or DOUBLE do not occur
    (evict mode).
    A group without rows does not exist; where a query has no GROUP BY the reader's aggregate makes the one empty row.
    """

    table: Table
    key: tuple[str, ...]
    group: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    filter: Expr | None = None

    @property
    def spelled(self) -> tuple[str, ...]:
        """The group's columns whose equal values may be spelled otherwise in its rows."""
        names = () if self.table.is_unique_in(self.group) else self.group
        return tuple(name for name in names if not shows_as_is(self.table.column(name).type))

    @property
    def told_by(self) -> frozenset[str]:
        """The group's columns, in lower case, that tell groups apart: those of a unique key if it contains one."""
        names = frozenset(name.lower() for name in self.group)
        return next((key for key in self.table.certain_keys if key <= names), names)


@dataclass(frozen=True)
class TopKArrangement:
    """The first `limit` rows of each key in a total order (the primary key is the last term), with some more held for
    deletions.

    Rows that it gives upwards: `columns` in order. The reader sorts and cuts again.
    """

    table: Table
    key: tuple[str, ...]
    columns: tuple[str, ...]
    order: tuple[OrderTerm, ...]
    limit: int
    filter: Expr | None = None


@dataclass(frozen=True)
class AnswerInput:
    """One table that an answer reads.

    `key_columns`: for each part of the arrangement's key the column of this table that must equal it; None where a row
    does not tell. A change concerns the keys that agree in the parts which it tells: every held key, if it tells none.
    `filter`: a condition on this table alone (source "") that every row of the answer passes, or None.
    `used`: what the query reads of the table besides. An update changes no answer if both of its images pass the filter
    and agree in all of `used`.
    `tells`: a condition on this table's row and the key (a `ParamRef` is the part at that position) that every row of
    the answer passes, besides `key_columns` and `filter`; or None. Its columns are in `used`.
    `cut`: where the answer ends, if this table's rows are what it is ordered by.

    A table that occurs twice in the query has two inputs.
    """

    table: Table
    key_columns: tuple[str | None, ...]
    filter: Expr | None
    used: tuple[Expr, ...]
    tells: Expr | None = None
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """An answer in the order of this column first, which is its output at position `output`, has at most `count` rows,
    or as many as the part of the key at `count_at` says. Where it has so many, a row of the table that comes behind the
    last one by the column changes nothing (`planner/evict/cut.py`)."""

    column: ColumnRef
    output: int
    descending: bool
    count: int | None
    count_at: int | None


@dataclass(frozen=True, slots=True)
class Crossing:
    """The part of the key at this position may grow up to what this SELECT gives (NULL: for ever), and the answer stays
    the same (`planner/evict/crossings.py`). `sql`: as that of the answer."""

    position: int
    sql: str


@dataclass(frozen=True)
class AnswerArrangement:
    """Evict mode: the answers of the query itself, by the values of its key parameters.

    `sql` is the client's own text with str.format fields (`{0}`, `{1}`, ...; literal braces doubled) where parameters
    stand. The field's number is the position in the key. `columns` are the answer's. A key part of a list parameter
    holds the whole list as a tuple. `counts`: it has SQL_CALC_FOUND_ROWS, and what FOUND_ROWS() is behind it is held
    beside its rows. `crossings`: up to where the same answer is that of other keys, which is asked for where somebody
    counts on it.
    """

    sql: str
    database: str
    key_types: tuple[SqlType, ...]
    key_is_list: tuple[bool, ...]
    inputs: tuple[AnswerInput, ...]
    columns: tuple[ResultColumn, ...] = field(default=(), compare=False)
    why: str = ""  # why not maintained
    counts: bool = False
    crossings: tuple[Crossing, ...] = ()

    def __hash__(self) -> int:
        """Of the text alone: a plan is hashed several times when it is installed, and may read hundreds of tables."""
        return hash((self.sql, self.database))


Arrangement = RowsArrangement | AggregateArrangement | TopKArrangement | AnswerArrangement

# --------------------------------------------------------------------------------------------------------------------
# The reader.


@dataclass(frozen=True)
class Lookup:
    """One more arrangement that rows so far are joined with, under `alias`.

    `key`: for each part of the arrangement's key the value to look up: an expression over earlier aliases and key
    parameters. A NULL in it finds nothing.
    `outer`: rows without a partner stay, with NULLs.
    `on`: what else the ON clause asks of the pair (the partner's columns under `alias`); a pair that fails it is no
    pair.
    `direct`: those expressions, where each part of the lookup key is a key parameter by equality, or a constant. On a
    miss the arrangement's keys are then known before the root's rows are; else they come by a semi-join
    (`planner/fill/upquery_sql.py`).
    """

    alias: str
    arrangement: RowsArrangement | AggregateArrangement
    key: tuple[Expr, ...]
    outer: bool = False
    on: Expr | None = None
    direct: tuple[Expr, ...] | None = None


@dataclass(frozen=True)
class KeyPart:
    """One part of the reader's key: the parameter with index `parameter`, compared as `type` (the column's, with its
    collation).

    `null_safe`: compared with <=>. `list`: the parameter is an IN-list: one lookup for each distinct value, and the
    answers are concatenated.
    """

    name: str
    type: SqlType
    parameter: int
    null_safe: bool = False
    list: bool = False


@dataclass(frozen=True)
class OutputColumn:
    """A column of the answer: MySQL's name and type for it, and the expression over aliases that gives it."""

    name: str
    expr: Expr
    type: SqlType
    nullable: bool


@dataclass(frozen=True)
class ReadLimit:
    """LIMIT and OFFSET of the answer: constants or parameters (applied at read time)."""

    count: int | ParamRef | None = None
    offset: int | ParamRef = 0


@dataclass(frozen=True)
class Reader:
    """How the answer for one key is derived. Aliases: `alias` for the root's columns, each lookup's alias for its own.

    `root_key`: which KeyPart gives each part of the root arrangement's key; the other parts are used as ParamRefs in
    lookups and filter.
    `aggregated`: `group` and `aggregates` apply to the joined rows. Their results are ColumnRef("group", "g0"...) and
    ColumnRef("agg", name). Without a `group` there is exactly one row, even over nothing.
    `group_by`: positions of the group's values that tell groups apart; the others are the same in all rows of a group.
    `distinct`: positions of the outputs that tell rows apart where equal rows are shown once; None: they are not.
    `order` and `limit` apply to the whole answer (all keys of an IN-list together). Order terms that are not outputs
    are computed from the same row.
    `reading`: where there is no order, that in which MySQL reads the rows of one key, as far as it is known.
    `lists`: which KeyParts are lists by whose values MySQL reads, the first one first, and whether from the last value
    on; () where that is not known.
    """

    alias: str
    root: Arrangement
    root_key: tuple[int, ...]
    lookups: tuple[Lookup, ...] = ()
    filter: Expr | None = None
    aggregated: bool = False
    group: tuple[Expr, ...] = ()
    group_by: tuple[int, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    having: Expr | None = None
    output: tuple[OutputColumn, ...] = ()
    distinct: tuple[int, ...] | None = None
    order: tuple[OrderTerm, ...] = ()
    limit: ReadLimit | None = None
    reading: tuple[OrderTerm, ...] = ()
    lists: tuple[tuple[int, bool], ...] = ()


@dataclass(frozen=True)
class Parameter:
    """A parameter of the query, in the order of its placeholders. `column`: for messages, what it is compared with.
    `operand`: it is an operand of arithmetic, not of a comparison. `sent`: of one whose type no column tells. `tells`:
    what is given for it may tell how MySQL announces a column (`planner/tree/announced_by.py`). `plain`: strings
    that are given for it must be spelled plainly (`planner/refusals/by_spelling.py`)."""

    index: int
    type: SqlType
    list: bool = False
    column: str = ""
    operand: bool = False
    sent: Sent = TYPED
    tells: bool = False
    plain: bool = False


@dataclass(frozen=True)
class QueryPlan:
    """The whole. `sql` is the normalised text with placeholders; two texts with equal `sql` and database are the same
    cache. `asked`: the client's text with one placeholder for each parameter, `?...` for a list."""

    sql: str
    database: str
    parameters: tuple[Parameter, ...]
    key: tuple[KeyPart, ...]
    reader: Reader
    mode: Mode
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()  # for EXPLAIN: decisions and their reasons
    asked: str = ""

    @property
    def arrangements(self) -> tuple[Arrangement, ...]:
        """The root's first, then the lookups' in order; equal ones once."""
        seen = dict.fromkeys([self.reader.root, *(lookup.arrangement for lookup in self.reader.lookups)])
        return tuple(seen)


def root_columns(arrangement: Arrangement) -> tuple[str, ...]:
    """Names of the columns of the rows that an arrangement gives upwards, in order."""
    match arrangement:
        case RowsArrangement() | TopKArrangement():
            return arrangement.columns
        case AggregateArrangement():
            aggregates = (aggregate.name for aggregate in arrangement.aggregates)
            return (*arrangement.group, *aggregates, "count(*)", *map(one_spelling_of, arrangement.spelled))
        case AnswerArrangement():
            return tuple(f"c{index}" for index in range(len(arrangement.columns)))


def one_spelling_of(name: str) -> str:
    """The name of the column that tells whether all rows of a group spell this one alike."""
    return f"one spelling of {name}"


def own(name: str, table: Table) -> ColumnRef:
    """A column of the arrangement's own table, for expressions inside arrangements."""
    column = table.column(name)
    return ColumnRef("", column.name, column.type, column.nullable)
