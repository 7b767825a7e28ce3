"""WordPress from the distribution's package, as a folder that PHP's own server can serve, and what its users do."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from integration.applications import php
from integration.applications.application import Application, Part
from integration.applications.sites import Service, Site
from integration.clients.tools import NotObtainable, debian, kept

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


USER = {"log": "ann", "pwd": "secret"}  # who writes posts


def service(address: str) -> Service:
    return php.service(tree(), address)


def fill(environment: Mapping[str, str], posts: int) -> None:
    php.run(environment, str(HERE / "fill.php"), str(tree()), str(posts))


def log_in(site: Site) -> None:
    site.get("/wp-login.php")
    site.submit("/wp-login.php", {**USER, "wp-submit": "Log In", "testcookie": "1"})


def comment(site: Site, path: str, words: str) -> None:
    post = path.removeprefix("/?p=")
    site.submit("/wp-comments-post.php", {"comment": words, "comment_post_ID": post, "comment_parent": "0"})


PAGES = Part(
    starts=("/",),
    paths=re.compile(r"^/(?!wp-(?:admin|login|includes|content|json|comments)|xmlrpc|index\.php\?rest_route|.*feed)"),
)
WORDPRESS = Application(
    name="WordPress",
    public=PAGES,
    users=PAGES,
    noise=re.compile(r"(?!)"),
    environment=dict,
    service=service,
    fill=fill,
    log_in=log_in,
    written="/?p=",
    write=comment,
)
