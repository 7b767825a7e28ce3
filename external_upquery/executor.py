"""Runs upqueries and passed-through reads on pooled connections.

What is asked is a job of the scheduler (`external_upquery/scheduler.py`). An answer is delivered synchronously, in the
callback that decoded its last byte.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic

import structlog

from dataflow.messages import UpqueryAnswer, UpqueryFailed, UpqueryRequest
from external_upquery.address import Upstream
from external_upquery.columns import KNOWN_COLLATIONS, to_result_column
from external_upquery.dialect import Asked, Dialect, MysqlDialect, Position
from external_upquery.job import DEFAULT_ANSWER_LIMIT, Job, Outcome, checked, close_statements, rows_of
from external_upquery.login import CONNECT_SECONDS
from external_upquery.passed import Passed
from external_upquery.pool import Packet
from external_upquery.protocol import Answer, ResultSet, query
from external_upquery.scheduler import Scheduler, nobody
from external_upquery.shares import ANY, UNKNOWN, kind_of
from external_upquery.snapshot import COMMIT
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceError, UpwellError
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn

log = structlog.get_logger("upwell")

DEFAULT_CONNECTIONS = 8
DEFAULT_QUEUE = 4096  # requests
LARGEST_ROW = 2 << 20  # bytes of a row that is held: one of a MiB is decoded and encoded in 2.5 ms, in one step
ASK_AGAIN = 0.01  # seconds between two looks at what is executed, where the source cannot wait by itself
QUESTION = 5.0  # seconds that a question about the source itself may take

READ_ONLY = query("START TRANSACTION READ ONLY")
# Without conversion of the answers' character set MySQL announces each column's own collation.
ALL_COLLATIONS = "SELECT ID, COLLATION_NAME FROM information_schema.COLLATIONS"

Deliver = Callable[[UpqueryAnswer | UpqueryFailed], None]


class Executor:
    """Lives on one event loop: make it there. Times are those of the loop's clock."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        connections: int = DEFAULT_CONNECTIONS,
        queue_limit: int = DEFAULT_QUEUE,
        connect_seconds: float = CONNECT_SECONDS,
        dialect: Dialect | None = None,
        packet: Packet | None = None,
    ) -> None:
        """`dialect`: MySQL's where there is none. `packet`: is told how long strings may be in the sessions."""
        self.counters: Counter[str] = Counter()
        self._dialect: Dialect = MysqlDialect() if dialect is None else dialect
        spoils = self._dialect.spoils
        self.jobs = Scheduler(upstream, connections, queue_limit, connect_seconds, spoils, self.counters, packet)
        self._upqueries: dict[int, Job] = {}
        self._exact_refused = not self._dialect.locks
        self._collations: dict[int, str] = {}

    @property
    def in_flight(self) -> int:
        """Requests that run at the source now."""
        return len(self.jobs.running)

    @property
    def queued(self) -> int:
        return len(self.jobs.queue) + len(self.jobs.turns)

    @property
    def full(self) -> bool:
        """Whether any fill would wait for a connection."""
        return self.jobs.pool.full or not self.jobs.queue.may_run(False, ANY)

    def would_wait(self, shards: Sequence[str] | None, tables: tuple[str, ...]) -> bool:
        """Whether a fill would wait for a connection. `shards`, `tables`: as `UpqueryRequest` has them."""
        if not self._dialect.one_server:
            tables = tuple(self._dialect.reached(shards)) or tables
        kind = tables if len(tables) < 2 else kind_of(tables)
        pool = self.jobs.pool
        return (not pool.idle and pool.full) or not self.jobs.queue.may_run(False, kind)

    def running_at(self, shard: str) -> int:
        """Requests that run now and wait for this shard, alone or beside others."""
        return self.jobs.queue.shares.asked(shard)

    @property
    def held_back(self) -> int:
        """Requests that wait because their table or shard has its part of the connections."""
        return self.jobs.queue.held_back

    @property
    def connections(self) -> int:
        return self.jobs.pool.size

    @property
    def down(self) -> UpwellError | None:
        """Why the source cannot be reached, None while it can as far as is known."""
        return None if self.jobs.pool.size else self.jobs.pool.error

    # -- upqueries -------------------------------------------------------------------------------

    def submit(
        self, request: UpqueryRequest, deliver: Deliver, deadline: float | None = None, *, asked: bool = False
    ) -> None:
        """Runs a request; `deliver` gets its answer or its error, later, on the loop, unless it is cancelled before.

        Errors: SourceError, SourceDown, DeadlinePassed, Overloaded, AnswerTooLarge (also for a row of more than
        LARGEST_ROW bytes). `asked`: what must be asked before has been.
        """
        dialect = self._dialect
        if request.exact and self._exact_refused:
            request = replace(request, exact=False)
        if dialect.before is not None and not asked and (question := dialect.before(request)) is not None:
            self._ask_before(question, request, deliver, deadline)
            return
        sending = dialect.upquery(request)
        started = monotonic()  # the loop's own clock may stand still within a turn

        def finished(outcome: Outcome) -> None:
            del self._upqueries[request.id]
            if isinstance(outcome, UpwellError):
                deliver(UpqueryFailed(request.id, outcome))
                return
            read = dialect.bracketed(sending, outcome)
            if not isinstance(read, UpwellError):
                now = monotonic()
                connected = now  # later than it was is never wrong
                if dialect.one_server and job.connection is not None:
                    connected = job.connection.opened_at
                bracket, found = read
                results = tuple([one.rows for one in found])
                columns = tuple([one.layout.result_columns for one in found])
                own = dialect.own_answers(sending, outcome) if request.checks else ()
                deliver(UpqueryAnswer(request.id, bracket, results, now - started, connected, own, columns))
            elif request.exact:
                self._not_exact(dialect.refused(sending, outcome))
                self.submit(replace(request, exact=False), deliver, deadline)
            else:
                deliver(UpqueryFailed(request.id, read))

        job = Job(sending.packets, sending.count, finished, request.database or dialect.database, deadline=deadline)
        tables = request.tables if dialect.one_server else tuple(dialect.waits_for(sending)) or request.tables
        job.kind = tables if len(tables) < 2 else kind_of(tables)
        job.largest_row, job.restoring = LARGEST_ROW, sending.restoring
        self._upqueries[request.id] = job
        self.counters["upqueries"] += 1
        if request.exact:
            self.counters["exact_fills"] += 1
            self.jobs.admit_locking(job, request.tables)
        else:
            self.jobs.admit(job)

    def _ask_before(self, asked: Asked, request: UpqueryRequest, deliver: Deliver, deadline: float | None) -> None:
        def finished(outcome: Outcome) -> None:
            del self._upqueries[request.id]
            if isinstance(outcome, UpwellError):
                deliver(UpqueryFailed(request.id, outcome))
                return
            asked.told(outcome)
            self.submit(request, deliver, deadline, asked=True)

        job = Job(asked.packets, asked.count, finished, self._dialect.database, deadline=deadline)
        self._upqueries[request.id] = job
        self.jobs.admit(job)

    def _not_exact(self, refusal: SourceError | None) -> None:
        """An exact fill got an error. Its statements are sent without locks: what is wrong with them shows then."""
        self.counters["exact_fills_failed"] += 1
        if refusal is not None and not self._exact_refused:
            self._exact_refused = True
            log.warning("exact_fills_refused", reason=refusal.message, instead="hot keys are filled without locks")

    def cancel(self, request_id: int) -> None:
        """Nobody wants this answer any more: it is not delivered, and the source stops working for it soon."""
        job = self._upqueries.pop(request_id, None)
        if job is not None:
            self.jobs.abandon(job)

    # -- reads of clients ------------------------------------------------------------------------

    async def query(
        self,
        sql: str,
        database: str = "",
        *,
        deadline: float | None = None,
        answer_limit: int = DEFAULT_ANSWER_LIMIT,
    ) -> tuple[tuple[ResultColumn, ...], list[Row]]:
        """One statement in a READ ONLY transaction: its columns and rows, none for a statement that gives none.

        With `database` "", none is selected. Raises SourceError, SourceDown, DeadlinePassed, Overloaded (a full
        queue, or rows of more than `answer_limit` bytes).
        """
        job = self._job((READ_ONLY, query(sql), COMMIT), 3, database, deadline)
        job.kind = kind_of(self._dialect.reached(None)) or UNKNOWN
        job.read, job.restoring = True, 1
        job.answer_limit = answer_limit
        answers = await self.jobs.run(job)
        self.counters["passed"] += 1
        answer = checked(answers, 1)
        if isinstance(answer, ResultSet):
            return answer.layout.result_columns, answer.rows
        return (), []

    async def read(
        self,
        sql: str,
        database: str = "",
        *,
        deadline: float | None = None,
        after: GtidSet | None = None,
        patience: float = 0.0,
        tables: Sequence[str] = (),
    ) -> Passed:
        """As `query`, in the same round trip with what the source had executed before it. `tables`: as `UpqueryRequest`
        has them; none: not known.

        `after`: a set that the source first waits for, `patience` seconds at most; whether it came shows in `executed`.
        The connection is taken meanwhile, where the source can wait by itself.
        """
        if after is not None and not self._dialect.waits:
            with suppress(UpwellError):  # what is executed then is told as far as it is known
                await self._until_executed(after, patience)
            after = None
        sending = self._dialect.read(sql, database, after, patience)
        job = self._job((sending.packets,), sending.count, database, deadline)
        job.kind = kind_of(self._dialect.waits_for(sending) or tables) or UNKNOWN
        job.read, job.restoring = True, sending.restoring
        answers = await self.jobs.run(job)
        self.counters["passed"] += 1
        return self._dialect.passed(sending, answers)

    def _job(self, packets: Sequence[bytes], count: int, database: str, deadline: float | None) -> Job:
        """With `database` "", the dialect's is selected, or none."""
        database = database or self._dialect.database
        job = Job(b"".join(packets), count, nobody, database, deadline=deadline)
        job.no_database = not database
        return job

    async def _until_executed(self, goal: GtidSet, patience: float) -> None:
        until = asyncio.get_running_loop().time() + patience
        while not goal.issubset(await self.executed()) and (left := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, ASK_AGAIN))

    async def executed(self) -> GtidSet:
        """What the source has executed by now. Raises as `query`."""
        return self._dialect.executed_by(await self._asked(self._dialect.executed(), self._dialect.reached(None)))

    async def history(self) -> Position:
        """Which server answers, which GTIDs are owned, what is executed by then, and the settings on which rights
        depend (no stream tells of their changes). Raises as `query`."""
        return self._dialect.positioned(await self._asked(self._dialect.position(), self._dialect.reached(None)))

    async def ask(
        self, packets: Sequence[bytes], shards: Sequence[str] = (), *, count: int | None = None, restoring: int = 1
    ) -> list[Answer]:
        """The answers to commands that leave the session as it was, errors among them. `shards`: that are waited for.
        `count`: of commands, where packets have several. `restoring`: so many of the last ones leave it so. Raises
        SourceDown, DeadlinePassed, Overloaded."""
        deadline = asyncio.get_running_loop().time() + QUESTION
        commands = len(packets) if count is None else count
        job = Job(b"".join(packets), commands, nobody, self._dialect.database, deadline=deadline)
        job.kind, job.restoring = kind_of(shards), restoring
        return await self.jobs.run(job)

    async def question(self, sql: str) -> list[Row]:
        """The rows of a statement about the source itself, which no database that is selected changes. Raises
        SourceError, SourceDown, DeadlinePassed, Overloaded."""
        return rows_of(await self._asked((query(sql),)))

    async def _asked(self, packets: Sequence[bytes], shards: Sequence[str] = ()) -> list[Answer]:
        answers = await self.ask(packets, shards, restoring=min(2, len(packets) - 1))  # of several: USE and COMMIT
        checked(answers, 0)
        return answers

    async def describe(
        self, sql: str, database: str = "", *, deadline: float | None = None, tables: Sequence[str] = ()
    ) -> tuple[tuple[ResultColumn, ...], int]:
        """The columns that a statement would give, with their own collations, and the number of its `?`. It is not run.
        `tables`: as for `read`; one that is locked is not prepared either.

        Raises SourceError, SourceDown, DeadlinePassed, Overloaded.
        """
        if not self._collations:
            _, rows = await self.query(ALL_COLLATIONS, deadline=deadline)
            self._collations = {**KNOWN_COLLATIONS, **{_integer(number): str(name) for number, name in rows}}
        sending = self._dialect.describing(sql)
        job = self._job((sending.packets,), sending.count, database, deadline)
        job.kind = kind_of(self._dialect.waits_for(sending) or tables) or UNKNOWN
        job.prepared, job.before_release, job.restoring = sending.prepared, close_statements, sending.restoring
        answer = self._dialect.described(sending, await self.jobs.run(job))
        if isinstance(answer, SourceError):
            raise answer
        return tuple(to_result_column(column, self._collations) for column in answer.columns), answer.parameters

    async def start(self) -> str:
        """Opens the first connection; the source's version. Raises SourceDown, SourceError, ConfigError."""
        return str(rows_of(await self._asked((query("SELECT VERSION()"),)))[0][0])

    def close(self) -> None:
        """Ends everything: requests that wait or run get SourceDown."""
        self.jobs.close()

    async def stop(self, patience: float) -> None:
        """As `Scheduler.stop`."""
        await self.jobs.stop(patience)


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
