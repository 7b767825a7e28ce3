"""Debian's (or Ubuntu's) MySQL packages, unpacked into a folder of the user's cache and run from there.

Nothing on the system changes and root is not needed: the system's own apt client works on a configuration of ours,
with its own lists, its own cache and an empty dpkg status, so it names every library that the server needs; `dpkg -x`
unpacks them. The server then runs with its own dynamic loader, so an older libc on the machine does not matter.

Debian's stable releases carry MariaDB only, therefore the suite is `sid` there. The mirror is the machine's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from integration.servers.mysql_server import CannotStart, Installation, PrivateMySQL

Report = Callable[[str], None]

# Needed by helper scripts of the packages only, and large.
NOT_NEEDED = re.compile(
    r"^(perl|libperl|gcc-|libdb5|libgdbm|mysql-common|lsb-|adduser|passwd|debconf|libselinux|psmisc)"
)
TIMEOUT = 600.0
TEMPLATE = "data-at-birth"


@dataclass(frozen=True)
class AptSource:
    """One enabled line of the machine's sources: where packages come from, and how they are authenticated."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""
    trusted: bool = False

    def line(self, suite: str) -> str:
        """As a one-line source for `suite`, fetching package lists only; `universe` exists on Ubuntu."""
        options = ["target=Packages"]
        if self.signed_by:
            options.append(f"signed-by={self.signed_by}")
        if self.trusted:
            options.append("trusted=yes")
        components = [name for name in ("main", "universe") if name in self.components]
        return f"deb [{' '.join(options)}] {self.uri} {suite} {' '.join(components)}"


def find(report: Report) -> Installation:
    """The unpacked server, unpacking it first where that was never done. Raises `CannotStart` with the reason."""
    cache = cache_folder()
    installed = newest_unpacked(cache)
    if installed is None:
        with only_one_process(cache / "lock", report):
            installed = newest_unpacked(cache) or unpack(cache, report)
    return installation(installed)


def installation(root: Path) -> Installation:
    """How to run the server that was unpacked at `root`."""
    loader = loader_of(root)
    assert loader is not None, root
    libraries = [str(root / top / loader.parent.name) for top in ("usr/lib", "lib")]
    share = root / "usr/share/mysql"
    return Installation(
        command=(str(loader), "--library-path", ":".join(libraries), str(root / "usr/sbin/mysqld")),
        flags=(
            f"--basedir={root}/usr",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share}/charsets",
            f"--plugin-dir={root}/usr/lib/mysql/plugin",
            "--secure-file-priv=NULL",
        ),
        name=f"the unpacked {root.name}",
        template=root / TEMPLATE if (root / TEMPLATE).is_dir() else None,
    )


def mysql_client(folder: Path) -> str:
    """The command `mysql`: the one on PATH, or a script in `folder` that runs the unpacked one; "" where there is
    neither."""
    if shutil.which("mysql"):
        return "mysql"
    with contextlib.suppress(CannotStart):
        root = newest_unpacked(cache_folder())
        if root is not None and (root / "usr/bin/mysql").is_file():
            server = installation(root)
            command = [*server.command[:-1], str(root / "usr/bin/mysql")]
            script = folder / "mysql"
            options = f"--character-sets-dir={shlex.quote(str(root / 'usr/share/mysql/charsets'))}"
            script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} {options} "$@"\n')
            script.chmod(0o755)
            return str(script)
    return ""


def cache_folder() -> Path:
    """Where unpacked servers lie: the user's cache directory, or one in the temporary folder where there is no home."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in (Path(base) / "upwell/mysql", Path(tempfile.gettempdir()) / f"upwell-cache-{os.getuid()}/mysql"):
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(folder, os.W_OK | os.X_OK) and folder.stat().st_uid == os.getuid():
                return folder
    raise CannotStart(f"neither {base} nor {tempfile.gettempdir()} can be written to")


def newest_unpacked(cache: Path) -> Path | None:
    """The latest whole unpacking. A folder gets its final name only when it is whole."""
    whole = [root for root in cache.glob("mysql-*") if (root / "usr/sbin/mysqld").is_file() and loader_of(root)]
    return max(whole, key=lambda root: root.stat().st_mtime, default=None)


def loader_of(root: Path) -> Path | None:
    """The dynamic loader among the unpacked libraries: its name carries the processor's."""
    for pattern in (
        "usr/lib/*-linux-gnu*/ld-linux*.so.*",
        "lib/*-linux-gnu*/ld-linux*.so.*",
        "lib/*-linux-gnu*/ld64.so.*",
    ):
        for loader in root.glob(pattern):
            return loader
    return None


