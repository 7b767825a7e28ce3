"""What the judge of whole applications must know of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from integration.applications.sites import Service, Site, site
from integration.servers.mysql_server import Server

ACCOUNT, PASSWORD = "upwell_site", "of the site"


@dataclass(frozen=True, slots=True)
class Part:
    """Pages of a site: `starts` is where a crawl begins; it follows links to `paths` only."""

    starts: tuple[str, ...]
    paths: re.Pattern[str]

    def has(self, path: str) -> bool:
        return self.paths.match(path) is not None


@dataclass(frozen=True, slots=True)
class Application:
    """One kind of site. Its callables raise NotObtainable, SiteFailed.

    `public`: pages that everybody may see. `users`: pages for who is logged in.
    `noise`: what is another thing each time that a page is made.
    `environment`: what its programs find in their environment, beside where the database is.
    `service`: the program that serves a site, at an address (host:port).
    `fill`: installs the application into an empty database, with so much in it.
    `write`: a user changes the page at a path of `users` that begins with `written`, so that it has these words.
    `headers`: go with each request.
    """

    name: str
    public: Part
    users: Part
    noise: re.Pattern[str]
    environment: Callable[[], dict[str, str]]
    service: Callable[[str], Service]
    fill: Callable[[Mapping[str, str], int], None]
    log_in: Callable[[Site], None]
    written: str
    write: Callable[[Site, str, str], None]
    headers: Mapping[str, str] = field(default_factory=dict)


def installed(application: Application, server: Server, database: str, size: int) -> dict[str, str]:
    """Makes the database. What tells a site where it is, but for the server's address."""
    server.execute(
        f"DROP DATABASE IF EXISTS `{database}`",
        f"CREATE DATABASE `{database}`",
        f"CREATE USER IF NOT EXISTS {ACCOUNT}@'%' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL ON `{database}`.* TO {ACCOUNT}@'%'",
    )
    found = {"SITE_DATABASE": database, "SITE_USER": ACCOUNT, "SITE_PASSWORD": PASSWORD, **application.environment()}
    here = {"SITE_MYSQL": f"{server.host}:{server.port}", "SITE_URL": "http://localhost"}
    application.fill(found | here, size)
    return found


@contextmanager
def serving(application: Application, environment: Mapping[str, str], mysql: str, log: Path) -> Iterator[Site]:
    """A site that asks MySQL at that address (host:port)."""
    with site(application.service, {**environment, "SITE_MYSQL": mysql}, log, application.headers) as found:
        yield found
