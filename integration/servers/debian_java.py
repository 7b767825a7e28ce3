"""A Java runtime for Spark where the machine has none: the distribution's package, unpacked into a folder of the user's
cache as MySQL is (`integration/servers/debian_mysql.py`). `make run` and the tests bring it; `upwell serve` installs
nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bulk.session import find_java
from integration.servers.debian_mysql import (
    PrivateApt,
    Report,
    cache_folder,
    main_source,
    only_one_process,
    read_os_release,
    read_sources,
)
from integration.servers.mysql_server import CannotStart

PACKAGES = r"^openjdk-[0-9]+-jre-headless$"
OLDEST = 17  # that Spark runs on


def provide(report: Report, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What of the environment makes Spark find a Java: nothing where it does already. Raises CannotStart."""
    if find_java(environment) is not None:
        return {}
    cache = cache_folder().parent / "java"
    cache.mkdir(parents=True, exist_ok=True)
    found = unpacked(cache)
    if found is None:
        with only_one_process(cache / "lock", report):
            found = unpacked(cache) or unpack(cache, report)
    return {"JAVA_HOME": str(found)}


def unpacked(cache: Path) -> Path | None:
    """The newest runtime in the cache, whole."""
    homes = [program.parents[1] for program in cache.glob("java-*/usr/lib/jvm/*/bin/java")]
    return max(homes, key=lambda home: home.stat().st_mtime, default=None)


def unpack(cache: Path, report: Report) -> Path:
    """Requires: the lock of `cache` is held."""
    for tool in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(tool) is None:
            raise CannotStart(f"there is no {tool} here: install Java {OLDEST} or newer, and put `java` on PATH")
    source = main_source(read_sources(), read_os_release())
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=cache) as scratch:
        apt = PrivateApt(Path(scratch), source, (source.suite,))
        report(f"fetching a Java runtime from {source.uri} ({source.suite}); this happens once")
        apt.run("apt-get", "update", "-q")
        names = re.findall(r"^(openjdk-(\d+)-jre-headless) ", apt.run("apt-cache", "search", "-n", PACKAGES), re.M)
        usable = [(int(version), name) for name, version in names if int(version) >= OLDEST]
        if not usable:
            raise CannotStart(f"this machine's mirror has no Java runtime of version {OLDEST} or newer")
        name = min(usable)[1]  # the one that Spark has been tried with longest
        root = apt.fetch([name])
        point_inside(root)
        home = next(root.glob("usr/lib/jvm/*/bin/java"), None)
        if home is None or not runs(home):
            raise CannotStart(f"the package {name} holds no Java that can be run from a folder")
        final = cache / f"java-{name}"
        shutil.rmtree(final, ignore_errors=True)
        root.rename(final)
    report(f"{name} unpacked into {final}")
    found = unpacked(cache)
    assert found is not None
    return found


def point_inside(root: Path) -> None:
    """Links to places of the system become links to the same places below `root`, where the package has them."""
    for link in root.rglob("*"):
        if link.is_symlink() and (target := os.readlink(link)).startswith("/"):
            inside = root / target.lstrip("/")
            if inside.exists():
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))


def runs(java: Path) -> bool:
    done = subprocess.run([java, "-version"], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return done.returncode == 0
