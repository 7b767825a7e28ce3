"""Random sequences of executions of prepared statements, played to MySQL and through the proxy in lock step.

What MySQL compares a column with depends on the types that a statement was executed with before, also where hits have
answered these executions. So each sequence is played a few times: at first MySQL answers, then more and more is a hit.
Between the executions come texts, transactions, new statements, changes of rows and tables, and evictions.

`python -m integration.prepared.bindings --seconds 60 --seed 1`, or `make bindings`: exit status 0 nothing differed, 1
something did, 3 there is no MySQL to ask. What differs is made small and printed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from integration.oracle.answers import Answer, difference, explained, parse
from integration.oracle.asker import Asker, asker_beside
from integration.oracle.kinds import BY_NAME, NUMBERS, Kind
from integration.oracle.trees import (
    BLOB,
    DATE,
    NULL,
    SHORT,
    TINY,
    VAR_STRING,
    Spelled,
    blob,
    clock,
    decimal,
    double,
    integer,
    moment,
    payload,
    string,
)
from integration.servers.private_mysql import NoMySQL, find_mysql
from integration.support.raw_client import Prepared, RawClient
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_QUERY_ATTRIBUTES,
    COM_CHANGE_USER,
    COM_RESET_CONNECTION,
    packet,
    read_lenenc,
)

COLUMNS = ("it", "bi", "bu", "dc", "dl", "db", "va", "vb", "vl", "da", "d0", "c0", "b1", "b9", "en", "yr", "bv")
NAMES = "abc"
# Where {a}, {b} stand for columns: each `?` behind one is compared with it. `...` is a list.
SHAPES = (
    ("SELECT id FROM t WHERE a = ?", "a"),
    ("SELECT id FROM t WHERE a = ? AND b = ?", "ab"),
    ("SELECT id FROM t WHERE a = ? AND b = ? AND c = ?", "abc"),
    ("SELECT id, b FROM t WHERE a IN (?, ?)", "aa"),
    ("SELECT id FROM t WHERE a IN (?, ?, ?)", "aaa"),
    ("SELECT id FROM t WHERE a IN (?, ?) AND b = ?", "aab"),
    ("SELECT id FROM t WHERE a BETWEEN ? AND ?", "aa"),
    ("SELECT id FROM t WHERE b = ? AND a BETWEEN ? AND ?", "baa"),
    ("SELECT id FROM t WHERE a = ? OR b = ?", "ab"),
    ("SELECT id FROM t WHERE a = ? OR a = ?", "aa"),
    ("SELECT id FROM t WHERE a = ? AND b > ?", "ab"),
    ("SELECT id FROM t WHERE a <= ? AND b <> ?", "ab"),
    ("SELECT id FROM t WHERE a <=> ? AND b = ?", "ab"),
    ("SELECT id FROM t WHERE a = ? ORDER BY id LIMIT ?", "al"),
    ("SELECT COUNT(*), MIN(id) FROM t WHERE a = ? AND b = ?", "ab"),
    ("SELECT b, COUNT(*) FROM t WHERE a = ? GROUP BY b", "a"),
    ("SELECT id FROM t WHERE a NOT IN (?, ?)", "aa"),
    ("SELECT t.id FROM t JOIN u ON u.b = t.b WHERE t.a = ? AND u.a = ?", "aa"),
    ("SELECT id FROM t WHERE c = ? AND a LIKE ?", "ca"),
    ("SELECT id, a FROM t WHERE a = ? AND b = COALESCE(?, b)", "ab"),
)
COMMON = (
    *(integer(1), integer(0), integer(2, TINY), integer(2**53 + 1), integer(2**64 - 1), integer(24, SHORT)),
    *(double(1.0), double(1.5), double(2.0**53), decimal("1.0"), decimal("1.5"), decimal("9007199254740993")),
    *(string("1"), string("a"), string("1abc"), string("9007199254740993"), string(""), string("2024-02-29")),
    *(NULL, NULL, blob(b"1"), blob(b"\1"), moment("2024-02-29", DATE), moment("2024-02-29 12:34:56")),
    *(clock("12:34:56"), integer(20240229), double(20240229.0), double(-0.0), decimal("1.10")),
)
NUMERIC = (
    *(integer(1), integer(0), integer(2**53 + 1), integer(2, TINY), double(1.0), double(1.5), double(2.0**53)),
    *(decimal("1.0"), decimal("1.5"), decimal("9007199254740993"), string("1"), string("2")),
)
COUNTS = (integer(1), integer(2), integer(100), integer(0), integer(1, TINY), string("1"), double(1.0), NULL)
SAID = (
    *("BEGIN", "COMMIT", "SET autocommit = 0", "SET autocommit = 1", "SELECT 1", "ROLLBACK", "BEGIN"),
    *("SET NAMES latin1", "SET NAMES utf8mb4", "SET collation_connection = utf8mb4_bin", "SET sql_mode = ''"),
    *("SET sql_mode = DEFAULT", "SET time_zone = '+05:00'", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
)
PLAYS, STEPS, ROWS, SEQUENCES = 3, 14, 12, 5
ABILITIES = (CLIENT_DEPRECATE_EOF, CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES)


@dataclass(frozen=True, slots=True)
class Step:
    """`what`: execute; pieces, an execution with a string that was sent in pieces; prepare, reset statement, close,
    reset, user, evict, write, or the text of a statement. `slot`: of which statement. `types`: whether an execution
    binds them where it need not."""

    what: str
    slot: int = 0
    values: tuple[Spelled, ...] = ()
    types: bool = True

    def __str__(self) -> str:
        if self.what not in ("execute", "pieces"):
            return f"{self.what} {self.slot}" if self.what in ("prepare", "close", "reset statement") else self.what
        return f"{self.what} {self.slot} " + ", ".join(f"{value.text} ({value.type:#x})" for value in self.values)


@dataclass(slots=True)
class Script:
    """The texts of the statements that are prepared, and what is done with them. `attributes`: in sessions with query
    attributes."""

    texts: list[str]
    steps: list[Step]
    attributes: bool


@dataclass(slots=True)
class Finding:
    seed: int
    setup: list[str]
    texts: list[str]
    steps: list[Step]
    served: list[str]
    kind: str
    what: str

    def __str__(self) -> str:
        told = [*self.setup, *(f"slot {number}: {text}" for number, text in enumerate(self.texts))]
        told += [f"  {step}   -- {served}" for step, served in zip(self.steps, self.served, strict=False)]
        return f"seed {self.seed}: {self.kind}, {self.served[-1]}\n" + "\n".join(told) + f"\n{self.what}"


class Differed(Exception):
    """What was to be compared differs."""

    def __init__(self, at: int, kind: str, what: str) -> None:
        self.at, self.kind, self.what = at, kind, what


class Side:
    """A session, at MySQL or through the proxy, with the statements that it has prepared."""

    def __init__(self, client: RawClient, texts: list[str], database: str) -> None:
        self.client, self.texts, self.database = client, texts, database
        client.query("SET time_zone = '+00:00'")
        self.slots: list[Prepared | None] = [client.prepare(text) for text in texts]
        self.bound: list[tuple[int, ...] | None] = [None] * len(texts)

    def take(self, step: Step) -> Answer | None:
        client = self.client
        if step.what in ("execute", "pieces"):
            return self.execute(step)
        if step.what == "prepare":
            self.close(step.slot)
            self.slots[step.slot], self.bound[step.slot] = client.prepare(self.texts[step.slot]), None
        elif step.what == "close":
            self.close(step.slot)
        elif step.what == "reset statement":
            statement = self.slots[step.slot]
            if statement is not None and not statement.error:
                client.reset_statement(statement.id)
        elif step.what in ("reset", "user"):
            if step.what == "reset":
                client.command(COM_RESET_CONNECTION)
            else:
                self.change_user()
            client.query("SET time_zone = '+00:00'")
            self.slots = [client.prepare(text) for text in self.texts]
            self.bound = [None] * len(self.texts)
        else:
            answer = parse(client.query(step.what), binary=False)
            return answer if step.what.startswith("SELECT") else None
        return None

    def change_user(self) -> None:
        """As the same one."""
        rest = b"root\0\0" + self.database.encode() + b"\0\xff\0caching_sha2_password\0"
        self.client.write(packet(bytes((COM_CHANGE_USER,)) + rest, 0))
        asked = self.client.packet()
        self.client.write(packet(b"", asked[3] + 1))
        self.client.authenticated()

    def close(self, slot: int) -> None:
        statement = self.slots[slot]
        if statement is not None and not statement.error:
            self.client.close_statement(statement.id)
        self.slots[slot], self.bound[slot] = None, None

    def execute(self, step: Step) -> Answer | None:
        statement = self.slots[step.slot]
        if statement is None or statement.error:
            return None
        values, types = list(step.values), tuple(value.type for value in step.values)
        if step.what == "pieces":
            for at, value in enumerate(values):
                if value.type in (VAR_STRING, BLOB) and value.data is not None:
                    raw, _ = read_lenenc(value.data, 0)
                    for piece in (raw[:1], raw[1:]):
                        self.client.long_data(statement.id, at, piece)
                    values[at] = replace(value, data=b"")
                    break
        given = with_names(values) if self.client.attributes else payload(values)
        if types == self.bound[step.slot] and not step.types:
            size = (3 if self.client.attributes else 2) * len(types)
            at = (len(types) + 7) // 8 + (1 if self.client.attributes else 0)
            given = given[:at] + b"\0" + given[at + 1 + size :]
        self.bound[step.slot] = types
        self.client.write(packet(self.client.execution(statement.id, given), 0))
        return parse(self.client.result(), binary=True)


class History:
    """`apart`: slots whose types changed behind a DDL statement. MySQL resolves them with the values before, and has
    none of hits. So what is passed there is MySQL's own answer, and may be another; hits are compared."""

    def __init__(self) -> None:
        self.apart: set[int] = set()
        self._types: dict[int, tuple[int, ...]] = {}  # by slot, of the last execution
        self._altered: set[int] = set()  # executed before a DDL statement

    def note(self, step: Step) -> None:
        if step.what.startswith("write ALTER"):
            self._altered |= self._types.keys()
        elif step.what in ("execute", "pieces"):
            types = tuple(value.type for value in step.values)
            if step.slot in self._altered and types != self._types[step.slot]:
                self.apart.add(step.slot)
            self._types[step.slot] = types
        elif step.what in ("prepare", "close", "reset", "user"):
            for slot in [step.slot] if step.what in ("prepare", "close") else list(self._types):
                self._types.pop(slot, None)
                self._altered, self.apart = self._altered - {slot}, self.apart - {slot}


