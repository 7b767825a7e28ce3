"""Repeated reads of the `mysql` command, one script: `python -m integration.clients.command_line.reads [--explain]`."""

from __future__ import annotations

from integration.clients.canonical import EXPLAIN, ROUNDS, Reads, served_in
from integration.clients.command_line.programs import ADDRESS, lines_of, run
from integration.clients.statements import READS, Read

MARK = "-- next read"


def main() -> None:
    reads = Reads()
    asked = [(read, read.key(number)) for number in range(ROUNDS) for read in READS]
    script = "".join(
        f"SELECT '{MARK}';\n{written(read, key)};\n" + (f"{EXPLAIN};\n" if reads.explain else "") for read, key in asked
    )
    done = run("mysql", "--batch", ADDRESS.data, script=script)
    if done.returncode != 0:
        raise RuntimeError(f"mysql: {lines_of(done.stderr)}")
    # The mark is a heading and a row; of the read and of the explanation each has a heading as well.
    printed = "\n".join(lines_of(done.stdout)).split(f"{MARK}\n{MARK}\n")[1:]
    for (read, key), answer in zip(asked, printed, strict=True):
        lines = answer.splitlines()
        served = None
        if reads.explain:
            served = served_in(lines[-2].split("\t"), lines[-1].split("\t"))
            lines = lines[:-2]
        reads.note(read.name, key, lines[:1] + list(map(str, read.ordered(lines[1:]))), served)
    reads.emit()


def written(read: Read, key: tuple[object, ...]) -> str:
    """The statement with its key's values in it."""
    return read.sql % tuple(f"'{part}'" if isinstance(part, str) else part for part in key)


if __name__ == "__main__":
    main()
