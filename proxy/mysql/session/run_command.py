"""Carries out Upwell's own SQL (`text/own_sql_syntax.py`) for a session, and says what it answers as a table of plain
values.

It knows the session only as `SessionView`, which the listener is, and the proxy as `System`. Errors are UpwellErrors
with MySQL's error number and SQLSTATE.

Rights: who makes or explains a cache must be able to read its tables; who drops or empties one must be an
administrator, or its maker. Only administrators see and change settings, and see the texts that others have asked or
made caches of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from planner.text.scan import preparable
from proxy.auto.passed_reads import ProxiedQueries, ProxiedQuery
from proxy.loop.slices import in_slices
from proxy.mysql.reads.routes import NO_CACHE
from proxy.mysql.session.nearest_cache import LOCKING, why_no_cache
from proxy.mysql.text.own_sql_syntax import (
    Cell,
    Columns,
    Command,
    CreateCache,
    Done,
    DropCache,
    ExplainCreateCache,
    ExplainLastStatement,
    FlushCache,
    LastStatement,
    ResultTable,
    SetBoost,
    SetSetting,
    ShowCaches,
    ShowProxiedQueries,
    ShowSettings,
    ShowStatus,
    like,
)
from proxy.port.api import CacheInfo, System, SystemStatus
from proxy.port.fill_progress import FillProgress
from proxy.port.made_by import MadeBy, Origin
from sqltypes.errors import NotPermitted, UnknownCache, UnknownName, UnsupportedQuery, UpwellError


class SessionView(Protocol):
    """The session that a command came in."""

    @property
    def account(self) -> str:
        """What CURRENT_USER() is in it: `user@host`."""
        ...

    @property
    def is_admin(self) -> bool: ...

    @property
    def database(self) -> str:
        """Its default database, "" for none."""
        ...

    @property
    def speaks(self) -> str:
        """Who answers it behind Upwell: MySQL, or vtgate."""
        ...

    @property
    def proxied(self) -> ProxiedQueries:
        """The reads that MySQL has answered."""
        ...

    @property
    def last_statement(self) -> LastStatement | None:
        """The last that was no command of Upwell's; None before the first."""
        ...

    async def may_read(self, sql: str, database: str) -> None:
        """Raises MySQL's own error (SourceError) where the account may not run this SELECT in this database, for
        example by preparing it in the user's own session."""
        ...


SAYS = re.compile(r"\bMySQL(?= (?:answer|announce|refuse|must|has|had|does not tell|is told|goes on|would have to)|\Z)")
"""Where a reason speaks of who answers sessions; elsewhere it speaks of how MySQL computes."""
_CACHES: Columns = (
    ("name", "string"),
    ("query", "string"),
    ("mode", "string"),
    ("keys", "bigint"),
    ("bytes", "bigint"),
    ("hits", "bigint"),
    ("misses", "bigint"),
    ("passed", "bigint"),
    ("passed_reason", "string"),
    ("hit_p50_us", "double"),
    ("miss_p50_us", "double"),
    ("emptied", "bigint"),
    ("emptied_by", "string"),
    ("state", "string"),
    ("database", "string"),
    ("origin", "string"),
    ("creator", "string"),
    ("reason", "string"),
)
_PROXIED: Columns = (
    ("query", "string"),
    ("database", "string"),
    ("count", "bigint"),
    ("p50_us", "double"),
    ("total_ms", "double"),
    ("cacheable", "string"),
    ("reason", "string"),
    ("last_seen", "string"),
    ("id", "string"),
)
_LAST: Columns = (("served", "string"), ("cache", "string"), ("reason", "string"), ("position", "string"))
_STATUS: Columns = (("name", "string"), ("value", "string"))
_SETTINGS: Columns = (*_STATUS, ("origin", "string"), ("live", "string"), ("about", "string"))
_EXPLANATION: Columns = (("explanation", "string"),)
_CACHEABLE = {True: "yes", False: "no", None: "unknown"}


