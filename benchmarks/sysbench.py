"""sysbench: statements a second of clients in C, over several connections, from one of its scripts or of ours."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from integration.clients.tools import sysbench

ONE_KEY = Path(__file__).with_name("one_key.lua")
POINT_SELECT = "oltp_point_select"
PATIENCE = 60.0  # seconds more than the run itself, until it is given up


class SysbenchFailed(Exception):
    """It ended with an error. The message is what it said last."""


@dataclass(frozen=True, slots=True)
class Load:
    """Who asks what. `database` of `user` (without a password) is asked over `connections`, as fast as each is
    answered; `prepared` with prepared statements, else in text. `options`: the script's own."""

    script: str | Path
    database: str
    connections: int = 8
    prepared: bool = True
    options: Sequence[str] = ()
    user: str = "root"
    password: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`per_second` is of the time that sysbench itself took; latencies in milliseconds."""

    statements: int
    per_second: float
    mean: float
    p95: float
    slowest: float


def run(load: Load, host: str, port: int, seconds: float) -> Outcome:
    """Whole seconds are measured: at least one. Raises SysbenchFailed, NotObtainable."""
    process = start(load, host, port, seconds)
    return outcome(process, seconds)


def start(load: Load, host: str, port: int, seconds: float) -> subprocess.Popen[str]:
    """To be given to `outcome`. Raises NotObtainable."""
    tool = sysbench()
    command = [
        *tool.command,
        str(load.script),
        "--db-driver=mysql",
        f"--mysql-host={host}",
        f"--mysql-port={port}",
        f"--mysql-user={load.user}",
        f"--mysql-password={load.password}",
        f"--mysql-db={load.database}",
        f"--threads={load.connections}",
        f"--time={max(1, round(seconds))}",
        "--rand-type=uniform",
        f"--db-ps-mode={'auto' if load.prepared else 'disable'}",
        *load.options,
        "run",
    ]
    return subprocess.Popen(
        command,
        env={**os.environ, **tool.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outcome(process: subprocess.Popen[str], seconds: float) -> Outcome:
    """Waits until it ends. Raises SysbenchFailed."""
    try:
        printed, _ = process.communicate(timeout=seconds + PATIENCE)
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0:
        raise SysbenchFailed(" / ".join(printed.strip().splitlines()[-4:]))
    return parsed(printed)


def parsed(printed: str) -> Outcome:
    """What a run has printed at its end. Raises SysbenchFailed where something is missing."""
    found = re.search(r"queries: +(\d+) +\(([\d.]+) per sec", printed)
    if found is None:
        raise SysbenchFailed("it does not tell how many queries it made")
    mean, p95, slowest = (number(printed, name) for name in ("avg", "95th percentile", "max"))
    return Outcome(int(found[1]), float(found[2]), mean, p95, slowest)


def number(printed: str, name: str) -> float:
    found = re.search(rf"^ +{name}: +([\d.]+)$", printed, re.MULTILINE)
    if found is None:
        raise SysbenchFailed(f"it does not tell {name!r}")
    return float(found[1])
