"""From one text to a plan that agrees with MySQL.

A plan is checked against MySQL itself before it serves: the client's own text is prepared there, and the plan must
give the same columns (names, types, digits, signs). Where it does not, the query is cached in evict mode, whose answers
come from the client's own text.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from planner.api import with_result_columns
from planner.session.needs import SESSION_NEEDS
from planner.text.scan import tokens_at_most
from planner.tree.plan import Caution
from planner.tree.sql_text import table_name
from proxy.cache.planned import Planned, alike
from proxy.catalog.distrusted import CLOSED, Doubts
from proxy.planning.announced import described
from proxy.planning.collations import load_collations
from proxy.planning.process import PlanningProcess, check_views, disagreement, is_small, likely_relations
from proxy.planning.worker import Thought, build
from proxy.source.kept_schema import KeptSchema, Schema
from proxy.source.source import Upqueries
from sqltypes.errors import NeedRelations, UnknownName, UnsupportedQuery, UpwellError
from sqltypes.schema import SchemaSnapshot

MOST_PLANNED = 2000  # tokens: a plan is as long as its text, and installing it is a step of the loop
LONGEST_PLANNED = 1 << 17
PLANNING_ROUNDS = 8  # views inside views: each round may name more relations


class TextPlanner:
    """Knows no cache. `process`: where plans are made. `before`: plans of the run before, by text and database, of the
    same planner; `reused`: how many of them were right."""

    def __init__(self, executor: Upqueries, schema: Schema, doubts: Doubts, kept: KeptSchema | None) -> None:
        """`kept`: what the schema was a moment ago, where the stream tells of each change of it."""
        self.process = PlanningProcess()
        self.before: dict[tuple[str, str], Planned] = {}
        self.reused = 0
        self._read_before = False
        self._executor, self._schema, self._doubts, self._kept = executor, schema, doubts, kept

    def forget(self) -> None:
        """The source's schema is another than it was a moment ago."""
        if self._kept is not None:
            self._kept.forget()

    async def close(self) -> None:
        await self.process.close()

    async def plan(self, sql: str, database: str, *, kept: bool = False) -> Planned:
        """`kept`: by the schema as it was a moment ago. Raises ParseError, UnknownName, UnsupportedQuery, SourceError,
        SourceDown; `relations` of what is raised: those that it rests on."""
        names: set[tuple[str, str]] = set()
        schema = self._kept if kept and self._kept is not None else self._schema
        try:
            if kept and self.before:
                found = await self._planned_before(names, sql, database, schema)
                if found is not None:
                    return found
            return await self._plan_with(names, sql, database, schema)
        except UpwellError as error:
            error.relations = frozenset(names)
            raise

    async def _planned_before(
        self, names: set[tuple[str, str]], sql: str, database: str, schema: Schema
    ) -> Planned | None:
        """The plan that the run before had made, if all that it was made from is as it was. Raises SourceError,
        SourceDown."""
        if not self._read_before:  # in one question instead of one for each
            self._read_before = True
            await schema.snapshot({name for planned in self.before.values() for name in planned.relations})
        planned = self.before.pop((sql, database), None)
        if planned is None or planned.schema is None or self._doubts.about(planned.plan.sql, planned.plan.database):
            return None
        snapshot = await schema.snapshot(planned.relations)
        if not alike(planned.schema, snapshot):
            return None
        columns = await described(self._executor, sql, database, tuple(map(table_name, planned.plan.tables)))
        if columns != planned.columns:
            return None
        names |= planned.relations
        await load_collations(planned.plan)
        if not is_small(sql, snapshot):
            await asyncio.to_thread(build, planned.plan)
        self.reused += 1
        return replace(planned, schema=snapshot)

    async def _plan_with(self, names: set[tuple[str, str]], sql: str, database: str, schema: Schema) -> Planned:
        """`names`: of relations, to which those are added that the query rests on."""
        if len(sql) > LONGEST_PLANNED or not tokens_at_most(sql, MOST_PLANNED):
            longest = f"{MOST_PLANNED} words or {LONGEST_PLANNED} letters"
            raise UnsupportedQuery("too_long", f"a query of more than {longest} cannot be cached")
        guessed = likely_relations(sql, database)
        for _ in range(PLANNING_ROUNDS):
            snapshot = await schema.snapshot(names | guessed)
            names |= snapshot.named(guessed)
            guessed = set()
            check_views(sql, snapshot)
            try:
                thought = await self.process.plan(sql, database, snapshot)
                break
            except NeedRelations as need:
                if need.names <= names:
                    missing = ", ".join(sorted(f"{schema}.{name}" for schema, name in need.names))
                    raise UnknownName(f"no such table or view at the source: {missing}") from None
                names |= need.names
        else:
            raise UnsupportedQuery("views_too_deep", f"views are nested more than {PLANNING_ROUNDS} deep")
        columns = await described(self._executor, sql, database, tuple(map(table_name, thought.plan.tables)))
        if thought.plan.mode.value == "maintain":
            difference = disagreement(thought.plan, columns)
            if difference:
                note = f"evict mode: the columns are not reproduced ({difference})"
                thought = await self.process.plan_evict(sql, database, snapshot)
                thought = replace(thought, plan=replace(thought.plan, notes=(*thought.plan.notes, note)))
        doubted = await self._doubted(thought, sql, snapshot)
        plan = with_result_columns(doubted.plan, columns)
        await load_collations(plan)
        made_from = snapshot if doubted is thought else None
        return Planned(plan, columns, frozenset(names), doubted.needs, doubted.fingerprint, doubted.outline, made_from)

    async def _doubted(self, thought: Thought, sql: str, snapshot: SchemaSnapshot) -> Thought:
        """The plan itself, or a more careful one where the query's cache has lost its trust. Raises
        UnsupportedQuery."""
        plan = thought.plan
        doubt = self._doubts.about(plan.sql, plan.database)
        if doubt is None:
            return thought
        if doubt.level >= CLOSED:
            raise UnsupportedQuery("distrusted", doubt.told)
        found = await self.process.plan_evict(sql, plan.database, snapshot, doubt.told, Caution(doubt.level))
        return replace(found, needs=SESSION_NEEDS) if doubt.every_need else found