async def run(command: Command, system: System, session: SessionView) -> ResultTable | Done:
    """The answer of a command. Raises UpwellError: the planner's and the source's, NotPermitted, UnknownCache,
    CacheExists, SourceError."""
    match command:
        case CreateCache():
            return await _create(command, system, session)
        case DropCache():
            return await _drop(command, system, session)
        case FlushCache():
            return await _flush(command, system, session)
        case ShowCaches():
            return await _show_caches(command, system, session)
        case ShowProxiedQueries():
            return await _show_proxied(command, session)
        case ShowStatus():
            return _show_status(command, system, session)
        case ShowSettings():
            return _show_settings(command, system, session)
        case SetSetting():
            return _set(command, system, session)
        case ExplainCreateCache():
            return await _explain(command, system, session)
        case ExplainLastStatement():
            return await _explain_last(system, session)
        case SetBoost():
            return Done("ignored: what is cached is said by CREATE CACHE, or --auto-cache=on")


def columns_of(command: Command) -> Columns:
    """The columns of its answer, () where that has no rows."""
    match command:
        case ShowCaches():
            return _CACHES
        case ShowProxiedQueries():
            return _PROXIED
        case ShowStatus():
            return _STATUS
        case ShowSettings():
            return _SETTINGS
        case ExplainCreateCache():
            return _EXPLANATION
        case ExplainLastStatement():
            return _LAST
    return ()


async def _create(command: CreateCache, system: System, session: SessionView) -> Done:
    sql = await _sql_of(command, session)
    if command.if_not_exists and command.name and system.caches.find(command.name) is not None:
        return Done(f"cache {command.name!r} exists already")
    made_by = MadeBy(Origin.SQL, session.account)
    info = await system.caches.create(command.name, sql, session.database, made_by)
    if info.existed and info.name != command.name:
        return Done(f"the query is cached already, as {info.name!r} ({info.mode})")
    return Done(f"cache {info.name!r} ({info.mode})")


async def _sql_of(command: CreateCache | ExplainCreateCache, session: SessionView) -> str:
    """The SELECT that a command is about, which the account may run. Raises UnknownName where it may not know of the
    query that it names."""
    sql = command.sql
    if command.query:
        entry = await session.proxied.by_id(command.query)
        if entry is None or not (session.is_admin or session.account in entry.accounts):
            raise UnknownName(f"no query has the id {command.query!r}: SHOW PROXIED QUERIES has them")
        if entry.database != session.database:
            where = f"USE {entry.database}" if entry.database else "a session without a database"
            raise UnknownName(f"query {command.query!r} is of another database than the session's: {where} first")
        sql = entry.shape
    await session.may_read(preparable(sql), session.database)
    return sql


def _check_own(what: str, name: str, system: System, session: SessionView) -> None:
    """Raises NotPermitted for who may not drop or empty this cache."""
    info = system.caches.find(name)
    if not session.is_admin and (info is None or not _is_own(info, session)):
        # The same whether there is such a cache or not: who asks does not learn what there is.
        raise NotPermitted(
            f"{session.account!r} may not {what} cache {name!r}: its maker and the accounts of --admin-users may"
        )


async def _drop(command: DropCache, system: System, session: SessionView) -> Done:
    _check_own("drop", command.name, system, session)
    try:
        # The account again: meanwhile another may have made a cache of that name.
        await system.caches.drop(command.name, "" if session.is_admin else session.account)
    except UnknownCache:
        if not command.if_exists:
            raise
        return Done(f"cache {command.name!r} does not exist")
    return Done(f"cache {command.name!r} is dropped")


async def _flush(command: FlushCache, system: System, session: SessionView) -> Done:
    _check_own("empty", command.name, system, session)
    held = await system.caches.flush(command.name)
    return Done(f"cache {command.name!r} is empty: it held {held} keys")


