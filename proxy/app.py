"""The whole system: what is connected to what, how it starts and how it stops.

    client -> listener (gRPC) -> OpenCache.hit ---------------------------------> bytes
                              -> OpenCache.read -> Pump.miss -> Engine -> Executor -> MySQL
    MySQL's binlog -> ChangeSource -> Pump.on_stream -> Engine -> (answers stale, entries current)

One event loop, one thread. Listeners know `proxy.port.api.System` only; the engine knows nobody.
"""

from __future__ import annotations

import asyncio
import decimal
import gc
import importlib.util
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

import structlog

from bulk.session import SparkSettings
from dataflow.engine import Engine
from dataflow.fills.inserting import FILL_PATIENCE
from dataflow.fills.shards import by_root
from external_upquery.address import Upstream, is_loopback, parse_upstream
from external_upquery.admission import Admission
from external_upquery.pool import Packet
from planner.matcher import QueryMatcher
from proxy.access.log import AccessLog
from proxy.access.spans import spans_of
from proxy.access.writer import AccessWriter
from proxy.apply import Automatic, Running, limits_of, mysql_options
from proxy.auto.fill_budget import FillBudget
from proxy.cache.evidence import EarnedFile
from proxy.catalog.automatic_file import SavedAutomatic
from proxy.catalog.catalog import Catalog
from proxy.catalog.definition_file import StateStore
from proxy.catalog.distrusted import Doubts
from proxy.checking.earning import Earning
from proxy.fills.fills import Bulk
from proxy.fills.restart import Restart
from proxy.fills.spark_process import SparkProcess
from proxy.fills.warm_up import WarmUp
from proxy.grpc.rows import FORMAT, encoder_for
from proxy.grpc.server import GrpcListener, GrpcOptions
from proxy.handover import Handover, Parts
from proxy.http.server import HttpListener
from proxy.loop.periodic import Share
from proxy.mysql.login.certificate import server_context
from proxy.mysql.login.handshake import login_settings
from proxy.mysql.session.listener import MysqlListener
from proxy.mysql.session.open_sessions import OpenSessions
from proxy.mysql.session.shared import Shared
from proxy.mysql.wire import rows as mysql_rows
from proxy.planning.process import warm_up
from proxy.port.api import WireFormat
from proxy.port.changes import Changes
from proxy.pump.memory_guard import MemoryGuard, map_large_blocks, ring_bytes
from proxy.pump.pump import Pump
from proxy.pump.traced import TracedPump
from proxy.pump.wire_formats import WireFormats
from proxy.settings.config import Config
from proxy.settings.in_effect import LiveSettings
from proxy.settings.machine import is_open
from proxy.source import clock as source_clock
from proxy.source import zones as source_zones
from proxy.source.clock import SourceClock
from proxy.source.history_watch import SourceWatch
from proxy.source.source import Source, Upqueries
from proxy.source.sources import source_of
from proxy.source.zones import SourceZones
from proxy.state_dir.folder import find_files, source_name
from proxy.state_dir.writing import Writing
from proxy.stream_events import StreamEvents
from proxy.system.assembly import followers_of
from proxy.system.fills import Fills
from proxy.system.system import Router
from proxy.takeover.taking import Owner, Taking, owning
from upwell.extras import how_to_install
from vstream.source import ChangeSource, Resume

log = structlog.get_logger("upwell")

CHECKS_REST = 15.0  # by how much the time between two checks of the invariants is longer than one
TICK = 0.25  # seconds between looks at memory, staleness and answers that wait too long
OF_SHARDS = 60.0  # seconds after which a stream of several shards is doubted, however late it is
GRACE = 5.0  # seconds that running answers get at the end
KILLS = 2.0  # seconds that MySQL gets at the end to be told what nobody waits for any more
LOCAL_ACCOUNTS = (
    "clients come to MySQL from this machine: accounts of @'localhost' can be used from afar, through --mysql-listen"
)
NAMED = 5  # caches of an earlier run that the log names
CLOCKLESS = "it reads the clock: each shard has a clock of its own, so vtgate answers it"
FORMATS = {FORMAT: WireFormat(encoder_for), **mysql_rows.FORMATS}
NO_FORMATS: Mapping[str, WireFormat] = {}
YOUNG_COLLECTIONS = (1_000, 10, 1 << 30)  # gc.set_threshold: the oldest objects are never passed over


Listener = GrpcListener | HttpListener | MysqlListener


