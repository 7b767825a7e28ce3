"""The two ways in which a large fill asks MySQL: by the proxy's own connections, or by Spark's executors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from bulk.frames import Piece
from bulk.questions import Login, Question
from dataflow.messages import UpqueryAnswer, UpqueryFailed, UpqueryRequest
from external_upquery.collected import CollectedUpquery
from external_upquery.connection import FAREWELLS
from external_upquery.snapshot import BracketReader
from proxy.fills.spark_process import SparkProcess
from proxy.loop.slices import Slices, run_in_slices
from proxy.port.fill_progress import FillProgress
from proxy.pump.pump import Pump
from sqltypes.errors import SourceDown, SourceError, UpwellError

AT_ONCE = 2  # slices on the proxy's own connections: the others are left to reads
OF_A_TASK = 64  # slices of one task: a task costs 30 ms, and its answers are held until its job ends
WAVES = 2  # jobs that are asked for before the first one's answers are inserted
# MySQL's numbers for a connection that is not there, or that it does not take or keep now: they say nothing of keys.
AWAY = frozenset({2003, 2006, 2013, 1040, 3168, *FAREWELLS})


class DirectAsker:
    def __init__(self, pump: Pump, progress: FillProgress) -> None:
        self._pump = pump
        self._progress = progress
        self._slices_before = progress.slices
        self._asked = 0

    @property
    def room(self) -> int:
        return AT_ONCE - (self._asked - (self._progress.slices - self._slices_before))

    def ask(self, request: UpqueryRequest) -> None:
        self._asked += 1
        self._pump.run(request)

    def flush(self) -> None: ...

    def check(self) -> None: ...

    async def close(self) -> None: ...


class SparkAsker:
    """Sends slices in waves, each a job of Spark: while one's answers are inserted, the next one is asked."""

    def __init__(self, pump: Pump, spark: SparkProcess, login: Login) -> None:
        self._pump = pump
        self._spark = spark
        self._login = login
        self._brackets = BracketReader()
        self._wave: list[CollectedUpquery] = []
        self._jobs: set[asyncio.Task[None]] = set()
        self._failed: Exception | None = None

    @property
    def _of_a_wave(self) -> int:
        return OF_A_TASK * self._spark.slots

    @property
    def room(self) -> int:
        return 0 if len(self._jobs) >= WAVES else self._of_a_wave - len(self._wave)

    def ask(self, request: UpqueryRequest) -> None:
        self._wave.append(CollectedUpquery(request, self._brackets))
        if len(self._wave) >= self._of_a_wave:
            self.flush()

    def flush(self) -> None:
        wave, self._wave = self._wave, []
        if wave:
            job = asyncio.get_running_loop().create_task(self._run(wave))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    def check(self) -> None:
        if self._failed is not None:
            raise self._failed

    async def _run(self, wave: list[CollectedUpquery]) -> None:
        asked = {upquery.request.id: upquery for upquery in wave}
        tasks = min(self._spark.slots, len(wave))
        questions = [
            [Question(one.request.id, one.packets, one.request.database, one.answers) for one in wave[first::tasks]]
            for first in range(tasks)
        ]
        arriving: list[Piece] = []  # of one answer
        try:
            async for pieces in self._spark.ask(self._login, questions):
                for piece in pieces:
                    arriving.append(piece)
                    if not piece.last:
                        continue
                    upquery = asked.pop(piece.number, None)
                    if upquery is not None:
                        self._pump.deliver(await self._result(upquery, arriving))
                        await asyncio.sleep(0)
                    arriving = []
        except UpwellError as error:
            self._failed = error
        except Exception as error:  # noqa: BLE001 - a task's top level: `check` tells
            self._failed = error
        turns = Slices()
        for number in asked:
            await turns.turn()
            self._pump.deliver(UpqueryFailed(number, SourceDown("Spark has not answered")))

    async def _result(self, upquery: CollectedUpquery, pieces: Sequence[Piece]) -> UpqueryAnswer | UpqueryFailed:
        last = pieces[-1]
        if last.problem:
            away = last.errno in AWAY or not last.errno
            error = SourceDown(last.problem) if away else SourceError(last.errno, "HY000", last.problem)
            return UpqueryFailed(upquery.request.id, error)
        received = [piece.received for piece in pieces]
        packed = [part for piece in pieces for part in piece.packed]
        return await run_in_slices(upquery.answered(received, monotonic(), packed))

    async def close(self) -> None:
        """Cancels what is under way."""
        for job in self._jobs:
            job.cancel()
        for job in list(self._jobs):
            with suppress(asyncio.CancelledError):
                await job
