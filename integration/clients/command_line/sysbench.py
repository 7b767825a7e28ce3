"""sysbench, as it is used to measure MySQL: `python -m integration.clients.command_line.sysbench`.

A number of events and not a time, so that the outcome is the same on any machine. Its command comes in CLIENT_SYSBENCH.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess

from integration.clients.canonical import Step, address, run_steps

ADDRESS = address()
STEPS: list[Step] = []
TIMEOUT = 120.0
EVENTS = {"oltp_point_select": 2000, "oltp_read_only": 200, "oltp_read_write": 100, "select_random_points": 200}


def sysbench(script: str, action: str, *options: str) -> str:
    """What it printed. Raises RuntimeError with its last words."""
    where = (
        f"--mysql-host={ADDRESS.host}",
        f"--mysql-port={ADDRESS.port}",
        f"--mysql-user={ADDRESS.user}",
        f"--mysql-password={ADDRESS.password}",
        f"--mysql-db={ADDRESS.database}",
    )
    shape = ("--tables=2", "--table-size=2000", "--threads=4", "--time=0", "--rand-seed=1", "--rand-type=uniform")
    line = [*shlex.split(os.environ["CLIENT_SYSBENCH"]), script, *where, *shape, *options, action]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    if done.returncode != 0 or "FATAL" in done.stdout + done.stderr:
        raise RuntimeError(f"sysbench {script} {action}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


def ran(script: str, *options: str) -> object:
    printed = sysbench(script, "run", f"--events={EVENTS[script]}", *options)
    events = re.search(r"total number of events: +(\d+)", printed)
    reconnects = re.search(r"reconnects: +(\d+)", printed)
    assert events is not None and reconnects is not None, printed[-500:]
    return {"events": int(events[1]), "reconnects": int(reconnects[1])}


def tables_made() -> object:
    sysbench("oltp_read_write", "prepare")
    return "made"


def prepared() -> object:
    return {script: ran(script) for script in EVENTS}


def in_text() -> object:
    return {script: ran(script, "--db-ps-mode=disable") for script in EVENTS}


def without_transactions() -> object:
    return ran("oltp_read_only", "--skip-trx=on")


def tables_removed() -> object:
    sysbench("oltp_read_write", "cleanup")
    return "removed"


STEPS += [tables_made, prepared, in_text, without_transactions, tables_removed]

if __name__ == "__main__":
    run_steps(STEPS)