@dataclass
class App:
    """A running proxy. Ports are those in fact bound. `grpc_token`: what callers must send, None: nothing.
    `failed_look`: how the last failure of `keep` was."""

    router: Router
    engine: Engine
    source: Source
    catalog: Catalog
    watch: SourceWatch
    earned: EarnedFile
    sessions: OpenSessions
    packet: Packet
    restart: Restart
    writing: Writing
    grpc_port: int = 0
    grpc_token: str | None = None
    http_port: int = 0
    mysql_port: int = 0
    mysql: MysqlListener | None = None
    handover: Handover | None = None  # once there are listeners
    running: Running | None = None  # once there are listeners
    failed_look: Exception | None = None

    def __post_init__(self) -> None:
        self.checks = Share(CHECKS_REST, monotonic)
        folder, name = self.config.state_dir, name_of(self.config, self.source)
        self.automatic = Automatic(
            self.router, lambda auto: SavedAutomatic(folder, name, self.catalog, auto, self.writing)
        )
        self.automatic.follow(self.config.auto_cache)
        self.guard = MemoryGuard(self.engine, self.config.memory_limit)
        tolerance = self.config.mysql.clock_tolerance
        self.clock = SourceClock(lambda: source_clock.ask(self.executor), tolerance=tolerance)
        ask = source_zones.ask if self.source.session_trackers else source_zones.ask_name
        self.zones = SourceZones(
            lambda name: ask(self.executor, name), lambda: self.stream.connected, self.sessions.note_zones
        )

    @property
    def config(self) -> Config:
        return self.router.settings.config

    @property
    def system(self) -> Router:
        return self.router

    @property
    def stream(self) -> ChangeSource:
        return self.source.stream

    @property
    def executor(self) -> Upqueries:
        return self.source.upqueries


def engine_for(config: Config, source: Source, on_doubt: Callable[[], None]) -> Engine:
    """An empty engine at the stream's position. The ring gets a tenth of the memory limit at most."""
    stream = source.stream
    return Engine(
        stream.position,
        config.memory_limit,
        monotonic,
        ring_transactions=50_000,
        ring_bytes=ring_bytes(config.memory_limit),
        ahead_fills=config.ahead_fills,
        exact_fills=config.exact_fills,
        followed=partial(getattr, stream, "history"),
        shards_of=None if source.shards_of is None else by_root(source.shards_of),
        on_doubt=on_doubt,
    )


@asynccontextmanager
async def running(config: Config, formats: Mapping[str, WireFormat] = NO_FORMATS) -> AsyncIterator[App]:
    """Starts everything, yields, stops everything. Raises ConfigError, SourceDown, SourceError.

    `formats`: wire formats beside those of the listeners, for who reads in this process.
    """
    source = parse_upstream(config.upstream).redacted
    async with owning(config, source) as owner, _running(config, formats, owner) as app:
        yield app


@asynccontextmanager
async def _running(config: Config, formats: Mapping[str, WireFormat], owner: Owner) -> AsyncIterator[App]:
    # MySQL's DECIMAL has up to 65 digits; the default context would round at 28.
    decimal.getcontext().prec = 100
    sessions, writing = OpenSessions(), owner.writing
    packet = Packet(sessions.note_packet)
    source = source_of(config.upstream, config.upquery_connections, packet)
    upstream, stream, executor = source.upstream, source.stream, source.upqueries
    restart = restart_of(config, source, writing)
    events = StreamEvents(restart)
    version = await started(source, events, restart.resume)
    engine = engine_for(config, source, events.doubted)
    state, doubts, earned = kept_of(config, source, writing)
    wires = formats_of(formats)
    budget = FillBudget()
    earning = Earning(config.verify_new_caches, earned.loaded(), version)
    beside = followers_of(engine, source, wires, earning, budget)
    spans = spans_of(os.environ, texts=config.otel_query_text)
    waiting = *beside.waiting, (restart.noting, restart.note)
    pump = (Pump if spans is None else TracedPump)(
        engine, executor, config.upquery_timeout, source.find_shards, wires, beside.always, waiting
    )
    changes = Changes()
    matcher = QueryMatcher(default=upstream.database, bare_names=source.bare_names, on_change=changes.note)
    catalog = Catalog(
        engine,
        pump,
        executor,
        source.schema,
        stream,
        matcher,
        doubts,
        limits_of(config),
        earning,
        definitions=state,
        kept=source.kept_schema,
        clockless="" if source.session_trackers else CLOCKLESS,
        unnamed=upstream.database if source.bare_names is not None else "",
    )
    fills = fills_of(config, source, engine, pump, catalog, writing)
    router = Router(
        LiveSettings(config), source, version, engine, pump, catalog, matcher, fills, beside, budget, changes, spans
    )
    await adopt(catalog, config, upstream, state, restart)
    app = App(
        router, engine, source, catalog, watch_of(engine, source, router), earned, sessions, packet, restart, writing
    )
    events.connect(router, catalog, app.zones)
    await app.zones.look(source_zones.SYSTEM)
    background = begun(app)
    listeners = await listen(app, upstream, matcher, owner.taking)
    freeze()
    map_large_blocks()
    async with _serving(app, background, listeners, owner, events):
        yield app


