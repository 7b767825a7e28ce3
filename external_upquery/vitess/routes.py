"""The route of each table of a keyspace: from where vtgate answers it, and which vindex distributes its rows. Pure.

No stream tells when a route changes. MoveTables copies a table to another keyspace and then switches vtgate's routing
rules. From that moment the table is read and written there, under its old name, too. The VSchema says which vindex
finds a key's shard; another vindex finds other rows. A partial MoveTables sends one shard of a keyspace to another
keyspace. So vtgate is asked, with statements that read nothing:

 question                        | what it tells
---------------------------------+------------------------------------------------------------------------------------
 `VEXPLAIN PLAN` of a read       | the keyspaces and the tables that it reads, and the name of the vindex that tells the
                                 | shard. It takes 0.1 ms
 `SHOW VSCHEMA VINDEXES`         | vindexes with types and parameters: all, or those of one table. It takes 0.1 ms, and
                                 | half a ms more for 1,000 tables that the VSchema has
 a table at a shard, no rows     | the tablet itself announces with the columns of which keyspace it is. No plan tells
                                 | of a shard that has moved

 who asks                        | when
---------------------------------+------------------------------------------------------------------------------------
 reflection                      | before a table is cached: this is the route that all else is compared with
 `proxy/source/route_watch.py`         | each second, for all tables that are cached. A table with another route becomes
                                 | holes, and is reflected anew
 an upquery, of its own tables   | directly before and directly behind its statements, on its own connection. vtgate
                                 | plans a statement between the two, by one VSchema. So where the route is the known
                                 | one both times, it was that of the plan, unless it has changed and changed back
                                 | within one statement. Else the answer is not held, and the table is as if the watch
                                 | had seen that

An upquery for given keys returns columns of its table, and vtgate announces them as the tablet did: with the keyspace
and the table. Then its plan is not asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dataflow.messages import Ddl
from sqltypes.errors import SourceError

PLANS = 4096  # whose reading is remembered
PlanText = str
Rows = Sequence[Sequence[object]]


def explain(statement: str) -> str:
    """For vtgate; its one row has one column, the plan."""
    return f"VEXPLAIN PLAN {statement}"


def reads_table(keyspace: str, table: str, by: Sequence[str] = ()) -> str:
    """A statement that reads the table, by its name for clients. `by`: columns with a given value. Its plan names the
    vindex that finds the shard."""
    where = " AND ".join(f"{quoted(name)} = 1" for name in by)
    return f"SELECT 1 FROM {quoted(keyspace)}.{quoted(table)}" + (f" WHERE {where}" if by else "")


def bare(table: str) -> str:
    """The statement whose plan tells which table a session means by this name that is at no keyspace."""
    return explain(f"SELECT 1 FROM {quoted(table)}")


def no_rows_of(table: str) -> str:
    """Of it the columns alone, to ask at a shard."""
    return f"SELECT * FROM {quoted(table)} LIMIT 0"


def keyspaces(plan: PlanText) -> frozenset[str]:
    """All that the plan reads. Raises ValueError for what is no plan."""
    found = json.loads(plan)
    if not isinstance(found, dict):
        raise ValueError("vtgate's plan is no object")
    return frozenset(_names(found))


def elsewhere(keyspace: str, answer: PlanText | SourceError) -> str:
    """Why what was explained is not answered from this keyspace alone; empty where it is."""
    if isinstance(answer, SourceError):
        return f"vtgate does not answer: {answer}"
    try:
        found = keyspaces(answer)
    except ValueError:
        return "vtgate does not say where it is answered from"
    if found == {keyspace}:
        return ""
    return f"answered from {', '.join(sorted(found - {keyspace})) or 'nowhere'}"


def another(table: str, answer: PlanText | SourceError) -> str:
    """Why the plan of `reads_table` does not read the table of that name; empty where it does. Requires: `elsewhere`
    has found nothing."""
    assert not isinstance(answer, SourceError)
    query = json.loads(answer).get("Query")
    if query is None:
        return ""
    _, _, read = str(query).partition(" from ")
    if any(read == name or read.startswith(f"{name} where ") for name in (table, quoted(table))):
        return ""
    return f"answered from {read.partition(' where ')[0] or 'no table'}"


def _names(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        inside = part.get("Keyspace")
        if isinstance(inside, Mapping) and "Name" in inside:
            yield str(inside["Name"])
        for value in part.values():
            yield from _names(value)
    elif isinstance(part, list):
        for value in part:
            yield from _names(value)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


Vindexes = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Route:
    """What vtgate says of a table. `plan`: of `reads_table` by the columns `by`. `vindexes`: those that distribute its
    rows (columns, name, type, parameters, owner), or why vtgate does not say. `refused`: why there is no plan."""

    plan: PlanText
    vindexes: Vindexes | str
    refused: str = ""
    by: tuple[str, ...] = ()

    def elsewhere(self, keyspace: str, table: str) -> str:
        """Why it is not the keyspace's own table that is read; empty where it is."""
        return self.refused or _elsewhere(keyspace, table, self.plan)

    def differs(self, before: Route) -> bool:
        """Whether a table that had that one has another one now. (How vtgate words a refusal is no part of it.)"""
        return (self.plan, self._told, bool(self.refused)) != (before.plan, before._told, bool(before.refused))

    @property
    def _told(self) -> Vindexes | None:
        return None if isinstance(self.vindexes, str) else self.vindexes

    def planned(self, answer: Rows | SourceError) -> Route:
        """The same with the plan that vtgate gives now."""
        if isinstance(answer, SourceError):
            return replace(self, plan="", refused=f"vtgate does not answer: {answer}")
        return replace(self, plan=str(answer[0][0]) if answer else "", refused="")


