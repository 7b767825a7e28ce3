"""A Docker daemon of a test's own, with an image `mysql:lts` that needs no registry.

The daemon is that on PATH, or Debian's `docker.io`, unpacked into the user's cache directory. It needs root. Its data,
its socket and its network are its own, and all of it goes with the test. The image is MySQL's packages as
`integration/servers/debian_mysql.py` unpacks them, with a data directory in which root has no password: what the
published image makes of `MYSQL_ALLOW_EMPTY_PASSWORD` and `MYSQL_ROOT_HOST=%`.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from integration.servers import debian_mysql
from integration.servers.debian_mysql import (
    PrivateApt,
    Report,
    cache_folder,
    main_source,
    only_one_process,
    read_os_release,
)
from integration.servers.docker_mysql import IMAGE, docker
from integration.servers.mysql_server import POLL, CannotStart, ended_within, start_reaper

PACKAGES = ("docker.io", "containerd", "runc", "tini")
PROGRAMS = ("dockerd", "docker", "containerd", "runc", "docker-proxy", "docker-init")
START_SECONDS = 60.0
IMPORT_SECONDS = 300.0
MYSQLD = (
    *("/usr/sbin/mysqld", "--no-defaults", "--user=root", "--basedir=/usr", "--datadir=/var/lib/mysql"),
    *("--lc-messages-dir=/usr/share/mysql", "--character-sets-dir=/usr/share/mysql/charsets"),
    *("--plugin-dir=/usr/lib/mysql/plugin", "--secure-file-priv=NULL", "--init-file=/accounts.sql"),
    *("--socket=/tmp/mysql.sock", "--skip-name-resolve"),  # there are no names: each login would look for one
)
ACCOUNTS = "CREATE USER IF NOT EXISTS root@'%';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/bin", "usr/lib/perl", "usr/share/perl")


def programs(report: Report) -> list[Path]:
    """The folders of the daemon's programs: none where all are on PATH. Raises CannotStart."""
    if os.geteuid() != 0:
        raise CannotStart("a Docker daemon needs root")
    for tool in ("ip", "mount"):
        if shutil.which(tool) is None:
            raise CannotStart(f"there is no {tool} command")
    if all(shutil.which(name) for name in PROGRAMS):
        return []
    cache = cache_folder().parent / "docker"
    cache.mkdir(parents=True, exist_ok=True)
    root = cache / "root"
    if not root.is_dir():
        with only_one_process(cache / "lock", report):
            if not root.is_dir():
                unpack(cache, root, report)
    return [root / "usr/sbin", root / "usr/bin"]


