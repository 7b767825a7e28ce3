"""WordPress from the distribution's package, as a folder that PHP's own server can serve, and what its users do."""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

from integration.applications.php import php
from integration.applications.sites import Site, SiteFailed
from integration.clients.tools import NotObtainable, checked, debian, kept
from integration.mysql_server import Server

HERE = Path(__file__).parent
PACKAGES = (
    "wordpress", "wordpress-theme-twentytwentythree", "php-getid3",
    "libjs-cropper", "libjs-underscore", "libjs-prototype", "libjs-scriptaculous",
)  # fmt: skip


@functools.cache
def tree() -> Path:
    """The site's folder; it is only read. Raises NotObtainable."""
    root = debian("wordpress", PACKAGES)
    config = HERE / "wp-config.php"

    def make(folder: Path) -> None:
        for place in ("usr/share/wordpress", "var/lib/wordpress"):
            if not (root / place).is_dir():
                raise NotObtainable(f"the package wordpress has no {place}")
            shutil.copytree(root / place, folder, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        shutil.copy(config, folder)

    return kept("wordpress-site", config.read_bytes() + str(root).encode(), make)


ACCOUNT, PASSWORD = "wordpress", "of the site"
USER = {"log": "ann", "pwd": "secret"}  # who writes posts
PUBLIC = re.compile(
    r"^/(?!wp-(?:admin|login|includes|content|json|comments)|xmlrpc|index\.php\?rest_route|feed|.*feed=)"
)


def fill(server: Server, database: str, posts: int) -> dict[str, str]:
    """Installs WordPress into a new database and writes so much. What tells a site where it is, but for the server's
    address. Raises NotObtainable."""
    server.execute(
        f"DROP DATABASE IF EXISTS `{database}`",
        f"CREATE DATABASE `{database}`",
        f"CREATE USER IF NOT EXISTS {ACCOUNT}@'%' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL ON `{database}`.* TO {ACCOUNT}@'%'",
    )
    environment = {"SITE_DATABASE": database, "SITE_USER": ACCOUNT, "SITE_PASSWORD": PASSWORD}
    told = (
        environment | php().environment | {"SITE_MYSQL": f"{server.host}:{server.port}", "SITE_URL": "http://localhost"}
    )
    checked(*php().command, str(HERE / "fill.php"), str(tree()), str(posts), environment=told)
    return environment


def log_in(site: Site) -> dict[str, str]:
    """The cookies of a user; they are good at each site of the database."""
    site.get("/wp-login.php")
    page = site.post("/wp-login.php", {**USER, "wp-submit": "Log In", "testcookie": "1"})
    if page.status != 302:
        raise SiteFailed(f"the login was answered with {page.status}: {page.text[:300]}")
    return dict(site.cookies)


def comment(site: Site, post: int, text: str) -> None:
    """Who is logged in writes a comment."""
    page = site.post("/wp-comments-post.php", {"comment": text, "comment_post_ID": str(post), "comment_parent": "0"})
    if page.status != 302:
        raise SiteFailed(f"the comment was answered with {page.status}: {page.text[:300]}")
