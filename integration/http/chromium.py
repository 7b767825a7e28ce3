"""A real Chromium: the machine's own, else Debian's, fetched once into the user's cache directory and run from there.

A machine that can have none leaves the tests of the page out, with a line, but not with REQUIRE_CHROMIUM.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, sync_playwright
from playwright.sync_api import Error as CannotLaunch

from integration.clients.tools import NotObtainable, debian, node_with

# Those of the machine go with its dynamic loader; others with another one do not.
OF_LOADER = ("ld-linux*", "libc.so*", "libm.so*", "libpthread.so*", "libdl.so*", "librt.so*", "libresolv.so*")
FONTS = """<?xml version="1.0"?>
<fontconfig><dir>{root}/usr/share/fonts</dir><cachedir>{root}/fontcache</cachedir></fontconfig>
"""


def found(*, own: bool = True) -> tuple[Path, dict[str, str]]:
    """The program, and the environment that it needs. `own`: the machine's will do. Raises NotObtainable."""
    program = shutil.which("chromium") if own else None
    if program is not None:
        return Path(program), {}
    root = debian("chromium-headless-shell", beside=("fonts-dejavu-core",))
    programs = [*root.glob("usr/lib/chromium/*headless*shell*")]
    if not programs:
        raise NotObtainable("the package chromium-headless-shell holds no program")
    folders = [path for path in (*root.glob("usr/lib/*-linux-gnu*"), *root.glob("lib/*-linux-gnu*")) if path.is_dir()]
    for folder in folders:
        for pattern in OF_LOADER:
            for library in folder.glob(pattern):
                library.unlink()
    fonts = root / "fonts.conf"
    if not fonts.exists():
        fonts.write_text(FONTS.format(root=root))
    private = [*root.glob("usr/lib/*-linux-gnu*/pulseaudio")]
    libraries = ":".join(map(str, (*folders, *private)))
    return programs[0], {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(fonts)}


@contextmanager
def chromium(*, own: bool = True) -> Iterator[Browser]:
    """A running one. Skips the test where there is none to be had."""
    try:
        program, environment = found(own=own)
    except NotObtainable as error:
        left_out(error)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=program,
                args=["--no-sandbox", "--disable-dev-shm-usage"],
                env={**os.environ, **environment},
            )
        except CannotLaunch as error:
            left_out(error)
        yield browser
        browser.close()


def left_out(why: Exception) -> NoReturn:
    assert not os.environ.get("REQUIRE_CHROMIUM"), why
    pytest.skip(f"no Chromium: {why}")


def axe() -> str:
    """The text of axe-core, which finds what keeps people from reading a page."""
    folder = node_with("axe", Path(__file__).with_name("axe")).environment["NODE_PATH"]
    return (Path(folder) / "axe-core/axe.min.js").read_text()
