"""Reflection of a keyspace of Vitess. Its tables are those of its shards' MySQLs, all alike; the VSchema says where
rows are.

Views are left out (vtgate's own are not MySQL's). So are tables of other keyspaces, whose changes no stream of ours
has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pymysql
from pymysql.connections import Connection

from external_upquery.address import Upstream
from external_upquery.login import CUT_OFF, connect
from external_upquery.mysql.schema_source import Name, SchemaSource
from external_upquery.vitess.errors import passes
from external_upquery.vitess.routes import Route, columns_of, question, quoted, route_of, vindexes_of
from external_upquery.vitess.shard_of_key import Vindex, spelled_apart
from planner.tree.reasons import SYSTEM_SCHEMAS
from sqltypes.errors import SourceDown, SourceError, UnsupportedQuery
from sqltypes.schema import Relation, SchemaSnapshot, Table

FUNCTIONAL = frozenset({
    "binary", "binary_md5", "cfc", "hash", "multicol", "numeric", "numeric_static_map", "region_experimental",
    "region_json", "reverse_bits", "unicode_loose_md5", "unicode_loose_xxhash", "xxhash",
})  # fmt: skip
"""Types of vindexes by which a value is on one shard for ever. Others look it up in a table, whose rows change."""


@dataclass(slots=True)
class Distributed:
    """What vtgate says of a table. `vindex`: the one that distributes its rows. It is None if they are all in one
    place, or if the table is `refused`: vtgate's answer rules a cache out."""

    route: Route
    vindex: Vindex | None = None
    refused: bool = True


class VitessSchema:
    """Reflects over connections of its own. Raises SourceDown (also while shards differ), SourceError, and
    UnsupportedQuery where a table's rows cannot be told from those of other shards."""

    def __init__(
        self,
        upstream: Upstream,
        shards: Callable[[], Sequence[str]],
        told: Callable[[str, Distributed], None],
        away: Callable[[], str] = str,
    ) -> None:
        """`told` is called on the loop with what vtgate says of a table, by its name in the keyspace, each time that it
        is read. `away`: which shards are answered from another keyspace; "" if none is."""
        self._upstream, self._shards, self._told, self._away = upstream, shards, told, away
        self._sources: dict[str, SchemaSource] = {}

    async def snapshot(self, names: Iterable[Name]) -> SchemaSnapshot:
        read: dict[str, Distributed] = {}
        try:
            return await asyncio.to_thread(self._snapshot, tuple(names), tuple(self._shards()), read, self._away())
        except SourceError as error:
            if passes(error):
                raise SourceDown(f"vtgate's schema cannot be read now: {error.message}") from error
            raise
        finally:
            for table, distributed in list(read.items()):
                self._told(table, distributed)

    def _snapshot(
        self, names: Sequence[Name], shards: Sequence[str], read: dict[str, Distributed], away: str
    ) -> SchemaSnapshot:
        """`read`: gets what vtgate says of each table, also where it is refused for that."""
        keyspace = self._upstream.database
        wanted = [name for schema, name in names if schema == keyspace]
        others = [f"{schema}.{name}" for schema, name in names if schema not in (keyspace, *SYSTEM_SCHEMAS)]
        if others:
            raise UnsupportedQuery(
                "keyspace", f"table {others[0]} is of another keyspace: this Upwell follows {keyspace} alone"
            )
        with self._vtgate() as connection:
            if away and wanted:  # at such a shard, what is there is another keyspace's
                read.update({name: Distributed(self._route(connection, name)) for name in wanted})
                raise UnsupportedQuery("vschema", f"{away}, whose changes are not followed")
            database, found = self._found(connection, shards, wanted)
            relations: dict[Name, Relation] = {}
            for name in wanted:
                if (relation := self._table(connection, database, name, found, read)) is not None:
                    relations[keyspace, name] = relation
        first = found[0]
        return SchemaSnapshot(relations, first.server_version, first.lower_case_table_names)

    def _found(
        self, connection: Connection, shards: Sequence[str], names: Sequence[str]
    ) -> tuple[str, list[SchemaSnapshot]]:
        """The database at the shards, and what each has of these names."""
        database = _only(connection, f"USE `{self._upstream.database}:{shards[0]}`", THE_DATABASE)
        return database, [self._at(shard).snapshot_now([(database, name) for name in names]) for shard in shards]

    def _table(
        self,
        connection: Connection,
        database: str,
        name: str,
        found: Sequence[SchemaSnapshot],
        read: dict[str, Distributed],
    ) -> Table | None:
        """A table of the keyspace; None where there is none. Raises SourceDown, UnsupportedQuery."""
        keyspace, relation = self._upstream.database, found[0].relations.get((database, name))
        if not isinstance(relation, Table):
            return None
        others = [one.relations.get((database, name)) for one in found]
        table = replace(relation, rows_estimate=self._rows_of(name, relation, others))
        told = read[name] = Distributed(self._route(connection, name))
        vindex = self._vindex(connection, name, told.route)
        if reason := told.route.elsewhere(keyspace, name) if not told.route.refused else "":
            raise UnsupportedQuery("vschema", f"table {name} is {reason}, whose changes are not followed")
        told.vindex, told.refused = vindex, False
        apart = spelled_apart(table, told.vindex) if told.vindex is not None else frozenset()
        return _of_keyspace(replace(table, hint=_hint(told.route), spelled=apart), database, keyspace, told.vindex)

    def why_not(self, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """Why tables cannot be cached, and which of the others are distributed by texts. Blocks. Raises as
        `snapshot`."""
        reasons, by_texts = {}, []
        with self._vtgate() as connection:
            database, found = self._found(connection, tuple(self._shards()), names)
            for name in names:
                try:
                    table = self._table(connection, database, name, found, {})
                except (UnsupportedQuery, SourceDown) as error:
                    reasons[name] = error.message
                else:
                    if table is None:
                        reasons[name] = "it is no table that MySQL describes"
                    elif table.spelled:
                        by_texts.append(name)
        return reasons, by_texts

    def _rows_of(self, name: str, first: Table, all_shards: Sequence[Relation | None]) -> int:
        """How many there are about, on all shards. Raises SourceDown where the shards differ in the table."""
        rows, expected = 0, replace(first, rows_estimate=0)
        for one in all_shards:
            if not isinstance(one, Table) or replace(one, rows_estimate=0) != expected:
                keyspace = self._upstream.database
                raise SourceDown(f"the shards of {keyspace} differ in table {name}: a change of it is under way")
            rows += one.rows_estimate
        return rows

    def _route(self, connection: Connection, table: str) -> Route:
        keyspace = self._upstream.database
        route = route_of(_answer(connection, f"USE `{keyspace}`", vindexes_of(keyspace, table)))
        return route.planned(_answer(connection, question(keyspace, table, route)))

    def _vindex(self, connection: Connection, table: str, route: Route) -> Vindex | None:
        """By which a table's rows are distributed; None where they are all in one place. Raises UnsupportedQuery."""
        keyspace, rows = self._upstream.database, route.vindexes
        if isinstance(rows, str):
            if not self._is_sharded(connection):
                return None
            raise UnsupportedQuery(
                "vschema",
                f"the VSchema of keyspace {keyspace} has no table {table}: expected an entry with its column_vindexes",
            )
        if not rows:
            if not self._is_sharded(connection):
                return None
            raise UnsupportedQuery("vschema", f"table {table} is not distributed by a vindex: each shard has its rows")
        if (kind := rows[0][2]) not in FUNCTIONAL:
            raise UnsupportedQuery(
                "vschema",
                f"table {table} is distributed by vindex {rows[0][1]} of type {kind}: expected one that computes the"
                f" shard from the value ({', '.join(sorted(FUNCTIONAL))})",
            )
        return Vindex(rows[0][1], tuple(map(str.lower, columns_of(rows[0]))), rows[0][2:4])

    def _is_sharded(self, connection: Connection) -> bool:
        rows = _rows(connection, "SHOW VSCHEMA KEYSPACES")
        return any(row[0] == self._upstream.database and row[1] == "true" for row in rows)

    def _at(self, shard: str) -> SchemaSource:
        if shard not in self._sources:
            target = f"USE `{self._upstream.database}:{shard}`"

            def login() -> Connection:
                connection = connect(self._upstream)
                connection.query(target)
                return connection

            self._sources[shard] = SchemaSource(self._upstream, login)
        return self._sources[shard]

    def _vtgate(self) -> Connection:
        return connect(self._upstream)

    def close(self) -> None:
        for source in self._sources.values():
            source.close()


THE_DATABASE = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = DATABASE()"


def _rows(connection: Connection, *statements: str) -> Sequence[tuple[object, ...]]:
    """Of the last one. Raises SourceError, SourceDown."""
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()
    except pymysql.err.MySQLError as error:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1]) if len(error.args) > 1 else str(error)
        if isinstance(error, pymysql.err.InterfaceError) or number in (0, 2006, 2013):
            raise SourceDown(f"vtgate's schema cannot be read: {text}") from error
        raise SourceError(number, "HY000", text) from error
    except CUT_OFF as error:
        raise SourceDown(f"vtgate's schema cannot be read: {error!r}") from error


