"""`upwell bench --mysql`: a SELECT over MySQL's protocol, through Upwell and straight at MySQL beside it.

Both servers are asked in turns, in short slices of one run, so that what else the machine does meets both. The load
comes from processes of its own (`bulk/bench_load.py`); here they are started, ordered and added up.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import pymysql
from pymysql.connections import Connection as PyMySQLConnection

from bulk.bench_load import Load, Order, Seen, literal, main, session
from bulk.server_process import idle_seconds, processor_seconds, server_pid
from external_upquery.address import Upstream, parse_upstream
from external_upquery.login import CUT_OFF
from planner.text.scan import is_keyword, scan, without_comments
from sqltypes.errors import ConfigError, ParseError, UpwellError
from upwell.failed import Failed
from upwell.spread import KEYS, Key

THROUGH, DIRECT = "through", "direct"
SLICE = 1.0  # seconds for which one side is asked, at most
LOOK = 0.1  # seconds between two looks whether somebody wants to end
BUSY = 0.9  # of a processor: who uses more has no time left
NO_IDLE = 0.05  # of the machine's processors
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
VALUES = int, float, str, type(None)
INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured. `direct`: None where Upwell is asked alone. `seconds`: on each side."""

    sql: str
    through: Upstream
    direct: Upstream | None
    keys: Sequence[Key]
    spread: str
    connections: int
    processes: int
    seconds: float
    warm_up: float
    prepared: bool


@dataclass(slots=True)
class Counts:
    """Reads as the proxy counts them."""

    hits: int = 0
    misses: int = 0
    passed: int = 0

    def since(self, before: Counts) -> Counts:
        return Counts(self.hits - before.hits, self.misses - before.misses, self.passed - before.passed)

    @property
    def hit_rate(self) -> float | None:
        reads = self.hits + self.misses + self.passed
        return self.hits / reads if reads else None


@dataclass(slots=True)
class Side:
    """What one side took. `mysql`: seconds of MySQL's processor time in its slices; `idle`: of the machine's."""

    seen: Seen = field(default_factory=Seen)
    mysql: float = 0.0
    idle: float = 0.0


@dataclass(slots=True)
class Measured:
    """`cache`: the one that answers, "" where none does; `why`: why not. `counts`: the cache's reads in the measured
    slices (all of the proxy's, where there is no cache); None where no Upwell was asked."""

    sides: dict[str, Side]
    cache: str = ""
    why: str = ""
    counts: Counts | None = None
    mysql_known: bool = False
    interrupted: bool = False


def upstream(url: str, option: str) -> Upstream:
    try:
        return parse_upstream(url)
    except ConfigError as error:
        raise Failed(f"{option}: {error.message.replace('the upstream', 'the server')}", 2) from None


def pieces(sql: str) -> tuple[str, ...]:
    """The statement around its parameters. Raises Failed for one that is no SELECT."""
    try:
        tokens = without_comments(scan(sql))
    except ParseError as error:
        raise Failed(f"the statement cannot be read: {error.message}", 2) from None
    if not tokens or not (is_keyword(tokens[0], "SELECT", "WITH", "TABLE", "VALUES") or tokens[0].text == "("):
        raise Failed(f"{sql[:40]!r}: a SELECT is accepted, with ? for its parameters", 2)
    found, at = [], 0
    for token in tokens:
        if token.kind == "param":
            found.append(sql[at : token.start])
            at = token.end
    return (*found, sql[at:].rstrip().rstrip(";"))


def fitting(keys: Sequence[Key], parameters: int) -> Sequence[Key]:
    """The keys, or the empty one for a statement without parameters. Raises Failed where one does not fit."""
    if not parameters:
        if keys:
            raise Failed("the statement has no ? for keys", 2)
        return [()]
    if not keys:
        raise Failed(f"no keys: {KEYS} is accepted", 2)
    # Numbers of a range are alike: its ends tell of all.
    for key in keys if isinstance(keys, list) else (keys[0], keys[-1]):
        if len(key) != parameters:
            raise Failed(f"the key {list(key)} has {len(key)} values, and the statement {parameters} parameters", 2)
        for value in key:
            if not isinstance(value, VALUES) or (isinstance(value, int) and not -INT64 <= value < INT64):
                raise Failed(f"the key {list(key)}: numbers of 64 bits, strings and null are accepted", 2)
    return keys


