"""SIGHUP: the configuration and the certificates are read anew, while everything is served as before.

What can be changed in a running process is; of the rest it is said that it needs a restart. Where the new
configuration, or a certificate, cannot be used, all stays as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields, replace

import structlog

from proxy.app import App, limits_of
from proxy.grpc.server import GrpcListener
from proxy.mysql.login.certificate import checked_pem, server_context
from proxy.settings.config import Config
from sqltypes.errors import ConfigError

log = structlog.get_logger("upwell")

APPLIED = ("admin_users", "caches", "grpc_certificate", "grpc_key", "log_level", "max_caches", "max_caches_per_account")
"""The settings that take effect in a running process."""


async def reload(app: App, known: Config, read: Callable[[], Config], set_level: Callable[[Config], None]) -> Config:
    """Reads the configuration anew, and takes over what can be. `known`: as it was read before; `set_level`: of the
    log. Returns what is known from now on. Raises nothing."""
    try:
        config = await asyncio.to_thread(_read, app, read)
    except ConfigError as error:
        log.error("configuration_not_read", why=error.message, kept="all is as it was")
        return known
    changed = changed_settings(known, config)
    app.config = replace(app.config, **{name: getattr(config, name) for name in APPLIED})
    _apply(app)
    set_level(config)
    log.info("configuration_read", changed=[shown(name) for name in changed if name in APPLIED])
    if left := [shown(name) for name in changed if name not in APPLIED]:
        log.warning("settings_need_a_restart", settings=left)
        return replace(known, **{name: getattr(config, name) for name in APPLIED})  # said each time
    return config


def changed_settings(before: Config, now: Config) -> list[str]:
    """The names of the settings that differ."""
    names = [one.name for one in fields(Config) if getattr(before, one.name) != getattr(now, one.name)]
    if "mysql" in names:
        names.remove("mysql")
        of_mysql = [one.name for one in fields(before.mysql)]
        names += [f"mysql_{name}" for name in of_mysql if getattr(before.mysql, name) != getattr(now.mysql, name)]
    return names


def shown(name: str) -> str:
    return name.replace("_", "-")


def _read(app: App, read: Callable[[], Config]) -> Config:
    """In a thread. Raises ConfigError for what cannot be used."""
    config = read()
    mysql = app.config.mysql
    if mysql.certificate and mysql.tls != "off":
        server_context(mysql.certificate, mysql.key)
    if config.grpc_certificate is not None and config.grpc_key is not None:
        checked_pem(config.grpc_certificate, config.grpc_key)
    return config


def _apply(app: App) -> None:
    config, catalog = app.config, app.catalog
    settings = config.mysql
    if app.mysql is not None:
        app.mysql.shared.options = replace(app.mysql.shared.options, admins=config.admin_users)
        context = app.mysql.client_tls
        if settings.certificate and context is not None:
            context.load_cert_chain(settings.certificate, settings.key or None, password="")
    if isinstance(app.grpc, GrpcListener) and config.grpc_certificate is not None and config.grpc_key is not None:
        app.grpc.present(config.grpc_certificate, config.grpc_key)
    catalog.limits = limits_of(config)
    for cache in (one.within(app.source.upstream.database) for one in config.caches):
        there = catalog.caches.get(cache.name)
        if there is None:
            catalog.adopt(cache.name, cache.sql, cache.database, cache.made_by)
        elif (there.sql, there.database) != (cache.sql, cache.database):
            log.warning("cache_not_changed", name=cache.name, why="there is one with another query: drop it first")
