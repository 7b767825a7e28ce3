"""The distribution's package of MySQL's test suite, unpacked beside the server of the same version.

The scripts are kept with three changes. They no longer say which errors they expect: `mysqltest` ends a script at the
first statement that ends otherwise, and some do, because all tables are InnoDB's here. What they wait for, they wait
for shortly. And they connect by TCP, where `localhost` would mean a socket file.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from integration.servers import debian_mysql
from integration.servers.debian_mysql import PrivateApt, cache_folder, newest_unpacked, only_one_process
from integration.servers.mysql_server import CannotStart, Installation

PACKAGE = r"^mysql-testsuite(-[0-9.]+)?$"
INSIDE = "usr/lib/mysql-test"
# `--error 1064`, `-- error ER_X, ER_Y` to the end of the line; `error 1064;` as a command.
EXPECTED_ERROR = re.compile(rb"^[ \t]*(?:--[ \t]*error\b[^\n]*|error[ \t]+[\w, \t]+;)[ \t\r]*$", re.MULTILINE | re.I)
WAITS = re.compile(
    rb"^((?:--)?[ \t]*let[ \t]+\$wait_(?:counter|timeout|counter_init)[ \t]*=[ \t]*)(?:`[^`]*`|[1-9]\d*)", re.MULTILINE
)
CONNECTS = re.compile(
    rb"^([ \t]*(?:--[ \t]*)?connect[ \t]*\([ \t]*[\w$]+[ \t]*,[ \t]*)localhost\b", re.MULTILINE | re.I
)


@dataclass(frozen=True)
class Suite:
    """`root`: the unpacked server. `folder`: the scripts, `mysqltest` among them, of the same version."""

    root: Path
    folder: Path

    @property
    def installation(self) -> Installation:
        return debian_mysql.installation(self.root)

    @property
    def mysqltest(self) -> tuple[str, ...]:
        """The command; it runs with the server's libraries."""
        loader = debian_mysql.loader_of(self.root)
        assert loader is not None, self.root
        libraries = [self.root / top / loader.parent.name for top in ("usr/lib", "lib")]
        return (str(loader), "--library-path", ":".join(map(str, libraries)), str(self.folder / "bin/mysqltest"))


def find(report: Callable[[str], None]) -> Suite:
    """The server and the suite, fetched where that was never done. Raises `CannotStart` with the reason."""
    cache = cache_folder()
    debian_mysql.find(report)
    root = newest_unpacked(cache)
    assert root is not None, cache
    folder = cache / root.name.replace("mysql-", "testsuite-", 1)
    if not folder.is_dir():
        with only_one_process(cache / "lock", report):
            if not folder.is_dir():
                fetch(root, folder, report)
    return Suite(root, folder)


def fetch(root: Path, folder: Path, report: Callable[[str], None]) -> None:
    """Requires: the lock of the cache is held."""
    for tool in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(tool) is None:
            raise CannotStart(f"there is no {tool} here: this is not a Debian or Ubuntu system")
    os_release = debian_mysql.read_os_release()
    source = debian_mysql.main_source(debian_mysql.read_sources(), os_release)
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=folder.parent) as scratch:
        apt = PrivateApt(Path(scratch), source, debian_mysql.suites_of(source, os_release))
        report(f"fetching MySQL's test suite from {source.uri} ({', '.join(apt.suites)}), 340 MB; this happens once")
        apt.run("apt-get", "update", "-q")
        unpacked = apt.fetch([package_for(apt, root)]) / INSIDE
        if not (unpacked / "bin/mysqltest").is_file():
            raise CannotStart(f"the package of MySQL's test suite holds no {INSIDE}/bin/mysqltest")
        prepare(unpacked)
        unpacked.rename(folder)
    report(f"MySQL's test suite unpacked into {folder}")


def package_for(apt: PrivateApt, root: Path) -> str:
    """The package whose version is that of the server unpacked at `root`."""
    seen = []
    for line in apt.run("apt-cache", "search", "--names-only", PACKAGE).splitlines():
        name = line.split(" ")[0]
        candidate = re.search(r"Candidate: (?:\d+:)?(\d\S*)", apt.run("apt-cache", "policy", name))
        if candidate is None:
            continue
        version = re.sub(r"[^\w.+-]", "_", candidate[1])
        if root.name.startswith(f"mysql-{version}-"):
            return name
        seen.append(candidate[1])
    raise CannotStart(
        f"the mirror has MySQL's test suite in version {' and '.join(seen)}, not that of {root.name}: without {root} "
        "both are fetched anew"
        if seen
        else f"no package of MySQL's test suite in {', '.join(apt.suites)} of this machine's mirror"
    )


def prepare(folder: Path) -> None:
    """Changes the scripts to what can be played here."""
    for path in folder.rglob("*"):
        if path.suffix in (".test", ".inc") and path.is_file() and not path.is_symlink():
            text = path.read_bytes()
            changed = WAITS.sub(rb"\g<1>15", EXPECTED_ERROR.sub(b"", text))
            changed = CONNECTS.sub(rb"\g<1>127.0.0.1", changed)
            if changed != text:
                path.write_bytes(changed)