class Control:
    """A session beside the load: it tries the statement, and asks what servers count."""

    def __init__(self, server: Upstream) -> None:
        self._connection: PyMySQLConnection = session(server)

    def row(self, sql: str) -> dict[str, object] | None:
        """The first row by names; None where the statement is refused or has none."""
        with suppress(pymysql.err.Error, *CUT_OFF), self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(sql)
            return cursor.fetchone()
        return None

    def values(self, sql: str) -> tuple[object, ...] | None:
        row = self.row(sql)
        return None if row is None else tuple(row.values())

    def keys(self, sql: str) -> list[Key]:
        """The rows of a query as keys. Raises UpwellError."""
        return [tuple(map(_plain, row)) for row in self._rows(sql, "--sample")]

    def try_out(self, statement: str) -> None:
        """Raises UpwellError."""
        self._rows(statement, "the statement")

    def _rows(self, sql: str, what: str) -> Sequence[tuple[object, ...]]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall()
        except (pymysql.err.Error, *CUT_OFF) as error:
            raise ConfigError(f"{what} is refused: {error.args[-1] if error.args else error}") from None

    def how_answered(self) -> tuple[str, str] | None:
        """(the cache that answers, why none does) of the statement that was tried; None where this is no Upwell."""
        told = self.row("EXPLAIN LAST STATEMENT")
        if told is None or "served" not in told:
            return None
        cache = str(told["cache"] or "")
        return cache, "" if cache else str(told["reason"] or "nobody has made one")

    def counts(self, cache: str) -> Counts:
        """Of the cache, or of the whole proxy where there is none."""
        with suppress(pymysql.err.Error, *CUT_OFF):  # an idle session may have been ended meanwhile
            self._connection.ping(reconnect=True)
        names = "hits", "misses", "passed"
        if cache:
            row = self.row("SHOW CACHES LIKE '" + cache.replace("\\", "\\\\").replace("_", "\\_") + "'")
            return Counts(*(int(str(row[name])) for name in names)) if row else Counts()
        rows = (self.values(f"SHOW UPWELL STATUS LIKE '{name}'") for name in names)
        return Counts(*(int(str(row[1])) if row else 0 for row in rows))

    def close(self) -> None:
        with suppress(pymysql.err.Error, *CUT_OFF):
            self._connection.close()


