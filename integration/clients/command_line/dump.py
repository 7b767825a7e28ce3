"""`mysqldump` of the data, whole and without locks, and what `mysql` makes of it: `python -m ...command_line.dump`."""

from __future__ import annotations

import re

from integration.clients.canonical import Step, digest, run_steps
from integration.clients.command_line.programs import ADDRESS, lines_of, mysql, run

STEPS: list[Step] = []
# The lines that name the host, the server's version and the date.
ABOUT_THIS_RUN = re.compile(rb"^-- (Host: |MySQL dump |Server version|Dump completed on ).*\n", re.MULTILINE)
OPTIONS = {
    "with locks": ("--routines", "--events", "--triggers"),
    "in one transaction": ("--single-transaction", "--skip-lock-tables", "--hex-blob", "--order-by-primary"),
    "row by row": ("--skip-extended-insert", "--complete-insert", "--tz-utc", "--skip-lock-tables"),
    "as tables": ("--xml", "--no-create-info", "--skip-lock-tables", "--skip-quick"),
}
# Without what needs rights of an administrator; masking policies are newer than some servers.
COMMON = ("--no-tablespaces", "--loose-skip-masking-policies", "--set-gtid-purged=OFF", "--max-allowed-packet=64M")


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


def dump(*options: str) -> bytes:
    done = run("mysqldump", *COMMON, *options, ADDRESS.data)
    if done.returncode != 0:
        raise RuntimeError(f"mysqldump: {lines_of(done.stderr)}")
    return ABOUT_THIS_RUN.sub(b"", done.stdout)


@step
def dumps_with_each_kind_of_options() -> object:
    return {kind: parts_of(dump(*options)) for kind, options in OPTIONS.items()}


def parts_of(whole: bytes) -> object:
    """The size, and a digest of each part, by the comment that begins it: so that a difference has a place."""
    parts = re.split(rb"(?m)^(-- \S.*)\n", whole)
    named = [[parts[n].decode(errors="replace"), digest(parts[n + 1])] for n in range(1, len(parts) - 1, 2)]
    return {"bytes": len(whole), "digest": digest(whole), "before": digest(parts[0]), "parts": named}


@step
def a_dump_loaded_again() -> object:
    script = dump("--single-transaction", "--skip-lock-tables", "--ignore-table=" + ADDRESS.data + ".articles_of")
    done = run("mysql", ADDRESS.database, script=script)
    tables = ("author", "article", "comment", "number", "every_type", "digit")
    checksums = [
        mysql(f"CHECKSUM TABLE {', '.join(tables)};", "--skip-column-names", database=database)["out"]
        for database in (ADDRESS.data, ADDRESS.database)
    ]
    bare = [[line.rpartition(".")[2] for line in one] for one in checksums if isinstance(one, list)]
    return {
        "exit": done.returncode,
        "errors": lines_of(done.stderr),
        "same": bare[0] == bare[1],
        "tables": len(bare[0]),
    }


if __name__ == "__main__":
    run_steps(STEPS)
