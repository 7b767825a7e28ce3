"""What a setting changes in a running process: by `SET UPWELL`, by `upwell set`, or because SIGHUP had it read anew.

Each applies to what is there and to what comes. Where the new configuration, or a certificate, cannot be used, all
stays as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from proxy.auto.decisions import AutoCache
from proxy.catalog.automatic_file import SavedAutomatic
from proxy.catalog.catalog import Catalog
from proxy.catalog.limits import CacheLimits
from proxy.fills.restart import Restart
from proxy.grpc.server import GrpcListener
from proxy.loop.log_lines import set_level
from proxy.loop.slices import in_slices
from proxy.mysql.login.certificate import checked_pem, server_context
from proxy.mysql.reads.rights import is_admin
from proxy.mysql.session.listener import MysqlListener
from proxy.mysql.session.shared import MysqlOptions
from proxy.pump.memory_guard import MemoryGuard
from proxy.settings.automatic import Policy
from proxy.settings.config import Config
from proxy.settings.in_effect import LiveSettings
from proxy.settings.machine import clients_within, raise_open_files
from proxy.source.clock import SourceClock
from proxy.system.system import Router
from sqltypes.errors import ConfigError, UnknownCache

log = structlog.get_logger("upwell")

Apply = Callable[[Config], None]
VALUES = (
    "max-staleness", "clock-tolerance", "upquery-timeout", "warm-up", "spark-min-rows", "grpc-query", "ahead-fills",
    "exact-fills", "otel-query-text",
)  # fmt: skip
"""The settings that are one value at one place."""


def limits_of(config: Config) -> CacheLimits:
    admins = config.admin_users
    return CacheLimits(config.max_caches, config.max_caches_per_account, lambda account: is_admin(account, admins))


def mysql_options(config: Config) -> MysqlOptions:
    settings = config.mysql
    return MysqlOptions(
        host=settings.listen.host,
        port=settings.listen.port,
        transactions=settings.transactions,
        read_your_writes=settings.read_your_writes,
        own_writes_wait=settings.own_writes_wait,
        largest_command=settings.largest_packet,
        # Whoever comes beyond these is told (1040): without a file left, nobody could be.
        connections=min(settings.connections, max(1, clients_within(raise_open_files()))),
        idle=settings.idle,
        admins=config.admin_users,
    )


class Automatic:
    """Automatic caching, on or off. On: the caches that it had before are made again; off: what it has made goes.

    `file`: where its caches are kept; None while it is off.
    """

    def __init__(self, router: Router, saved: Callable[[AutoCache], SavedAutomatic]) -> None:
        self.file: SavedAutomatic | None = None
        self._router = router
        self._saved = saved
        self._policy: Policy | None = None
        self._switching: asyncio.Task[None] | None = None

    def follow(self, policy: Policy | None) -> None:
        """From now on it has these limits; None: it is off."""
        self._policy = policy
        auto = self._router.auto_cache
        if policy is not None and auto is not None:
            auto.policy = policy
        elif self._switching is None or self._switching.done():
            if policy is not None:
                self._begin(policy)
            elif auto is not None:
                self._switching = asyncio.get_running_loop().create_task(self._end())

    def tick(self, now: float) -> None:
        """To be called now and then. `now`: in seconds."""
        auto = self._router.auto_cache
        if auto is not None:
            auto.tick()
        if self.file is not None:
            self.file.tick(now)

    async def close(self) -> None:
        """The caches stay, in the file, too."""
        if self._switching is not None:
            await self._switching
        if self._router.auto_cache is not None:
            await self._router.auto_cache.close()
        if self.file is not None:
            await asyncio.to_thread(self.file.close)

    def _begin(self, policy: Policy) -> None:
        auto = self._router.begin_automatic(policy)
        self.file = self._saved(auto)
        self.file.take_back()

    async def _end(self) -> None:
        router, (file, self.file) = self._router, (self.file, None)
        await router.end_automatic()
        if file is not None:
            await asyncio.to_thread(file.close)
        for cache in router.caches.automatic():
            try:
                await router.caches.drop_automatic(cache.name)
            except (UnknownCache, ConfigError):  # somebody was quicker; its definition cannot be written
                continue
        if self._policy is not None:  # meanwhile
            self._begin(self._policy)


@dataclass
class Running:
    """What is running, as far as settings reach it."""

    router: Router
    catalog: Catalog
    automatic: Automatic
    guard: MemoryGuard
    clock: SourceClock
    mysql: MysqlListener
    grpc: GrpcListener
    database: str  # of the upstream
    restart: Restart
    _verifying: asyncio.Task[None] | None = None

    @property
    def settings(self) -> LiveSettings:
        return self.router.settings

    def apply(self) -> Mapping[str, Apply]:
        """By a setting's name, what puts its value into effect. A setting that is not here needs a restart."""
        automatic = dict.fromkeys(
            ("auto-cache", "auto-cache-reads", "auto-cache-time", "auto-cache-memory"),
            lambda config: self.automatic.follow(config.auto_cache),
        )
        sessions = dict.fromkeys(
            ("own-writes-wait", "mysql-connections", "mysql-idle-timeout", "mysql-max-packet"), self._sessions
        )
        rules = dict.fromkeys(("transactions", "read-your-writes"), self._rules)
        certificates = {
            **dict.fromkeys(("mysql-tls-cert", "mysql-tls-key"), self._mysql_certificate),
            **dict.fromkeys(("grpc-tls-cert", "grpc-tls-key"), self._grpc_certificate),
        }
        return {
            **automatic,
            **sessions,
            **rules,
            **certificates,
            **dict.fromkeys(("max-caches", "max-caches-per-account"), self._limits),
            "admin-users": self._admins,
            "memory-limit": self._memory,
            "snapshot": lambda config: self.restart.save_every(config.snapshot),
            **dict.fromkeys(VALUES, self._values),
            "log-level": lambda config: set_level(config.log_level),
            "verify-new-caches": self._verify,
            "check-sample": lambda config: self.router.sampler.sample(config.check_sample),
            "access-log-sample": self._access_log,
            # These are read from the settings when they count.
            **dict.fromkeys(("shutdown-delay", "takeover-drain", "check"), lambda config: None),
        }

    def _values(self, config: Config) -> None:
        """Of VALUES."""
        router = self.router
        router.gate.max_staleness = config.max_staleness
        router.pump.timeout = config.upquery_timeout
        router.fills.warm_up.enabled = config.warm_up
        router.fills.bulk.spark_min_rows = config.spark_min_rows
        self.clock.tolerance = config.mysql.clock_tolerance
        self.grpc.service.own_sql = config.grpc_query
        self.guard.engine.inserting.ahead_fills = config.ahead_fills
        self.guard.engine.state.hot_keys.enabled = config.exact_fills
        if router.spans is not None:
            router.spans.texts = config.otel_query_text

    def _memory(self, config: Config) -> None:
        self.guard.keep_below(config.memory_limit)
        self.automatic.follow(config.auto_cache)

    def _limits(self, config: Config) -> None:
        self.catalog.limits = limits_of(config)

    def _admins(self, config: Config) -> None:
        self._limits(config)
        self._sessions(config)

    def _sessions(self, config: Config) -> None:
        self.mysql.shared.options = mysql_options(config)

    def _rules(self, config: Config) -> None:
        self._sessions(config)
        self.router.changes.note()  # what sessions have at hand of hits was so by the other rules

    def _verify(self, config: Config) -> None:
        earning = self.router.earning
        before, earning.wanted = earning.wanted, config.verify_new_caches
        if not before or not earning.wanted:
            self._verifying = asyncio.get_running_loop().create_task(self._begin_or_end_checks())

    async def _begin_or_end_checks(self) -> None:
        """Of the caches that there are: some thousand."""
        earning = self.router.earning
        async for cache in in_slices(list(self.catalog.caches.values())):
            if not earning.wanted:
                earning.end(cache)
            elif cache.trust is None and cache.reader is not None:
                earning.begin(cache)

    def _access_log(self, config: Config) -> None:
        access_log = self.router.reads.access_log
        if access_log is not None and config.access_log is not None:
            access_log.sample(config.access_log.share)
            self.router.sampler.offered_every(access_log.every)

    def _mysql_certificate(self, config: Config) -> None:
        settings, context = config.mysql, self.mysql.client_tls
        if settings.certificate and context is not None:
            context.load_cert_chain(settings.certificate, settings.key or None, password="")

    def _grpc_certificate(self, config: Config) -> None:
        if config.grpc_certificate is not None and config.grpc_key is not None:
            self.grpc.present(config.grpc_certificate, config.grpc_key)

    async def reload(self, read: Callable[[], Config]) -> None:
        """SIGHUP: takes over what can be of the configuration, as `read` has it now. Raises nothing."""
        try:
            fresh = await asyncio.to_thread(self._readable, read)
            changed, left = self.settings.take(fresh)
        except ConfigError as error:
            log.error("configuration_not_read", why=error.message, kept="all is as it was")
            return
        self._mysql_certificate(self.settings.config)  # at the same path
        self._adopt(self.settings.config)
        log.info("configuration_read", changed=changed)
        if left:
            log.warning("settings_need_a_restart", settings=left)  # said each time

    def _readable(self, read: Callable[[], Config]) -> Config:
        """In a thread. Raises ConfigError for what cannot be used."""
        config = read()
        mysql = config.mysql
        if mysql.certificate and mysql.tls != "off":
            server_context(mysql.certificate, mysql.key)
        if config.grpc_certificate is not None and config.grpc_key is not None:
            checked_pem(config.grpc_certificate, config.grpc_key)
        return config

    def _adopt(self, config: Config) -> None:
        """Makes the caches of the file that there are not yet."""
        for cache in (one.within(self.database) for one in config.caches):
            there = self.catalog.caches.get(cache.name)
            if there is None:
                self.catalog.adopt(cache.name, cache.sql, cache.database, cache.made_by)
            elif (there.sql, there.database) != (cache.sql, cache.database):
                log.warning("cache_not_changed", name=cache.name, why="there is one with another query: drop it first")
