"""Asks vtgate regularly for the routes of cached tables. No stream tells that a table or a shard has moved to another
keyspace, or that the VSchema has changed (`external_upquery/vitess/routes.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic

import structlog

from dataflow.messages import Ddl
from external_upquery.columns import table_of
from external_upquery.protocol import Answer, ResultSet, query
from external_upquery.vitess.routes import ALL_VINDEXES, Routes, Rows, another, bare, elsewhere, no_rows_of, vindexes_of
from external_upquery.vitess.snapshot import use
from planner.text.bare_names import BareNames
from proxy.loop.periodic import Periodic
from sqltypes.errors import SourceError, UpwellError

log = structlog.get_logger("upwell")

EVERY = 1.0  # seconds
PRIMARY = "@primary"  # at which a session is that names no keyspace

PATIENCE = 5.0  # seconds that a round may take

Ask = Callable[[Sequence[bytes], Sequence[str]], Awaitable[Sequence[Answer]]]
"""Runs commands on one connection, for which these shards are waited for: their answers, errors among them. Raises
UpwellError."""


class RoutesWatch:
    def __init__(
        self,
        keyspace: str,
        routes: Routes,
        ask: Ask,
        wanted: Callable[[], Iterable[str]],
        shards: Callable[[], Sequence[str]],
        told: Callable[[Ddl], None],
        clock: Callable[[], float] = monotonic,
        bare_names: BareNames | None = None,
    ) -> None:
        """`wanted`: the qualified names of the tables that are cached. `told`: gets the change of those that moved.
        `bare_names`: gets those that mean the keyspace's own tables."""
        self._bare_names = bare_names or BareNames()
        self._keyspace, self._routes, self._ask, self._told = keyspace, routes, ask, told
        self._wanted, self._shards = wanted, shards
        self._round = Periodic(self._look, EVERY, clock)
        self._shards_round = Periodic(self._look_at_shards, EVERY, clock)
        self._names_round = Periodic(self._look_at_names, EVERY, clock)

    def soon(self) -> None:
        """An answer was astray: the next round begins as soon as it can."""
        self._round.soon()
        self._shards_round.soon()

    def tick(self) -> None:
        """To be called now and then. A shard that does nothing hides no table."""
        self._round.tick()
        self._shards_round.tick()
        self._names_round.tick()

    def _tables(self) -> list[str]:
        prefix = f"{self._keyspace}."
        names = {*self._wanted(), *self._routes.refused, *self._routes.elsewhere}
        return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))

    async def _look(self) -> None:
        if not (tables := self._tables()):
            return
        without = list(filter(self._routes.without_vindexes, tables))
        asked = [self._routes.asked(table) for table in tables]
        asked += [vindexes_of(self._keyspace, table) for table in without]
        answers = await self._answers([query(question) for question in (*asked, ALL_VINDEXES)])
        if len(answers) != len(asked) + 1 or not isinstance(definitions := answers[-1], ResultSet):
            return  # vtgate is not there: what is held is what it was
        plans = dict(zip(tables, map(_rows, answers), strict=False))
        vindexes = dict(zip(without, map(_rows, answers[len(tables) :]), strict=False))
        self._tell(self._routes.told(plans, definitions.rows, vindexes))

    async def _look_at_shards(self) -> None:
        """Which of them have moved. Of one that does not answer it is what it was."""
        tables, shards = self._tables(), tuple(self._shards())
        table = next(filter(self._routes.at_home, tables), None)
        if table is None:
            return
        commands = [each for shard in shards for each in (use(f"{self._keyspace}:{shard}"), query(no_rows_of(table)))]
        answers = await self._answers([*commands, use(self._keyspace)], shards)
        moved = {shard: to for shard, to in self._routes.moved_shards.items() if shard in shards}
        for shard, selected, answer in zip(shards, answers[::2], answers[1::2], strict=False):
            if isinstance(answer, ResultSet) and not isinstance(selected, SourceError):
                moved.pop(shard, None)
                for schema in {table_of(column)[0] for column in answer.layout.columns} - {"", self._keyspace}:
                    moved[shard] = schema
        self._tell(self._routes.shards_told(moved, tables))

    async def _look_at_names(self) -> None:
        """Which tables that are cached vtgate finds by a name without a keyspace."""
        if not self._bare_names.asked:
            return
        prefix = f"{self._keyspace}."
        names = [name for wanted in self._wanted() if (name := wanted.removeprefix(prefix)) in self._bare_names.asked]
        answers = await self._answers([use(PRIMARY), *(query(bare(name)) for name in names), use(self._keyspace)])
        if len(answers) != len(names) + 2 or isinstance(answers[0], SourceError):
            return
        plans = {name: self._plan(answer) for name, answer in zip(names, answers[1:], strict=False)}
        ours = [name for name, plan in plans.items() if not elsewhere(self._keyspace, plan)]
        self._bare_names.told(frozenset(name for name in ours if not another(name, plans[name])))

    @staticmethod
    def _plan(answer: Answer) -> str | SourceError:
        rows = _rows(answer)
        return rows if isinstance(rows, SourceError) else str(rows[0][0]) if rows else ""

    def _tell(self, moved: Ddl | None) -> None:
        if moved is not None:
            self._told(moved)

    async def _answers(self, commands: Sequence[bytes], shards: Sequence[str] = ()) -> Sequence[Answer]:
        """None where vtgate does not give all."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._ask(commands, shards)
        except TimeoutError:
            log.warning("vtgate does not tell where it answers from", seconds=PATIENCE)
        except UpwellError:
            pass
        return ()

    async def close(self) -> None:
        await self._round.close()
        await self._shards_round.close()
        await self._names_round.close()


def _rows(answer: Answer) -> Rows | SourceError:
    if isinstance(answer, ResultSet | SourceError):
        return answer.rows if isinstance(answer, ResultSet) else answer
    return SourceError(0, "HY000", "no rows")
