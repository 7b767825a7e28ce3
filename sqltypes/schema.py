"""The schema of a source's tables, as far as a cache must know it.

Built by `external_upquery/mysql/schema_source.py` by reflection, read by everybody above. All of it is immutable: a
changed table is a new `Table`.

The canonical form of a value, one per column type, whether it came from the binlog, from an upquery or from a client:

| MySQL type | Python value |
| --- | --- |
| TINYINT ... BIGINT (signed, unsigned), YEAR, BIT(n) | int |
| DECIMAL(p,s) | decimal.Decimal with exactly s digits behind the point |
| FLOAT | float: the stored binary32, widened (MySQL's text form shows 6 digits: `sqltypes.values.float_text`) |
| DOUBLE | float |
| DATE, DATETIME(n), TIMESTAMP(n) | str as MySQL prints it, n fractional digits; TIMESTAMP in UTC (zero dates are
representable so) |
| TIME(n) | int, microseconds, signed |
| CHAR, VARCHAR, *TEXT, ENUM, SET | str (CHAR without trailing spaces; ENUM's and SET's members as printed) |
| BINARY(n) (padded to n), VARBINARY, *BLOB, GEOMETRY, VECTOR | bytes, as SELECT returns them |
| JSON | str, MySQL's own text |
| NULL | None |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

INTEGER_TYPES = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
STRING_TYPES = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"})
BINARY_TYPES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "vector"})
TEMPORAL_TYPES = frozenset({"date", "datetime", "timestamp", "time"})


@dataclass(frozen=True, slots=True)
class SqlType:
    """A MySQL type. `name` is lower case as in information_schema.COLUMNS.DATA_TYPE; "null" is the type of a bare NULL.

    Every geometry subtype is "geometry". BOOL is tinyint with length 1.
    """

    name: str
    unsigned: bool = False
    length: int | None = None  # characters of strings, bytes of binary types, bits of BIT, display width of TINYINT(1)
    precision: int | None = None  # digits of DECIMAL
    scale: int | None = None  # digits behind the point of DECIMAL; fractional seconds of temporal types
    collation: str | None = None  # of string types; None for binary strings and all that is not a string
    members: tuple[str, ...] = ()  # of ENUM and SET, in definition order
    zerofill: bool = field(default=False, repr=False)  # of numbers: as text they begin with zeros

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGER_TYPES

    @property
    def is_string(self) -> bool:
        return self.name in STRING_TYPES

    @property
    def is_binary(self) -> bool:
        return self.name in BINARY_TYPES

    @property
    def is_temporal(self) -> bool:
        return self.name in TEMPORAL_TYPES

    @property
    def is_approximate(self) -> bool:
        return self.name in ("float", "double")

    @property
    def has_fixed_digits(self) -> bool:
        """FLOAT(m,d), DOUBLE(m,d)."""
        return self.is_approximate and self.scale is not None

    @property
    def has_two_empty(self) -> bool:
        """An ENUM that has the member '': what it does not have is '', too, and has another number."""
        return self.name == "enum" and "" in self.members

    @property
    def is_known(self) -> bool:
        """Whether it says what a parameter is."""
        return self.name not in ("null", "literal")

    @property
    def is_moment(self) -> bool:
        """DATETIME, TIMESTAMP."""
        return self.name in ("datetime", "timestamp")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_approximate or self.name in ("decimal", "bit")


BIGINT = SqlType("bigint")
BIGINT_UNSIGNED = SqlType("bigint", unsigned=True)
DOUBLE = SqlType("double")
NULL = SqlType("null")
LITERAL = SqlType("literal")
"""Of a parameter whose type no column tells. Its value is the text of a literal."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a base table. `position` counts from 0 in table order, invisible and generated columns included."""

    name: str
    type: SqlType
    nullable: bool
    position: int
    invisible: bool = False  # not part of SELECT *
    # Of a VIRTUAL generated column: the expression. MySQL computes it in each session that reads the column. A STORED
    # one is computed once, when its row is written, and is a column like others.
    expression: str = ""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A part of an index's order: a column, in lower case, or "" for a part that is no column. `falling`: descending;
    `whole`: by the whole value, not by its first letters."""

    name: str
    falling: bool = False
    whole: bool = True


UNKNOWN_ORDER = IndexPart("", whole=False)
ANY_TABLE = "*"


@dataclass(frozen=True)
class Table:
    """A base table. `schema` is the database's name. Column names compare without case, as MySQL's do."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = ()  # the primary key not included
    indexes: tuple[
        tuple[str, ...], ...
    ] = ()  # leading columns of every index, the primary key and unique keys included
    # Expressions that are parts of visible indexes. An index has what the session that wrote the row computed.
    functional: tuple[str, ...] = ()
    # In which order rows are read by each of `indexes`: all that tells it, the primary key's columns too. () where the
    # indexes are all in ascending order of whole columns.
    orders: tuple[tuple[IndexPart, ...], ...] = ()
    engine: str = "InnoDB"
    temporary: bool = False
    cascade_child: bool = False  # rows change by ON DELETE/UPDATE CASCADE or SET NULL of a parent, which is not logged
    # With deleted or updated rows of which tables rows change so, near and far: `schema.name` in lower case;
    # `ANY_TABLE` among them: nobody knows all. Where it is logged at all, it is not of sessions that were begun anew.
    changed_by_deletes: frozenset[str] = frozenset()
    changed_by_updates: frozenset[str] = frozenset()
    # Columns of those tables to which foreign keys refer: with other updated columns no row follows. The table's name,
    # the column's position, how many columns there are. Of a table of which none is here nobody knows them.
    referenced: frozenset[tuple[str, int, int]] = frozenset()
    # What stands behind its name in FROM wherever the source is asked: by which vindexes vtgate must not look for rows.
    hint: str = ""
    # Columns, in lower case, from whose spelling vtgate computes on which shard a row is, and of which MySQL takes
    # several spellings for equal.
    spelled: frozenset[str] = frozenset()
    rows_estimate: int = 0  # information_schema.TABLES.TABLE_ROWS: an estimate

    def __hash__(self) -> int:
        """Of the name alone: a plan is hashed several times when it is installed, and may name a table often."""
        return hash((self.schema, self.name))

    @property
    def qualified(self) -> str:
        """`schema.name`: the name under which the change stream and the engine know the table."""
        return f"{self.schema}.{self.name}"

    def is_defined_as(self, other: Table) -> bool:
        """Whether both are one definition: how many rows there are is none of it."""
        return self is other or replace(self, rows_estimate=0) == replace(other, rows_estimate=0)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name.lower(): column for column in self.columns}

    def column(self, name: str) -> Column:
        """The column of that name. Raises KeyError."""
        return self.by_name[name.lower()]

    def order_by(self, index: int) -> tuple[IndexPart, ...]:
        """In which order rows are read by that one of `indexes`."""
        if self.orders:
            return self.orders[index]
        own, primary = (
            [IndexPart(name.lower()) for name in names] for names in (self.indexes[index], self.primary_key)
        )
        return ordered_by(own, primary)

    @cached_property
    def certain_keys(self) -> tuple[frozenset[str], ...]:
        """The primary key and the unique keys whose columns cannot be NULL, in lower case."""
        keys = [key for key in (self.primary_key, *self.unique_keys) if key]
        return tuple(
            frozenset(name.lower() for name in key)
            for key in keys
            if not any(self.column(name).nullable for name in key)
        )

    def is_unique_in(self, names: Iterable[str]) -> bool:
        """Whether at most one row has given values of these columns."""
        have = {name.lower() for name in names}
        return any(key <= have for key in self.certain_keys)


