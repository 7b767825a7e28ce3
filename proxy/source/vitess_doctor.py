"""The start-up check of a Vitess source: can its keyspace be cached, and if not, what mends it?

It only reads. Each refusal of vtgate's becomes a finding that says what was seen and what is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymysql

from external_upquery.address import Upstream
from external_upquery.login import connect
from external_upquery.vitess.release import ASK as RELEASE
from external_upquery.vitess.release import release_of
from external_upquery.vitess.schema import VitessSchema
from proxy.source.vitess import grpc_credentials
from sqltypes.errors import ConfigError, SourceDown, SourceError, UpwellError
from sqltypes.source_checks import Finding, Severity
from vstream.vitess.stream import VitessStream

WANTED = {"gtid_mode": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": ""}
ASKED = "SELECT @@server_uuid, @@global.gtid_executed, " + ", ".join(f"@@global.{name}" for name in WANTED)
TABLES = (
    "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() ORDER BY TABLE_NAME"
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
        found = list(_findings(upstream, ask))
    except pymysql.err.MySQLError as error:
        if isinstance(error, pymysql.err.OperationalError) and error.args[0] in (2006, 2013):
            raise SourceDown(f"vtgate was lost during the check: {error.args[-1]}") from error
        raise SourceError(int(error.args[0]), "HY000", str(error.args[-1])) from error
    finally:
        connection.close()
    if not any(one.severity is Severity.ERROR for one in found):
        found.append(asyncio.run(_stream(upstream)))
    return found


def _findings(upstream: Upstream, ask: Ask) -> Iterator[Finding]:
    yield (version := _version(str(ask(RELEASE)[0][0])))
    if version.severity is Severity.ERROR:
        return
    keyspace = upstream.database
    names = {str(row[0]) for row in ask("SHOW VSCHEMA KEYSPACES")}
    if keyspace not in names:
        has = ", ".join(sorted(names)) or "none"
        yield Finding("keyspace", Severity.ERROR, f"there is no keyspace {keyspace}", f"one of those that are: {has}")
        return
    if others := sorted(names - {keyspace}):
        seen = f"queries of other keyspaces are passed through: {_some(others)}"
        yield Finding("keyspaces", Severity.OK, f"{seen}; an Upwell follows one keyspace, so each needs its own")
    shards = [str(row[0]).partition("/")[2] for row in ask("SHOW VITESS_SHARDS") if row[0].startswith(f"{keyspace}/")]
    yield Finding("keyspace", Severity.OK, f"{keyspace} has {len(shards)} shards: {', '.join(shards)}")
    wrong = False
    for shard in shards:
        yield (found := _shard(ask, keyspace, shard))
        wrong |= found.severity is Severity.ERROR
    if shards and not wrong:
        yield from _tables(upstream, ask, shards)


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


def _tables(upstream: Upstream, ask: Ask, shards: Sequence[str]) -> Iterator[Finding]:
    """Which tables cannot be cached, and why."""
    rows = ask(f"USE `{upstream.database}:{shards[0]}`", TABLES)
    ask(f"USE `{upstream.database}`")
    tables = [str(name) for name, kind in rows if kind == "BASE TABLE"]
    views = [str(name) for name, kind in rows if kind != "BASE TABLE"]
    schema = VitessSchema(upstream, lambda: shards, lambda table, told: None)
    try:
        reasons, by_texts = schema.why_not(tables)
    finally:
        schema.close()
    for name, reason in reasons.items():
        needed = (
            "an entry in the VSchema with its column_vindexes" if "no table" in reason else "nothing, if that is meant"
        )
        yield Finding(f"table {name}", Severity.WARNING, f"its queries are passed through: {reason}", needed)
    if views:
        seen = f"queries of views are passed through: {_some(views)}"
        yield Finding("views", Severity.WARNING, seen, "nothing, if that is meant; else queries of their tables")
    if by_texts:
        seen = f"{_some(by_texts)}: rows are distributed by texts, so queries by these are held in evict mode"
        yield Finding("texts", Severity.OK, seen)
    yield Finding("tables", Severity.OK, f"{len(tables) - len(reasons)} of {len(tables)} tables can be cached")


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


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