# -- settings ----------------------------------------------------------------------------------------------------------


def _check_admin(what: str, session: SessionView) -> None:
    if not session.is_admin:
        raise NotPermitted(f"{session.account!r} may not {what} settings: the accounts of --admin-users may")


def _show_settings(command: ShowSettings, system: System, session: SessionView) -> ResultTable:
    _check_admin("see", session)
    wanted = _wanted(command.like)
    rows: list[tuple[Cell, ...]] = [
        (info.name, info.value, info.origin, info.live, info.help)
        for info in system.settings.listed()
        if wanted(info.name)
    ]
    return ResultTable(_SETTINGS, rows)


def _set(command: SetSetting, system: System, session: SessionView) -> Done:
    _check_admin("change", session)
    info = system.settings.set(command.name, command.value)
    until = " until the next start" if command.value is not None else f" ({info.origin})"
    return Done(f"{info.name} is {info.value}{until}")


# -- what there is -----------------------------------------------------------------------------------------------------


async def _show_caches(command: ShowCaches, system: System, session: SessionView) -> ResultTable:
    wanted = _wanted(command.like)
    caches = await system.caches.listed()
    may_know = MayKnow(session)
    known = [info async for info in in_slices(caches) if wanted(info.name) and await may_know.of(info)]
    return ResultTable(_CACHES, [_cache_row(info, session) async for info in in_slices(known)])


def _is_own(info: CacheInfo, session: SessionView) -> bool:
    return info.made_by.account != "" and info.made_by.account == session.account


class MayKnow:
    """Of which caches a session may know that they exist: administrators of all; others of those that they made, and
    of those whose tables they may read. MySQL judges, once for each table and session's question."""

    def __init__(self, session: SessionView) -> None:
        self._session = session
        self._readable: dict[tuple[str, str], bool] = {}

    async def of(self, info: CacheInfo) -> bool:
        if self._session.is_admin or _is_own(info, self._session):
            return True
        # Not planned, or of no table: nothing tells whom it concerns.
        relations = sorted(info.relations)
        return bool(relations) and all([await self._may_read(*relation) for relation in relations])

    async def _may_read(self, schema: str, table: str) -> bool:
        known = self._readable.get((schema, table))
        if known is None:
            name = ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))
            try:
                await self._session.may_read(f"SELECT 1 FROM {name}", self._session.database)
                known = True
            except UpwellError:
                known = False
            self._readable[schema, table] = known
        return known


def _cache_row(info: CacheInfo, session: SessionView) -> tuple[Cell, ...]:
    made_by = info.made_by
    # The reason of a refusal, or of a read that was passed, quotes the query; an account, which may be Upwell's own, is
    # a name to try passwords on.
    shown = session.is_admin or _is_own(info, session)
    return (
        info.name,
        info.sql if shown else None,
        info.mode or None,
        info.keys,
        info.bytes,
        info.hits,
        info.misses,
        info.passed,
        (info.passed_why if shown else info.passed_reason) or None,
        round(info.hit_p50_us, 1),
        round(info.miss_p50_us, 1),
        info.losses.total,
        info.losses.told or None,
        info.state,
        info.database,
        made_by.origin.value,
        (made_by.account or None) if shown else None,
        (info.why or "; ".join(filter(None, (made_by.reason, info.decided))) or None) if shown else None,
    )