def _answer(connection: Connection, *statements: str) -> Sequence[tuple[object, ...]] | SourceError:
    """As `_rows`; what vtgate refuses for good is an answer, too. Raises SourceDown, SourceError."""
    try:
        return _rows(connection, *statements)
    except SourceError as error:
        if passes(error):
            raise
        return error


def _only(connection: Connection, *statements: str) -> str:
    rows = _rows(connection, *statements)
    if len(rows) != 1:
        raise SourceDown("vtgate does not tell which database a shard's is")
    return str(rows[0][0])


def _of_keyspace(table: Table, database: str, keyspace: str, vindex: Vindex | None) -> Table:
    """A shard's table as a table of the keyspace. A key is unique across shards only if it has all columns that
    distribute the rows, and equal values of these are on one shard. Other keys are unique only within a shard."""
    primary, unique = table.primary_key, table.unique_keys
    if vindex is not None:
        primary = primary if _has(primary, vindex.columns) and not table.spelled else ()
        unique = tuple(key for key in unique if _has(key, vindex.columns) and not table.spelled)

    def renamed(names: Iterable[str]) -> frozenset[str]:
        return frozenset(_renamed(name, database, keyspace) for name in names)

    return replace(
        table,
        schema=keyspace,
        primary_key=primary,
        unique_keys=unique,
        changed_by_deletes=renamed(table.changed_by_deletes),
        changed_by_updates=renamed(table.changed_by_updates),
        referenced=frozenset((_renamed(name, database, keyspace), at, width) for name, at, width in table.referenced),
    )


def _hint(route: Route) -> str:
    """Keeps vtgate from looking rows up by any vindex but the first: no stream has the rows of a lookup's table, and
    they may be committed later than the row."""
    rows = () if isinstance(route.vindexes, str) else route.vindexes[1:]
    names = dict.fromkeys(row[1] for row in rows)
    return f" IGNORE VINDEX ({', '.join(map(quoted, names))})" if names else ""


def _has(key: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    return {name.lower() for name in key} >= set(columns)


def _renamed(name: str, database: str, keyspace: str) -> str:
    prefix = f"{database.lower()}."
    return f"{keyspace.lower()}.{name.removeprefix(prefix)}" if name.startswith(prefix) else name
