"""Ghost from npm's registry, as it is published there, and what its users do."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

from integration.applications.application import Application, Part
from integration.applications.sites import Service, Site
from integration.clients.tools import NotObtainable, Tool, checked, kept, node_and_npm

HERE = Path(__file__).parent
VERSION = "5.130.6"  # the last one for Node.js 20
SHA512 = (
    "0805aa3cab7eef0b3eff536b566bee89688364312dbad8aeee789531392ef6e3"
    "36f4c8df34515454a337822401a59199ad43915e45a25d296a6ebcb840656b07"
)
"""Of the package. Within it is `yarn.lock`, which has the versions of all others."""
CONTENT_KEY = "00112233445566778899aabbcc"  # with which programs read what is published
USER = {"username": "ann@example.com", "password": "the secret of ann"}


@functools.cache
def tree() -> Path:
    """Ghost with the packages that it needs. Raises NotObtainable."""
    program, npm = node_and_npm()
    told = {"PATH": os.pathsep.join((str(Path(program).parent), os.environ.get("PATH", os.defpath)))}

    def make(folder: Path) -> None:
        checked(*npm, "pack", "--silent", f"ghost@{VERSION}", cwd=folder, environment=told)
        package = folder / f"ghost-{VERSION}.tgz"
        if hashlib.sha512(package.read_bytes()).hexdigest() != SHA512:
            raise NotObtainable(f"{package.name} is another one than it was")
        with tarfile.open(package) as packed:
            packed.extractall(folder, filter="data")
        package.unlink()
        as_npm_reads_it(folder / "package/package.json")
        # Its versions are those that Ghost was tried with, though bookshelf names an older knex.
        quietly = ("--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund")
        checked(*npm, "install", "--omit=dev", *quietly, cwd=folder / "package", environment=told)

    return kept("ghost", f"{VERSION} {SHA512}".encode(), make) / "package"


def as_npm_reads_it(path: Path) -> None:
    """Names what yarn calls resolutions as npm does, and leaves out what a site does not need: what Ghost's tests need,
    and SQLite, which is compiled."""
    package = json.loads(path.read_text())
    package["overrides"] = package.pop("resolutions")
    del package["devDependencies"], package["optionalDependencies"]
    path.write_text(json.dumps(package))


def program(name: str) -> Tool:
    node, _ = node_and_npm()
    return Tool((node, str(HERE / name)))


def environment() -> dict[str, str]:
    return {"SITE_CONTENT_KEY": CONTENT_KEY, "TZ": "UTC"}


def service(address: str) -> Service:
    serving = program("serve.js")
    return Service(Tool(serving.command, {"SITE_ADDRESS": address}), tree())


def fill(told: Mapping[str, str], posts: int) -> None:
    checked(*program("fill.js").command, str(posts), environment=dict(told), cwd=tree())


def log_in(site: Site) -> None:
    site.send("POST", f"{ADMIN}/session/", USER)


def edit(site: Site, path: str, words: str) -> None:
    """Gives a post another title, as the editor does."""
    (post,) = json.loads(site.get(path).text)["posts"]
    changed = {"title": words, "updated_at": post["updated_at"]}
    site.send("PUT", f"{ADMIN}/posts/{post['id']}/", {"posts": [changed]})


ADMIN, CONTENT = "/ghost/api/admin", "/ghost/api/content"
KEY = f"key={CONTENT_KEY}"
# Pages, and what a site made with another program asks for.
PUBLIC = Part(
    starts=(
        "/", "/rss/", f"{CONTENT}/posts/?{KEY}&include=tags,authors", f"{CONTENT}/posts/slug/post-7/?{KEY}",
        f"{CONTENT}/posts/?{KEY}&filter=tag:tag-3&limit=5", f"{CONTENT}/tags/?{KEY}&include=count.posts&limit=all",
        f"{CONTENT}/authors/?{KEY}&include=count.posts", f"{CONTENT}/pages/?{KEY}", f"{CONTENT}/settings/?{KEY}",
    ),
    paths=re.compile(r"^/(?!ghost/|assets/|public/|webmentions/|page/\d+$)"),
)  # fmt: skip
WITH = "include=tags,authors,authors.roles,email,tiers,newsletter,count.clicks,post_revisions"
POSTS = tuple(
    f"{ADMIN}/posts/slug/post-{number}/?formats=mobiledoc,lexical&{WITH}"
    for number in range(1, 39)
    if number % 15 and number % 20
)
SETTINGS = "site,theme,private,members,portal,newsletter,email"
STATES = "[draft,scheduled,published,sent]"
# What the program in an editor's browser asks: it makes its pages itself.
USERS = Part(
    starts=(
        f"{ADMIN}/users/me/?include=roles", f"{ADMIN}/settings/?group={SETTINGS}", f"{ADMIN}/config/", f"{ADMIN}/site/",
        *POSTS[:6],
        f"{ADMIN}/posts/?limit=30&filter=status:{STATES}&order=published_at+desc&include=tags,authors",
        f"{ADMIN}/posts/?limit=30&filter=status:draft", f"{ADMIN}/posts/?limit=30&filter=tag:tag-2%2Bfeatured:true",
        f"{ADMIN}/posts/?limit=30&page=2&include=tags,authors,count.clicks", f"{ADMIN}/pages/?limit=30",
        f"{ADMIN}/tags/?limit=all&include=count.posts&filter=visibility:public",
        f"{ADMIN}/tags/slug/tag-5/?include=count.posts", f"{ADMIN}/users/?limit=all&include=roles,count.posts",
        f"{ADMIN}/members/?limit=15&include=labels,tiers", f"{ADMIN}/newsletters/?include=count.active_members",
        f"{ADMIN}/tiers/?limit=all", f"{ADMIN}/roles/?limit=all", f"{ADMIN}/actions/?limit=20&include=actor,resource",
        f"{ADMIN}/snippets/?limit=all", f"{ADMIN}/search-index/posts/", f"{ADMIN}/search-index/tags/",
        f"{ADMIN}/notifications/", f"{ADMIN}/custom_theme_settings/", *POSTS[6:],
    ),
    paths=re.compile(r"(?!)"),
)  # fmt: skip
# When a list was made, when a site was started.
NOISE = re.compile(r"<lastBuildDate>[^<]*</lastBuildDate>|(?<=\?v=)[0-9a-f]{10}")
GHOST = Application(
    name="Ghost",
    public=PUBLIC,
    users=USERS,
    noise=NOISE,
    environment=environment,
    service=service,
    fill=fill,
    log_in=log_in,
    written=f"{ADMIN}/posts/slug/",
    write=edit,
    headers={"Origin": "http://localhost"},  # a session is for one: with this it is for both sites
)
