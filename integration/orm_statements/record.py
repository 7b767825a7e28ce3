"""Makes the scripts again: `python -m integration.orm_statements.record [framework ...]`.

Each framework's program runs once against a private MySQL, and what it sends is noted on the way.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from integration.clients.tools import NotObtainable, checked
from integration.orm_statements import frameworks
from integration.orm_statements.data import TABLES, inserts
from integration.orm_statements.recorder import Recorder
from integration.orm_statements.script import DATABASE, SCRIPTS, Header, write
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql
from proxy.mysql.wire.packets import CLIENT_MULTI_STATEMENTS

SCHEMA = Path(__file__).with_name("schema.sql")
CLIENT_FOUND_ROWS = 1 << 1
FLAGS = CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS  # of a login: those by which answers differ


def made(server: Server, database: str) -> None:
    """The tables with their rows, anew."""
    tables = [text for text in SCHEMA.read_text().split(";\n") if text.strip()]
    again = (f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    server.execute(*again, f"USE {database}", *tables, *inserts(), f"ANALYZE TABLE {', '.join(TABLES)}")


def recorded(framework: frameworks.Framework, server: Server) -> str:
    """Writes the script; what is to be told of it. Raises NotObtainable."""
    tool = framework.tool()
    made(server, DATABASE)
    with closing(Recorder((server.host, server.port))) as recorder:
        told = {"ORM_HOST": "127.0.0.1", "ORM_PORT": str(recorder.port), "ORM_DATABASE": DATABASE}
        printed = checked(
            *tool.command, *framework.program, cwd=frameworks.PROGRAMS, environment=tool.environment | told
        )
    if recorder.faults:
        raise SystemExit(f"{framework.name}: {recorder.faults}")
    versions = printed.split("\n")[-2]
    how = f"recorded from programs/{' '.join(framework.program)}"
    header = Header(versions, how, recorder.collation, recorder.flags & FLAGS, not recorder.closes)
    write(SCRIPTS / f"{framework.name}.jsonl", header, recorder.steps)
    return f"{framework.name}: {len(recorder.steps)} statements in {recorder.sessions} sessions, {versions}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("names", nargs="*", help=f"of {', '.join(each.name for each in frameworks.FRAMEWORKS)}")
    wanted = arguments.parse_args().names
    missing = 0
    with find_mysql(None, (), lambda line: None) as server:
        for framework in frameworks.FRAMEWORKS:
            if wanted and framework.name not in wanted:
                continue
            try:
                print(recorded(framework, server), flush=True)
            except NotObtainable as reason:
                missing += 1
                print(f"{framework.name} cannot be had here: {reason}", file=sys.stderr)
    return 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
