"""Sessions at MySQL, each beside one through the proxy that does the same, on twin databases; every answer is compared.

Rows, definitions, errors, status flags, counts. Before another session's turn the stream has caught up, so that only
one thing is free: which state a REPEATABLE READ transaction shows, once another session has committed in it. MySQL may
have opened its snapshot then, or a little later. There the answers of hits must be those of one state that the table
was in since the transaction began, MySQL's own answers those of one, too, and the same read has the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from integration.protocol.test_hits_same_bytes import given
from integration.sessions.session_commands import (
    OF_PREPARED,
    NoAnswer,
    Result,
    answer,
    commands,
    payload,
    results,
)
from integration.sessions.session_steps import (
    ACCOUNTS,
    ANEW,
    BOUND,
    DDL,
    GLOBALS,
    HARMLESS,
    IDS,
    OF_GLOBALS,
    READS,
    RESTORED,
    WRITES,
    XA,
)
from integration.support.proxy_thread import Beside
from integration.support.raw_client import Prepared, RawClient
from integration.support.served import last_served
from proxy.mysql.wire.packets import STATUS_IN_TRANS, packet

WAITS = "SET innodb_lock_wait_timeout = 1"  # seconds
LOCKING = ("LOCK TABLES", "FLUSH TABLES")
BEGINS = ("BEGIN", "START", "COMMIT", "ROLLBACK AND")
LETS_GO = ("UNLOCK", "!reset", "!change")
RATHER_NOT = 6  # one in so many writes is played that may have to wait for another session's locks
DDL_SET, WRITES_SET = frozenset(DDL), frozenset(WRITES)
RESULTS = ("utf-8", "utf-16-be", "utf-32-be")  # how the names of databases are told, by character_set_results
OF_SEVERAL = ("CALL", "EXECUTE", ";")  # of which some may have been done before an error
QUIET = ("!execute", "!word", "!cursor", "!fetch", "!long", "!close", "!free", "!option", "!fields", "!use", "!ping")
Step = tuple[int, str]
"""The session's number, and what it does."""
Read = tuple[str, str, int]
"""A text, whether it is prepared ("bound"), and what is bound to it, or 0."""


class Wrong(AssertionError):
    """What MySQL would not have answered."""


class EndedBoth(Exception):
    """MySQL has ended the session, and so has the proxy."""