@asynccontextmanager
async def _serving(
    app: App,
    background: asyncio.Task[None],
    listeners: tuple[MysqlListener, GrpcListener, HttpListener],
    owner: Owner,
    events: StreamEvents,
) -> AsyncIterator[None]:
    """From when this proxy can serve, which another one may do still, to its end."""
    router = app.router
    router.lateness.start()
    parts = Parts(router, app.engine, app.catalog, app.restart, app.automatic, app.earned, owner, *listeners)
    app.handover = handover = Handover(parts, GRACE)
    events.on_doubt = handover.doubt
    try:
        await handover.start()
        yield
    finally:
        router.stopping = True  # /readyz says so as long as there is somebody to be served
        await handover.stop()
        background.cancel()
        await asyncio.gather(background, return_exceptions=True)
        await stop(app, listeners)
        router.lateness.stop()
        handover.close()


async def started(source: Source, events: StreamEvents, resume: Resume) -> str:
    """The source's version. Where it cannot be followed nothing of it is left."""
    try:
        return await source.start(events, events.busy, resume)
    except BaseException:
        await source.stop(KILLS)
        raise


async def stop(app: App, listeners: Sequence[Listener]) -> None:
    """Ends what `running` has started: who is served first, what serves them last."""
    for listener in listeners:
        await listener.stop(GRACE)
    if app.router.reads.access_log is not None:
        await app.router.reads.access_log.close()
    await app.restart.close()
    await app.router.fills.close()
    app.router.proxied.close()
    await app.automatic.close()
    await app.catalog.close()
    await asyncio.to_thread(app.earned.close)
    await app.source.stop(KILLS)
    if app.router.spans is not None:
        await app.router.spans.close()


async def adopt(catalog: Catalog, config: Config, upstream: Upstream, state: StateStore, restart: Restart) -> None:
    """The caches of the file of settings, and those of earlier runs. They are planned while reads are passed through
    already: a thousand of them take a while. A plan of the run before counts where what it was made from is as it was.
    """
    catalog.texts.before = await restart.plans()
    remembered = state.load()
    if remembered:
        names = ", ".join(sorted(definition.name for definition in remembered)[:NAMED])
        more = f" and {len(remembered) - NAMED} more" if len(remembered) > NAMED else ""
        log.info("caches_of_an_earlier_run", count=len(remembered), names=names + more, file=str(state.path))
    for definition in [*(cache.within(upstream.database) for cache in config.caches), *remembered]:
        catalog.adopt(definition.name, definition.sql, definition.database, definition.made_by)


def fills_of(config: Config, source: Source, engine: Engine, pump: Pump, catalog: Catalog, writing: Writing) -> Fills:
    folder = config.state_dir / "spark"
    spark = SparkProcess(SparkSettings(config.spark_master, str(folder)), folder / "spark.log")
    bulk = Bulk(source.upstream, engine, pump, source.upqueries, catalog, spark, config.spark_min_rows)
    kept = WarmUp(
        catalog, engine, bulk, config.state_dir, name_of(config, source), enabled=config.warm_up, writing=writing
    )
    return Fills(bulk, kept)


def restart_of(config: Config, source: Source, writing: Writing) -> Restart:
    kind = source.upstream.kind
    return Restart(config.state_dir, lambda history: source_name(config.name, kind, history), config.snapshot, writing)


def begun(app: App) -> asyncio.Task[None]:
    """`keep`, begun, and before it to hold again what the last run held, if there is something: no hit is served until
    that is current."""
    router = app.router
    if app.restart.begin(app.engine, app.catalog, app.source, router.faults):
        router.gate.begins()
        app.restart.restore(router.gate)
    return asyncio.get_running_loop().create_task(keep(app))


