"""What the judge of whole applications must know of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from integration.applications.php import php
from integration.applications.sites import Site
from integration.clients.tools import checked
from integration.mysql_server import Server

ACCOUNT, PASSWORD = "upwell_site", "of the site"


@dataclass(frozen=True, slots=True)
class Application:
    """`folder`: what a site serves. `fill`: installs it into an empty database, with so much in it; what its programs
    are told of the database is in the environment. `public`: paths of pages that everybody may see. `noise`: what is
    another thing each time that a page is made. `write`: who is logged in changes the page at a path, so that it has
    these words. Raises NotObtainable, SiteFailed."""

    name: str
    start: str
    public: re.Pattern[str]
    noise: re.Pattern[str]
    folder: Callable[[], Path]
    environment: Callable[[], dict[str, str]]
    fill: Callable[[dict[str, str], int], None]
    log_in: Callable[[Site], None]
    write: Callable[[Site, str, str], None]

    def is_public(self, path: str) -> bool:
        return self.public.match(path) is not None


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
    application.fill(found | php().environment | here, size)
    return found


def run(environment: dict[str, str], *arguments: str, cwd: Path | None = None) -> None:
    """A program of PHP's. Raises NotObtainable with its last words where it fails."""
    checked(*php().command, *arguments, environment=environment, cwd=cwd)
