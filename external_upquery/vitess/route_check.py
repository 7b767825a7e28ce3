"""Whether an upquery's answer came by the routes that are known (`vitess/routes.py`). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dataflow.messages import Statement
from external_upquery.columns import RawColumn, table_of
from external_upquery.protocol import Answer, ResultSet, query
from external_upquery.vitess.routes import Route, Routes, question, route_of, vindexes_of
from sqltypes.errors import SourceError

NAME = re.compile("`((?:[^`]|``)*)`")


@dataclass(frozen=True, slots=True)
class Look:
    """A question about a table. `plan`: about how it is read; else about its vindexes."""

    table: str
    route: Route
    plan: bool
    command: bytes

    def differs(self, answer: Answer) -> bool:
        found = answer.rows if isinstance(answer, ResultSet) else answer
        if not isinstance(found, list | SourceError):
            return True
        if self.plan:
            return self.route.planned(found) != self.route
        return route_of(found).vindexes != self.route.vindexes


@dataclass(frozen=True, slots=True)
class Looks:
    """Questions before and after the statements of an upquery. `unknown`: tables without a known route to this
    keyspace."""

    asked: tuple[Look, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def commands(self) -> list[bytes]:
        return [look.command for look in self.asked]

    def astray(self, answers: Sequence[Answer]) -> dict[str, Route | None]:
        """The tables of which the route is another one than is known, and the known one, if there is one. `answers`: to
        `commands`, as often as they were asked."""
        found: dict[str, Route | None] = dict.fromkeys(self.unknown)
        for at, answer in enumerate(answers):
            if (look := self.asked[at % len(self.asked)]).differs(answer):
                found[look.table] = look.route
        return found


NO_LOOKS = Looks()


class Looking:
    """Makes the looks of the requests of one keyspace."""

    def __init__(self, keyspace: str, routes: Routes) -> None:
        self._keyspace, self._routes = keyspace, routes
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._unnamed: set[str] = set()  # tables of which answers for keys do not tell that they are of them

    def tables(self, quoted: tuple[str, ...]) -> tuple[str, ...]:
        """The names in the keyspace of tables that are qualified and quoted."""
        found = self._names.get(quoted)
        if found is None:
            parts = [[part.replace("``", "`") for part in NAME.findall(name)] for name in quoted]
            found = self._names[quoted] = tuple(each[-1] for each in parts if each[:-1] == [self._keyspace])
        return found

    def of(self, tables: Iterable[str], statements: Sequence[Statement]) -> Looks:
        """`tables`: those that the statements read."""
        named = self._named(statements)
        asked: list[Look] = []
        unknown = []
        for table in tables:
            route = self._routes.known(table)
            if route is None or f"{self._keyspace}.{table}" in self._routes.elsewhere:
                unknown.append(table)
                continue
            if table not in named:
                asked.append(Look(table, route, True, query(question(self._keyspace, table, route))))
            if route.vindexes:
                asked.append(Look(table, route, False, query(vindexes_of(self._keyspace, table))))
        return Looks(tuple(asked), tuple(unknown))

    def _named(self, statements: Sequence[Statement]) -> set[str]:
        """The tables that all answers name which are read from them."""
        found = set()
        for statement in statements:
            if statement.keyed is None:
                return set()
            found.add(statement.keyed.table.name)
        return found - self._unnamed

    def announced_elsewhere(self, statement: Statement, columns: Sequence[RawColumn]) -> str:
        """From where else an answer is than from the keyspace, by its columns; "" where they do not say that."""
        found = set(map(table_of, columns)) - {("", "")}
        table = statement.keyed.table.name if statement.keyed is not None else ""
        for schema, name in sorted(found):
            if schema not in ("", self._keyspace) or (table and schema and name != table):
                return f"{schema}.{name}"
        if table and table not in self._unnamed and (self._keyspace, table) not in found:
            self._unnamed.add(table)
            return "an unknown place"
        return ""