def formats_of(more: Mapping[str, WireFormat]) -> WireFormats:
    """Those of the listeners, and some more."""
    found = WireFormats()
    for name, format_ in {**FORMATS, **more}.items():
        found.register(name, format_)
    return found


def kept_of(config: Config, source: Source, writing: Writing) -> tuple[StateStore, Doubts, EarnedFile]:
    """What the state directory keeps of the source. Raises ConfigError."""
    folder, name, address = config.state_dir, name_of(config, source), source.upstream.redacted
    find_files(folder, name, address)
    doubts = Doubts(folder, name, writing)
    doubts.load()
    return StateStore(folder, name, address, writing), doubts, EarnedFile(folder, name, writing)


def name_of(config: Config, source: Source) -> str:
    """What the source is called in the state directory. Requires: the stream has begun."""
    return source_name(config.name, source.upstream.kind, source.stream.history)


async def log_reads(app: App) -> None:
    """Begins the access log, if it is asked for. Requires: the listeners have their ports."""
    settings = app.config.access_log
    if settings is None:
        return
    if importlib.util.find_spec("pyarrow") is None:
        log.warning("no_access_log", why=f"no reads are logged: pyarrow is not installed ({how_to_install('rank')})")
        return
    router, mysql = app.router, app.mysql
    writer = AccessWriter(settings, f"{socket.gethostname()}:{app.mysql_port}")
    await writer.start()
    found = AccessLog(settings, writer, app.catalog.caches, router.proxied)
    router.reads.access_log, router.overviews.charts = found, found.charts
    router.sampler.offered_every(found.every)
    if mysql is not None:
        mysql.shared.on_passed.append(found.passed_by_name)


def watch_of(engine: Engine, source: Source, router: Router) -> SourceWatch:
    longest = float("inf") if source.session_trackers else OF_SHARDS
    return SourceWatch(
        source.upqueries.history, lambda: engine.state.ring.position.freeze(), router.accounts, longest=longest
    )


async def listen(
    app: App, upstream: Upstream, matcher: QueryMatcher, taking: Taking | None
) -> tuple[MysqlListener, GrpcListener, HttpListener]:
    """Opens the listeners, and the access log; with `taking` they accept nobody yet. Raises ConfigError where an
    address cannot be bound."""
    config, given = app.config, taking.sockets if taking is not None else {}
    options = grpc_options(config, taking, traced=app.router.spans is not None)
    grpc = GrpcListener(app.router, options)
    app.mysql = mysql = mysql_listener(app, upstream, matcher)
    running = Running(
        app.router, app.catalog, app.automatic, app.guard, app.clock, mysql, grpc, upstream.database, app.restart
    )
    app.running, app.router.settings.apply = running, running.apply()
    app.grpc_port, app.grpc_token = await grpc.start(), options.token
    http = HttpListener(app.router, config.http_listen, grpc.service)
    app.http_port = await http.start(given.get("http-listen", ()))
    app.router.listener_figures = lambda: {**mysql.shared.figures(), **http.figures()}
    app.router.watching.sessions = mysql.shared.on_passed
    app.mysql_port = await mysql.start(given.get("mysql-listen", ()))
    if not config.mysql.listen.is_loopback and (upstream.unix_socket or is_loopback(upstream.host)):
        log.warning("local_accounts", why=LOCAL_ACCOUNTS)
    log.info(
        "listening",
        mysql=f"{config.mysql.listen.host}:{app.mysql_port}",
        grpc=f"{config.grpc_listen.host}:{app.grpc_port}",
        http=f"{config.http_listen.host}:{app.http_port}",
    )
    await log_reads(app)
    return mysql, grpc, http


def grpc_options(config: Config, taking: Taking | None, *, traced: bool) -> GrpcOptions:
    """Without a token of the settings, one is made for the clients of this user; none where anybody may call."""
    token = config.grpc_token
    if config.grpc_token_file is not None and is_open(Path(config.grpc_token_file).expanduser()):
        why = f"every user of this machine can read {config.grpc_token_file!r}: chmod 600 keeps it to this one"
        log.warning("grpc_token_file", why=why)
    folders: tuple[Path, ...] = ()
    if token is None and not config.grpc_insecure:
        token = (taking.token if taking is not None else None) or secrets.token_urlsafe(32)
        folders = tuple({config.state_dir: None, config.usual_state_dir or config.state_dir: None})
    return GrpcOptions(
        host=config.grpc_listen.host,
        port=(taking.grpc_port if taking is not None else 0) or config.grpc_listen.port,
        certificate=config.grpc_certificate,
        key=config.grpc_key,
        token=token,
        token_folders=folders,
        own_sql=config.grpc_query,
        message_limit=config.max_message_size,
        traced=traced,
        shares=taking is not None,
    )


