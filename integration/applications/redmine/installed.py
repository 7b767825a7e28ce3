"""Redmine from the distribution's package, with its Ruby, and what its users do."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from integration.applications.application import Application, Part
from integration.applications.forms import fields
from integration.applications.sites import Service, Site
from integration.clients.tools import NotObtainable, Tool, checked, debian, kept, loaded

HERE = Path(__file__).parent
BESIDE = ("ruby-mysql2", "ruby", "bundler", "ruby-rack", "puma")
OF_SITE = {
    "Gemfile": "Gemfile",
    "additional_environment.rb": "config/additional_environment.rb",
    "database.yml": "instances/default/config/database.yml",
}
"""Files of this folder, and where a site has them."""
USER = {"username": "ann", "password": "secret of ann"}
SECRET = "5d0a" * 32  # that signs cookies: both sites take each other's


def package() -> Path:
    return debian("redmine", beside=BESIDE)


@functools.cache
def ruby() -> Tool:
    """Ruby with the gems of the packages. Raises NotObtainable."""
    root = package()
    programs = sorted(root.glob("usr/bin/ruby[0-9]*.[0-9]"))
    libraries = [path.parent for path in root.glob("usr/lib/*/libmariadb3")]
    if not programs or not libraries:
        raise NotObtainable("the package redmine has no Ruby that can be run from a folder")
    ours = (root / "usr/lib/ruby", libraries[0] / "ruby")
    found = [path for folder in ours for path in (*folder.glob("vendor_ruby"), *folder.glob("*/[0-9]*"))]
    found += [path for folder in ours for path in folder.glob("[0-9]*")]
    gems = [*root.glob("usr/share/rubygems-integration/*"), *libraries[0].glob("rubygems-integration/*")]
    gems += [path for folder in ours for path in folder.glob("gems/*")]
    told = {
        "RUBYLIB": ":".join(map(str, found)),
        "GEM_PATH": ":".join(map(str, gems)),
        "MARIADB_PLUGIN_DIR": str(libraries[0] / "libmariadb3/plugin"),
        "BUNDLE_GEMFILE": str(site_folder() / "Gemfile"),
        "BUNDLE_WITHOUT": "test",
        "BUNDLE_DISABLE_VERSION_CHECK": "1",
        "BUNDLE_APP_CONFIG": str(site_folder() / ".bundle"),
        "RAILS_ENV": "production",
        "SECRET_KEY_BASE": SECRET,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    return Tool((*loaded(root), str(programs[-1]), "-W0"), told)


@functools.cache
def site_folder() -> Path:
    """The package's application with the settings of a site: Ruby finds a program's files by where the program really
    is, so it is no folder of links. Raises NotObtainable."""
    tree = package() / "usr/share/redmine"
    if not tree.is_dir():
        raise NotObtainable("the package redmine has no usr/share/redmine")

    def make(folder: Path) -> None:
        broken = ("Gemfile.lock", "database.yml", "instances")
        shutil.copytree(tree, folder, ignore=shutil.ignore_patterns(*broken), dirs_exist_ok=True)
        (folder / "Gemfile").rename(folder / "Gemfile.redmine")
        for name in ("plugins", "files", "log", "instances/default/config"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, place in OF_SITE.items():
            shutil.copy(HERE / name, folder / place)

    texts = b"".join((HERE / name).read_bytes() for name in OF_SITE)
    return kept("redmine-site", str(tree).encode() + hashlib.sha256(texts).digest(), make)


def run(told: Mapping[str, str], *arguments: str) -> None:
    """A program of Ruby's, within the site. Raises NotObtainable with its last words where it fails."""
    checked(*ruby().command, *arguments, environment={**ruby().environment, **told}, cwd=site_folder())


def service(address: str) -> Service:
    puma = (str(package() / "usr/bin/puma"), "-b", f"tcp://{address}", "-t", "1:1", "config.ru")
    return Service(Tool((*ruby().command, *puma), ruby().environment), site_folder())


def fill(told: Mapping[str, str], issues: int) -> None:
    rake = str(sorted(package().glob("usr/bin/rake[0-9]*"))[-1])
    run(told, rake, "db:migrate")
    run({**told, "REDMINE_LANG": "en"}, rake, "redmine:load_default_data")
    run(told, "bin/rails", "runner", str(HERE / "fill.rb"), str(issues))


def log_in(site: Site) -> None:
    site.submit("/login", [*dict(fields(site.get("/login").text) + list(USER.items())).items()])


def note(site: Site, path: str, words: str) -> None:
    form = dict(fields(site.get(f"{path}/edit").text, "issue-form"))
    site.submit(path, {**form, "issue[notes]": words})
    site.get(path)  # which thanks for it, once


# Tokens against forgery, names of forms, which are made up, how long something was ago, and where the user was before.
NOISE = re.compile(
    r'name="csrf-token" content="[^"]*"|name="authenticity_token" value="[^"]*"|name="[\w-]*form-[0-9a-f]+"'
    r"|(?:less than |about |almost |over )?(?:a|an|\d+) (?:second|minute|hour)s?(?=(?:</\w+>)? ago)"
    r"|<strong>Recently used</strong>(?:<a .*?</a>)*",
)
PATHS = re.compile(
    r"^/(?:projects(?:/p\d+(?:/(?:issues|news|roadmap|activity|wiki))?)?|issues(?:/\d+)?|news(?:/\d+)?|users/\d+)$"
)
PAGES = Part(starts=("/projects", "/issues"), paths=PATHS)
REDMINE = Application(
    name="Redmine",
    public=PAGES,
    users=PAGES,
    noise=NOISE,
    environment=lambda: {},
    service=service,
    fill=fill,
    log_in=log_in,
    written="/issues/",
    write=note,
)