@lru_cache(PLANS)
def _elsewhere(keyspace: str, table: str, plan: PlanText) -> str:
    """Each second it is asked of each table, and plans change seldom."""
    return elsewhere(keyspace, plan) or another(table, plan)


def vindexes_of(keyspace: str, table: str) -> str:
    """The statement that asks for a `Route`'s vindexes. vtgate copies the whole VSchema for it: with 1,000 tables it
    takes half a ms."""
    return f"SHOW VSCHEMA VINDEXES ON {quoted(keyspace)}.{quoted(table)}"


def route_of(vindexes: Rows | SourceError) -> Route:
    """From the answer to `vindexes_of`; without a plan. `by` are the columns of the first of them."""
    if isinstance(vindexes, SourceError):
        return Route("", str(vindexes))
    rows = tuple(tuple(map(str, row)) for row in vindexes)
    return Route("", rows, by=columns_of(rows[0]) if rows else ())


def columns_of(vindex: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip(" `") for name in vindex[0].split(","))


def question(keyspace: str, table: str, route: Route) -> str:
    """Of which the answer is the plan of a `Route`."""
    return explain(reads_table(keyspace, table, route.by))


ALL_VINDEXES = "SHOW VSCHEMA VINDEXES"
"""Of all keyspaces: keyspace, name, type, parameters, owner."""


class Routes:
    """Of the tables of one keyspace that are cached, or are to be. `elsewhere`: those that must not be, each with the
    reason, by `keyspace.table`."""

    def __init__(self, keyspace: str) -> None:
        self.elsewhere: dict[str, str] = {}
        self.moved_shards: Mapping[str, str] = {}
        """Those that are answered from another keyspace, and from which: who asks there, asks its servers."""
        self.refused: dict[str, None] = {}
        """Those that cannot be cached for what their route is: they are asked for, too."""
        self._keyspace = keyspace
        self._known: dict[str, Route] = {}
        self._told: dict[str, Route] = {}  # of what was last said

    def known(self, table: str) -> Route | None:
        """The route with which the table was reflected: everything else that is known of it belongs to that route."""
        return self._known.get(table)

    def reflected(self, table: str, route: Route, *, refused: bool) -> bool:
        """A table of the keyspace is, or is `refused`, by this route. Whether that is news: caches of the table have
        another one, and nobody has told of that yet."""
        name, before = f"{self._keyspace}.{table}", self._told.get(table)
        self._known[table] = self._told[table] = route
        if refused:
            self.refused[name] = None
        else:
            self.refused.pop(name, None)
        self._note(name, route.elsewhere(self._keyspace, table) or self.away)
        return before is not None and route.differs(before)

    def told(
        self,
        plans: Mapping[str, Rows | SourceError],
        definitions: Rows | None = None,
        vindexes: Mapping[str, Rows | SourceError] | None = None,
    ) -> Ddl | None:
        """What vtgate says of each table now, and the changes of tables whose route differs from before: what is held
        of them is in doubt, and whether they can be cached must be decided again. `plans`: the answers to `question`.
        `definitions`: to `ALL_VINDEXES`. `vindexes`: to `vindexes_of` for the tables `without_vindexes`."""
        all_of = {str(row[1]): tuple(map(str, row[1:])) for row in definitions or () if row[0] == self._keyspace}
        found = {}
        for table, answer in plans.items():
            route = (self._told.get(table) or Route("", ())).planned(answer)
            if vindexes is not None and table in vindexes:
                route = replace(route, vindexes=route_of(vindexes[table]).vindexes)
            elif definitions is not None and not isinstance(route.vindexes, str):
                now = tuple((*row[:2], *all_of.get(row[1], ())[1:]) for row in route.vindexes)
                route = replace(route, vindexes=now)
            found[table] = route
        return self._change(found)

    def shards_told(self, moved: Mapping[str, str], tables: Iterable[str]) -> Ddl | None:
        """As `told`, where what has changed is which shards are answered from another keyspace. `tables`: all."""
        if moved == self.moved_shards:
            return None
        self.moved_shards = dict(moved)
        return self._change({table: self._told[table] for table in tables if table in self._told})

    def _change(self, routes: Mapping[str, Route]) -> Ddl | None:
        """Takes them in; what has changed with them."""
        away, moved = self.away, {}
        for table, route in routes.items():
            name = f"{self._keyspace}.{table}"
            before, last = self.elsewhere.get(name, ""), self._told.get(table)
            reason = route.elsewhere(self._keyspace, table) or away
            if reason != before:
                moved[name] = reason or f"answered from {self._keyspace} again"
            elif last is not None and last != route:
                moved[name] = "its entry in the VSchema has changed"
            self._told[table] = route
            self._note(name, reason)
        if not moved:
            return None
        text = "; ".join(f"{name}: {reason}" for name, reason in sorted(moved.items()))
        return Ddl(None, f"vtgate's routing has changed: {text}", frozenset(moved))

    def at_home(self, table: str) -> bool:
        """Whether the keyspace's own table was read, when that was told last."""
        return table in self._told and not self._told[table].elsewhere(self._keyspace, table)

    def without_vindexes(self, table: str) -> bool:
        """Whether vtgate refused to tell the table's vindexes. Once it no longer refuses, the plan may still be the
        same."""
        return table in self._told and isinstance(self._told[table].vindexes, str)

    def asked(self, table: str) -> str:
        """What to ask of a table, for `told`."""
        return question(self._keyspace, table, self._told.get(table) or Route("", ()))

    @property
    def away(self) -> str:
        """Which shards have moved; "" if none has."""
        return "; ".join(f"shard {shard} is answered from {to}" for shard, to in sorted(self.moved_shards.items()))

    def _note(self, name: str, reason: str) -> None:
        if reason:
            self.elsewhere[name] = reason
        else:
            self.elsewhere.pop(name, None)
