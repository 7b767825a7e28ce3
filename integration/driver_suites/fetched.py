"""Where the suites come from: the drivers' source packages, fetched once into the user's cache directory.

Each function returns a folder and raises `NotObtainable` with the reason where this machine cannot have it.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from integration.clients.tools import (
    PIP_INSTALL,
    REQUIREMENTS,
    NotObtainable,
    built_with,
    checked,
    kept,
    libmariadb,
    python,
    version,
)

GO_MODULE = "github.com/go-sql-driver/mysql"
GO_VERSION = "v1.10.1"
GO_WARMING = Path(__file__).parent / "go/warming_test.go"
GO_SUM = "h1:arlSnNLq6a5yxGxV7qg9lF4j0C+KwD6NbQyKr9QL6ME="
# As many rows as PyMySQL's tests of LOAD DATA LOCAL count; its source package leaves the file out.
LOADED_ROWS = 22_749


@functools.cache
def pytest_packages() -> Path:
    """pytest, to be put on the path of a Python that has drivers."""
    lock = REQUIREMENTS / "driver_suites.lock"

    def make(folder: Path) -> None:
        into = ("--only-binary", ":all:", "--no-deps", "--target", str(folder), "-r", str(lock))
        checked(python().command[0], *PIP_INSTALL, *into)

    return kept(f"pytest{version()}", lock.read_bytes(), make)


@functools.cache
def pymysql_source() -> Path:
    """PyMySQL with its suite, which lies inside the package."""
    lock = REQUIREMENTS / "pymysql_suite.lock"

    def make(folder: Path) -> None:
        unpack_source(lock, folder, {})
        tests = folder / "pymysql/tests"
        # Python 3.12 has no `imp` any more; the one function that the suite uses is in importlib.
        issues = tests / "test_issues.py"
        issues.write_text(issues.read_text().replace("import imp\n", "import importlib as imp\n"))
        (tests / "data").mkdir(exist_ok=True)
        (tests / "data/load_local_data.txt").write_text("".join(f"{row},{row}\n" for row in range(LOADED_ROWS)))

    return kept("pymysql-suite", lock.read_bytes() + b"importlib, rows", make)


@functools.cache
def mysqlclient_source() -> Path:
    """mysqlclient's source, of the version that `python_with_mysqlclient` has."""
    lock = REQUIREMENTS / "mysqlclient.lock"
    # To name what it depends on, pip asks the package's build, which looks for the library.
    environment = built_with(libmariadb())
    return kept("mysqlclient-suite", lock.read_bytes(), lambda folder: unpack_source(lock, folder, environment))


def unpack_source(lock: Path, folder: Path, environment: dict[str, str]) -> None:
    """Puts the contents of the one source package that `lock` names into `folder`."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        checked(python().command[0], *PIP_DOWNLOAD, "-r", str(lock), "-d", scratch, environment=environment)
        (archive,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(scratch, filter="data")
        (top,) = (path for path in Path(scratch).iterdir() if path.is_dir())
        for path in top.iterdir():
            shutil.move(path, folder)


PIP_DOWNLOAD = (
    *("-m", "pip", "download", "-q", "--disable-pip-version-check", "--require-hashes"),
    *("--no-deps", "--no-build-isolation", "--no-binary", ":all:"),
)


@functools.cache
def go_suite() -> Path:
    """The folder of Go's driver, ready to be tested with `go_environment`: `source` in it is the driver, `warmed` the
    same with tests whose reads are hits, `modules` what it needs."""
    if shutil.which("go") is None:
        raise NotObtainable("there is no go on PATH")

    def make(folder: Path) -> None:
        environment = go_environment(folder) | {"GOPROXY": os.environ.get("GOPROXY", "")}
        download = ("go", "mod", "download", "-json", f"{GO_MODULE}@{GO_VERSION}")
        module = json.loads(checked(*download, cwd=folder, environment=environment))
        if module["Sum"] != GO_SUM:
            raise NotObtainable(f"{GO_MODULE} {GO_VERSION} is {module['Sum']}, not {GO_SUM}")
        shutil.copytree(module["Dir"], folder / "source")
        checked("go", "mod", "download", cwd=folder / "source", environment=environment)
        shutil.copytree(folder / "source", folder / "warmed")
        shutil.copy(GO_WARMING, folder / "warmed")
        tests = folder / "warmed/driver_test.go"
        text, asks = tests.read_text(), "\trows, err := dbt.db.Query(query, args...)\n"  # in mustQuery
        assert text.count(asks) == 1, tests
        tests.write_text(text.replace(asks, f"\twarm(dbt.db, query, args...)\n{asks}"))

    return kept("go-suite", GO_SUM.encode() + GO_WARMING.read_bytes(), make)


def go_environment(folder: Path) -> dict[str, str]:
    """Go's modules lie in `folder`; nothing is fetched any more, neither modules nor another Go."""
    return {
        "GOMODCACHE": str(folder / "modules"),
        "GOFLAGS": "-modcacherw",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
