"""Who reads through gRPC: versioned caches, each answer judged; templates and whole pages of the sample."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any

import pymysql

from examples.lobsters.cached import Cached, Made
from examples.lobsters.data import Shape
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE as SAMPLE
from examples.lobsters.load import connect
from examples.lobsters.pages import PageStream, Write, run_page
from examples.lobsters.queries import CATALOGUE, Parameters, Sample
from integration.hammer.judge import SWAPS, Finding, Group, History, Seen, judge
from integration.hammer.tables import DATABASE as VERSIONS
from integration.hammer.tables import GROUPS, VERSIONED, Read, Values
from integration.hammer.writers import IMPATIENT, RECONNECT, Worker
from integration.servers.mysql_server import Server
from upwell.client import Client
from upwell.errors import CannotFill, DeadlinePassed, Unauthenticated, Unavailable, UnknownCache, UpwellError
from upwell.rows import Answer

TIMEOUT = 20.0  # seconds that a read may take, reconnections included
FRESH = tuple(name for name, versioned in VERSIONED.items() if "?" in versioned.sql)
# What MySQL says of a statement that was killed, also while it waited for the accounts' lock (3547), was under way when
# it shut down, or met a DDL statement.
INTERRUPTED = frozenset({1053, 1317, 1412, 3169, 3547})


@dataclass
class Trouble:
    """Until when reads may be begun that fail because of a disturbance (`time.monotonic()`)."""

    until: float = 0.0
    remade: str = ""  # the cache that is being dropped and created

    def excuses(self, error: UpwellError, cache: str, begun: float) -> bool:
        if isinstance(error, UnknownCache):
            return cache == self.remade
        if error.reason == "taken_over":  # caches are made and dropped by the other process
            return True
        ended = isinstance(error, Unavailable | DeadlinePassed | Unauthenticated) or error.reason == "cancelled"
        known = ended or error.errno in INTERRUPTED
        return known and begun < self.until


@dataclass
class Asked:
    """Parameters of the sample that were read, for the comparison at rest."""

    most: int  # of each template
    by_template: dict[str, dict[Parameters, None]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def add(self, id: str, parameters: Parameters) -> None:
        with self.lock:
            kept = self.by_template.setdefault(id, {})
            kept[parameters] = None
            if len(kept) > self.most:
                del kept[next(iter(kept))]

    def all(self) -> list[tuple[str, Parameters]]:
        with self.lock:
            return [(id, parameters) for id, kept in self.by_template.items() for parameters in kept]


class Reader(Worker):
    """Something that reads with a client of its own."""

    def __init__(self, name: str, target: str, trouble: Trouble, findings: list[Finding], tally: Counter[str]) -> None:
        super().__init__(name, findings, tally)
        self.client = Client(target, timeout=TIMEOUT)
        self.trouble = trouble

    def refused(self, error: UpwellError, cache: str, parameters: object, begun: float) -> None:
        """A read begun then failed: excused by a disturbance, or a finding."""
        if self.trouble.excuses(error, cache, begun):
            self.tally["reads refused while something was down"] += 1
            self.stop.wait(RECONNECT)
        else:
            what = f"{type(error).__name__} {error.reason} {error.errno}: {error}"
            self.findings.append(Finding("error", f"cache {cache}, parameters {parameters!r}: {what}"))

    def close(self) -> None:
        self.client.close()


class VersionReader(Reader):
    """Reads versioned caches; every answer is judged."""

    def __init__(
        self, target: str, history: History, ahead: bool, seed: str, trouble: Trouble, findings: list[Finding],
        tally: Counter[str],
    ) -> None:  # fmt: skip
        super().__init__(f"reader {seed}", target, trouble, findings, tally)
        self._history, self._ahead = history, ahead
        self._rng = random.Random(seed)
        self._floor = ""

    def step(self) -> None:
        name = self._rng.choice(list(VERSIONED))
        self.read(name, name, min(self._rng.randrange(GROUPS), self._rng.randrange(GROUPS)))

    def read(self, cache: str, name: str, group: Group) -> None:
        """Reads a key of that group from `cache`, which has the query called `name`."""
        parameters = VERSIONED[name].ask(self._rng, group)
        before = {group: self._history.last(group) for group in (*range(GROUPS), SWAPS)}
        begun = monotonic()
        try:
            answer = self.client.cache(cache).get(*parameters)
        except UpwellError as error:
            return self.refused(error, cache, parameters, begun)
        self.tally["judged"] += 1
        self.tally[answer.served] += 1
        if answer.why:
            self.tally[f"passed because {answer.why}"] += 1
        # Keys ahead of P may stand anywhere; who reads the others never goes back.
        floor = self._floor if (at_p := VERSIONED[name].several or not self._ahead) else ""
        self.findings += judge(self._history, seen(name, parameters, answer, before, floor))
        if answer.served == "hit" and at_p:
            self._floor = answer.position


class FreshReader(VersionReader):
    """Makes caches that share nothing with others, reads all of their keys twice, drops them: every first read is
    filled while others write."""

    number = 1_000

    def step(self) -> None:
        # A sum tells best whether a change was counted twice or not at all.
        name = self._rng.choice(("group_total", self._rng.choice(FRESH)))
        FreshReader.number += 1
        cache, begun = f"fresh_{FreshReader.number}", monotonic()
        try:
            self.client.create_cache(VERSIONED[name].fresh(FreshReader.number), name=cache, database=VERSIONS)
            for group in (*range(GROUPS), *range(GROUPS)):
                self.read(cache, name, group)
            begun = monotonic()
            self.client.drop_cache(cache)
            self.tally["fresh caches"] += 1
        except UpwellError as error:
            self.refused(error, cache, (), begun)


def seen(
    cache: str,
    parameters: tuple[Any, ...],
    answer: Answer,
    before: dict[int, int],
    floor: str = "",
) -> Seen:
    """An answer as the judge takes it."""
    shown, sides, wrong = shows(cache, parameters, answer)
    return Seen(
        cache,
        parameters,
        answer.served,
        answer.position,
        shown,
        sides,
        wrong,
        before,
        answer.horizon,
        floor,
        list(answer),
    )


def shows(cache: str, parameters: tuple[Any, ...], rows: Sequence[Values]) -> Read:
    """What rows of an answer show. Rows whose form is wrong (none, say) show nothing."""
    try:
        return VERSIONED[cache].read(rows, parameters)
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        return [], set(), f"the answer cannot be read: {error!r}"


class SampleReader(Reader):
    """Reads templates of the sample with random parameters, so that more is asked for than memory holds."""

    def __init__(
        self, target: str, made: Made, shape: Shape, seed: int, asked: Asked, trouble: Trouble,
        findings: list[Finding], tally: Counter[str],
    ) -> None:  # fmt: skip
        super().__init__(f"sample reader {seed}", target, trouble, findings, tally)
        self._cached, self._sample, self._asked = Cached(self.client, SAMPLE, made), Sample(shape, seed), asked
        self._rng = random.Random(seed)
        self._ids = list(made.names)

    def step(self) -> None:
        template = CATALOGUE[self._rng.choice(self._ids)]
        parameters = self._sample.of(template)
        begun = monotonic()
        try:
            answer = self._cached.cache(template.id).get(*parameters)
        except UpwellError as error:
            return self.refused(error, template.id, parameters, begun)
        self.tally[f"sample {answer.served}"] += 1
        self._asked.add(template.id, parameters)


class Visitor(Reader):
    """Walks through pages of the sample: reads through the proxy, writes to MySQL, a page's writes one transaction."""

    def __init__(
        self, server: Server, target: str, made: Made, shape: Shape, seed: int, asked: Asked, trouble: Trouble,
        findings: list[Finding], tally: Counter[str],
    ) -> None:  # fmt: skip
        super().__init__(f"visitor {seed}", target, trouble, findings, tally)
        self._server, self._asked = server, asked
        self._cached = Cached(self.client, SAMPLE, made)
        self._stream = PageStream(shape, "DN"[seed % 2], seed)
        self._stream.number = seed * 100_000  # no two stories of the same moment: their order would be MySQL's choice
        self._rng = random.Random(seed)
        self._direct: Direct | None = None
        self._begun = False
        self._last: tuple[str, Parameters] = ("", ())
        self._since = 0.0

    def step(self) -> None:
        _, page = next(self._stream)
        self._begun = False
        try:
            reads, _ = run_page(page, self._read, self._write)
            self.tally["sample reads of pages"] += reads
            if self._begun and self._direct is not None:
                self._direct.query("ROLLBACK" if self._rng.random() < 0.1 else "COMMIT")
        except UpwellError as error:
            self.refused(error, "of a page", self._last, self._since)
            self._drop()
        except pymysql.MySQLError:
            self.tally["pages cut off"] += 1
            self._drop()
            self.stop.wait(RECONNECT)

    def _read(self, id: str, parameters: Parameters) -> Sequence[Sequence[Any]]:
        self._last, self._since = (id, parameters), monotonic()
        rows = self._cached.read(id, parameters)
        self._asked.add(id, parameters)
        return rows

    def _write(self, write: Write) -> None:
        if self._direct is None:
            self._direct = Direct(connect(self._server, SAMPLE))
            self._direct.query(f"SET SESSION {IMPATIENT}")
        if not self._begun:
            self._direct.query("BEGIN")
            self._begun = True
        self._direct.write(write)
        self.tally["sample writes"] += 1

    def _drop(self) -> None:
        direct, self._direct = self._direct, None
        if direct is not None and direct.connection.open:
            direct.close()

    def close(self) -> None:
        self._drop()
        super().close()


class Filler(Reader):
    """Fills keys of versioned caches that nobody may have asked for, and has what is held compared with MySQL: the
    proxy complains in its log where it differs."""

    def __init__(self, target: str, seed: str, trouble: Trouble, findings: list[Finding], tally: Counter[str]) -> None:
        super().__init__(f"filler {seed}", target, trouble, findings, tally)
        self._rng = random.Random(seed)

    def step(self) -> None:
        name = self._rng.choice(list(VERSIONED))
        begun = monotonic()
        cache = self.client.cache(name)
        try:
            if self._rng.random() < 0.5:
                for audited in self.client.audit(name, by="direct", timeout=TIMEOUT):
                    if audited.done:
                        self.tally["audited"] += audited.compared
                return
            keys = [VERSIONED[name].ask(self._rng, group) for group in range(GROUPS)]
            for filled in cache.fill(keys, by="direct", timeout=TIMEOUT):
                if filled.done:
                    self.tally["filled"] += filled.held
        except CannotFill:  # there is no room, or the cache is being planned again
            self.tally["not filled"] += 1
        except UpwellError as error:
            self.refused(error, name, "a fill or an audit", begun)