def with_names(values: Sequence[Spelled]) -> bytes:
    """Parameters as sessions with query attributes send them: behind their number, each type with an empty name."""
    plain, count = payload(values), len(values)
    bits = (count + 7) // 8
    types = b"".join(plain[bits + 1 + 2 * at : bits + 3 + 2 * at] + b"\0" for at in range(count))
    return bytes((count,)) + plain[: bits + 1] + types + plain[bits + 1 + 2 * count :]


@dataclass
class Tally:
    counts: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)


class World:
    """Two tables of random columns, some caches, and sequences over them."""

    def __init__(self, asker: Asker, seed: int, tally: Tally) -> None:
        self.asker, self.seed, self.tally = asker, seed, tally
        self.rng = random.Random(seed)
        self.kinds: list[Kind] = [BY_NAME[self.rng.choice(COLUMNS)] for _ in NAMES]
        self.setup = [self.create("t"), self.create("u")]
        for table in "tu":
            self.setup += [f"INSERT INTO {table} ({', '.join(NAMES)}) VALUES {self.row()}" for _ in range(ROWS)]
        self.findings: list[Finding] = []
        self.plain = False  # a script binds one type to each parameter

    def create(self, table: str) -> str:
        columns = [f"{name} {kind.ddl}" for name, kind in zip(NAMES, self.kinds, strict=True)]
        keys = [f"KEY ({name})" for name in NAMES if self.rng.random() < 0.4]
        return f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, {', '.join([*columns, *keys])})"

    def row(self) -> str:
        fine = ("9007199254740993", "9007199254740992")
        more = {"bi": fine, "bu": fine, "dl": fine}
        values = [
            "NULL" if self.rng.random() < 0.1 else self.rng.choice(kind.literals + more.get(kind.name, ()))
            for kind in self.kinds
        ]
        return f"({', '.join(values)})"

    def play(self) -> None:
        asker = self.asker
        asker.new_database()
        refused = asker.run(self.setup)
        assert not refused, refused
        asker.wait()
        for _ in range(SEQUENCES):
            sequence = self.sequence()
            self.cache(sequence)
            for _ in range(PLAYS):
                try:
                    self.once(sequence, [])
                except Differed as differed:
                    self.found(sequence, differed)
                    break
            self.tally.counts["sequences"] += 1
        asker.drop_caches()

    def sequence(self) -> Script:
        rng = self.rng
        shapes = [rng.choice(SHAPES) for _ in range(rng.choice((1, 1, 2)))]
        shapes += [shapes[0]] * (rng.random() < 0.3)  # the same text twice
        self.plain = rng.random() < 0.6
        pools = [[self.pool(at) for at in columns] for _, columns in shapes]
        steps = []
        for _ in range(STEPS):
            slot = rng.randrange(len(shapes))
            if rng.random() < 0.8:
                values = tuple(rng.choice(pool) for pool in pools[slot])
                what = "pieces" if rng.random() < 0.01 else "execute"
                steps.append(Step(what, slot, values, rng.random() < 0.6))
            else:
                steps.append(self.other(slot, shapes[slot], pools[slot]))
        return Script([text for text, _ in shapes], steps, rng.random() < 0.3)

    def pool(self, column: str) -> list[Spelled]:
        """A few values for a parameter, some of them of other types than what they are compared with."""
        if column == "l":
            return [self.rng.choice(COUNTS) for _ in range(3)]
        kind = self.kinds[NAMES.index(column)]
        near = [value for value in kind.near if value.bindable]
        if self.plain:
            first = self.rng.choice(near)
            nulls = (NULL, replace(first, text="NULL", data=None)) if self.rng.random() < 0.3 else ()
            return [first, *[value for value in near if value.type == first.type][:3], *nulls]
        more = [*near, NULL] if kind.family not in NUMBERS else [*NUMERIC, NULL, NULL]
        if self.rng.random() < 0.4:
            more = [value for value in (*kind.odd, *COMMON, *COMMON) if value.bindable]
        return [self.rng.choice(near) for _ in range(2)] + [self.rng.choice(more) for _ in range(2)]

    def other(self, slot: int, shape: tuple[str, str], pools: list[list[Spelled]]) -> Step:
        choice = self.rng.random()
        if choice < 0.2:
            text = shape[0]
            for pool in pools:
                text = text.replace("?", self.rng.choice(pool).text, 1)
            return Step(text)
        if choice < 0.45:
            return Step(self.rng.choice(("prepare", "prepare", "reset statement", "close", "reset", "user")), slot)
        if choice < 0.65:
            return Step(self.rng.choice(SAID))
        if choice < 0.75:
            return Step("evict")
        if choice < 0.8:
            return Step("write ALTER TABLE t ALGORITHM=INPLACE, ALTER COLUMN a SET DEFAULT NULL")
        number = self.rng.randrange(ROWS) + 1
        if choice < 0.9:
            return Step(f"write REPLACE INTO t (id, {', '.join(NAMES)}) VALUES ({number}, {self.row()[1:]}")
        return Step(f"write DELETE FROM u WHERE id = {number}")

    # -- playing ---------------------------------------------------------------------------------------------------

    def cache(self, script: Script) -> None:
        for text in script.texts:
            made = self.asker.create(f"CREATE CACHE FROM {as_cache(text)}")
            self.tally.counts[f"no cache: {made.errno}" if made.errno else "caches"] += 1

    def once(self, script: Script, served: list[str]) -> None:
        """Raises Differed where an answer differs. `served` is filled with how each step was answered."""
        beside, database, texts = self.asker.beside, self.asker.database, script.texts
        able = ABILITIES[script.attributes]
        with (
            beside.direct(database=database, capabilities=able) as one,
            beside.client(database=database, capabilities=able) as other,
        ):
            direct, through = (Side(client, texts, database) for client in (one, other))
            held: set[int] = set()
            history = History()
            for at, step in enumerate(script.steps):
                history.note(step)
                if step.what.startswith("write "):
                    if held:  # a transaction of the sequence could make the writer wait
                        for side in (direct, through):
                            side.take(Step("COMMIT"))
                    self.asker.run([step.what[6:]])
                    self.asker.wait()
                    self.asker.settled()
                    served.append("")
                    continue
                if step.what == "evict":
                    beside.call(self.evict)
                    served.append("")
                    continue
                if step.what in ("BEGIN", "SET autocommit = 0"):
                    held.add(1)
                wanted = direct.take(step)
                found = through.take(step)
                told, reason = self.served_to(other) if found is not None else ("", "")
                served.append(f"{told} {reason}".strip())
                if wanted is None or found is None:
                    continue
                self.count(told, reason)
                if step.what in ("execute", "pieces") and step.slot in history.apart and told == "passed":
                    self.tally.counts["passed, MySQL goes by values from before a DDL statement"] += 1
                    continue
                kind = difference(wanted, found, ordered="ORDER BY" in texts[step.slot], free=False)
                if kind in ("error", "rows"):
                    raise Differed(at, kind, explained(wanted, found))
                if kind:
                    self.tally.counts[f"columns of a {told} differ"] += 1
            through.take(Step("COMMIT"))

    def served_to(self, client: RawClient) -> tuple[str, str]:
        for session in list(self.asker.beside.shared.sessions):
            if session.connection_id == client.greeting.connection_id:
                last = session.context.last_statement
                return (last.served, last.reason) if last is not None else ("", "")
        return "", ""

    def count(self, told: str, reason: str) -> None:
        self.tally.counts["asked"] += 1
        self.tally.counts[told or "unknown"] += 1
        if told == "passed":
            self.tally.passed[reason[:80]] += 1

    def evict(self) -> None:
        engine = self.asker.beside.proxy.app.engine
        engine.sieve.evict_to(engine.memory.used // 2)

    # -- findings --------------------------------------------------------------------------------------------------

    def found(self, script: Script, differed: Differed) -> None:
        script = replace(script, steps=script.steps[: differed.at + 1])
        script, served, last = self.smaller(script, differed)
        self.findings.append(Finding(self.seed, self.setup, script.texts, script.steps, served, last.kind, last.what))

    def smaller(self, script: Script, first: Differed) -> tuple[Script, list[str], Differed]:
        """Fewer steps that still show it, how they were answered, and what differed."""
        served: list[str] = []
        last = self.differs(script, served)
        if last is None:
            return script, ["differed once only"], first
        for at in reversed(range(len(script.steps) - 1)):
            fewer, told = replace(script, steps=script.steps[:at] + script.steps[at + 1 :]), list[str]()
            other = self.differs(fewer, told)
            if other is not None:
                script, served, last = replace(fewer, steps=fewer.steps[: other.at + 1]), told, other
        return script, served, last

    def differs(self, script: Script, served: list[str]) -> Differed | None:
        for _ in range(PLAYS):
            served.clear()
            try:
                self.once(script, served)
            except Differed as differed:
                return differed
        return None


def as_cache(text: str) -> str:
    """The text of the cache for a statement: a list has one mark."""
    return text.replace("(?, ?, ?)", "(?)").replace("(?, ?)", "(?)")


def campaign(asker: Asker, seed: int, *, seconds: float = 0.0, worlds: int = 0) -> tuple[list[Finding], Tally]:
    """Worlds from this seed on, until the time is over or so many are done."""
    tally, findings, begun, number = Tally(), list[Finding](), monotonic(), 0
    while (monotonic() - begun < seconds) if not worlds else (number < worlds):
        world = World(asker, seed + number, tally)
        world.play()
        for finding in world.findings:
            print(f"{finding}\n", flush=True)
        findings += world.findings
        number += 1
    tally.counts["worlds"] = number
    return findings, tally


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=0)
    parser.add_argument("--verify", default="off")
    options = parser.parse_args(arguments)
    try:
        server = find_mysql(os.environ.get("UPSTREAM_TEST"), report=lambda _: None)
    except NoMySQL as error:
        print(error, file=sys.stderr)
        return 3
    with (
        server,
        tempfile.TemporaryDirectory() as state,
        asker_beside(server, f"t{os.getpid()}_bindings", Path(state), verify_new_caches=options.verify) as asker,
    ):
        findings, tally = campaign(asker, options.seed, seconds=options.seconds, worlds=options.worlds)
    for counts in (tally.counts, tally.passed):
        for name, count in counts.most_common():
            print(f"{count:>9,}  {name}")
    print(f"{len(findings) or 'nothing'} differed")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
