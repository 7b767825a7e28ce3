"""The start-up check: can this source be cached, and if not, which statement mends it?

`check` asks a source about everything that the rest of Upwell takes for granted. It only reads, and it needs no more
rights than the proxy itself: what it may not see becomes a warning that names the missing right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pymysql
from pymysql.connections import Connection

from external_upquery.login import connect
from external_upquery.snapshot import EXACT_END, EXACT_OPENING
from external_upquery.upstream import Upstream
from sqltypes.errors import SourceDown, SourceError

OLDEST = (8, 0, 0)
SHORTEST_RETENTION = 3600  # seconds
OTHER_CONNECTIONS = 4  # the change stream, the schema, a KILL, the check itself
NAMED = 5  # tables that a finding names
ACCESS_DENIED = frozenset({1044, 1142, 1143, 1227})
SYNTAX_ERROR = 1064
SYSTEM_SCHEMAS = "('mysql', 'sys', 'information_schema', 'performance_schema')"
NO_VARIABLE = ""
EXACT_FORM = [packet[5:].decode() for packet in (*EXACT_OPENING, *EXACT_END)]  # without the statements between

Cursor = Any  # a PyMySQL cursor
Rows = tuple[tuple[Any, ...], ...]


class Severity(Enum):
    """ERROR: nothing can be cached. WARNING: something cannot, or could not be checked."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `mend`: the statements that put it right, in order; "" as `needed` where nothing is wrong.

    Where SQL cannot mend it, `mend` is empty and `needed` says what to do.
    """

    name: str
    severity: Severity
    seen: str
    needed: str = ""
    mend: tuple[str, ...] = ()


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
        user, _, host = str(self.rows("SELECT CURRENT_USER()")[0][0]).rpartition("@")
        self.account = f"'{_quoted(user)}'@'{_quoted(host)}'"

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

    def where_schema(self, column: str) -> tuple[str, tuple[Any, ...]]:
        """A condition for the databases that may be cached."""
        if self.database:
            return f"{column} = %s", (self.database,)
        return f"{column} NOT IN {SYSTEM_SCHEMAS}", ()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "''")


def _name(schema: str, table: str) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))


def _findings(source: _Source, connections: int) -> Iterator[Finding]:
    version = _version(source.variables)
    yield version
    if version.severity is Severity.ERROR:
        return
    yield _log_bin(source.variables)
    yield from _settings(source.variables)
    yield _compression(source.variables)
    if source.variables.get("log_bin") == "ON":
        yield _filters(source)
    yield _replica(source)
    yield _engines(source)
    yield _cascades(source)
    yield _right_to_stream(source)
    yield _right_to_read(source)
    yield _right_to_lock(source)
    yield _views(source)
    yield _retention(source.variables)
    yield _connections(source.variables, connections)


def _version(variables: Mapping[str, str]) -> Finding:
    text = variables.get("version", "")
    needed = "MySQL 8.0 or newer"
    if "mariadb" in (text + variables.get("version_comment", "")).lower():
        return Finding("version", Severity.ERROR, f"MariaDB {text}", f"{needed}: MariaDB's GTIDs are of another kind")
    numbers = tuple(int(part) for part in text.split("-", 1)[0].split(".") if part.isdigit())
    if numbers < OLDEST:
        return Finding("version", Severity.ERROR, f"MySQL {text}", needed)
    return Finding("version", Severity.OK, f"MySQL {text}")


def _log_bin(variables: Mapping[str, str]) -> Finding:
    seen = f"log_bin={variables.get('log_bin', 'OFF')}"
    if variables.get("log_bin") == "ON":
        return Finding("log_bin", Severity.OK, seen)
    needed = "log_bin=ON: remove skip-log-bin from the server's option file (or add log_bin=binlog) and restart it"
    return Finding("log_bin", Severity.ERROR, seen, needed)


@dataclass(frozen=True, slots=True)
class Setting:
    """A global variable that must have one value. `why` completes "needed, ..."."""

    name: str
    wanted: str
    why: str
    severity: Severity = Severity.ERROR
    steps: Callable[[str], tuple[str, ...]] | None = None  # from the value seen, where one statement is not enough
    absent: str = ""  # the value of a server that has no such variable any more


def _gtid_steps(seen: str) -> tuple[str, ...]:
    """gtid_mode moves only one step at a time."""
    modes = ("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")
    at = modes.index(seen) if seen in modes else 0
    return tuple(f"SET PERSIST gtid_mode = {mode}" for mode in modes[at + 1 :])


SETTINGS = (
    Setting("enforce_gtid_consistency", "ON", "because gtid_mode=ON asks for it"),
    Setting("gtid_mode", "ON", "because positions are GTID sets", steps=_gtid_steps),
    Setting("binlog_format", "ROW", "because changes are read from row events", absent="ROW"),
    Setting("binlog_row_image", "FULL", "because a change is applied by all columns before and after it"),
    Setting("binlog_row_metadata", "FULL", "because names, signs and character sets are read from the stream"),
    Setting("binlog_row_value_options", "", "because partial JSON updates do not carry the value"),
    Setting(
        "binlog_order_commits",
        "ON",
        "as otherwise positions have gaps, and more answers are too uncertain to be kept",
        Severity.WARNING,
    ),
)


def _settings(variables: Mapping[str, str]) -> Iterator[Finding]:
    for setting in SETTINGS:
        value = variables.get(setting.name, setting.absent)
        seen = f"{setting.name}={value or repr(value)}"
        if value.upper() == setting.wanted:
            yield Finding(setting.name, Severity.OK, seen)
            continue
        wanted = setting.wanted or "''"
        mend = setting.steps(value.upper()) if setting.steps else (f"SET PERSIST {setting.name} = {wanted}",)
        yield Finding(setting.name, setting.severity, seen, f"{setting.name}={wanted}, {setting.why}", mend)


def _compression(variables: Mapping[str, str]) -> Finding:
    value = variables.get("binlog_transaction_compression", "OFF")
    note = " (compressed transactions are read too)" if value == "ON" else ""
    return Finding("binlog_transaction_compression", Severity.OK, f"binlog_transaction_compression={value}{note}")


def _filters(source: _Source) -> Finding:
    name = "binlog_filters"
    status = source.allowed("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
    if status is None:
        grant = f"GRANT REPLICATION CLIENT ON *.* TO {source.account}"
        needed = "REPLICATION CLIENT, to see whether changes of some databases are left out of the binlog"
        return Finding(name, Severity.WARNING, "the filters of the binlog cannot be seen", needed, (grant,))
    filters = [
        f"{column}={row[column]}" for row in status for column in ("Binlog_Do_DB", "Binlog_Ignore_DB") if row[column]
    ]
    if filters:
        needed = "no filter: remove binlog-do-db and binlog-ignore-db from the server's option file and restart it"
        return Finding(name, Severity.ERROR, ", ".join(filters), needed)
    return Finding(name, Severity.OK, "all databases are in the binlog")


def _replica(source: _Source) -> Finding:
    name = "log_replica_updates"
    value = source.variables.get(name) or source.variables.get("log_slave_updates", NO_VARIABLE)
    if value == "ON":
        return Finding(name, Severity.OK, f"{name}=ON")
    channels = source.allowed("SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
    if channels == []:
        return Finding(name, Severity.OK, f"{name}={value}, and the source is no replica")
    needed = f"{name}=ON in the server's option file and a restart, because what it replicates must be in its binlog"
    if channels is None:
        return Finding(
            name, Severity.WARNING, f"{name}={value}; whether the source is a replica cannot be seen", needed
        )
    return Finding(name, Severity.ERROR, f"{name}={value} on a replica", needed)


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
    needed = "keys without CASCADE and SET NULL, or a server that logs their changes: these tables are not cached"
    if variable is None:
        return Finding(name, Severity.WARNING, seen, needed)
    needed = "innodb_native_foreign_keys=OFF in the server's option file and a restart: these tables are not cached"
    return Finding(name, Severity.WARNING, f"innodb_native_foreign_keys={variable}, and {seen}", needed)


def _right_to_stream(source: _Source) -> Finding:
    name = "replication_slave"
    if source.allowed("SHOW REPLICAS", "SHOW SLAVE HOSTS") is not None:
        return Finding(name, Severity.OK, f"{source.account} may read the binlog")
    mend = (f"GRANT REPLICATION SLAVE ON *.* TO {source.account}",)
    return Finding(name, Severity.ERROR, f"{source.account} may not read the binlog", "REPLICATION SLAVE", mend)


def _right_to_read(source: _Source) -> Finding:
    name = "select"
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
    seen = f"{limit} connections at most, and Upwell takes up to {wanted}"
    if not limit or wanted * 2 <= limit:
        return Finding(name, Severity.OK, seen)
    severity = Severity.ERROR if wanted > limit else Severity.WARNING
    mend = [f"SET PERSIST {name} = {wanted * 2}"]
    if 0 < limits[1] < wanted * 2:
        mend.append(f"SET PERSIST max_user_connections = {wanted * 2}")
    return Finding(name, severity, seen, f"max_connections of {wanted * 2} or a smaller pool", tuple(mend))


def _listed(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
