"""The start-up check of a Vitess source: can its keyspace be cached, and if not, what mends it?

It only reads. What vtgate refuses is a finding that says what was seen and what is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymysql

from external_upquery.login import connect
from external_upquery.upstream import Upstream
from external_upquery.vtgate_release import ASK as RELEASE
from external_upquery.vtgate_release import release_of
from proxy.vitess_source import grpc_credentials
from sqltypes.errors import ConfigError, SourceDown, SourceError, UpwellError
from sqltypes.source_checks import Finding, Severity
from vstream.vitess import VitessStream

WANTED = {"gtid_mode": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": ""}
ASKED = "SELECT @@server_uuid, @@global.gtid_executed, " + ", ".join(f"@@global.{name}" for name in WANTED)
TABLES = (
    "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE'"
    " ORDER BY TABLE_NAME"
)
NAMED = 5  # tables that a finding names

Rows = Sequence[tuple[Any, ...]]
Ask = Callable[..., Rows]
"""Runs statements, the rows of the last one. Raises pymysql.err.MySQLError."""


def check(upstream: Upstream) -> list[Finding]:
    """All findings, in the order in which to mend them. Blocks. Raises SourceDown, ConfigError, SourceError."""
    connection = connect(upstream)

    def ask(*statements: str) -> Rows:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return tuple(cursor.fetchall())

    try:
        found = list(_findings(ask, upstream.database))
    except pymysql.err.MySQLError as error:
        if isinstance(error, pymysql.err.OperationalError) and error.args[0] in (2006, 2013):
            raise SourceDown(f"vtgate was lost during the check: {error.args[-1]}") from error
        raise SourceError(int(error.args[0]), "HY000", str(error.args[-1])) from error
    finally:
        connection.close()
    if not any(one.severity is Severity.ERROR for one in found):
        found.append(asyncio.run(_stream(upstream)))
    return found


def _findings(ask: Ask, keyspace: str) -> Iterator[Finding]:
    yield (version := _version(str(ask(RELEASE)[0][0])))
    if version.severity is Severity.ERROR:
        return
    names = {str(row[0]): row[1] == "true" for row in ask("SHOW VSCHEMA KEYSPACES")}
    if keyspace not in names:
        has = ", ".join(sorted(names)) or "none"
        yield Finding("keyspace", Severity.ERROR, f"there is no keyspace {keyspace}", f"one of those that are: {has}")
        return
    shards = [str(row[0]).partition("/")[2] for row in ask("SHOW VITESS_SHARDS") if row[0].startswith(f"{keyspace}/")]
    yield Finding("keyspace", Severity.OK, f"{keyspace} has {len(shards)} shards: {', '.join(shards)}")
    for shard in shards:
        yield _shard(ask, keyspace, shard)
    if shards and names[keyspace]:
        yield _vschema(ask, keyspace, shards[0])


def _version(comment: str) -> Finding:
    try:
        return Finding("vtgate", Severity.OK, f"Vitess {release_of(comment)}")
    except ConfigError as error:
        seen, _, needed = error.message.partition(": ")
        return Finding("vtgate", Severity.ERROR, seen, needed)


def _shard(ask: Ask, keyspace: str, shard: str) -> Finding:
    name = f"shard {shard}"
    try:
        ((server, executed, *values),) = ask(f"USE `{keyspace}:{shard}`", ASKED)
    except pymysql.err.MySQLError as error:
        return Finding(name, Severity.ERROR, str(error.args[-1])[:300], "a primary tablet that serves")
    finally:
        ask(f"USE `{keyspace}`")
    wrong = [
        (variable, str(value), wanted)
        for (variable, wanted), value in zip(WANTED.items(), values, strict=True)
        if str(value).upper() != wanted
    ]
    if wrong:
        seen = ", ".join(f"{variable} is {value!r}" for variable, value, _ in wrong)
        needed = ", ".join(f"{variable} = {wanted!r}" for variable, _, wanted in wrong)
        mend = tuple(f"SET PERSIST {variable} = '{wanted}'" for variable, _, wanted in wrong if variable != "gtid_mode")
        return Finding(name, Severity.ERROR, f"at MySQL {server}: {seen}", needed, mend)
    if not executed:
        return Finding(name, Severity.ERROR, f"MySQL {server} has executed nothing under a GTID", "gtid_mode = ON")
    return Finding(name, Severity.OK, f"MySQL {server} tells what it has executed")


def _vschema(ask: Ask, keyspace: str, shard: str) -> Finding:
    there = [str(row[0]) for row in ask(f"USE `{keyspace}:{shard}`", TABLES)]
    known = {str(row[0]) for row in ask(f"USE `{keyspace}`", "SHOW VSCHEMA TABLES")}
    lacking = [name for name in there if name not in known]
    if lacking:
        more = f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else ""
        return Finding(
            "vschema",
            Severity.WARNING,
            f"the VSchema lacks {', '.join(lacking[:NAMED])}{more}: queries of these are passed through",
            "an entry with its column_vindexes for each table that is to be cached",
        )
    return Finding("vschema", Severity.OK, f"it has all {len(there)} tables of the keyspace")


async def _stream(upstream: Upstream) -> Finding:
    account = upstream.user, upstream.password
    stream = VitessStream(upstream.grpc, upstream.database, account=account, tls=grpc_credentials(upstream))
    try:
        await stream.start(lambda event: None)
        return Finding("stream", Severity.OK, f"VStream tells where {', '.join(stream.shards)} are, at {upstream.grpc}")
    except (ConfigError, SourceError, SourceDown) as error:
        return Finding("stream", Severity.ERROR, error.message, _needed(error))
    finally:
        await stream.close()


def _needed(error: UpwellError) -> str:
    if isinstance(error, SourceError):
        return "an account that may use VStream (vtgate's --grpc-auth-mode and --vstream-... flags)"
    return "the host and port of vtgate's --grpc-port, as ?grpc=HOST:PORT"