def unpack(cache: Path, root: Path, report: Report) -> None:
    """Downloads and unpacks the packages, once. Requires: the lock of `cache` is held. Raises CannotStart."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise CannotStart(f"there is no {tool}: this is not a Debian or Ubuntu system")
    source = main_source(debian_mysql.read_sources(), read_os_release())
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=cache) as scratch:
        apt = PrivateApt(Path(scratch), source, (source.suite,))
        report(f"fetching Docker's packages from {source.uri} ({source.suite}); this happens once")
        apt.run("apt-get", "update", "-q")
        found = apt.fetch(PACKAGES)
        missing = [name for name in PROGRAMS if not list(found.glob(f"usr/*bin/{name}"))]
        if missing:
            raise CannotStart(f"the packages {', '.join(PACKAGES)} have no {', '.join(missing)}")
        found.rename(root)


@contextlib.contextmanager
def daemon(report: Report) -> Iterator[dict[str, str]]:
    """What of the environment leads the `docker` command to a daemon of our own. Raises CannotStart with its error."""
    path = os.pathsep.join([*map(str, programs(report)), os.environ["PATH"]])
    folder = Path(tempfile.mkdtemp(prefix="upwell-dockerd-"))
    bridge = f"upw{os.getpid()}"
    environment = {"PATH": path, "DOCKER_HOST": f"unix://{folder}/docker.sock", "DOCKER_CONFIG": f"{folder}/client"}
    places = ("--data-root", folder / "data", "--exec-root", folder / "exec", "--pidfile", folder / "pid")
    options = (f"--bridge={bridge}", "--iptables=false", "--ip6tables=false")
    try:
        make_bridge(bridge)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [shutil.which("dockerd", path=path) or "dockerd", *places, *options, "-H", environment["DOCKER_HOST"]],
                env=os.environ | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
    except BaseException:
        subprocess.run(["ip", "link", "del", bridge], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(folder)
        raise
    # Whoever ends us: it stops its containers, then its network and its folder go.
    end = f"kill {process.pid}; tail --pid={process.pid} -f /dev/null; ip link del {bridge}"
    reaper = start_reaper(folder, "sh", "-c", end)
    try:
        wait_until_it_answers(process, environment, folder / "log")
        yield environment
    finally:
        waiting = threading.Thread(target=process.wait)  # a child that has ended is there until somebody waits for it
        waiting.start()
        reaper.communicate(b"end")
        waiting.join()


def make_bridge(name: str) -> None:
    """The network of the containers, which nothing leads out of. Raises CannotStart."""
    number = os.getpid() % 254 + 1
    for command in (
        ["ip", "link", "add", name, "type", "bridge"],
        ["ip", "addr", "add", f"172.30.{number}.1/24", "dev", name],
        ["ip", "link", "set", name, "up"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotStart(f"{' '.join(command)}: {done.stderr.strip()}")


def wait_until_it_answers(process: subprocess.Popen[bytes], environment: dict[str, str], log: Path) -> None:
    """Raises CannotStart with the log's last error."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        asked = subprocess.run(
            ["docker", "version"], env=os.environ | environment, capture_output=True, check=False, timeout=START_SECONDS
        )
        if asked.returncode == 0:
            return
        ended = ended_within(process, POLL)
        if ended or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").splitlines()
            errors = [line for line in lines if "level=error" in line or "failed" in line]
            what = "has ended" if ended else f"did not answer within {START_SECONDS:.0f} s"
            raise CannotStart(f"dockerd {what}: {(errors or lines or ['it wrote nothing'])[-1]}")


def import_mysql(report: Report) -> None:
    """Gives the daemon that DOCKER_HOST names an image `mysql:lts`. Raises CannotStart."""
    server = debian_mysql.find(report)
    assert server.template is not None, "an unpacked server has one"
    changes = [f"ENTRYPOINT {list(MYSQLD)!r}".replace("'", '"'), "EXPOSE 3306"]
    command = ["docker", "import", *(part for change in changes for part in ("--change", change)), "-", IMAGE]
    importing = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert importing.stdin is not None
    with contextlib.suppress(BrokenPipeError), importing.stdin as pipe:
        write_image(pipe, server.template.parent, server.template)
    if importing.wait(IMPORT_SECONDS) != 0:
        raise CannotStart(f"docker import of {server.name} ended with status {importing.returncode}")
    docker("image", "inspect", IMAGE)


def write_image(pipe: io.BufferedWriter | object, root: Path, data: Path) -> None:
    """The file system as a tar archive: the unpacked packages, and the data directory in its place."""
    with tarfile.open(fileobj=pipe, mode="w|") as archive:  # type: ignore[call-overload]  # a pipe can be written to

        def add(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
            entry.uid = entry.gid = 0
            return None if entry.name.startswith(LEFT_OUT) else entry

        archive.add(root / "usr", "usr", filter=add)
        archive.add(data, "var/lib/mysql", filter=add)
        for folder in ("bin", "sbin", "lib", "lib64"):
            link = tarfile.TarInfo(folder)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{folder}"
            archive.addfile(link)
        for folder in ("tmp", "run/mysqld", "etc"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(made)
        for name, text in {"etc/passwd": "root:x:0:0:root:/:/bin/sh\n", "accounts.sql": ACCOUNTS}.items():
            file = tarfile.TarInfo(name)
            file.size = len(text)
            archive.addfile(file, io.BytesIO(text.encode()))