def _plain(value: object) -> object:
    """A value of a row as a parameter."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, VALUES) else str(value)


class Clients:
    """The processes of the load, from their start to `close`.

    Invariants: 1. Each has been told as many orders as it was waited for.
    """

    def __init__(self, loads: Sequence[Load], stopping: Callable[[], bool]) -> None:
        """Starts them, logged in. Raises Failed."""
        self._stopping = stopping
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        context = multiprocessing.get_context("spawn")
        for load in loads:
            mine, its = context.Pipe()
            process = context.Process(target=main, args=(load, its), daemon=True)
            process.start()
            its.close()
            self._processes.append(process)
            self._pipes.append(mine)
        try:
            for why in self._told():
                if why:
                    raise Failed(str(why), 3)
        except BaseException:
            self.close()
            raise

    def slice(self, order: Order) -> Seen:
        """Raises Failed where a process has ended."""
        for pipe in self._pipes:
            pipe.send(order)
        seen = Seen()
        for part in self._told():
            assert isinstance(part, Seen)
            seen.beside(part)
        return seen

    def _told(self) -> Iterator[object]:
        """What each tells. Where somebody wants to end they are told so."""
        waiting, told = list(self._pipes), False
        while waiting:
            if self._stopping() and not told:
                told = True
                for pipe in waiting:
                    pipe.send("end")
            ready = wait(waiting, LOOK)
            for pipe in [pipe for pipe in waiting if pipe in ready]:
                waiting.remove(pipe)
                try:
                    yield pipe.recv()
                except (EOFError, OSError):
                    raise Failed("a process of the load has ended", 3) from None

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C makes what is given true, once; another one ends the process as usual."""
    pressed = False

    def on_signal(number: int, frame: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def loads(asked: Asked, texts: tuple[str, ...], keys: Sequence[Key]) -> list[Load]:
    """One for each process."""
    sides = {DIRECT: asked.direct, THROUGH: asked.through}
    servers = {name: server for name, server in sides.items() if server is not None}
    count = min(asked.processes, asked.connections)
    shares = [len(range(number, asked.connections, count)) for number in range(count)]
    return [
        Load(servers, share, texts, asked.prepared, keys, asked.spread, seed=number)
        for number, share in enumerate(shares)
    ]


def run(asked: Asked, sample: str, tell: Callable[[str], None]) -> tuple[Measured, int]:
    """(what was measured, how many keys there were). `sample`: a query that lists keys, "" for none. `tell` is given
    what is done. Raises Failed."""
    texts = pieces(asked.sql)
    controls: dict[str, Control] = {}
    clients = None
    with interruptible() as stopping:
        try:
            for name, server in ((THROUGH, asked.through), (DIRECT, asked.direct)):
                if server is not None:
                    controls[name] = Control(server)
            given = list(asked.keys) + controls.get(DIRECT, controls[THROUGH]).keys(sample) if sample else asked.keys
            keys = fitting(given, len(texts) - 1)
            measured = Measured({name: Side() for name in controls})
            first = "".join(text for pair in zip(texts, [*map(literal, keys[0]), ""], strict=True) for text in pair)
            for control in controls.values():
                control.try_out(first)
            if (answered := controls[THROUGH].how_answered()) is not None:
                measured.cache, measured.why = answered
                measured.counts = Counts()
            tell("logging in")
            clients = Clients(loads(asked, texts, keys), stopping)
            Run(asked, measured, clients, controls, stopping, tell).all()
            return measured, len(keys)
        except UpwellError as error:
            raise Failed(error.message, 2 if isinstance(error, ConfigError) else 3) from None
        finally:
            if clients is not None:
                clients.close()
            for control in controls.values():
                control.close()


@dataclass(slots=True)
class Run:
    """The slices, one after the other."""

    asked: Asked
    measured: Measured
    clients: Clients
    controls: dict[str, Control]
    stopping: Callable[[], bool]
    tell: Callable[[str], None]

    def all(self) -> None:
        measured, control = self.measured, self.controls[THROUGH]
        pid = server_pid(self.controls.get(DIRECT, control).values)
        measured.mysql_known = pid is not None
        self._slices("warming up", self.asked.warm_up, None, lambda name, seen: None)
        before = control.counts(measured.cache)
        self._slices("measuring", self.asked.seconds, pid, lambda name, seen: measured.sides[name].seen.then(seen))
        if measured.counts is not None:
            measured.counts = control.counts(measured.cache).since(before)
        measured.interrupted = self.stopping()

    def _slices(self, what: str, seconds: float, pid: int | None, take: Callable[[str, Seen], None]) -> None:
        """Both sides in turns, for so many seconds each."""
        count = max(1, round(seconds / SLICE))
        for number in range(1, count + 1) if seconds else ():
            for name, side in self.measured.sides.items():
                if self.stopping():
                    return
                self.tell(f"{what}: {name}, slice {number} of {count}")
                mysql, idle = self._clocks(pid)
                seen = self.clients.slice(Order(name, seconds / count))
                after, still = self._clocks(pid)
                side.mysql, side.idle = side.mysql + after - mysql, side.idle + still - idle
                take(name, seen)

    @staticmethod
    def _clocks(pid: int | None) -> tuple[float, float]:
        with suppress(OSError):
            return (0.0 if pid is None else processor_seconds(pid)), idle_seconds()
        return 0.0, 0.0