@contextlib.contextmanager
def only_one_process(lock: Path, report: Report) -> Iterator[None]:
    """Held by one process at a time; freed by the kernel if that process dies."""
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is unpacking packages; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def unpack(cache: Path, report: Report) -> Path:
    """Download and unpack; returns the folder. Requires: the lock of `cache` is held."""
    for tool in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(tool) is None:
            raise CannotStart(f"there is no {tool} here: this is not a Debian or Ubuntu system")
    os_release = read_os_release()
    source = main_source(read_sources(), os_release)
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=cache) as scratch:
        apt = PrivateApt(Path(scratch), source, suites_of(source, os_release))
        report(f"fetching MySQL's packages from {source.uri} ({', '.join(apt.suites)}); this happens once")
        apt.run("apt-get", "update", "-q")
        server, version = apt.newest_server()
        wanted = apt.closure(server, server.replace("server", "client"))
        packages = [name for name in wanted if not NOT_NEEDED.match(name)]
        root = apt.fetch(packages)
        if not (root / "usr/sbin/mysqld").is_file() or loader_of(root) is None:
            raise CannotStart(f"the package {server} {version} holds no server that can be run from a folder")
        make_template(root)
        final = cache / re.sub(r"[^\w.+-]", "_", f"mysql-{version}-{apt.suites[0]}")
        shutil.rmtree(final, ignore_errors=True)
        root.rename(final)
    report(f"MySQL {version} unpacked into {final}")
    return final


def make_template(root: Path) -> None:
    """A fresh data directory beside the server, to be copied for each private one. Without the server's identity."""
    first = PrivateMySQL("127.0.0.1", 0, folder=root, installation=installation(root))
    first.initialize()
    (root / "data/auto.cnf").unlink()
    (root / "data").rename(root / TEMPLATE)