def mysql_listener(app: App, upstream: Upstream, matcher: QueryMatcher) -> MysqlListener:
    """The listener for MySQL's protocol. Raises ConfigError."""
    settings = app.config.mysql
    tls = None if settings.tls == "off" else server_context(settings.certificate, settings.key)
    tracks = app.source.session_trackers
    logins = login_settings(upstream, tls, client_tls_required=settings.tls == "required")
    admission = Admission(upstream, app.router.freshness.answers)
    shared = Shared(
        app.router,
        mysql_options(app.config),
        matcher,
        app.router.proxied,
        utc=app.clock.utc if tracks else lambda: None,  # each shard has a clock of its own
        micros=app.clock.micros,
        zones=app.zones,
        lives=admission.lives,
        positions=None
        if tracks
        else lambda: asyncio.wait_for(app.executor.history(), app.config.mysql.own_writes_wait),
        packet=app.packet,
        sessions=app.sessions,
        spans=app.router.spans,
    )
    return MysqlListener(shared, logins)


async def keep(app: App) -> None:
    """What must happen now and then. A look that fails is logged, and the next is made all the same: without the gate,
    stale hits would be served for ever.
    """
    beyond = 0
    app.router.fills.warm_up.start(app.restart.restored)
    try:
        while True:
            await asyncio.sleep(TICK)
            app.router.gate.tick()
            try:
                beyond = look(app, beyond)
            except Exception as error:
                app.failed_look = error
                log.exception("what must happen now and then has failed")
    finally:
        await app.watch.close()
        await app.clock.close()
        await app.zones.close()
        await app.router.clock_keys.close()
        await app.router.overviews.close()


def look(app: App, beyond: int) -> int:
    """At the stream, memory, answers that wait too long, caches that could not be planned. `beyond` and what is
    returned: see `stream_doubt`. Raises AssertionError where an invariant is checked and broken."""
    followed, lag = app.stream.history, app.stream.lag()
    doubt = stream_doubt(app.engine, followed, lag, beyond)
    if app.stream.connected:
        app.watch.tick()
        app.source.tick()
        app.clock.tick()
        app.zones.tick()
        doubt = doubt or app.watch.doubt(followed, lag)
    if doubt:
        app.stream.reconnect(doubt)
    beyond = app.engine.memory.counters.get("fills_beyond_stream", 0)
    app.guard.tick()
    app.router.pump.tick()
    app.router.sampler.tick()
    app.router.clock_keys.tick()
    app.router.overviews.tick()
    app.router.fills.warm_up.tick()
    app.restart.tick()
    if app.router.reads.access_log is not None:
        app.router.reads.access_log.tick()
    if app.mysql is not None:
        app.mysql.tick()
    app.catalog.retry()
    app.earned.tick(monotonic())
    app.automatic.tick(monotonic())
    if app.config.check:
        app.checks.tick(app.engine.check_invariants)
    return beyond


def stream_doubt(engine: Engine, followed: str, lag: float, beyond: int) -> str:
    """Why the stream may not be that of the server which answers upqueries; "" if nothing says so.

    One address may be another server for new connections while an old one still lives: what is filled would never be
    kept current. And GTIDs may be executed that no binlog has (gtid_purged, set by hand): answers would wait for them
    without end. Logging in anew tells both, and makes everything a hole. `followed`: the server whose stream it is.
    `lag`: seconds that the stream believes to be behind. `beyond`: how many such answers were given up until now.
    """
    answering = engine.source.history
    if answering and answering != followed:
        return f"upqueries are answered by {answering}, the stream is of {followed}"
    if engine.memory.counters.get("fills_beyond_stream", 0) > beyond and lag < FILL_PATIENCE / 2:
        return "the source has executed transactions that the stream has not brought"
    return ""


def freeze() -> None:
    """Takes what exists now out of the collector's sight; from here on it looks at young objects only.

    A collection of everything would pass over each held entry again and again: installing a million keys takes four
    times as long. The engine makes no reference cycles. gRPC makes five objects of cyclic garbage a call, which must be
    freed while the processor's cache still holds them: left for ten seconds they took a tenth of a busy server's time.
    """
    warm_up()  # what planning loads is out of sight, too
    gc.collect()
    gc.freeze()
    gc.set_threshold(*YOUNG_COLLECTIONS)
