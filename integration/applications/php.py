"""PHP from the distribution's packages, run from the folder into which they were unpacked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from integration.applications.sites import Service
from integration.clients.tools import NotObtainable, Tool, checked, debian, loaded

PACKAGES = ("php-mysql", "php-xml", "php-mbstring", "php-intl", "php-gd", "php-apcu")
# Each needs those before it; what else is there is loaded behind them.
IN_ORDER = ("mysqlnd", "pdo", "xml", "dom")
NOT_LOADED = frozenset({"opcache", "readline", "ffi", "phar"})
SETTINGS = {
    "opcache.enable_cli": "1",
    "apc.enable_cli": "1",
    "error_reporting": "E_ALL & ~E_DEPRECATED",
    "display_errors": "stderr",
    "memory_limit": "512M",
    "date.timezone": "UTC",
    "allow_url_fopen": "0",
}


@functools.cache
def php() -> Tool:
    """PHP's command line, with its extensions; `-S` serves a folder. Raises NotObtainable."""
    root = debian("php-cli", beside=PACKAGES)
    programs = sorted(root.glob("usr/bin/php[0-9]*.[0-9]"))
    folders = sorted(root.glob("usr/lib/php/20*"))
    if not programs or not folders:
        raise NotObtainable("the package php-cli holds no PHP that can be run from a folder")
    return Tool((*loaded(root), str(programs[-1]), "-n", *_options(folders[-1])))


def run(environment: Mapping[str, str], *arguments: str, cwd: Path | None = None) -> None:
    """A program of PHP's. Raises NotObtainable with its last words where it fails."""
    checked(*php().command, *arguments, environment={**php().environment, **environment}, cwd=cwd)


def service(folder: Path, address: str) -> Service:
    """PHP's own server on `folder`."""
    command = (*php().command, "-S", address, "-t", str(folder))
    return Service(Tool(command, php().environment), folder)


def _options(folder: Path) -> list[str]:
    names = {path.stem for path in folder.glob("*.so")} - NOT_LOADED
    first = [name for name in IN_ORDER if name in names]
    found = [f"extension_dir={folder}", f"zend_extension={folder}/opcache.so"]
    found += [f"extension={name}" for name in (*first, *sorted(names - {*first}))]
    found += [f"{name}={value}" for name, value in SETTINGS.items()]
    return [word for option in found for word in ("-d", option)]
