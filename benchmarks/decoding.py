"""Transactions of one row, from the binlog's socket to published, in times of what go-mysql needs to decode them.

One cache, three tenths of whose keys are held. The proxy is stopped (SIGSTOP), transactions are written, it is
continued, and its processor time until it rests is taken. Then a small program in Go (`go_decoding/`) reads the same
transactions from the same MySQL by go-mysql's replication client, and does nothing with them; its time includes its
login. So the figure is a ratio of processor times of one run, in pairs. Both come before others on the machine
meanwhile, where the user may do so.

Where there is no Go, python-mysql-replication reads them, in a process of its own. It takes about SLOWER times as long.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import changes
from benchmarks.bench import Bench
from benchmarks.changes import Case
from benchmarks.compare.changes import at_rest, stopped
from benchmarks.compare.priority import before_others
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cached import wait_until_current
from examples.lobsters.cpu import process_seconds
from examples.lobsters.load import Connection
from gtid_tracker.gtid import GtidSet
from integration.clients.tools import NotObtainable, kept
from integration.servers.mysql_server import Server

HERE = Path(__file__).parent / "go_decoding"
MODULE = ("go.mod", "go.sum", "main.go")
TIMEOUT = 1200.0  # seconds: of the build, once
CASE = Case(1, 0.3, 1)
ROUNDS, TRANSACTIONS = 7, 4_000
TIMES = 3  # that each range is decoded
ONE_THREAD = {"GOMAXPROCS": "1"}
"""Go's idle threads look for work, which is processor time and no decoding."""
SERVER_ID = 90_210_077
SLOWER = 25.0
"""What python-mysql-replication's processor time is divided by, where it stands in for go-mysql's."""
NAME = "a transaction of one row, one cache, CPU from the socket to published, in times of go-mysql's decoding alone"


@dataclass(frozen=True, slots=True)
class Decoder:
    """`seconds` of processor time of a range of transactions: after the first set of GTIDs, until the second."""

    name: str
    seconds: Callable[[Server, str, str], float]


def run(bench: Bench) -> Result:
    result = Result("decoding")
    decoder = by_go(result)
    sheet = Sheet(
        f"{TRANSACTIONS:,} transactions of one row, microseconds of CPU each",
        ("round", "Upwell, one cache, to published", f"{decoder.name}, decoding alone", "ratio"),
    )
    result.sheets.append(sheet)
    ratios = []
    with (
        bench.scratch(*changes.schema()) as connection,
        before_others([bench.server.pid] if bench.server.pid else []),
        bench.proxy() as (proxy, client),
    ):
        client.create_cache(changes.cache_sql(1), name="c1", database=bench.scratch_database)
        held = int(changes.GROUPS * CASE.held)
        for first in range(0, held, 100):
            client.cache("c1").get_many(range(first, first + 100))
        wait_until_current(client, connection)
        for number in range(ROUNDS):
            before = executed(connection)
            with stopped(proxy.pid) as goes_on:
                with connection.cursor() as cursor:
                    cursor.execute(f"CALL one_by_one({1 + number * TRANSACTIONS}, {TRANSACTIONS})")
                after = executed(connection)
                used = process_seconds(proxy.pid)
                goes_on()
                used = at_rest("Upwell", proxy.pid, client, GtidSet.parse(after)) - used
            alone = median(decoder.seconds(bench.server, before, after) for _ in range(TIMES))
            ratios.append(used / alone)
            each = (seconds / TRANSACTIONS * 1e6 for seconds in (used, alone))
            sheet.rows.append((str(number + 1), *each, used / alone))
        changes.check(client, connection, CASE)
    result.figures.append(Figure(NAME, median(ratios), "x"))
    return result


def executed(connection: Connection) -> str:
    return changes.scalar(connection, "SELECT @@GLOBAL.gtid_executed").replace("\n", "")


def by_go(result: Result) -> Decoder:
    """go-mysql's, or the one that stands in for it, with a note."""
    try:
        program = built()
    except NotObtainable as reason:
        result.notes.append(f"without go-mysql, by python-mysql-replication's time / {SLOWER:g}: {reason}")
        python = [sys.executable, "-m", "benchmarks.python_decoding"]
        return Decoder("python-mysql-replication / 25", lambda *which: decoded(python, *which) / SLOWER)
    return Decoder("go-mysql", lambda *which: decoded([str(program)], *which))


def built() -> Path:
    """The program in Go. Raises NotObtainable where it cannot be built here."""
    if shutil.which("go") is None:
        raise NotObtainable("there is no go on PATH")
    key = b"".join((HERE / name).read_bytes() for name in MODULE)
    return kept("go-decoding", key, _build) / "go_decoding"


def _build(folder: Path) -> None:
    """Only what go.sum has is taken."""
    command = ("go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o", f"{folder}/go_decoding", ".")
    try:
        done = subprocess.run(
            command,
            cwd=HERE,
            env={**os.environ, "GOFLAGS": "", "GOTOOLCHAIN": "local"},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotObtainable(f"go build: {error}") from error
    if done.returncode:
        raise NotObtainable(f"go build: {done.stderr[-2000:]}")


def decoded(command: list[str], server: Server, after: str, until: str) -> float:
    """Seconds of processor time that the program has used. Raises AssertionError where it saw other rows."""
    asked = {
        "Host": server.host, "Port": server.port, "User": server.user, "Password": server.password,
        "After": after, "Until": until, "Server": SERVER_ID,
    }  # fmt: skip
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(
        command, input=json.dumps(asked), env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{command[0]}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    if found["rows"] != TRANSACTIONS * 3 // 2:  # half are inserts, half updates, each of which brings two rows
        raise AssertionError(f"{command[0]}: {found['rows']} rows of {TRANSACTIONS} transactions")
    return float(found["seconds"])
