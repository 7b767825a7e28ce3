"""Reflection: reads the definitions of the named relations, and of no others.

SQLAlchemy's inspector gives primary and foreign keys. It lacks invisible columns and inherited collations, so the rest
comes from SQLAlchemy Core queries on information_schema. Everything blocks, so it runs in a thread. Names that do not
exist are absent from the result.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import sqlalchemy as sa
from pymysql.connections import Connection
from sqlalchemy.dialects.mysql.base import ischema_names
from sqlalchemy.engine.reflection import Inspector

from external_upquery.address import Upstream
from external_upquery.login import CUT_OFF, connect
from external_upquery.mysql import view_text
from external_upquery.mysql.column_types import GEOMETRIES, column_type
from planner.tree.sql_text import relation_name
from sqltypes.errors import SourceDown, SourceError
from sqltypes.schema import (
    ANY_TABLE,
    UNKNOWN_ORDER,
    Column,
    IndexPart,
    Relation,
    SchemaSnapshot,
    Table,
    View,
    ordered_by,
)

Name = tuple[str, str]  # (schema, name)

COLUMNS = sa.table(
    "COLUMNS",
    *map(
        sa.column,
        (
            "TABLE_SCHEMA",
            "TABLE_NAME",
            "COLUMN_NAME",
            "ORDINAL_POSITION",
            "IS_NULLABLE",
            "DATA_TYPE",
            "COLUMN_TYPE",
            "CHARACTER_MAXIMUM_LENGTH",
            "NUMERIC_PRECISION",
            "NUMERIC_SCALE",
            "DATETIME_PRECISION",
            "COLLATION_NAME",
            "EXTRA",
            "GENERATION_EXPRESSION",
        ),
    ),
    schema="information_schema",
)
TABLES = sa.table(
    "TABLES",
    *map(sa.column, ("TABLE_SCHEMA", "TABLE_NAME", "TABLE_TYPE", "ENGINE", "TABLE_ROWS", "CREATE_OPTIONS")),
    schema="information_schema",
)
VIEWS = sa.table(
    "VIEWS",
    *map(sa.column, ("TABLE_SCHEMA", "TABLE_NAME", "VIEW_DEFINITION")),
    schema="information_schema",
)
STATISTICS = sa.table(
    "STATISTICS",
    *map(
        sa.column,
        (
            "TABLE_SCHEMA",
            "TABLE_NAME",
            "NON_UNIQUE",
            "INDEX_NAME",
            "SEQ_IN_INDEX",
            "COLUMN_NAME",
            "COLLATION",
            "SUB_PART",
            "INDEX_TYPE",
            "IS_VISIBLE",
        ),
    ),
    schema="information_schema",
)
# A variable that this server may not have is asked for by name, which is no error. It takes MySQL more than a
# millisecond: a connection asks so once, and then by a SELECT of those that there are.
VARIABLES = sa.text(
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN"
    " ('version', 'lower_case_table_names', 'innodb_native_foreign_keys',"
    " 'show_gipk_in_create_table_and_information_schema')"
)
# Of an index' part that is one; older servers have none.
EXPRESSION: sa.Label[str] = sa.literal_column("CONCAT(/*!80013 EXPRESSION, */ '')").label("EXPRESSION")
READINGS = 3  # of what is defined anew meanwhile; the change stream tells of it later
CASCADES = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})
# By which foreign keys a table's rows change with those of other tables, and theirs with those of others again: the
# other table, whether there is one that this account may see, whether deleted and whether updated rows do that.
ABOVE = sa.text(
    """
    WITH RECURSIVE
    link (of_schema, of_table, in_schema, in_table, deletes, updates) AS (
        SELECT CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME,
            DELETE_RULE IN :rules, UPDATE_RULE IN :rules
        FROM information_schema.REFERENTIAL_CONSTRAINTS
        WHERE DELETE_RULE IN :rules OR UPDATE_RULE IN :rules
    ),
    above AS (
        SELECT in_schema, in_table, deletes, updates FROM link WHERE of_schema = :schema AND of_table = :table
        UNION
        SELECT link.in_schema, link.in_table, link.deletes, link.updates
        FROM above JOIN link ON of_schema = above.in_schema AND of_table = above.in_table
    )
    SELECT LOWER(CONCAT(in_schema, '.', in_table)) AS name, in_schema, in_table, deletes, updates, EXISTS (
        SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = in_schema AND TABLE_NAME = in_table
    ) AS seen
    FROM above
    """
).bindparams(sa.bindparam("rules", sorted(CASCADES), expanding=True))
# The columns of a table to which any foreign key refers; NULL where this account may not see one.
REFERENCED = sa.text(
    """
    SELECT DISTINCT c.ORDINAL_POSITION - 1 AS position, (
        SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = :schema AND TABLE_NAME = :table
    ) AS width
    FROM information_schema.KEY_COLUMN_USAGE k LEFT JOIN information_schema.COLUMNS c
    ON c.TABLE_SCHEMA = :schema AND c.TABLE_NAME = :table AND c.COLUMN_NAME = k.REFERENCED_COLUMN_NAME
    WHERE k.REFERENCED_TABLE_SCHEMA = :schema AND k.REFERENCED_TABLE_NAME = :table
    """
)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """`logs_cascades`: whether rows that a foreign key changes are in the binlog."""

    version: tuple[int, int, int]
    lower_case_table_names: int
    logs_cascades: bool
    hides_generated_keys: bool


@dataclass(frozen=True, slots=True)
class Followed:
    """As `Table.changed_by_deletes`, `changed_by_updates` and `referenced`."""

    deletes: frozenset[str] = frozenset()
    updates: frozenset[str] = frozenset()
    referenced: frozenset[tuple[str, int, int]] = frozenset()


NOTHING = Followed()


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one table: the primary key, and unique keys of whole columns. Also the leading columns of each index
    that a search can use, the expressions in indexes, and the order in which each of those indexes gives rows."""

    primary: tuple[str, ...]
    unique: tuple[tuple[str, ...], ...]
    searchable: tuple[tuple[str, ...], ...]
    functional: tuple[str, ...] = ()
    orders: tuple[tuple[IndexPart, ...], ...] = ()

    @property
    def columns(self) -> set[str]:
        """In lower case."""
        return {column.lower() for key in (self.primary, *self.unique, *self.searchable) for column in key}


