"""The clients, and what one of their programs gives at an address: a list of lines, compared between two addresses.

A program reads the address from its environment and prints one JSON object a line: `{"step": ..., "outcome": ...}` for
its work (`"failed"` where the step itself broke), `{"read": ..., "rows": ..., "rounds": n}` for repeated reads, with
`hit`, `miss`, `passed` and `reasons` where `--explain` was asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from integration.clients import tools
from integration.clients.addresses import Address
from integration.clients.tools import ROOT, Tool

TIMEOUT = 120.0  # seconds; the longest takes 5 on a quiet machine
# Python's drivers load the machine's certificates for each connection, in 20 ms. No server of tests has one of them.
NO_CERTIFICATES = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
NODE = Path("integration/clients/node")

Line = dict[str, object]


class ProgramFailed(Exception):
    """A program ended otherwise than with success. The message has its last words."""


@dataclass(frozen=True, slots=True)
class Client:
    """`work` and `reads` are put behind the tool's command; `reads` also takes `--explain`."""

    name: str
    tool: Callable[[], Tool]
    work: tuple[str, ...]
    reads: tuple[str, ...] = ()


def in_python(name: str, tool: Callable[[], Tool], package: str, driver: str = "") -> Client:
    arguments = (driver,) if driver else ()
    work, reads = (("-m", f"integration.clients.{package}.{program}", *arguments) for program in ("work", "reads"))
    return Client(name, tool, work, reads)


def mysql_command() -> Tool:
    return tools.command_line("mysql")


def mysqldump_command() -> Tool:
    return tools.command_line("mysql", "mysqldump")


def sysbench_command() -> Tool:
    return tools.command_line("sysbench")


CLIENTS = (
    in_python("mysql", mysql_command, "command_line"),
    in_python("pymysql", tools.python, "dbapi", "pymysql"),
    in_python("mysqlclient", tools.python_with_mysqlclient, "dbapi", "mysqlclient"),
    in_python("connector-python-pure", tools.python, "dbapi", "connector-pure"),
    in_python("connector-python-c", tools.python_with_c_connector, "dbapi", "connector-c"),
    in_python("asyncmy", tools.python, "asyncio", "asyncmy"),
    in_python("aiomysql", tools.python, "asyncio", "aiomysql"),
    in_python("sqlalchemy-on-pymysql", tools.python, "sqlalchemy", "pymysql"),
    in_python("sqlalchemy-on-mysqlclient", tools.python_with_mysqlclient, "sqlalchemy", "mysqlclient"),
    in_python("django", tools.python_with_mysqlclient, "django"),
    Client("mysql2", tools.node, (str(NODE / "work.js"),), (str(NODE / "reads.js"),)),
    Client("jdbc", tools.java, ("clients.Work",), ("clients.Reads",)),
    Client("mysqldump", mysqldump_command, ("-m", "integration.clients.command_line.dump")),
    Client("sysbench", sysbench_command, ("-m", "integration.clients.command_line.sysbench")),
)


def run(client: Client, program: tuple[str, ...], address: Address) -> list[Line]:
    """What the program prints. Raises ProgramFailed, and NotObtainable where the machine cannot have the client."""
    tool = client.tool()
    try:
        done = subprocess.run(
            [*tool.command, *program],
            cwd=ROOT,
            env=os.environ | tool.environment | NO_CERTIFICATES | address.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode(errors="replace").splitlines()
        raise ProgramFailed(f"{client.name} did not end; its last line: {printed[-1:]}") from None
    if done.returncode != 0:
        raise ProgramFailed(
            f"{client.name} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}"
        )
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def steps_of(lines: list[Line]) -> dict[str, object]:
    """Outcomes by step. Raises AssertionError with every step that broke."""
    broken = [f"{line['step']}: {line['failed']}" for line in lines if "failed" in line]
    assert not broken, "\n".join(broken)
    return {str(line["step"]): line["outcome"] for line in lines}


def share_of_hits(lines: list[Line]) -> tuple[float, dict[str, object]]:
    """Of all reads that were explained: the part that were hits, and for each kind of read why the others were not."""
    hits = sum(number(line.get("hit", 0)) for line in lines)
    rounds = sum(number(line["rounds"]) for line in lines)
    return hits / rounds, {str(line["read"]): line["reasons"] for line in lines if line.get("reasons")}


def number(value: object) -> int:
    assert isinstance(value, int), value
    return value
