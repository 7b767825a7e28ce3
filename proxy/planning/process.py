"""Planning without holding up anybody: small texts are planned in place, all others by a helper process.

The helper (`proxy/planning/worker.py`) starts at its first job, and does one job after the other. A job that takes too
much time or memory ends it; the query then gets no cache ("too costly to plan"), and MySQL answers it. The helper also
ends when its caller stops waiting, and when this process closes or loses its end of their socket.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b

import structlog

from planner.api import TakesLong
from planner.text.from_entries import entries
from planner.text.scan import DEFAULT_VERSION, scan, tokens_at_most
from planner.tree.plan import Caution, QueryPlan
from planner.tree.reasons import check_tokens
from proxy.planning.column_names import named
from proxy.planning.worker import LENGTH, NO_MEMORY, READY, Evict, Job, Request, Thought, packed, planned, thought, told
from proxy.settings.machine import APP_DIR
from sqltypes.errors import ParseError, UnsupportedQuery, UpwellError
from sqltypes.generated import learn
from sqltypes.schema import BIGINT, Column, ResultColumn, SchemaSnapshot, Table, View

log = structlog.get_logger("upwell.planning")

START = "import sys; sys.path.insert(0, sys.argv[1]); from proxy.planning.worker import main; main()"

# A text is planned in place where that takes less than about 2 ms (`python -m benchmarks.planning` prints what it
# takes). A view may be anything.
WORDS_IN_PLACE = 32
LETTERS_IN_PLACE = 2_000
COLUMNS_IN_PLACE = 200

MOST_WITH_VIEWS = 8_000  # words of a query and its views, each once: MySQL writes a column of a view in eight

RELATIONS_SENT = 1_000  # that a helper remembers
TOO_COSTLY = "too_costly"


@dataclass(frozen=True, slots=True)
class PlanningLimits:
    """Limits of the helper: for each job `cpu` seconds of processor time and `seconds` by the clock; `start`: seconds
    until it is ready; `memory`: bytes of its address space."""

    cpu: float = 2.0
    seconds: float = 20.0
    start: float = 60.0
    memory: int = 1 << 28


def warm_up() -> None:
    """Plans and installs something small: the parser loads a part of itself when it first parses, in 12 ms."""
    column = Column("c", BIGINT, False, 0)
    schema = SchemaSnapshot({("d", "t"): Table("d", "t", (column,), ("c",), (), (("c",),))}, DEFAULT_VERSION)
    thought(Job("SELECT c FROM t WHERE c IN (?...)", "d", schema))


def likely_relations(sql: str, database: str) -> set[tuple[str, str]]:
    """The relations that a small text seems to name in this database: the source is asked for them before it is parsed.
    A guess, for the tokens alone do not tell names of tables from others'."""
    if not database or "/*!" in sql or len(sql) > LETTERS_IN_PLACE or not tokens_at_most(sql, WORDS_IN_PLACE):
        return set()
    try:
        tokens = scan(sql)
        check_tokens(tokens)
    except (ParseError, UnsupportedQuery):  # it is refused before anything is asked
        return set()
    return {(database, entry.name) for entry in entries(tokens) if not entry.qualified}


def check_views(sql: str, snapshot: SchemaSnapshot) -> None:
    """Raises UnsupportedQuery where a query is too long with its views: installed are all of their words."""
    views = [one.definition for one in snapshot.relations.values() if isinstance(one, View)]
    if views and not tokens_at_most("\n".join([sql, *views]), MOST_WITH_VIEWS):
        raise UnsupportedQuery(
            "too_long", f"a query of more than {MOST_WITH_VIEWS} words with its views cannot be cached"
        )


