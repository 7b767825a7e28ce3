"""Asks vtgate now and then from which keyspace it answers the tables that are cached: no stream tells that a table has
moved to another one (`external_upquery/vtgate_routes.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Any

import structlog

from dataflow.messages import Ddl
from external_upquery.vtgate_routes import Routes
from proxy.periodic import Periodic
from sqltypes.errors import SourceError, UpwellError

log = structlog.get_logger("upwell")

EVERY = 1.0  # seconds

PATIENCE = 5.0  # seconds that a round may take

Ask = Callable[[str], Awaitable[tuple[Any, list[tuple[Any, ...]]]]]
"""Runs a statement: its columns and rows. Raises UpwellError."""


class RoutesWatch:
    def __init__(
        self,
        keyspace: str,
        ask: Ask,
        wanted: Callable[[], Iterable[str]],
        told: Callable[[Ddl], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`wanted`: the qualified names of the tables that are cached. `told`: gets the change of those that moved."""
        self._prefix = f"{keyspace}."
        self._routes, self._ask, self._wanted, self._told = Routes(keyspace), ask, wanted, told
        self._round = Periodic(self._look, EVERY, clock)

    def tick(self) -> None:
        """To be called now and then."""
        self._round.tick()

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._ask_all()
        except TimeoutError:
            log.warning("vtgate does not tell where it answers from", seconds=PATIENCE)

    async def _ask_all(self) -> None:
        names = sorted({*self._wanted(), *self._routes.elsewhere})
        tables = [name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)]
        answers: dict[str, str | SourceError] = {}
        for table, question in zip(tables, self._routes.questions(tables), strict=True):
            try:
                _, rows = await self._ask(question)
                answers[table] = str(rows[0][0])
            except SourceError as error:
                answers[table] = error
            except UpwellError:  # vtgate is not there: what is held is what it was
                return
        moved = self._routes.told(answers)
        if moved is not None:
            self._told(moved)

    async def close(self) -> None:
        await self._round.close()
