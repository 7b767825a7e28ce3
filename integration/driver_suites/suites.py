"""The drivers' suites: how each is fetched, told where MySQL is, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from integration.clients.outcome import NO_CERTIFICATES
from integration.clients.tools import Tool, python, python_with_mysqlclient
from integration.driver_suites.fetched import (
    go_environment,
    go_suite,
    mysqlclient_source,
    pymysql_source,
    pytest_packages,
)
from integration.driver_suites.outcomes import Outcomes, read_go, read_junit
from integration.driver_suites.warming import DRIVER

WARMING = "integration.driver_suites.warming"  # what makes the reads of Python's drivers hits
TIMEOUT = 600.0  # seconds; the longest takes 20 on a quiet machine, and Go compiles it first


class SuiteFailed(Exception):
    """A suite ended without a report. The message has its last words."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a suite finds MySQL, and two databases of its own."""

    host: str
    port: int
    user: str
    password: str
    databases: tuple[str, str]


class Run(Protocol):
    """`without`: names of tests that are left out. `warm`: each read is made a hit first, where MySQL is Upwell."""

    def __call__(self, place: Place, without: Sequence[str], *, warm: bool = False) -> Outcomes: ...


@dataclass(frozen=True, slots=True)
class Suite:
    """`fetch`: its source, where that was never done. `passes`: so many of the small form pass at MySQL itself, at
    least; with fewer the suite is not what it was. `left_out`, by test: why it is never run. `timed`, by test: why the
    small form leaves it out. `hits`: so many SELECTs are hits, at least, in a round."""

    name: str
    run: Run
    fetch: Callable[[], object]
    passes: int
    left_out: Mapping[str, str]
    timed: Mapping[str, str]
    hits: int = 0
    warm: bool = False

    def outcomes(self, place: Place, *, whole: bool) -> Outcomes:
        """Raises NotObtainable and SuiteFailed."""
        return self.run(place, [*self.left_out, *({} if whole else self.timed)], warm=self.warm)


# -- Python ------------------------------------------------------------------------------------------------------------


def run_pymysql(place: Place, without: Sequence[str], *, warm: bool = False) -> Outcomes:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "source"
        shutil.copytree(pymysql_source(), copy)
        account = {"host": place.host, "port": place.port, "user": place.user, "passwd": place.password}
        one, other = place.databases
        databases = [
            account | {"db": one, "use_unicode": True, "local_infile": True, "autocommit": warm},
            account | {"db": other, "autocommit": warm},
        ]
        (copy / "pymysql/tests/databases.json").write_text(json.dumps(databases))
        # Its own PyMySQL, not that of the environment.
        return run_pytest(python(), copy, "pymysql/tests", without, {}, path=(copy,), warmed="pymysql" if warm else "")


def run_mysqlclient(place: Place, without: Sequence[str], *, warm: bool = False) -> Outcomes:
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch) / "suite.cnf"
        settings.write_text(
            f"[MySQLdb-tests]\nhost={place.host}\nport={place.port}\nuser={place.user}\npassword={place.password}\n"
            f"database={place.databases[0]}\ndefault-character-set=utf8mb4\n"
        )
        copy = Path(scratch) / "source"
        shutil.copytree(mysqlclient_source(), copy)
        if warm:
            connects = copy / "tests/configdb.py"
            connects.write_text(connects.read_text() + '\n\nconnect_kwargs["autocommit"] = True\n')
        tool, driver = python_with_mysqlclient(), "MySQLdb" if warm else ""
        return run_pytest(tool, copy, "tests", without, {"TESTDB": str(settings)}, warmed=driver)


def run_pytest(
    tool: Tool,
    folder: Path,
    tests: str,
    without: Sequence[str],
    environment: dict[str, str],
    path: Sequence[Path] = (),
    warmed: str = "",
) -> Outcomes:
    """Runs what lies in `folder`. `path`: of modules, before those of the tool. `warmed`: the driver's module, where
    each read is to be a hit."""
    modules = [*map(str, (*path, pytest_packages())), tool.environment["PYTHONPATH"]]
    told = tool.environment | NO_CERTIFICATES | environment | {DRIVER: warmed, "PYTEST_ADDOPTS": ""}
    told |= {"PYTHONPATH": os.pathsep.join(modules), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [*tool.command, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"]
        command += ["--continue-on-collection-errors", "--junit-xml", str(report)]
        command += ["-p", WARMING] if warmed else []
        command += ["-k", " and ".join(f"not {name}" for name in without)] if without else []
        said = run_command([*command, tests], folder, told)
        if not report.exists():
            raise SuiteFailed(f"pytest wrote no report: {said[-2000:]}")
        return read_junit(report.read_text())


# -- Go ----------------------------------------------------------------------------------------------------------------


def run_go(place: Place, without: Sequence[str], *, warm: bool = False) -> Outcomes:
    suite = go_suite()
    environment = go_environment(suite) | {
        "MYSQL_TEST_USER": place.user,
        "MYSQL_TEST_PASS": place.password,
        "MYSQL_TEST_PROT": "tcp",
        "MYSQL_TEST_ADDR": f"{place.host}:{place.port}",
        "MYSQL_TEST_DBNAME": place.databases[0],
        "MYSQL_TEST_CONCURRENT": "1",
    }
    command = ["go", "test", "-json", "-count=1", f"-timeout={TIMEOUT * 0.9:.0f}s"]
    command += ["-skip", f"^({'|'.join(map(re.escape, without))})$"] if without else []
    said = run_command([*command, "."], suite / ("warmed" if warm else "source"), environment)
    outcomes = read_go(line for line in said.splitlines() if line.startswith("{"))
    if not outcomes:
        raise SuiteFailed(f"go test ran no test: {said[-2000:]}")
    return outcomes


def run_command(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What it printed, whatever it ended with: a test that fails is an outcome."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode(errors="replace")
        raise SuiteFailed(f"it did not end within {TIMEOUT:.0f} s; its last words: {printed[-1000:]}") from None
    return done.stdout.decode(errors="replace")


CANCELS = "fails where the machine takes 250 ms longer than usual"
TIMED_IN_MYSQLCLIENT = {
    "test_connection_concurrent_use_raises": "fails where the machine takes 100 ms longer than usual",
    "test_result_concurrent_use_raises": "fails where a thread does not begin to read within a second",
}
OUTSIDE_OF_GO = {"TestConnectorReturnsTimeout": "asks no MySQL, but an address in the internet"}
TIMED_IN_GO = {
    "TestContextCancelExec": CANCELS,
    "TestContextCancelQuery": CANCELS,
    "TestContextCancelQueryRow": "waits for 100 ms, and counts on what has happened then",
    "TestContextCancelStmtExec": CANCELS,
    "TestContextCancelStmtQuery": CANCELS,
    "TestContextCancelBegin": CANCELS,
    "TestConnectorTimeoutsDuringOpen": "counts on 50 ms",
    "TestIssue1567": "ends statements after random times, for seconds",
    "TestLongData": "takes seconds",
}
NONE: dict[str, str] = {}
PLAIN = (
    Suite("pymysql", run_pymysql, pymysql_source, 140, NONE, NONE),
    Suite("mysqlclient", run_mysqlclient, mysqlclient_source, 140, NONE, TIMED_IN_MYSQLCLIENT),
    Suite("go", run_go, go_suite, 350, OUTSIDE_OF_GO, TIMED_IN_GO),
)
WARMED = tuple(replace(suite, name=f"{suite.name}-warmed", hits=50, warm=True) for suite in PLAIN)
SUITES = PLAIN + WARMED
BY_NAME = {suite.name: suite for suite in SUITES}