def disagreement(plan: QueryPlan, columns: tuple[ResultColumn, ...]) -> str:
    """Where the plan's columns differ from what MySQL announces for the client's own text; "" if they agree."""
    output = plan.reader.output
    if len(output) != len(columns):
        return f"{len(output)} columns instead of {len(columns)}"
    for ours, theirs in zip(output, columns, strict=True):
        if named(ours.name) != named(theirs.name):
            return f"name {ours.name!r} instead of {theirs.name!r}"
        if family(ours.type.name) != family(theirs.type.name) or ours.type.unsigned != theirs.type.unsigned:
            return f"type of {ours.name!r}: {ours.type.name} instead of {theirs.type.name}"
        if ours.type.name in ("decimal", "datetime", "timestamp", "time") and (ours.type.scale or 0) != (
            theirs.type.scale or 0
        ):
            return f"digits of {ours.name!r}: {ours.type.scale} instead of {theirs.type.scale}"
    return ""


def family(name: str) -> str:
    """Types whose values and encodings are the same. A result set does not tell the lengths of TEXT and BLOB apart
    reliably."""
    if name.endswith("text") or name in ("char", "varchar", "enum", "set"):
        return "string"
    if name.endswith("blob") or name in ("binary", "varbinary"):
        return "binary"
    if name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return "integer"
    return name


