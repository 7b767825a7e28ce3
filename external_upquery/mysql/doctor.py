"""The start-up check: can this source be cached, and if not, which statement mends it?

`check` asks a source about everything that the rest of Upwell takes for granted. It only reads, and it needs no more
rights than the proxy itself: what it may not see becomes a warning that names the missing right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pymysql
from pymysql.connections import Connection

from external_upquery.address import Upstream
from external_upquery.login import connect
from external_upquery.snapshot import EXACT_END, EXACT_OPENING
from sqltypes.errors import SourceDown, SourceError
from sqltypes.source_checks import (
    BINLOG_STATUS,
    REPLICA_STATUS,
    REPLICAS,
    Finding,
    Severity,
    SourceFacts,
    as_granted,
    stream_findings,
)

SHORTEST_RETENTION = 3600  # seconds
OTHER_CONNECTIONS = 4  # the change stream, the schema, a KILL, the check itself
NAMED = 5  # tables that a finding names
ACCESS_DENIED = frozenset({1044, 1142, 1143, 1227})
SYNTAX_ERROR = 1064
UNKNOWN_DATABASE = 1049
FEW_CLIENTS = 200  # as MySQL's default max_connections leaves room for
SYSTEM_SCHEMAS = "('mysql', 'sys', 'information_schema', 'performance_schema')"
EXACT_FORM = [packet[5:].decode() for packet in (*EXACT_OPENING, *EXACT_END)]  # without the statements between

Cursor = Any  # a PyMySQL cursor
Rows = tuple[tuple[Any, ...], ...]


def check(upstream: Upstream, *, connections: int = 8) -> list[Finding]:
    """All findings, in the order in which to mend them. Blocks. Raises SourceDown, ConfigError, SourceError.

    `connections`: how many the proxy will want at most.
    """
    connection = connect(upstream)
    try:
        with connection.cursor() as cursor:
            return list(_findings(_Source(connection, cursor, upstream.database), connections))
    except pymysql.err.OperationalError as error:
        raise SourceDown(f"the source was lost during the check: {error.args[-1]}") from error
    except pymysql.err.Error as error:
        raise SourceError(int(error.args[0]), "HY000", str(error.args[-1])) from error
    finally:
        connection.close()


class _Source:
    """The source under examination: its variables, and statements that may be denied."""

    def __init__(self, connection: Connection[Any], cursor: Cursor, database: str) -> None:
        self.cursor = cursor
        self.connection = connection
        self.variables = {str(name).lower(): str(value) for name, value in self.rows("SHOW GLOBAL VARIABLES")}
        self.database = database
        self.account = as_granted(str(self.rows("SELECT CURRENT_USER()")[0][0]))

    def rows(self, sql: str, arguments: tuple[Any, ...] = ()) -> Rows:
        self.cursor.execute(sql, arguments or None)
        rows: Rows = tuple(self.cursor.fetchall())
        return rows

    def allowed(self, *spellings: str) -> list[dict[str, Any]] | None:
        """The rows of the first spelling that this version knows, by column name; None where the user may not see
        them.
        """
        for sql in spellings:
            try:
                rows = self.rows(sql)
            except pymysql.err.Error as error:
                if error.args[0] in ACCESS_DENIED:
                    return None
                if error.args[0] != SYNTAX_ERROR or sql == spellings[-1]:
                    raise
                continue
            names = [column[0] for column in self.cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in rows]
        return None

    def is_missing(self, database: str) -> bool:
        """Whether MySQL says that it does not exist: to who may not see it, it says that he may not."""
        try:
            self.rows(f"SHOW TABLES FROM `{database.replace('`', '``')}` LIKE ''")
        except pymysql.err.Error as error:
            return bool(error.args[0] == UNKNOWN_DATABASE)
        return False

    def where_schema(self, column: str) -> tuple[str, tuple[Any, ...]]:
        """A condition for the databases that may be cached."""
        if self.database:
            return f"{column} = %s", (self.database,)
        return f"{column} NOT IN {SYSTEM_SCHEMAS}", ()


def _name(schema: str, table: str) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))


def _findings(source: _Source, connections: int) -> Iterator[Finding]:
    found = stream_findings(_facts(source))
    yield from found
    if found[0].severity is Severity.ERROR:  # of a version that says nothing of the rest
        return
    yield _compression(source.variables)
    yield _engines(source)
    yield _cascades(source)
    yield _right_to_stream(source)
    yield _right_to_read(source)
    yield _right_to_lock(source)
    yield _views(source)
    yield _retention(source.variables)
    yield _connections(source.variables, connections)


def _facts(source: _Source) -> SourceFacts:
    logged = source.variables.get("log_bin") == "ON"
    return SourceFacts(
        source.account,
        source.variables,
        source.allowed(*BINLOG_STATUS) if logged else [],
        source.allowed(*REPLICA_STATUS),
    )


def _compression(variables: Mapping[str, str]) -> Finding:
    value = variables.get("binlog_transaction_compression", "OFF")
    note = " (compressed transactions are read too)" if value == "ON" else ""
    return Finding("binlog_transaction_compression", Severity.OK, f"binlog_transaction_compression={value}{note}")


def _engines(source: _Source) -> Finding:
    condition, arguments = source.where_schema("TABLE_SCHEMA")
    rows = source.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES"
        f" WHERE {condition} AND TABLE_TYPE = 'BASE TABLE' AND ENGINE <> 'InnoDB' ORDER BY 1, 2",
        arguments,
    )
    if not rows:
        return Finding("engines", Severity.OK, "all tables are InnoDB")
    seen = _listed([f"{schema}.{table} ({engine})" for schema, table, engine in rows])
    mend = tuple(f"ALTER TABLE {_name(schema, table)} ENGINE = InnoDB" for schema, table, _ in rows[:NAMED])
    needed = "InnoDB, because others have no snapshots: queries on these tables are not cached"
    return Finding("engines", Severity.WARNING, seen, needed, mend)


def _cascades(source: _Source) -> Finding:
    name = "cascading_foreign_keys"
    variable = source.variables.get("innodb_native_foreign_keys")
    if variable == "OFF":
        return Finding(
            name, Severity.OK, "innodb_native_foreign_keys=OFF: rows that foreign keys change are in the binlog"
        )
    condition, arguments = source.where_schema("CONSTRAINT_SCHEMA")
    rows = source.rows(
        "SELECT DISTINCT CONSTRAINT_SCHEMA, TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS"
        f" WHERE {condition} AND (DELETE_RULE IN ('CASCADE', 'SET NULL') OR UPDATE_RULE IN ('CASCADE', 'SET NULL'))"
        " ORDER BY 1, 2",
        arguments,
    )
    if not rows:
        return Finding(name, Severity.OK, "no foreign key changes rows")
    seen = _listed([f"{schema}.{table}" for schema, table in rows])
    follows = "what is held of these tables is forgotten whenever a row that theirs follow goes or gets another key"
    if variable is None:
        return Finding(name, Severity.OK, f"{seen}: {follows}")
    needed = f"innodb_native_foreign_keys=OFF in the server's option file and a restart: without it {follows}"
    return Finding(name, Severity.WARNING, f"innodb_native_foreign_keys={variable}, and {seen}", needed)


def _right_to_stream(source: _Source) -> Finding:
    name = "replication_slave"
    if source.allowed(*REPLICAS) is not None:
        return Finding(name, Severity.OK, f"{source.account} may read the binlog")
    mend = (f"GRANT REPLICATION SLAVE ON *.* TO {source.account}",)
    return Finding(name, Severity.ERROR, f"{source.account} may not read the binlog", "REPLICATION SLAVE", mend)


def _right_to_read(source: _Source) -> Finding:
    name = "select"
    if source.database and source.is_missing(source.database):
        needed = "a database that exists, in the upstream's address, or none there: clients name their own"
        create = f"CREATE DATABASE `{source.database.replace('`', '``')}`"
        return Finding(name, Severity.ERROR, f"there is no database {source.database}", needed, (create,))
    condition, arguments = source.where_schema("TABLE_SCHEMA")
    tables = source.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        f" WHERE {condition} AND TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2 LIMIT 1",
        arguments,
    )
    if tables and source.allowed(f"SELECT 1 FROM {_name(*tables[0])} LIMIT 0") is not None:
        return Finding(name, Severity.OK, f"{source.account} may read {tables[0][0]}")
    schema = source.database or (tables[0][0] if tables else "the_database")
    where = f"the database {schema}" if source.database or tables else "any database"
    mend = (f"GRANT SELECT, SHOW VIEW ON `{schema.replace('`', '``')}`.* TO {source.account}",)
    # A database that is empty looks the same as one that the user may not see.
    severity = Severity.ERROR if tables else Severity.WARNING
    return Finding(name, severity, f"{source.account} sees no table of {where} that it may read", "SELECT", mend)


def _right_to_lock(source: _Source) -> Finding:
    """MySQL wants no right for shared locks beyond SELECT; what stands between may not let them through."""
    name = "exact_fills"
    try:
        for sql in EXACT_FORM:
            source.rows(sql)
    except pymysql.err.Error as error:
        seen = f"{source.account} may not lock what it reads: {error.args[-1]}"
        needed = "SET SESSION and SERIALIZABLE transactions, to hold keys that are written all the time sooner"
        return Finding(name, Severity.WARNING, seen, needed)
    return Finding(name, Severity.OK, f"{source.account} may lock what it reads")


def _views(source: _Source) -> Finding:
    condition, arguments = source.where_schema("TABLE_SCHEMA")
    rows = source.rows(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEWS"
        f" WHERE {condition} AND VIEW_DEFINITION = '' ORDER BY 1, 2",
        arguments,
    )
    if not rows:
        return Finding("show_view", Severity.OK, "the definitions of all views can be seen")
    seen = f"hidden definitions of views: {_listed([f'{schema}.{view}' for schema, view in rows])}"
    schemas = sorted({schema for schema, _ in rows})
    mend = tuple(f"GRANT SHOW VIEW ON `{schema.replace('`', '``')}`.* TO {source.account}" for schema in schemas)
    return Finding("show_view", Severity.WARNING, seen, "SHOW VIEW, to cache queries on these views", mend)


def _retention(variables: Mapping[str, str]) -> Finding:
    name = "binlog_expire_logs_seconds"
    seconds = int(variables.get(name, "0"))
    if seconds == 0 or seconds >= SHORTEST_RETENTION or variables.get("binlog_expire_logs_auto_purge") == "OFF":
        return Finding(name, Severity.OK, f"{name}={seconds}")
    needed = f"at least {SHORTEST_RETENTION}: after a longer interruption everything held is dropped"
    return Finding(name, Severity.WARNING, f"{name}={seconds}", needed, (f"SET PERSIST {name} = 259200",))


def _connections(variables: Mapping[str, str], connections: int) -> Finding:
    name = "max_connections"
    limits = [int(variables.get(limit, "0")) for limit in ("max_connections", "max_user_connections")]
    limit = min(value for value in limits if value) if any(limits) else 0
    wanted = connections + OTHER_CONNECTIONS
    room = max(0, limit - wanted)
    seen = (
        f"{limit} connections at most: {wanted} for Upwell itself, and one for each client of its MySQL port, so {room}"
    )
    if not limit or room >= FEW_CLIENTS:
        return Finding(name, Severity.OK, seen)
    severity = Severity.ERROR if wanted > limit else Severity.WARNING
    enough = wanted + 2 * FEW_CLIENTS
    mend = [f"SET PERSIST {name} = {enough}"]
    if 0 < limits[1] < enough:
        mend.append(f"SET PERSIST max_user_connections = {enough}")
    needed = (
        f"one for each client at a time (or --mysql-connections {max(1, room)}, and Upwell itself refuses the others)"
    )
    return Finding(name, severity, seen, needed, tuple(mend))


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
