"""Which upquery or read runs on which connection, and when.

At most as many at once as there are connections; the others wait in a bounded queue. A connection that is lost in the
middle is replaced and its statements are sent once more: they only read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from external_upquery.address import Upstream
from external_upquery.connection import Connection, settling
from external_upquery.deadlines import Deadlines
from external_upquery.job import Job, Outcome
from external_upquery.lock_turns import Turns
from external_upquery.pool import Packet, Pool
from external_upquery.protocol import Answer
from external_upquery.waiting import Waiting
from sqltypes.errors import DeadlinePassed, Overloaded, SourceDown, SourceError, UpwellError

KILL_AFTER = 0.05  # seconds that an abandoned statement may still take: killing costs a new login


class Scheduler:
    """`running`: jobs that run at the source now. `queue`, `turns`: those that wait, for a connection or to lock.

    Invariants:
    1. A job is in the queue, or runs on `connection`, or waits for its turn to lock, or has ended.
    2. While a job waits in the queue that may run, no connection is idle. Reads that have their part of the connections
       may not, nor jobs for a table or shard that has its part.
    """

    def __init__(
        self,
        upstream: Upstream,
        connections: int,
        queue_limit: int,
        connect_seconds: float,
        spoils: Callable[[SourceError], bool],
        counters: Counter[str],
        packet: Packet | None,
    ) -> None:
        """`spoils`: as `Dialect` has it."""
        self.pool = Pool(upstream, connections, self._next, self._on_failure, connect_seconds, packet)
        self.queue: Waiting[Job] = Waiting(connections, queue_limit)
        self.running: set[Job] = set()
        self.turns: Turns[Job] = Turns()
        self._loop = asyncio.get_running_loop()
        self._spoils = spoils
        self.counters = counters
        self._deadlines = Deadlines(self._on_deadline)
        self._closed = False

    def check_invariants(self) -> None:
        waiting = [*self.queue, *self.turns]
        assert self.running.isdisjoint(waiting) and len(set(waiting)) == len(waiting), "a job is in two places"
        assert all(job.connection is not None for job in self.running), "a job runs nowhere"

    async def run(self, job: Job) -> list[Answer]:
        """The answers. Raises SourceDown, DeadlinePassed, Overloaded."""
        future: asyncio.Future[list[Answer]] = self._loop.create_future()

        job.finished = settling(future)
        self.admit(job)
        try:
            return await future
        except asyncio.CancelledError:
            self.abandon(job)
            raise

    def admit_locking(self, job: Job, tables: Sequence[str]) -> None:
        """As `admit`, one job that locks rows of a table after the other."""
        job.locks = True
        if self.turns.take(job, tables):
            self.admit(job)
        else:
            self._deadlines.watch(job.deadline)

    def admit(self, job: Job) -> None:
        if job.deadline is not None and job.deadline < self._deadlines.at:
            self._deadlines.watch(job.deadline)
        if self.queue.may_run(job.read, job.kind):
            connection = self.pool.take()
            if connection is not None:
                self._start(job, connection)
                return
        error = self.pool.refusal()
        if error is None and not self.queue.has_room(job):
            self.counters["overloaded"] += 1
            error = Overloaded(f"{len(self.queue)} requests wait for the source already, the limit")
        if self._closed:
            error = SourceDown("the proxy is stopping")
        if error is not None:
            # Later: the caller has not returned yet from the call that it is told about.
            self._loop.call_soon(self._end, job, error)
            return
        self.queue.add(job)
        if not self.queue.due:
            return
        if (connection := self.pool.take()) is not None:
            self._next(connection)
        else:
            self.pool.grow()

    def _start(self, job: Job, connection: Connection) -> None:
        if job.no_database and connection.database:
            # A selected database cannot be unselected: begin anew.
            connection.close()
            self.queue.add_first(job)
            self.pool.grow()
            return
        job.connection = connection
        self.running.add(job)
        self.queue.started(job)
        connection.run(
            job.packets,
            job.count,
            partial(self._on_finished, job, connection),
            database=job.database,
            prepared=job.prepared,
            row_limit=job.answer_limit,
            largest_row=job.largest_row,
        )

    def _on_finished(self, job: Job, connection: Connection, outcome: Outcome) -> None:
        if job in self.running:
            self.running.discard(job)
            self.queue.ended(job, answered=not isinstance(outcome, UpwellError))
        if isinstance(outcome, SourceDown) and not job.retried and not job.ended and not self._closed:
            job.retried = True
            job.connection = None
            self.counters["retried"] += 1
            self.queue.add_first(job)
            self._serve_or_grow()
            return
        job.release(connection, outcome, self._spoils)
        # First the next request, then the answer: the source works while the answer is taken in.
        self._next(connection)
        self._end(job, outcome)

    def _next(self, connection: Connection) -> None:
        """The connection is free: the next job, if one waits."""
        while connection.alive and self.queue.queues and (job := self.queue.next()) is not None:
            if not job.ended:
                self._start(job, connection)
                if self.pool.idle and self.queue.due:  # what one has given back lets two of others run
                    self._serve_or_grow()
                return
        self.pool.give_back(connection)
        if self.queue.queues and self.queue.due:
            self._serve_or_grow()

    def _serve_or_grow(self) -> None:
        connection = self.pool.take()
        if connection is not None:
            self._next(connection)
            return
        error = self.pool.refusal()
        if error is not None:
            self._on_failure(error)
        else:
            self.pool.grow()

    def _on_failure(self, error: UpwellError) -> None:
        """An attempt to connect has failed. Where no connection is left, nobody waits for the next attempt."""
        if self.pool.size:
            return
        for job in self.queue.take(_anybody):
            self._end(job, error)

    def _end(self, job: Job, outcome: Outcome) -> None:
        if job.locks:
            self._leave(job)
        if not job.ended:
            job.ended = True
            finished, job.finished = job.finished, nobody  # what is told knows the job: no cycle stays behind
            finished(outcome)

    def _leave(self, job: Job) -> None:
        """Where the job had a turn to lock, others have theirs. While it runs, it still locks, wanted or not."""
        if job.locks and job not in self.running:
            job.locks = False
            for other in self.turns.leave(job):
                self.admit(other)

    def abandon(self, job: Job) -> None:
        """The job's answer is not wanted. Where it runs, it is killed unless it ends by itself at once."""
        if job.ended:
            return
        job.ended = True
        job.finished = nobody
        self.counters["cancelled"] += 1
        if job in self.running:
            self._loop.call_later(KILL_AFTER, self._kill, job)
            return
        if job in self.queue:
            self.queue.remove(job)
        self._leave(job)

    def _on_deadline(self, now: float) -> None:
        everybody = (*self.queue, *self.running, *self.turns)
        late = [job for job in everybody if job.deadline is not None and job.deadline <= now]
        if late:
            self.queue.take(lambda job: job.deadline is not None and job.deadline <= now)
        for job in late:
            self.counters["deadlines"] += 1
            self._end(job, DeadlinePassed("the deadline passed before the source answered"))
            self._kill(job)
        for job in (*self.queue, *self.running, *self.turns):
            if not job.ended:
                self._deadlines.watch(job.deadline)

    def _kill(self, job: Job) -> None:
        if job in self.running and job.connection is not None:
            self.counters["killed"] += 1
            self.pool.kill(job.connection)

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends everything: jobs that wait or run get SourceDown."""
        self._end_all()
        self.pool.close()

    async def stop(self, patience: float) -> None:
        """As `close`. The source is told to end what it still runs: a statement does not end with its client.
        `patience`: seconds that this may take."""
        running = tuple(self.running)
        self._end_all()
        for job in running:
            self._kill(job)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.pool.killed(), patience)
        self.pool.close()

    def _end_all(self) -> None:
        self._closed = True
        self._deadlines.close()
        for job in (*self.queue.take(_anybody), *self.running, *self.turns):
            self._end(job, SourceDown("the proxy is stopping"))


def _anybody(job: Job) -> bool:
    return True


def nobody(outcome: Outcome) -> None:
    raise AssertionError("a job was run without somebody to tell")