class PlanningProcess:
    """Plans, one job at a time. `counters`: see proxy/port/figures.py.

    Invariants: (1) at most one helper has a connection, and it has at most one job; (2) every process that was started
    is in `_processes` until it was waited for.
    """

    def __init__(self, limits: PlanningLimits | None = None) -> None:
        self.limits = limits or PlanningLimits()
        self.counters = {"planned_aside": 0, "planned_in_vain": 0, "planning_helpers": 0}
        self._turn = asyncio.Lock()
        self._helper: _Helper | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The helper's, while there is one."""
        return self._helper.process.pid if self._helper is not None else None

    async def plan(self, sql: str, database: str, snapshot: SchemaSnapshot) -> Thought:
        """Raises ParseError, UnknownName, UnsupportedQuery, NeedRelations."""
        return await self._think(Job(sql, database, snapshot))

    async def plan_evict(
        self, sql: str, database: str, snapshot: SchemaSnapshot, why: str = "asked for", caution: Caution = Caution.NONE
    ) -> Thought:
        """Raises as `plan`."""
        return await self._think(Job(sql, database, snapshot, Evict(why, caution)))

    async def _think(self, job: Job) -> Thought:
        if is_small(job.sql, job.snapshot):
            with suppress(TakesLong):
                found = planned(job, brief=True)
                await asyncio.sleep(0)
                return told(found)
        async with self._turn:
            self.counters["planned_aside"] += 1
            answer = await self._aside(job)
        if isinstance(answer, UpwellError):
            raise answer
        learn(answer.codes)
        await asyncio.sleep(0)
        return replace(answer, codes=b"")

    async def _aside(self, job: Job) -> Thought | UpwellError:
        """The helper's answer. If a helper dies that had done other jobs, a new one tries: those jobs may be the cause,
        of a lack of memory, too."""
        while True:
            experienced = self._helper is not None and self._helper.asked > 0
            answer, died_of = await self._once(job)
            if answer is not None:
                return answer
            if not experienced or (died_of in LIMITS and died_of != NO_MEMORY):
                return self._in_vain(job, LIMITS.get(died_of, f"the helper has ended ({died_of})"))

    async def _once(self, job: Job) -> tuple[Thought | UpwellError | None, int]:
        """The helper's answer; or None, and how it has ended."""
        done = False
        try:
            if self._helper is None:
                async with asyncio.timeout(self.limits.start):
                    self._helper = await self._start()
            async with asyncio.timeout(self.limits.seconds):
                answer = await self._helper.ask(job)
            done = True
            return answer, 0
        except TimeoutError:
            return None, OVERDUE
        except (OSError, EOFError):  # IncompleteReadError is an EOFError
            return None, await self._ended_as()
        finally:
            if not done:
                self._end()

    async def _ended_as(self) -> int:
        """The exit status of a helper that has closed its connection."""
        if self._helper is None:
            return NOT_STARTED
        process = self._helper.process
        try:
            return await asyncio.to_thread(process.wait, 1.0)
        except subprocess.TimeoutExpired:
            return OVERDUE

    def _in_vain(self, job: Job, why: str) -> UnsupportedQuery:
        self.counters["planned_in_vain"] += 1
        log.warning("too_costly_to_plan", why=why, query=job.sql[:500], database=job.database)
        return UnsupportedQuery(TOO_COSTLY, f"too costly to plan: {why}")

    async def _start(self) -> _Helper:
        if self._closed:
            raise ConnectionError("closed")
        self._reap()
        self.counters["planning_helpers"] += 1
        ours, theirs = socket.socketpair()
        arguments = [str(APP_DIR), str(self.limits.cpu), str(self.limits.memory)]

        def spawn() -> subprocess.Popen[bytes]:
            with theirs:
                process: subprocess.Popen[bytes] = subprocess.Popen(
                    [sys.executable, "-P", "-c", START, *arguments],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    process_group=0,  # a Ctrl-C is for the proxy alone
                )
            self._processes.append(process)
            return process

        try:
            process = await asyncio.to_thread(spawn)
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()  # a process that was started ends by this
            raise
        helper = _Helper(process, reader, writer)
        try:
            await reader.readexactly(len(READY))
        except BaseException:
            helper.end()
            raise
        return helper

    def _end(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()
        self._reap()

    def _reap(self) -> None:
        self._processes = [process for process in self._processes if process.poll() is None]

    async def close(self) -> None:
        """Ends the helper and waits until it is gone."""
        self._closed = True
        self._end()
        for process in list(self._processes):
            process.kill()
            await asyncio.to_thread(process.wait)
        self._reap()

    def check_invariants(self) -> None:
        assert self._helper is None or self._helper.process in self._processes


OVERDUE, NOT_STARTED = 1000, 1001  # no exit statuses
LIMITS = {
    OVERDUE: "it takes too long",
    NOT_STARTED: "the helper process cannot be started",
    -signal.SIGPROF: "it takes too much of the processor's time",
    NO_MEMORY: "it takes too much memory",
}


class _Helper:
    """One process with its connection, and what was sent to it. `asked`: how many jobs it was given."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.process = process
        self.asked = 0
        self._reader = reader
        self._writer = writer
        self._sent: set[bytes] = set()

    async def ask(self, job: Job) -> Thought | UpwellError:
        self.asked += 1
        self._writer.write(await asyncio.to_thread(self._request, job))
        await self._writer.drain()
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        answer = pickle.loads(await self._reader.readexactly(length))
        assert isinstance(answer, (Thought, UpwellError))
        return answer

    def _request(self, job: Job) -> bytes:
        """In a thread: each relation is a step of its own."""
        relations, new = [], {}
        for name, relation in job.snapshot.relations.items():
            data = pickle.dumps(relation, pickle.HIGHEST_PROTOCOL)
            digest = blake2b(data, digest_size=16).digest()
            relations.append((name, digest))
            new[digest] = data
        forget = len(self._sent | new.keys()) > RELATIONS_SENT
        if forget:
            self._sent.clear()
        new = {digest: data for digest, data in new.items() if digest not in self._sent}
        self._sent |= new.keys()
        facts = job.snapshot.server_version, job.snapshot.lower_case_table_names
        return packed(Request(job.sql, job.database, job.evict, tuple(relations), *facts, new, forget))

    def end(self) -> None:
        self._writer.transport.abort()
        self.process.kill()


def is_small(sql: str, snapshot: SchemaSnapshot) -> bool:
    """Whether the text is planned in about 2 ms."""
    columns = 0
    for relation in snapshot.relations.values():
        if not isinstance(relation, Table):
            return False
        columns += len(relation.columns)
    return len(sql) <= LETTERS_IN_PLACE and columns <= COLUMNS_IN_PLACE and tokens_at_most(sql, WORDS_IN_PLACE)