@dataclass(frozen=True)
class Script:
    """`levels`: of each session, the isolation level that it begins with and keeps; "" where it may have any."""

    seed: int
    capabilities: int
    levels: tuple[str, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = "\n".join(f"    {who}  {step}" for who, step in self.steps)
        return f"seed {self.seed}, capabilities {self.capabilities:#x}, levels {self.levels}\n{lines}"


@dataclass(eq=False)
class Pair:
    """`begun`: in a transaction, by MySQL's own flag, and `since` which version of the table; `wrote`: it may have
    written or locked; `passed_over`: another session has committed since. `unsure`: behind an error.
    `shown`: rows by who answered and the read.
    `free_cursor`: one may show another state than MySQL's.
    `ran`: statements that were executed and bound a number last, `open`: that have a cursor.
    `waits`: it has its limit of waiting for locks. `hides`: a temporary table may hide one that is read.
    `left_alone`: FOUND_ROWS() and ROW_COUNT() are not, there."""

    beside: Beside
    names: tuple[str, str]
    capabilities: int
    level: str
    clients: tuple[RawClient, ...] = ()
    prepared: list[tuple[str, tuple[Prepared, ...]]] = field(default_factory=list)
    begun: bool = False
    since: int = 0
    wrote: bool = False
    passed_over: bool = False
    unsure: bool = False
    left_alone: bool = False
    waits: bool = False
    hides: bool = False
    free_cursor: bool = False
    ran: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    shown: dict[tuple[str, Read], tuple[bytes, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        both = zip((self.beside.direct, self.beside.client), self.names, strict=True)
        self.clients = tuple(make(capabilities=self.capabilities, database=name) for make, name in both)
        for client in self.clients:
            if self.level:
                client.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {self.level}")

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def statement(self, step: str) -> tuple[str, tuple[Prepared, ...]]:
        """What an execution is of."""
        return self.prepared[int(step.split()[1]) % len(self.prepared)]

    def read(self, step: str) -> Read | None:
        """Which read it is; None where it is none, or one that no watcher looks at."""
        if step.startswith("!execute"):
            text = self.statement(step)[0]
            return text, "bound", int(step.split()[2]) if "?" in text else 0
        return (step, "", 0) if step in READS else None

    def sane(self, step: str) -> str:
        """MySQL 9.7 gives half an answer where it resolves a statement for a cursor, or anew behind one."""
        word = step.split(" ")[0]
        if word not in ("!execute", "!word", "!cursor", "!long"):
            return step
        number = self.statement(step)[1][0].id
        if (word == "!cursor" and number not in self.ran) or (word == "!word" and number in self.open):
            word = "!execute"
        if word in ("!word", "!long"):
            self.ran.discard(number)
        (self.open.add if word == "!cursor" else self.open.discard)(number)
        return " ".join((word, *step.split(" ")[1:]))

    def is_harmless(self, step: str) -> bool:
        """Whether it neither writes nor locks."""
        return step in HARMLESS or step in READS or step.startswith(QUIET)

    def answers(self, step: str) -> tuple[list[Result], list[Result]]:
        """Both do it at once. Raises Wrong where one connection ends, EndedBoth where both do."""
        found: tuple[list[Result], list[Result]] = ([], [])
        steps = commands(step)
        for at, client in enumerate(self.clients):
            with suppress(OSError):  # it has ended before
                client.write(b"".join(packet(self.payload(at, one), 0) for one in steps))
        for one in steps:
            try:
                direct, through = (answer(client, one) for client in self.clients)
            except NoAnswer as error:
                raise Wrong(f"no answer to {one} of {step}: {error}") from None
            if direct is None and through is None:
                raise EndedBoth
            if direct is None or through is None:
                raise Wrong(f"{one} of {step}: one connection has ended: MySQL {direct!r}, through {through!r}")
            wanted = direct
            for encoding in RESULTS:
                wanted = wanted.replace(self.names[0].encode(encoding), self.names[1].encode(encoding))
            found[0].extend(results(self.clients[0], wanted, one))
            found[1].extend(results(self.clients[1], through, one))
        return found

    def payload(self, at: int, step: str) -> bytes:
        """At MySQL (0), or through the proxy (1)."""
        return payload(self.clients[at], self.names[at], step, lambda: self.statement(step)[1][at])

    def prepare(self, text: str) -> None:
        statements = tuple(client.prepare(text) for client in self.clients)
        if statements[0].error != statements[1].error:
            raise Wrong(f"to prepare {text}: {[client.transcript[-1] for client in self.clients]}")
        if not statements[0].error:
            self.prepared.append((text, statements))

    def take(self, step: str, version: int, counts: Counter[str]) -> None:
        """A step, at the table's newest version. Raises Wrong and EndedBoth."""
        if not (self.waits or step in READS or step in HARMLESS or (step[:1] == "!" and step[:6] != "!ahead")):
            self.answers(WAITS)
            self.waits = True
        if self.left_alone and ("FOUND_ROWS" in step or "ROW_COUNT" in step):
            self.answers("SELECT 1")  # docs/mysql_protocol.md: what these tell there is not MySQL's
        self.left_alone &= step not in READS and "FOUND_ROWS" not in step
        self.left_alone |= commands(step)[-1].startswith(("!reset", "!change", "!ping", "!use"))
        step = "!ahead " + " | ".join(map(self.sane, commands(step))) if "!ahead" in step else self.sane(step)
        read = self.read(step)
        wanted, found = self.answers(step)
        if step.startswith("!execute") and wanted[0].kind == "rows":
            self.ran.add(self.statement(step)[1][0].id)
        if step.startswith(BEGINS) and wanted[0].kind != "error":
            self.anew(version)
        served = ""
        if read is not None:
            served = last_served(self.beside, self.clients[1])
            counts[served.split(" ")[0]] += 1
        if any(one.startswith(("!reset", "!change")) for one in commands(step)):
            self.begin_anew()
        self.hides |= "TEMPORARY" in step or "hides()" in step
        writes = not (read is not None or all(map(self.is_harmless, commands(step)))) or self.level == "SERIALIZABLE"
        self.wrote |= writes
        said = f"{step} ({served})\n  MySQL   {wanted}\n  through {found}"
        if wanted != found:
            shapes = [[(one.kind, one.told) for one in answer] for answer in (wanted, found)]
            free = self.passed_over or (step.startswith("!fetch") and self.free_cursor)
            if not free or self.level == "READ COMMITTED" or shapes[0] != shapes[1]:
                raise Wrong(said)
            counts["of a state that is free"] += 1
        noted = self.begun and self.level == "REPEATABLE READ" and not (self.wrote or self.hides)
        if read is not None and found[-1].rows and noted:
            self.note(("MySQL" if served.startswith("passed") else "hit", read), found[-1].rows, said)
        if step.startswith("!cursor"):
            self.free_cursor = self.passed_over
        self.left_alone |= any(one.kind == "error" for one in wanted) and any(name in step for name in OF_SEVERAL)
        if wanted:
            self.settle(wanted[-1], version)
        self.wrote |= writes  # in the transaction that it has begun itself

    def begin_anew(self) -> None:
        """Its isolation level is the server's now."""
        self.prepared.clear()
        self.ran.clear()
        self.waits = self.hides = False
        self.level = ""

    def note(self, key: tuple[str, Read], rows: tuple[bytes, ...], said: str) -> None:
        if self.shown.setdefault(key, rows) != rows or self.shown.get(("hit", key[1]), rows) != rows:
            raise Wrong(f"another answer to the same read: {said}")

    def settle(self, last: Result, version: int) -> None:
        """MySQL's answer tells whether a transaction is under way; an error does not."""
        before, self.unsure = self.unsure, last.kind == "error"
        status = {"ok": 2, "rows": 1}.get(last.kind)
        if status is not None and isinstance(flags := last.told[status], int):
            if not (self.begun and flags & STATUS_IN_TRANS):
                self.anew(version)
            self.begun = bool(flags & STATUS_IN_TRANS)
        self.wrote |= before or self.unsure

    def anew(self, version: int) -> None:
        self.shown.clear()
        self.passed_over = self.wrote = False
        self.since = version


class World:
    """Twin databases, and what is played on them. `versions`: the rows of each read, one after each change."""

    def __init__(self, beside: Beside, names: tuple[str, str]) -> None:
        self.beside, self.names = beside, names
        self.counts: Counter[str] = Counter()
        self.versions: list[dict[Read, tuple[bytes, ...]]] = []
        self.watcher = beside.direct(database=names[0])
        self.watched = [(text, self.watcher.prepare(text).id) for text in (*READS, *BOUND)]
        self.content = b""

    def look(self) -> bool:
        """Whether what is committed has changed. The stream has caught up then."""
        self.beside.caught_up()
        content = b"".join(map(self.watcher.query, ("SELECT * FROM t ORDER BY id", "SELECT * FROM vv ORDER BY id")))
        if content == self.content and self.versions:
            return False
        watcher, version = self.watcher, dict[Read, tuple[bytes, ...]]()
        for text, number in self.watched:
            for value in IDS if "?" in text else (0,):
                answer = watcher.execute(number, given(watcher, [value]) if value else b"")
                version[text, "bound", value] = results(watcher, answer)[0].rows
            if "?" not in text:
                version[text, "", 0] = results(watcher, watcher.query(text))[0].rows
        self.content = content
        self.versions.append(version)
        return True

    def play(self, script: Script) -> None:
        """Raises Wrong and EndedBoth."""
        steps = {one for _, step in script.steps for one in commands(step)}
        for name in self.names:
            self.beside.mysql.execute(f"USE `{name}`", *RESTORED, *(one.format(db=name) for one in ACCOUNTS))
        kept = self.globals() if not steps.isdisjoint(GLOBALS) else {}
        self.versions.clear()
        self.look()
        pairs = [Pair(self.beside, self.names, script.capabilities, level) for level in script.levels]
        try:
            self.take_turns(script, pairs)
        finally:
            for pair in pairs:
                pair.close()
            self.beside.at_rest()
            self.beside.mysql.execute(*(f"SET GLOBAL {name} = {value!r}" for name, value in kept.items()))
            for name in self.names if not steps.isdisjoint(XA) else ():
                self.watcher.query(f"XA ROLLBACK '{name}'")  # what outlives its session; most often there is none
            for name in self.names if not steps.isdisjoint(DDL) else ():
                self.beside.mysql.execute(f"USE `{name}`", *ANEW)

    def globals(self) -> dict[str, object]:
        """What sessions begin with."""
        (row,) = self.beside.mysql.execute("SELECT " + ", ".join(f"@@GLOBAL.{name}" for name in OF_GLOBALS))
        return dict(zip(OF_GLOBALS, row, strict=True))

    def take_turns(self, script: Script, pairs: Sequence[Pair]) -> None:
        locker: Pair | None = None  # has locked tables: the others would wait
        writer: Pair | None = None  # may have committed since the last look
        for number, (who, step) in enumerate(script.steps):
            pair, others = pairs[who], [other for other in pairs if other is not pairs[who]]
            if (locker or pair) is not pair or self.would_wait(pair, step, others, number):
                continue
            if not pair.prepared and any(one.startswith(OF_PREPARED) for one in commands(step)):
                continue
            if step.startswith("!ahead") and pair.passed_over and pair.level == "REPEATABLE READ":
                continue  # who answered which of the reads is not known
            if writer not in (None, pair):
                if self.look():
                    for other in pairs:
                        other.passed_over |= other.begun and other is not writer
                writer = None
            if step.startswith("!prepare "):
                pair.prepare(step[9:])
                continue
            pair.take(step, len(self.versions) - 1, self.counts)
            self.judge(pair)
            if step.startswith(LOCKING):
                locker = pair
            elif step.startswith(LETS_GO):
                locker = None
            writer = writer if pair.read(step) is not None else pair

    @staticmethod
    def would_wait(pair: Pair, step: str, others: Sequence[Pair], number: int) -> bool:
        """Whether it is left out. Where a table is locked, others must be in no transaction: MySQL waits for their
        reads, but not for hits. Of the steps that may wait for rows a few are played: each wait takes a second."""
        parts = commands(step)
        if step.startswith(LOCKING) or "TRUNCATE" in step or not DDL_SET.isdisjoint(parts):
            return any(other.begun or other.unsure for other in others)
        waits = not WRITES_SET.isdisjoint(parts) or "FOR " in step or "CALL" in step or pair.level == "SERIALIZABLE"
        return (
            waits
            and number % RATHER_NOT != 0
            and any(other.unsure or (other.begun and other.wrote) for other in others)
        )

    def judge(self, pair: Pair) -> None:
        """Raises Wrong where what hits have shown a transaction was never one state, or what MySQL has."""
        for who in ("hit", "MySQL") if pair.passed_over else ():
            shown = [(read, rows) for (name, read), rows in pair.shown.items() if name == who]
            if not any(all(version[read] == rows for read, rows in shown) for version in self.versions[pair.since :]):
                raise Wrong(f"of no state, or of several: {who} {shown}")