async def _show_proxied(command: ShowProxiedQueries, session: SessionView) -> ResultTable:
    text = _wanted(command.like)

    def wanted(entry: ProxiedQuery) -> bool:
        return (session.is_admin or session.account in entry.accounts) and text(entry.shape)

    rows: list[tuple[Cell, ...]] = [
        (
            info.query,
            info.database,
            info.count,
            round(info.p50_us, 1),
            round(info.total_ms, 3),
            _CACHEABLE[info.cacheable],
            info.reason,
            datetime.fromtimestamp(info.seen, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            info.id,
        )
        async for info in in_slices(await session.proxied.listed(wanted, command.limit))
    ]
    return ResultTable(_PROXIED, rows)


def _wanted(pattern: str | None) -> Callable[[str], bool]:
    return (lambda text: True) if pattern is None else like(pattern)


def _show_status(command: ShowStatus, system: System, session: SessionView) -> ResultTable:
    wanted = _wanted(command.like)
    status = system.status()
    # The account that Upwell logs in with is a name to try passwords on.
    status = status if session.is_admin else replace(status, source=status.address, fills=())
    lines = status_lines(status, system.not_ready())
    return ResultTable(_STATUS, [(name, value) for name, value in lines if wanted(name)])


def status_lines(status: SystemStatus, not_ready: str) -> Sequence[tuple[str, str]]:
    """Names and values of SHOW UPWELL STATUS, the counters last."""
    return [
        ("version", status.version),
        ("ready", not_ready or "yes"),
        ("source", status.source),
        ("source_up", "yes" if status.source_up else "no"),
        ("server_version", status.server_version),
        ("server_uuid", status.server_uuid),
        ("position", _one_line(status.position)),
        ("lag_seconds", f"{status.lag_seconds:.3f}"),
        ("visible_p50_seconds", f"{status.visible_p50_seconds:.6f}"),
        ("visible_p99_seconds", f"{status.visible_p99_seconds:.6f}"),
        ("memory_bytes", str(status.memory_bytes)),
        ("memory_limit", str(status.memory_limit)),
        ("hits", str(status.hits)),
        ("misses", str(status.misses)),
        ("passed", str(status.passed)),
        ("hit_rate", f"{status.hit_rate:.4f}"),
        ("upqueries_in_flight", str(status.upqueries_in_flight)),
        *((f"filling {fill.cache}", filling(fill)) for fill in status.fills),
        *((name, str(value)) for name, value in sorted(status.counters.items())),
    ]


def filling(fill: FillProgress) -> str:
    """How far a large fill is, in words."""
    left = "" if fill.seconds_left is None else f", {fill.seconds_left:.0f} s left"
    by = f" by {fill.by.value}" if fill.stage == "filling" else f" ({fill.stage})"
    return f"{fill.held} of {fill.keys} keys, {fill.rows} rows, {fill.rate:.0f} a second{left}{by}"


# -- explanations ------------------------------------------------------------------------------------------------------


async def _explain(command: ExplainCreateCache, system: System, session: SessionView) -> ResultTable:
    sql = await _sql_of(command, session)
    try:
        text, _ = await system.caches.explain("", sql, session.database)
    except UnsupportedQuery as error:
        text = f"refused: {error.message}\nreason: {error.code}"
    return ResultTable(_EXPLANATION, [(line,) for line in text.rstrip("\n").split("\n")])


async def _explain_last(system: System, session: SessionView) -> ResultTable:
    last = session.last_statement
    if last is None:
        return ResultTable(_LAST, [(None, None, "the session has asked nothing yet", None)])
    reason = await _no_cache(last, system, session) if last.reason == NO_CACHE else last.reason
    reason = SAYS.sub(session.speaks, reason)
    return ResultTable(_LAST, [(last.served, last.cache or None, reason or None, _one_line(last.position) or None)])


async def _no_cache(last: LastStatement, system: System, session: SessionView) -> str:
    """Why no cache matched the session's last statement."""
    detail = LOCKING if last.locks else ""
    if last.sql:
        detail = await why_no_cache(
            last.sql,
            session.database,
            system,
            session.proxied,
            MayKnow(session).of,
            lambda info: session.is_admin or _is_own(info, session),
        )
    return f"{NO_CACHE}: {detail}" if detail else f"{NO_CACHE}; SHOW PROXIED QUERIES says whether it can be cached"


def _one_line(position: str) -> str:
    """GTIDs of several servers, as a table can show them."""
    return position.replace("\n", "")