NO_KEYS = Keys((), (), ())


class Opaque(sa.types.NullType):
    """A type that SQLAlchemy does not know: only the keys of its tables are asked for."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__()


class SchemaSource:
    """Reflects over connections of its own, at most two at a time. Raises SourceDown, SourceError."""

    def __init__(self, upstream: Upstream, login: Callable[[], Connection] | None = None) -> None:
        """`login`: makes a connection, in place of `connect`."""
        self._engine = sa.create_engine(
            "mysql+pymysql://",
            creator=login or (lambda: connect(upstream)),
            pool_size=1,
            max_overflow=1,
            pool_pre_ping=True,
            isolation_level="AUTOCOMMIT",
        )
        # Types that SQLAlchemy does not know would each cost a warning; what they are comes from information_schema.
        unknown = {name: Opaque for name in (*GEOMETRIES, "vector") if name not in ischema_names}
        self._engine.dialect.ischema_names = {**ischema_names, **unknown}  # type: ignore[attr-defined]  # MySQL's dialect

    async def reflect(self, names: Iterable[Name]) -> dict[Name, Relation]:
        """The relations of these names, keyed as the source spells them."""
        return dict((await self.snapshot(names)).relations)

    async def snapshot(self, names: Iterable[Name]) -> SchemaSnapshot:
        """As `reflect`, with the facts about the server that planning needs."""
        return await asyncio.to_thread(self.snapshot_now, tuple(names))

    def snapshot_now(self, names: Iterable[Name]) -> SchemaSnapshot:
        """As `snapshot`, blocking."""
        with self._connection() as connection:
            return _snapshot(connection, names)

    async def server(self) -> ServerFacts:
        """What the server is, as of now. Raises as `reflect`."""
        return await asyncio.to_thread(self._server_now)

    def _server_now(self) -> ServerFacts:
        with self._connection() as connection:
            return server_facts(connection)

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.connect() as connection:
                try:
                    yield connection
                except CUT_OFF:
                    connection.invalidate()  # what is left of the answer is not to be read as that of the next question
                    raise
        except sa.exc.DBAPIError as error:
            raise _source_error(error) from error
        except CUT_OFF as error:
            raise SourceDown(f"the source's schema cannot be read: {error!r}") from error

    def close(self) -> None:
        self._engine.dispose()


def _source_error(error: sa.exc.DBAPIError) -> SourceError | SourceDown:
    arguments = error.orig.args if error.orig is not None else ()
    number = arguments[0] if arguments and isinstance(arguments[0], int) else 0
    text = str(arguments[1]) if len(arguments) > 1 else str(error.orig)
    if error.connection_invalidated or number in (0, 2003, 2006, 2013):
        return SourceDown(f"the source's schema cannot be read: {text}")
    return SourceError(number, "HY000", text)


def server_facts(connection: sa.Connection) -> ServerFacts:
    values = _variables(connection)
    numbers = [int(part) for part in values["version"].split("-", 1)[0].split(".")[:3]]
    return ServerFacts(
        version=(numbers[0], numbers[1], numbers[2]),
        lower_case_table_names=int(values["lower_case_table_names"]),
        # Without that variable InnoDB changes the children below the layer that logs rows.
        logs_cascades=values.get("innodb_native_foreign_keys", "ON").upper() in ("OFF", "0"),
        hides_generated_keys=values.get("show_gipk_in_create_table_and_information_schema", "ON").upper()
        in ("OFF", "0"),
    )


def _variables(connection: sa.Connection) -> dict[str, str]:
    names = connection.info.get("variables")
    if names is None:
        found = {str(name).lower(): str(value) for name, value in connection.execute(VARIABLES)}
        connection.info["variables"] = list(found)
        return found
    (row,) = connection.exec_driver_sql(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
    return dict(zip(names, map(str, row), strict=True))


def _snapshot(connection: sa.Connection, names: Iterable[Name]) -> SchemaSnapshot:
    facts = server_facts(connection)
    # Cached statistics may be a day old, and those of a new table are zero.
    connection.execute(sa.text("SET information_schema_stats_expiry = 0"))
    if facts.hides_generated_keys:
        # The binlog carries them all the same, as the first column.
        connection.execute(sa.text("SET show_gipk_in_create_table_and_information_schema = ON"))
    by_schema: dict[str, set[str]] = {}
    for schema, name in names:
        if facts.lower_case_table_names:
            schema, name = schema.lower(), name.lower()
        by_schema.setdefault(schema, set()).add(name)
    relations: dict[Name, Relation] = {}
    inspector = sa.inspect(connection)
    for schema, wanted in by_schema.items():
        for _ in range(READINGS):
            found, torn = _reflect_schema(connection, inspector, facts, schema, sorted(wanted))
            relations.update(found)
            if not torn:
                break
            wanted = torn
            inspector.clear_cache()
    return SchemaSnapshot(relations, facts.version, facts.lower_case_table_names)


def _reflect_schema(
    connection: sa.Connection, inspector: Inspector, facts: ServerFacts, schema: str, wanted: list[str]
) -> tuple[dict[Name, Relation], set[str]]:
    """(the definitions, the tables that changed between two of the queries and are left out)."""
    columns: dict[Name, list[Column]] = {}
    # Named one database at a time: only so does information_schema find tables without reading all of them.
    for row in connection.execute(_rows_of(COLUMNS, schema, wanted).order_by("ORDINAL_POSITION")).mappings():
        columns.setdefault((row["TABLE_SCHEMA"], row["TABLE_NAME"]), []).append(_column(row))
    keys = _keys(connection, schema, wanted)
    relations: dict[Name, Relation] = {}
    views: list[str] = []
    torn: set[str] = set()
    for row in connection.execute(_rows_of(TABLES, schema, wanted)).mappings():
        name = (row["TABLE_SCHEMA"], row["TABLE_NAME"])
        if row["TABLE_TYPE"] == "VIEW":
            views.append(row["TABLE_NAME"])
            continue
        its_keys = keys.get(name, NO_KEYS)
        cascades = _cascades(inspector, name)
        known = {column.name.lower() for column in columns.get(name, ())}
        if cascades is None or not known or not its_keys.columns <= known:
            torn.add(row["TABLE_NAME"])
            continue
        followed = _followed(connection, name) if cascades else NOTHING
        relations[name] = Table(
            schema=row["TABLE_SCHEMA"],
            name=row["TABLE_NAME"],
            columns=tuple(columns[name]),
            primary_key=its_keys.primary,
            unique_keys=its_keys.unique,
            indexes=its_keys.searchable,
            functional=its_keys.functional,
            # Partitions are read one after the other: this is the order within one, and no order of all rows.
            orders=tuple((*order, UNKNOWN_ORDER) for order in its_keys.orders)
            if "partitioned" in (row["CREATE_OPTIONS"] or "")
            else its_keys.orders,
            engine=row["ENGINE"] or "",
            cascade_child=cascades and not facts.logs_cascades,
            changed_by_deletes=followed.deletes,
            changed_by_updates=followed.updates,
            referenced=followed.referenced,
            rows_estimate=int(row["TABLE_ROWS"] or 0),
        )
    if views:
        for row in connection.execute(_rows_of(VIEWS, schema, views)).mappings():
            name = (row["TABLE_SCHEMA"], row["TABLE_NAME"])
            definition = _definition(connection, name, row["VIEW_DEFINITION"])
            relations[name] = View(schema, name[1], definition, tuple(each.name for each in columns.get(name, ())))
    return relations, torn


def _rows_of(table: sa.TableClause, schema: str, names: list[str]) -> sa.Select[Any]:
    return sa.select(table).where(table.c.TABLE_SCHEMA.in_((schema,)), table.c.TABLE_NAME.in_(names))


def _keys(connection: sa.Connection, schema: str, wanted: list[str]) -> dict[Name, Keys]:
    """Keys by table. From information_schema: the inspector drops the parts of a key that are expressions, so that a
    unique key would seem to be unique in fewer columns than it is.
    """
    parts: dict[Name, dict[str, list[sa.RowMapping]]] = {}
    statement = _rows_of(STATISTICS, schema, wanted).add_columns(EXPRESSION).order_by("SEQ_IN_INDEX")
    for row in connection.execute(statement).mappings():
        parts.setdefault((row["TABLE_SCHEMA"], row["TABLE_NAME"]), {}).setdefault(row["INDEX_NAME"], []).append(row)
    keys = {}
    for name, by_index in parts.items():
        primary: tuple[str, ...] = ()
        unique: list[tuple[str, ...]] = []
        searchable: list[tuple[str, ...]] = []
        functional: list[str] = []
        orders: list[tuple[IndexPart, ...]] = []
        for index, rows in sorted(by_index.items(), key=lambda item: (item[0] != "PRIMARY", item[0])):
            # A part that is an expression has no column's name: what stands before it can still be searched.
            leading = tuple(row["COLUMN_NAME"] for row in takewhile(lambda row: row["COLUMN_NAME"] is not None, rows))
            # Nor do two rows differ in a column because they differ in its first letters: 'ß' and 'ss' are equal.
            whole = len(leading) == len(rows) and all(row["SUB_PART"] is None for row in rows)
            if whole and index == "PRIMARY":
                primary = leading
            elif whole and not rows[0]["NON_UNIQUE"]:
                unique.append(leading)
            if leading and rows[0]["INDEX_TYPE"] == "BTREE" and rows[0]["IS_VISIBLE"] == "YES":
                searchable.append(leading)
                orders.append(ordered_by(_parts(rows), _parts(by_index.get("PRIMARY", ()))))
            if rows[0]["IS_VISIBLE"] == "YES":
                functional += [_written(row["EXPRESSION"]) for row in rows if row["COLUMN_NAME"] is None]
        keys[name] = Keys(primary, tuple(unique), tuple(searchable), tuple(functional), tuple(orders))
    return keys


def _parts(rows: Iterable[sa.RowMapping]) -> list[IndexPart]:
    """Those of an index."""
    return [
        UNKNOWN_ORDER
        if row["COLUMN_NAME"] is None
        else IndexPart(row["COLUMN_NAME"].lower(), row["COLLATION"] == "D", row["SUB_PART"] is None)
        for row in rows
    ]


def _column(row: sa.RowMapping) -> Column:
    extra = row["EXTRA"].upper()
    return Column(
        name=row["COLUMN_NAME"],
        type=column_type(
            row["DATA_TYPE"],
            row["COLUMN_TYPE"],
            length=row["CHARACTER_MAXIMUM_LENGTH"],
            precision=row["NUMERIC_PRECISION"],
            scale=row["NUMERIC_SCALE"],
            fraction=row["DATETIME_PRECISION"],
            collation=row["COLLATION_NAME"],
        ),
        nullable=row["IS_NULLABLE"] == "YES",
        position=row["ORDINAL_POSITION"] - 1,
        invisible="INVISIBLE" in extra,
        expression=_written(row["GENERATION_EXPRESSION"]) if "VIRTUAL GENERATED" in extra else "",
    )


_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "Z": "\x1a"}


def _written(expression: str) -> str:
    """An expression as it stands in SHOW CREATE TABLE. information_schema escapes it once more, as a string."""
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), expression)


def _cascades(inspector: Inspector, name: Name) -> bool | None:
    """Whether foreign keys change rows of the table; None: it is no more."""
    schema, table = name
    try:
        foreign_keys = inspector.get_foreign_keys(table, schema)
    except sa.exc.NoSuchTableError:
        return None
    return any(
        str(rule).upper() in CASCADES
        for key in foreign_keys
        for option, rule in key["options"].items()
        if option in ("ondelete", "onupdate")
    )


def _followed(connection: sa.Connection, name: Name) -> Followed:
    """Of which tables rows of this one follow the rows, by foreign keys. Requires: there are such keys. A table that is
    not seen (it is not there yet, or not for this account) may follow any other."""
    schema, table = name
    links = connection.execute(ABOVE, {"schema": schema, "table": table}).all()
    if not links or not all(link.seen for link in links):
        return Followed(frozenset({ANY_TABLE}), frozenset({ANY_TABLE}))
    deletes, updates = (frozenset(link.name for link in links if getattr(link, how)) for how in ("deletes", "updates"))
    referenced: set[tuple[str, int, int]] = set()
    for above, *spelled in {(link.name, link.in_schema, link.in_table) for link in links if link.updates}:
        found = connection.execute(REFERENCED, dict(zip(("schema", "table"), spelled, strict=True))).all()
        if all(row.position is not None for row in found):
            referenced.update((above, int(row.position), int(row.width)) for row in found)
    return Followed(deletes, updates, frozenset(referenced))


def _definition(connection: sa.Connection, name: Name, told: str) -> str:
    """The text of a view, of which information_schema tells this."""
    view = ".".join(name)
    if not told:
        message = f"the definition of the view {view} is hidden from this user: GRANT SHOW VIEW shows it"
        raise SourceError(1142, "42000", message)
    if not view_text.may_lack(told):
        return told
    spelled = relation_name(*name).replace("%", "%%")  # the driver puts parameters in
    _, created, *_ = connection.exec_driver_sql(f"SHOW CREATE VIEW {spelled}").one()
    found = view_text.whole(told, str(created))
    if found is None:
        raise SourceError(1142, "42000", f"the definition of the view {view} is not told whole")
    return found