class PrivateApt:
    """The system's apt client on a configuration of its own in `folder`."""

    def __init__(self, folder: Path, source: AptSource, suites: Sequence[str]) -> None:
        self.folder, self.suites = folder, tuple(suites)
        for name in ("state/lists/partial", "cache/archives/partial", "etc/empty", "debs", "root"):
            (folder / name).mkdir(parents=True)
        (folder / "state/status").touch()
        (folder / "etc/sources.list").write_text("".join(source.line(suite) + "\n" for suite in suites))
        self.config = folder / "etc/apt.conf"
        self.config.write_text(
            f"""\
Dir::State "{folder}/state";
Dir::State::Lists "{folder}/state/lists";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Log "{folder}";
Dir::Etc::SourceList "{folder}/etc/sources.list";
Dir::Etc::SourceParts "{folder}/etc/empty";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "{folder}/etc/empty";
APT::Install-Recommends "false";
APT::Sandbox::User "";
APT::Default-Release "";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
// The machine's hooks tidy and announce the machine's own package state, which this is not.
#clear APT::Update;
#clear DPkg;
"""
        )

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Runs one of apt's programs (the first word); what it printed. Raises `CannotStart` with its error lines."""
        program, *arguments = command
        try:
            done = subprocess.run(
                [program, "-c", str(self.config), *arguments],
                cwd=cwd or self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT,
                env=os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
            )
        except subprocess.TimeoutExpired:
            raise CannotStart(f"{program} {arguments[0]} took longer than {TIMEOUT:.0f} s") from None
        failed = [line for line in done.stderr.splitlines() if line.startswith(("E:", "Err:", "W: Failed"))]
        if done.returncode != 0 or (failed and arguments[0] == "update"):
            raise CannotStart(f"{program} {arguments[0]} failed: {'; '.join(failed[:2]) or done.stderr.strip()[-200:]}")
        return done.stdout

    def newest_server(self) -> tuple[str, str]:
        """Name and version of the newest server package: `mysql-server-core`, or with a series as in `...-core-8.0`."""
        names = self.run("apt-cache", "search", "--names-only", r"^mysql-server-core(-[0-9.]+)?$").split("\n")
        found = []
        for name in (line.split(" ")[0] for line in names if line):
            policy = self.run("apt-cache", "policy", name)
            candidate = re.search(r"Candidate: (?:\d+:)?(\d\S*)", policy)
            if candidate and is_recent(candidate[1]):
                found.append((version_of(candidate[1]), name, candidate[1]))
        if not found:
            raise CannotStart(f"no package of MySQL 8.0 or newer in {', '.join(self.suites)} of this machine's mirror")
        _, name, version = max(found)
        return name, version

    def closure(self, *packages: str) -> list[str]:
        """The packages that an empty system would need for these, themselves among them."""
        printed = self.run("apt-get", "--print-uris", "-y", "-q", "install", *packages)
        return [line.split()[1].split("_")[0] for line in printed.splitlines() if line.startswith("'")]

    def fetch(self, packages: Sequence[str]) -> Path:
        """Download (apt checks signatures and hashes) and unpack; the folder that holds them."""
        self.run("apt-get", "download", "-q", *packages, cwd=self.folder / "debs")
        for package in sorted((self.folder / "debs").glob("*.deb")):
            done = subprocess.run(
                ["dpkg", "-x", package, self.folder / "root"], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise CannotStart(f"dpkg could not unpack {package.name}: {done.stderr.strip()[-200:]}")
        return self.folder / "root"


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `8.0.42-0ubuntu1` is (8, 0, 42)."""
    leading = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def is_recent(text: str) -> bool:
    return version_of(text) >= (8, 0)


def read_os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    with contextlib.suppress(OSError):
        pairs = (line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
        return {name.strip(): value.strip().strip("\"'") for name, value in pairs}
    return {}


def main_source(sources: Sequence[AptSource], os_release: dict[str, str]) -> AptSource:
    """The machine's source of its distribution's main archive: of its release, not of security or third parties."""
    codename = os_release.get("UBUNTU_CODENAME") or os_release.get("VERSION_CODENAME") or ""
    rolling = ("sid", "unstable", "testing", "stable", "oldstable")
    usable = [source for source in sources if "main" in source.components and not source.uri.startswith("cdrom:")]
    for suites in ((codename,), rolling):
        for source in usable:
            if source.suite in suites:
                return source
    raise CannotStart("the machine's apt sources name no archive of its own distribution")


def suites_of(source: AptSource, os_release: dict[str, str]) -> tuple[str, ...]:
    """Where MySQL lives: Ubuntu has it in every release, Debian in unstable only."""
    family = f"{os_release.get('ID', '')} {os_release.get('ID_LIKE', '')}".split()
    if "ubuntu" in family:
        return (source.suite, f"{source.suite}-updates")
    return ("sid",)


def read_sources(etc: Path = Path("/etc/apt")) -> list[AptSource]:
    """Every enabled binary source of the machine, from files of both formats."""
    found: list[AptSource] = []
    for path in [etc / "sources.list", *sorted(etc.glob("sources.list.d/*"))]:
        if path.suffix not in (".list", ".sources"):
            continue
        with contextlib.suppress(OSError):  # a file that this user may not read is one mirror fewer
            text = path.read_text(errors="replace")
            found.extend(parse_deb822(text) if path.suffix == ".sources" else parse_one_line(text))
    return found


def parse_one_line(text: str) -> Iterator[AptSource]:
    """The format of `sources.list`: `deb [option=value ...] URI SUITE COMPONENT...`."""
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match is None:
            continue
        options = dict(option.split("=", 1) for option in (match[1] or "").split() if "=" in option)
        yield AptSource(
            uri=match[2],
            suite=match[3],
            components=tuple(match[4].split()),
            signed_by=options.get("signed-by", ""),
            trusted=options.get("trusted", "") == "yes",
        )


def parse_deb822(text: str) -> Iterator[AptSource]:
    """The format of `*.sources`: stanzas of `Field: value`; a line that begins with a space continues the value."""
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line[:1].isspace():
                fields[name] = f"{fields.get(name, '')} {line.strip()}"
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0") or "deb" not in fields.get("types", "").split():
            continue
        signed_by = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield AptSource(
                    uri=uri,
                    suite=suite,
                    components=tuple(fields.get("components", "").split()),
                    signed_by=signed_by
                    if signed_by.startswith("/")
                    else "",  # a key written inline has no one-line form
                    trusted=fields.get("trusted", "") == "yes",
                )
