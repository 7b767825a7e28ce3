"""What object-relational mappers send, through Upwell (`make orm-statements`).

Each script of `integration/orm_statements/scripts` has the statements that a framework has sent for a web application.
It is played again and again until automatic caching has decided, always in lock step with MySQL on a database alike.
What differs from MySQL is wrong. Besides that it is printed how many SELECTs are hits when they are asked again, and
why the others are not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pymysql

from integration.clients.world import upwell_beside
from integration.orm_statements.data import restored
from integration.orm_statements.judge import Place, Round, Verdict, make_caches, open_ones, play, refusals
from integration.orm_statements.kinds import is_select
from integration.orm_statements.record import made
from integration.orm_statements.script import Script, all_scripts
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql
from proxy.auto.passed_reads import shape_of

# A shape is cached as soon as it is read twice: what is judged is which ones can be.
EAGER = ("--auto-cache=on", "--auto-cache-reads=2", "--auto-cache-time=0ms")
IN_VAIN = 10.0  # seconds without a new hit, behind which none is waited for: automatic caching looks every second


@dataclass(frozen=True, slots=True)
class World:
    """Three databases alike, whose names begin with `prefix`, one to restore the others from, and a proxy."""

    server: Server
    port: int
    prefix: str

    @property
    def origin(self) -> str:
        return f"{self.prefix}_origin"

    def places(self) -> tuple[Place, Place]:
        """MySQL, and Upwell."""
        server = self.server
        return (
            Place(server.host, server.port, f"{self.prefix}_direct", server.user, server.password),
            Place("127.0.0.1", self.port, f"{self.prefix}_cached", server.user, server.password),
        )

    def administrator(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        through = self.places()[1]
        return pymysql.connect(
            host=through.host,
            port=through.port,
            user=through.user,
            password=through.password,
            database=through.database,
        )


@contextmanager
def world(server: Server, folder: Path, prefix: str = "orm") -> Iterator[World]:
    databases = [f"{prefix}_{kind}" for kind in ("origin", "direct", "cached")]
    for database in databases:
        made(server, database)
    with upwell_beside(server, folder, *EAGER) as port:
        yield World(server, port, prefix)
    server.execute(*(f"DROP DATABASE {database}" for database in databases))


@dataclass
class Judged:
    """A script at the end. `refused`: reasons by shape; `shapes`: by text; `ever`: what was a hit in some round."""

    script: Script
    verdicts: list[Verdict] = field(default_factory=list)
    shapes: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    ever: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    choices: set[str] = field(default_factory=set)
    asked: int = 0
    rounds: int = 0

    def add(self, played: Round) -> None:
        self.rounds += 1
        self.asked += played.asked
        self.wrong += played.wrong
        self.choices |= set(played.choices)
        self.ever |= {verdict.number for verdict in played.verdicts if verdict.hit}
        # What has been a hit once is one: where the machine is busy, a fill may come late in another round.
        self.verdicts = [
            replace(verdict, served="hit") if verdict.number in self.ever else verdict for verdict in played.verdicts
        ]

    @property
    def deterministic(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.deterministic]

    @property
    def hits(self) -> int:
        """Deterministic SELECTs of the script that are hits when they are asked again."""
        return sum(verdict.hit for verdict in self.deterministic)

    def why(self, verdict: Verdict) -> str:
        """Of one that is no hit."""
        return self.refused.get(self.shapes[verdict.sql]) or f"{verdict.served}: {verdict.reason}"

    def reasons(self) -> Counter[str]:
        return Counter(self.why(verdict) for verdict in self.deterministic if not verdict.hit)


def judged(script: Script, world: World, enough: int | None = None) -> Judged:
    """Plays it until nothing more becomes a hit, or `enough` are. With `enough` the caches are made beforehand, not
    left to automatic caching."""
    found = Judged(script)
    direct, through = world.places()
    statements = tuple(restored(world.origin))
    found.shapes = {step.sql: shape_of(through.text(step)) for step in script.steps if is_select(step.sql)}
    with world.administrator() as connection:
        found.refused = refusals(connection, dict.fromkeys(found.shapes.values()))
        if enough is not None:
            make_caches(connection, [shape for shape in found.shapes.values() if shape not in found.refused])
        best, since = -1, time.monotonic()  # planning takes its time on a busy machine
        while time.monotonic() - since < IN_VAIN and not found.wrong:
            found.add(play(script, direct, through, statements))
            more = found.hits > best
            if more:
                best, since = found.hits, time.monotonic()
            if enough is not None and found.hits >= enough:
                break
            if not more and not any(open_ones(found.verdicts, found.refused, found.shapes)):
                break
    return found


def told(found: Judged, *, each: bool) -> Iterator[str]:
    """The lines of one framework. `each`: with every statement that is no hit."""
    script, deterministic = found.script, found.deterministic
    shapes = len({found.shapes[verdict.sql] for verdict in deterministic})
    yield (
        f"{script.name:12} {len(script.steps):4} statements, {len(found.verdicts):4} SELECTs,"
        f" {len(deterministic):4} deterministic ({shapes} shapes), {found.hits:4} hits;"
        f" {found.asked} answers compared, {len(found.wrong)} wrong  [{script.header.made_of}]"
    )
    for reason, count in found.reasons().most_common():
        yield f"  {count:4}  {reason}"
        for verdict in found.deterministic if each else ():
            if not verdict.hit and found.why(verdict) == reason:
                yield f"          {verdict.number}: {' '.join(verdict.sql.split())}"
    other = Counter(
        f"{verdict.excused}: {'hit' if verdict.hit else 'not a hit'}" for verdict in found.verdicts if verdict.excused
    )
    if other:
        yield "   not deterministic: " + ", ".join(f"{count} {what}" for what, count in other.items())
    for text in sorted(found.choices) if each else ():
        yield f"   MySQL's choice: {text}"
    for wrong in found.wrong:
        yield f"   WRONG {wrong}"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", help="one framework")
    arguments.add_argument("--each", action="store_true", help="every statement that is no hit, below its reason")
    given = arguments.parse_args()
    wrong = 0
    with find_mysql(os.environ.get("UPSTREAM_TEST"), (), lambda line: None) as server:
        for script in all_scripts():
            if given.only in (None, script.name):
                with tempfile.TemporaryDirectory() as folder, world(server, Path(folder)) as here:
                    found = judged(script, here)
                wrong += len(found.wrong)
                print("\n".join(told(found, each=given.each)), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
