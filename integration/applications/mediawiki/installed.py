"""MediaWiki from the distribution's package, served from where it was unpacked, and what its users do."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from html import unescape
from pathlib import Path

from integration.applications import php
from integration.applications.application import Application, Part
from integration.applications.sites import Page, Service, Site
from integration.clients.tools import NotObtainable, debian

HERE = Path(__file__).parent
PACKAGES = ("mediawiki", "mediawiki-classes")
ADMIN, USER = "secret of admin", {"wpName": "Ann", "wpPassword": "secret of ann"}
NEW_SITE = {"MW_CONFIG_FILE": str(HERE / "LocalSettings.php")}


def tree() -> Path:
    """The site's folder; it is only read. Raises NotObtainable."""
    found = debian("mediawiki", PACKAGES) / "usr/share/mediawiki"
    if not found.is_dir():
        raise NotObtainable("the package mediawiki has no usr/share/mediawiki")
    return found


def environment() -> dict[str, str]:
    return {"MW_INSTALL_PATH": str(tree()), "SITE_CACHE": tempfile.gettempdir(), **NEW_SITE}


def service(address: str) -> Service:
    return php.service(tree(), address)


def fill(told: Mapping[str, str], pages: int) -> None:
    account = [f"--{kind}user={told['SITE_USER']}" for kind in ("db", "installdb")]
    account += [f"--{kind}pass={told['SITE_PASSWORD']}" for kind in ("db", "installdb", "")]
    with tempfile.TemporaryDirectory() as folder:  # its own settings, which nobody reads
        place = [f"--dbserver={told['SITE_MYSQL']}", f"--dbname={told['SITE_DATABASE']}", f"--confpath={folder}"]
        site = ["--dbtype=mysql", "--scriptpath=", f"--server={told['SITE_URL']}", "A wiki", "Admin"]
        unset = {name: value for name, value in told.items() if name not in NEW_SITE}
        php.run(unset, str(tree() / "maintenance/install.php"), *place, *account, *site, cwd=tree())
    php.run(told, str(HERE / "fill.php"), str(pages))


def log_in(site: Site) -> None:
    form = site.get("/index.php?title=Special:UserLogin")
    token = hidden(form, "wpLoginToken")
    given = {**USER, "wpLoginToken": token, "authAction": "login", "wpEditToken": "+\\"}
    site.submit("/index.php?title=Special:UserLogin", given)


# Letters beyond ASCII, and beyond Unicode's first plane, which the edit form has and wants back as they are.
LETTERS = "\u2133\U0001d4b2\u2665\U0001d4ca\U0001d4c3\U0001d4be\U0001d4b8\u2134\U0001d4b9\u212f"


def edit(site: Site, path: str, words: str) -> None:
    form = site.get(f"{path}?action=edit")
    names = ("wpEditToken", "wpStarttime", "wpEdittime", "editRevId", "oldid", "parentRevId", "wpUltimateParam")
    given = {name: hidden(form, name) for name in names}
    given |= {"wpTextbox1": words, "wpUnicodeCheck": LETTERS, "wpSave": "Save"}
    site.submit(f"{path}?action=submit", given)
    site.get(path)  # which thanks for it, once


def hidden(page: Page, name: str) -> str:
    """The value of a hidden field of a page's form."""
    for tag in re.findall(r"<input[^>]*>", page.text):
        if f'name="{name}"' in tag:
            return unescape(next(iter(re.findall(r'value="([^"]*)"', tag)), ""))
    return ""


# How long things took, when they were parsed, tokens against forgery, which have the time in them, comments.
NOISE = re.compile(
    r'"(?:wgBackendResponseTime|wgRequestId|cputime|walltime|timestamp|ttl|\w+Token)":("[^"]*"|\d+)'
    r'|"timingprofile":\[[^]]*\]|<!--.*?-->',
    re.DOTALL,
)
PAGES = Part(starts=("/index.php/Main_Page",), paths=re.compile(r"^/index\.php/(?!Special:)[^?]*$"))
MEDIAWIKI = Application(
    name="MediaWiki",
    public=PAGES,
    users=PAGES,
    noise=NOISE,
    environment=environment,
    service=service,
    fill=fill,
    log_in=log_in,
    written="/index.php/Page_",
    write=edit,
)
