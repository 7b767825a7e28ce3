"""A finding as a script: one statement a line, to be read by people and played again.

    -- rows differ; found by make oracle SEED=17
    CREATE TABLE x1 (id INT NOT NULL, va VARCHAR(12), PRIMARY KEY (id), KEY (va))
    REPLACE INTO x1 (id, va) VALUES (1, 'a')
    CREATE CACHE c FROM SELECT a.id FROM x1 a WHERE a.va = ?
    SELECT a.id FROM x1 a WHERE a.va = 'A'
    UPDATE x1 SET va = 'b'
    SELECT a.id FROM x1 a WHERE a.va = 'A'

A SELECT is asked of MySQL and twice through the proxy, and compared. `-- bound: fd=0161 06=NULL` before it: it is
prepared, with these parameters (type and bytes as the protocol has them). `-- again`: all reads above are asked once
more. `-- session: 0 SET ...`: what the sessions set, and before it their max_allowed_packet (0: the server's).
`-- ordered`, `-- free` say how rows are compared from there on; `-- expected: why` that MySQL's own choice
differs and nothing is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from integration.oracle.answers import Announced, Answer, difference, explained
from integration.oracle.asker import Asker
from integration.oracle.settings import USUALLY, Settings, read_settings
from integration.oracle.trees import Spelled

READS = ("SELECT", "WITH", "(")


@dataclass
class Step:
    """One line. `values` None: not bound."""

    text: str
    values: list[Spelled] | None = None


@dataclass
class Script:
    """`title`: what differed, a line or more."""

    title: str
    steps: list[Step]
    ordered: bool = False
    free: bool = False
    settings: Settings = USUALLY

    def __str__(self) -> str:
        lines = [f"-- {line}" for line in self.title.splitlines()]
        lines += [f"-- {word}" for word in ("ordered", "free") if getattr(self, word)]
        if not self.settings.plain:
            lines.append(f"-- session: {self.settings}")
        for step in self.steps:
            if step.values is not None:
                shown = " ".join(f"{value.type:x}={_hex(value.data)}" for value in step.values)
                lines.append(f"-- bound: {shown}".rstrip())
            lines.append(step.text)
        return "\n".join(lines) + "\n"


def _hex(data: bytes | None) -> str:
    return "NULL" if data is None else data.hex()


def read(path: Path) -> Script:
    script = Script("", [])
    title: list[str] = []
    values: list[Spelled] | None = None
    reads: list[Step] = []
    for line in path.read_text().splitlines():
        if line.startswith("-- bound:"):
            values = [_bound(item) for item in line[9:].split()]
        elif line.startswith("-- session:"):
            script.settings = read_settings(line[11:])
        elif line in ("-- ordered", "-- free"):
            setattr(script, line[3:], True)
        elif line == "-- again":
            script.steps += reads
        elif line.startswith("--"):
            title.append(line[2:].strip())
        elif line:
            step = Step(line, values)
            script.steps.append(step)
            if line.startswith(READS):
                reads.append(step)
            values = None
    script.title = "\n".join(title)
    return script


def _bound(item: str) -> Spelled:
    type_, _, data = item.partition("=")
    return Spelled("?", int(type_, 16), None if data == "NULL" else bytes.fromhex(data))


@dataclass(frozen=True)
class Difference:
    """`kind`: error, rows or columns. `served`: how the proxy answered."""

    kind: str
    served: str
    text: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} differ ({self.served}): {self.text}\n{self.what}"


@dataclass
class Played:
    differences: list[Difference] = field(default_factory=list)
    served: list[str] = field(default_factory=list)  # of each read through the proxy
    refused: str = ""  # why a cache was
    announced: Announced = field(default_factory=Announced)


def play(asker: Asker, script: Script, wanted: str = "") -> Played:
    """Plays it in a new database, to the end, or to the first difference of the `wanted` kind."""
    asker.new_database(script.settings)
    played = Played()
    writes: list[str] = []
    for step in script.steps:
        if step.text.startswith("CREATE CACHE "):
            _write(asker, writes)
            asker.settled()
            answer = asker.create(step.text)
            played.refused = answer.message if answer.errno else ""
        elif not step.text.startswith(READS):
            writes.append(step.text)
        else:
            _write(asker, writes)
            for found in _compare(asker, script, step, played):
                played.differences.append(found)
                if found.kind == wanted:
                    asker.drop_caches()
                    return played
    asker.drop_caches()
    return played


def _write(asker: Asker, writes: list[str]) -> None:
    if writes:
        asker.run(writes)
        asker.wait()
        writes.clear()


def _compare(asker: Asker, script: Script, step: Step, played: Played) -> Iterator[Difference]:
    wanted = asker.ask("direct", step.text, step.values)
    played.announced.note(wanted)
    for _ in range(2):
        found = asker.ask("through", step.text, step.values)
        served, reason = asker.served()
        played.served.append(served)
        if served == "passed":
            played.announced.note(found)

        def differs(from_: Answer, found: Answer = found) -> str:
            return difference(from_, found, ordered=script.ordered, free=script.free, announced=played.announced)

        kind = differs(wanted)
        if kind and step.values is not None and not differs(asker.ask("direct", asker.anew(step.text), step.values)):
            kind = ""  # what MySQL says to a statement that it has executed before is another thing
        if kind and served == "passed" and any(" VIRTUAL" in each.text for each in script.steps):
            own, theirs = asker.with_own_tables(step.text, step.values)
            kind = difference(own, theirs, ordered=script.ordered, free=script.free)
        if kind:
            yield Difference(kind, f"{served} {reason}".strip(), step.text, explained(wanted, found))


def asked_again(setup: Sequence[str], cache: str, batches: Sequence[Sequence[str]], ask: Step) -> list[Step]:
    """The steps of a script: the cache's text is asked at first and after each batch."""
    steps = [*map(Step, setup), Step(f"CREATE CACHE c FROM {cache}"), ask]
    for batch in batches:
        if batch:
            steps += [*map(Step, batch), ask]
    return steps
