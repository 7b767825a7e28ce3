"""Which keyspace vtgate answers a statement from, and which tables of a keyspace have moved to another. Pure.

MoveTables copies a table to another keyspace and switches vtgate's routing rules then: from that moment the table is
read and written there, under its old name, too. The stream of the old keyspace tells nothing of it, and nothing of what
is written from then on. Until the switch the same holds for the new keyspace, which has the table already. vtgate's own
plan of a statement names the keyspaces that it reads (`VEXPLAIN PLAN`, which runs nothing).

 who asks               | when                        | what for
------------------------+-----------------------------+---------------------------------------------------------------
 `Routes`               | each second, for all tables | a table that has moved becomes holes, and is not cached while
                        | that are cached             | it is elsewhere
 an upquery, of its own | directly before and behind  | where a plan names another keyspace, the answer has no bracket
 statement              | the statement               | here. One of the two plans does: tables do not move twice
                        |                             | within one statement
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dataflow.messages import Ddl
from sqltypes.errors import SourceError

PlanText = str


def explain(statement: str) -> str:
    """For vtgate; its one row has one column, the plan."""
    return f"VEXPLAIN PLAN {statement}"


def reads_table(keyspace: str, table: str) -> str:
    """A statement that reads the table, by the name that clients have for it."""
    return f"SELECT 1 FROM {_quoted(keyspace)}.{_quoted(table)}"


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
    return "" if read in (table, _quoted(table)) else f"answered from {read or 'no table'}"


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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class Routes:
    """Of the tables of one keyspace that are cached, or are to be. `elsewhere`: those that must not be, each with the
    reason, by `keyspace.table`."""

    def __init__(self, keyspace: str) -> None:
        self.elsewhere: dict[str, str] = {}
        self._keyspace = keyspace

    def questions(self, tables: Iterable[str]) -> list[str]:
        """What to ask vtgate of each table of the keyspace."""
        return [explain(reads_table(self._keyspace, table)) for table in tables]

    def told(self, answers: Mapping[str, PlanText | SourceError]) -> Ddl | None:
        """What vtgate says of each table; the change of those that moved since it was asked before, or since they are
        cached: what they hold is not known, and whether they can be cached is to be decided anew."""
        moved = {}
        for table, answer in answers.items():
            name = f"{self._keyspace}.{table}"
            reason = elsewhere(self._keyspace, answer) or another(table, answer)
            if reason != self.elsewhere.get(name, ""):
                moved[name] = reason or f"answered from {self._keyspace} again"
            if reason:
                self.elsewhere[name] = reason
            else:
                self.elsewhere.pop(name, None)
        if not moved:
            return None
        text = "; ".join(f"{name}: {reason}" for name, reason in sorted(moved.items()))
        return Ddl(None, f"vtgate's routing has changed: {text}", frozenset(moved))

    def forget(self, table: str) -> None:
        """It is not asked for any more."""
        self.elsewhere.pop(f"{self._keyspace}.{table}", None)
