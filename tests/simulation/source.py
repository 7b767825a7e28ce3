"""The model source: transactions pass the moments "owned", "in the binlog", "visible to selects" and "executed" apart
from each other.

As MySQL does it: a transaction is in gtid_owned from before it is written to the binlog until, atomically, it is in
gtid_executed; the
stream may send it as soon as it is in the binlog, before it is visible; it is visible before it is executed. With
ordered commits the
steps happen in the binlog's order, else in any. Some transactions are owned and roll back. Row locks are held until a
transaction is
visible, so that two transactions never wait with changes of one row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dataflow.messages import Ddl, Pair, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.expression import Row
from sqltypes.schema import Table
from tests.simulation.queries import WORDS
from tests.simulation.sql_side import DATABASE, TABLES, State, number_of

SERVERS = ("5e1ec7ed-0000-4000-8000-000000000001", "5e1ec7ed-0000-4000-8000-000000000002")
WIDTHS = {"a": 9, "b": 5, "n": 5}  # how many primary keys each table draws from
Wanted = Mapping[str, tuple[Table, frozenset[str]]]


@dataclass(eq=False)
class Commit:
    """One transaction on its way. `stage`: 1 owned, 2 in the binlog, 3 visible, 4 executed.

    `replaces`: a DDL statement after which the table holds `rows`, without row events: TRUNCATE, a swap by RENAME.
    """

    changes: list[tuple[str, Pair]]
    replaces: str = ""
    rows: tuple[Row, ...] = ()
    named: bool = True  # the stream can tell which table the DDL statement is about
    ghost: bool = False
    early: bool = False  # it was given its GTID before it changes anything, as on replicas
    stage: int = 0
    gtid: Gtid = field(default_factory=lambda: Gtid(SERVERS[0], 0))

    def event(self, wanted: Wanted) -> StreamEvent:
        """As the stream gives it: of the wanted tables the wanted columns, None in place of the others."""
        if self.replaces:
            name = f"{DATABASE}.{self.replaces}"
            return Ddl(self.gtid, f"RENAME TABLE {name}", frozenset({name}) if self.named else None)
        changes: list[TableChanges] = []
        for name, (before, after) in self.changes:
            qualified = f"{DATABASE}.{name}"
            if qualified not in wanted:
                continue
            pair = narrowed(before, *wanted[qualified]), narrowed(after, *wanted[qualified])
            if changes and changes[-1].table == qualified:
                changes[-1].pairs.append(pair)
            else:
                changes.append(TableChanges(qualified, [pair]))
        return Transaction(self.gtid, changes) if changes else Progress(self.gtid)

    def apply(self, state: State) -> None:
        if self.replaces:
            state.replace(self.replaces, self.rows)
        for name, pair in self.changes:
            state.apply(name, [pair])


def narrowed(row: Row | None, table: Table, columns: frozenset[str]) -> Row | None:
    if row is None:
        return None
    return tuple(value if column.name in columns else None for value, column in zip(row, table.columns, strict=True))


class ModelSource:
    """One server. `log` is the binlog from the start; `visible` is what a select sees now."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.ordered = rng.random() < 0.8
        self.keys = rng.choice([(0, 1, 2), (0, 0, 0, 1, 2), (0, 1)])
        self.visible = State()
        self.server = SERVERS[0]  # who answers now
        self.log: list[Commit] = []
        self._live: list[Commit] = []
        self._locked: dict[tuple[str, int], Commit] = {}
        self._latest: dict[str, dict[int, Row]] = {name: {} for name in TABLES}
        self._next = 1
        self._owned: set[Gtid] = set()
        self._executed: set[Gtid] = set()
        self.quiet = False
        self.shared: Callable[[], set[str]] = set  # tables that upqueries keep locked
        for name in TABLES:
            for number in range(3):
                self._put(name, self._row(name, number))

    def _put(self, name: str, row: Row) -> None:
        self._latest[name][number_of(row)] = row
        self.visible.apply(name, [(None, row)])

    def _row(self, name: str, number: int) -> Row:
        rng = self._rng
        link = rng.choice((0, 1, 2, None)) if rng.random() < 0.3 else rng.choice((0, 1, 2))
        if name == "n":
            return (number, rng.choice(WORDS) if rng.random() < 0.9 else None, rng.choice(self.keys))
        if name == "a":
            return (number, rng.choice(self.keys), link, int(rng.random() < 0.7), rng.randint(0, 5))
        return (number, link, rng.randint(0, 5))

    # -- what the proxy may ask --------------------------------------------------------------------------------------

    def executed(self) -> GtidSet:
        return GtidSet.of(self._executed)

    def owned(self) -> GtidSet:
        return GtidSet.of(self._owned)

    def lockable(self, tables: Iterable[str]) -> bool:
        """Does nobody hold a change of these tables that is not visible yet?"""
        wanted = set(tables)
        return not any(
            commit.stage <= 2 and (commit.replaces in wanted or any(name in wanted for name, _ in commit.changes))
            for commit in self._live
        )

    # -- progress ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One moment of one transaction."""
        rng = self._rng
        if not self.quiet and (not self._live or (len(self._live) < 5 and rng.random() < 0.4)):
            self._begin()
        elif self._live:
            self._advance(rng.choice(self._live))

    @property
    def resting(self) -> bool:
        return not self._live

    def _begin(self) -> None:
        rng = self._rng
        if any(commit.replaces for commit in self._live):
            return  # the metadata lock: everybody waits for the DDL
        if rng.random() < 0.15 and not self._live and not self.shared():
            self._live.append(self._ddl())
            return
        if rng.random() < 0.05:
            self._live.append(Commit([]))  # of a table that nobody reads
            return
        commit = Commit([], ghost=rng.random() < 0.05, early=rng.random() < 0.1)
        if commit.early:
            self._name(commit)
        else:
            self._change_some(commit)
        if commit.changes or commit.early:
            self._live.append(commit)

    def _change_some(self, commit: Commit) -> None:
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            self._change(commit)

    def _name(self, commit: Commit) -> None:
        commit.gtid = Gtid(self.server, self._next)
        self._next += 1
        self._owned.add(commit.gtid)

    def _ddl(self) -> Commit:
        rng = self._rng
        name = rng.choice(list(TABLES))
        rows = tuple(self._row(name, number) for number in range(rng.choice((0, 0, 3))))
        self._latest[name] = {number_of(row): row for row in rows}
        return Commit([], replaces=name, rows=rows, named=rng.random() < 0.8)

    def _change(self, commit: Commit) -> None:
        rng = self._rng
        name = rng.choice(("a", "a", "a", "b", "b", "n"))
        number = rng.randrange(WIDTHS[name])
        if name in self.shared() or self._locked.get((name, number), commit) is not commit:
            return
        rows = self._latest[name]
        before = rows.get(number)
        after = None if before is not None and rng.random() < 0.3 else self._row(name, number)
        if before == after:
            return
        self._locked[name, number] = commit
        commit.changes.append((name, (before, after)))
        if commit.ghost:
            return
        if after is None:
            del rows[number]
        else:
            rows[number] = after

    def _advance(self, commit: Commit) -> None:
        if commit.early and not commit.changes:
            self._change_some(commit)
            return
        if commit.stage == 0:
            if not commit.early:
                self._name(commit)
        elif commit.stage == 1:
            if commit.ghost:
                self._owned.discard(commit.gtid)
                self._end(commit)
                return
            self.log.append(commit)
        elif self._must_wait(commit):
            return
        elif commit.stage == 2:
            commit.apply(self.visible)
            self._unlock(commit)
        else:
            self._owned.discard(commit.gtid)
            self._executed.add(commit.gtid)
            self._live.remove(commit)
        commit.stage += 1

    def _must_wait(self, commit: Commit) -> bool:
        """With ordered commits nobody overtakes in the binlog's order."""
        if not self.ordered:
            return False
        return any(other is not commit and 2 <= other.stage <= commit.stage for other in self._earlier(commit))

    def _earlier(self, commit: Commit) -> list[Commit]:
        return [other for other in self.log[: self.log.index(commit)][-8:] if other in self._live]

    def _unlock(self, commit: Commit) -> None:
        self._locked = {row: holder for row, holder in self._locked.items() if holder is not commit}

    def _end(self, commit: Commit) -> None:
        self._unlock(commit)
        self._live.remove(commit)