def ordered_by(own: Sequence[IndexPart], primary: Sequence[IndexPart]) -> tuple[IndexPart, ...]:
    """In which order rows are read by an index of these parts: where they are equal, by the primary key."""
    told = {part.name for part in own if part.whole}
    return (*own, *([part for part in primary if part.name not in told] if primary else [UNKNOWN_ORDER]))


ZONE_TABLES = tuple(
    Table("mysql", name, ())
    for name in (
        "time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type", "time_zone_leap_second",
    )
)  # fmt: skip
"""What MySQL knows of time zones. Nothing is read of their rows: each change may change what CONVERT_TZ gives."""


@dataclass(frozen=True, slots=True)
class View:
    """A view: the planner inlines its text, which names all tables with their database."""

    schema: str
    name: str
    definition: str
    columns: tuple[str, ...] = ()


Relation = Table | View


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a result set, as MySQL announces it (the metadata of a prepared statement or of an answer)."""

    name: str
    type: SqlType
    nullable: bool
    table: str = ""
    flags: int = 0
    decimals: int = 0
    charset: int = 63  # MySQL's collation id; 63 is binary
    length: int = 0


@dataclass(frozen=True, slots=True)
class SchemaSnapshot:
    """The relations that planning may use, by (schema, name) exactly as the source spells them."""

    relations: dict[tuple[str, str], Relation] = field(default_factory=dict)
    server_version: tuple[int, int, int] = (8, 0, 0)
    lower_case_table_names: int = 0

    def named(self, names: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the names that mean a relation of these."""
        if self.lower_case_table_names == 0:
            return {name for name in names if name in self.relations}
        folded = {(schema.lower(), name.lower()) for schema, name in self.relations}
        return {name for name in names if (name[0].lower(), name[1].lower()) in folded}
