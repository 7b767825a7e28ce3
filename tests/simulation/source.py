"""The model source: transactions pass the moments "owned", "in the binlog", "visible to selects" and "executed" apart
from each other.

As MySQL does it: a transaction is in gtid_owned from before it is written to the binlog until, atomically, it is in
gtid_executed; the stream may send it as soon as it is in the binlog, before it is visible; it is visible before it is
executed. With ordered commits the steps happen in the binlog's order, else in any. Some transactions are owned and roll
back. Row locks are held until a transaction is visible, so that two transactions never wait with changes of one row.

A server that takes over, or comes back, may lack the last transactions of the binlog. It numbers none of its own as
they were numbered: of a server that does, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dataflow.messages import Ddl, Gap, Pair, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.expression import Row
from sqltypes.schema import Table
from tests.simulation.sql_side import DATABASE, TABLES, Rows, State, number_of

Wanted = Mapping[str, tuple[Table, frozenset[str]]]
Change = tuple[str, int, Row | None]  # a table, a primary key, the row that it then has
Number = int | tuple[int, int]  # of a transaction; or of a transaction and of a shard
NO_GTID = Gtid("", 0)
OWNED, LOGGED, VISIBLE, EXECUTED = 1, 2, 3, 4
VIEW = "a_view"


@dataclass(eq=False, slots=True)
class Commit:
    """One transaction on its way; `stage` is the last of the moments that it has reached.

    `kind`: "rows"; "early", which is given its GTID before it changes anything, as on replicas; "ghost", which rolls
    back after it was owned; "ddl", after which the table `replaces` holds `rows`, without row events (TRUNCATE, a swap
    by RENAME), and `named` says whether the stream can tell which table it was; "view", which replaces views and no
    rows; "load", whose changes the stream cannot tell; "large", whose rows it does not read.
    """

    number: int
    kind: str
    changes: list[tuple[str, Pair]] = field(default_factory=list)
    replaces: str = ""
    rows: Mapping[int, Row] = field(default_factory=dict)
    named: bool = True
    stage: int = 0
    gtid: Gtid = NO_GTID
    later: Sequence[Change] = ()  # of one that is given its GTID before it changes anything, as on replicas

    def event(self, wanted: Wanted, position: GtidSet) -> StreamEvent:
        """As the stream gives it: of the wanted tables the wanted columns, None in place of the others."""
        if self.kind == "load":
            return Gap("rows were loaded by a statement", position.add(self.gtid))
        if self.kind == "view":
            return Ddl(self.gtid, "CREATE OR REPLACE VIEW", frozenset({f"{DATABASE}.{VIEW}"}))
        if self.kind == "ddl":
            name = f"{DATABASE}.{self.replaces}"
            return Ddl(self.gtid, f"RENAME TABLE {name}", frozenset({name}) if self.named else None)
        if self.kind == "large":
            touched = frozenset(f"{DATABASE}.{name}" for name, _ in self.changes) & wanted.keys()
            return Ddl(self.gtid, "rows not read", touched, schema=False) if touched else Progress(self.gtid)
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

    def apply(self, state: State, beside: Mapping[int, Row] | None = None) -> None:
        """`beside`: rows of the table that it replaces which are another shard's."""
        if self.replaces:
            state.replace(self.replaces, {**(beside or {}), **self.rows})
        for name, pair in self.changes:
            state.apply(name, [pair])


def narrowed(row: Row | None, table: Table, columns: frozenset[str]) -> Row | None:
    if row is None:
        return None
    return tuple(value if column.name in columns else None for value, column in zip(row, table.columns, strict=True))


class Source(Protocol):
    """What a simulation asks of its source: of one server (`ModelSource`), or of several (`shards.py`)."""

    @property
    def server(self) -> str: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def log(self) -> Sequence[Commit]: ...
    @property
    def live(self) -> Mapping[Any, Commit]: ...
    @property
    def latest(self) -> Rows: ...
    @property
    def visible(self) -> State: ...
    @property
    def exclusive(self) -> bool: ...
    def executed(self) -> GtidSet: ...
    def owned(self) -> GtidSet: ...
    def purged_set(self) -> GtidSet: ...
    def seen(self) -> tuple[Rows, GtidSet]: ...
    def lockable(self, tables: Iterable[str]) -> bool: ...
    def begin(self, number: int, kind: str, changes: Sequence[Change]) -> None: ...
    def begin_ddl(self, number: int, name: str, rows: Sequence[Row], named: bool) -> None: ...
    def other_views(self, position: GtidSet) -> bool: ...
    def advance(self, number: Any) -> None: ...
    def execute_unseen(self) -> None: ...
    def state_at(self, position: GtidSet, strict: bool = True) -> Rows | None: ...
    def close(self) -> None: ...


class ModelSource:
    """The server that answers now. `log` is its binlog from the start; `visible` is what a select sees now.

    `incarnation` rises when another server takes over or this one comes back without its last transactions. `place`:
    of several that are not one another's replicas each has its own.
    """

    def __init__(self, rows: Rows, ordered: bool, place: int = 0) -> None:
        self.ordered = ordered
        self._place = place
        self._start = rows
        self.locked: Callable[[], set[str]] = set  # tables that upqueries keep locked
        self.visible = State(rows)
        self.latest = self.visible.copy()  # with the changes of transactions under way
        self.incarnation = 1
        self.server = server_uuid(1, place)
        self.log: list[Commit] = []
        self._past: list[list[Commit]] = []  # binlogs of servers that are gone
        self.live: dict[int, Commit] = {}
        self.purged: set[Gtid] = set()  # executed, and in no binlog
        self._locked: dict[tuple[str, int], Commit] = {}
        self._next: dict[str, int] = {}
        self._visible: list[Gtid] = []
        self._owned: set[Gtid] = set()
        self._executed: set[Gtid] = set()
        self._executed_set: GtidSet | None = None

    # -- what the proxy may ask --------------------------------------------------------------------------------------

    def close(self) -> None:
        self.visible.close()

    def executed(self) -> GtidSet:
        if self._executed_set is None:
            self._executed_set = GtidSet.of(self._executed)
        return self._executed_set

    def purged_set(self) -> GtidSet:
        return GtidSet.of(self.purged)

    def owned(self) -> GtidSet:
        return GtidSet.of(self._owned)

    def seen(self) -> tuple[Rows, GtidSet]:
        """What a snapshot sees now: the rows, and the transactions."""
        return self.visible.copy(), GtidSet.of(self._visible)

    # -- progress ----------------------------------------------------------------------------------------------------

    @property
    def exclusive(self) -> bool:
        """Everybody waits for a DDL statement's metadata lock."""
        return any(commit.replaces for commit in self.live.values())

    def begin(self, number: int, kind: str, changes: Sequence[Change]) -> None:
        """Changes of rows that another transaction has locked are left out."""
        if self.exclusive:
            return
        self.live[number] = commit = Commit(number, kind)
        if kind == "early":
            commit.gtid, commit.later = self._number(), changes
            self._owned.add(commit.gtid)
        else:
            self._change(commit, changes)

    def _change(self, commit: Commit, changes: Sequence[Change]) -> None:
        locked = self.locked()
        for name, row, after in changes:
            if name in locked or self._locked.get((name, row), commit) is not commit:
                continue
            rows = self.latest[name]
            before = rows.get(row)
            if before == after:
                continue
            self._locked[name, row] = commit
            commit.changes.append((name, (before, after)))
            if commit.kind == "ghost":
                continue
            if after is None:
                del rows[row]
            else:
                rows[row] = after

    def lockable(self, tables: Iterable[str]) -> bool:
        """Does nobody hold a change of these tables that is not visible yet?"""
        wanted = set(tables)
        return not any(
            commit.stage <= LOGGED and (commit.replaces in wanted or any(name in wanted for name, _ in commit.changes))
            for commit in self.live.values()
        )

    def begin_ddl(self, number: int, name: str, rows: Sequence[Row], named: bool) -> None:
        """Waits for nobody, so it is left out while a transaction is under way."""
        if not self.live and name not in self.locked():
            held = {number_of(row): row for row in rows}
            self.latest[name] = dict(held)
            self.live[number] = Commit(number, "ddl", replaces=name, rows=held, named=named)

    def begin_view(self, number: int) -> None:
        if not self.exclusive:
            self.live[number] = Commit(number, "view")

    def other_views(self, position: GtidSet) -> bool:
        """Are views seen now that the position does not know yet?"""
        seen = (commit for commit in self.log if commit.kind == "view" and commit.stage >= VISIBLE)
        return any(commit.gtid not in position for commit in seen)

    def execute_unseen(self) -> None:
        """A GTID is executed that no binlog has: gtid_purged was set by hand."""
        gtid = self._number()
        self.purged.add(gtid)
        self._executed.add(gtid)
        self._executed_set = None

    def _number(self) -> Gtid:
        number = self._next.get(self.server, 0) + 1
        self._next[self.server] = number
        return Gtid(self.server, number)

    def advance(self, number: int) -> None:
        """One moment of one transaction; nothing if it must wait for another, or has ended."""
        commit = self.live.get(number)
        if commit is None:
            return
        if commit.later:
            later, commit.later = commit.later, ()
            self._change(commit, later)
            return
        if commit.stage == 0:
            if commit.kind != "early":
                commit.gtid = self._number()
                self._owned.add(commit.gtid)
        elif commit.stage == OWNED:
            if commit.kind == "ghost":
                self._owned.discard(commit.gtid)
                self._unlock(commit)
                del self.live[number]
                return
            self.log.append(commit)
        elif self._must_wait(commit):
            return
        elif commit.stage == LOGGED:
            commit.apply(self.visible)
            self._visible.append(commit.gtid)
            self._unlock(commit)
        else:
            self._owned.discard(commit.gtid)
            self._execute(commit)
            del self.live[number]
        commit.stage += 1

    def _execute(self, commit: Commit) -> None:
        self._executed.add(commit.gtid)
        self._executed_set = None

    def _must_wait(self, commit: Commit) -> bool:
        """With ordered commits nobody overtakes in the binlog's order."""
        if not self.ordered:
            return False
        earlier = self.log[: self.log.index(commit)][-8:]
        return any(other.stage <= commit.stage and other.number in self.live for other in earlier)

    def _unlock(self, commit: Commit) -> None:
        self._locked = {row: holder for row, holder in self._locked.items() if holder is not commit}

    # -- another server ----------------------------------------------------------------------------------------------

    def fail_over(self, lost: int, same: bool) -> None:
        """The server comes back (`same`), or another takes over, without the last `lost` transactions of the binlog and
        without those that are not in it. The old binlog, which somebody may still read, is another list."""
        survivors = self.log[: max(0, len(self.log) - lost)]
        for commit in survivors:
            commit.stage = EXECUTED
        self._past.append(self.log)
        self.log = survivors
        self.incarnation += 1
        if not same:
            self.server = server_uuid(self.incarnation, self._place)
        self._executed = {commit.gtid for commit in survivors} | self.purged
        self._executed_set = None
        self._owned.clear()
        self._locked.clear()
        self.live.clear()
        self._visible = [commit.gtid for commit in survivors]
        rows = self._replayed(survivors)
        assert rows is not None, "the binlog's order is not that of the changes"
        self.visible.become(rows)
        self.latest = self.visible.copy()

    def state_at(self, position: GtidSet, strict: bool = True) -> Rows | None:
        """All tables' rows after exactly the transactions of the position, as they have been or may have been on one
        server; None if no server had all of them, or, if `strict`, one is missing on which another stands. (Commits out
        of order can be executed without that; whatever they both touch cannot be told then.)"""
        for log in (self.log, *self._past):
            had = {commit.gtid for commit in log}
            if not any(commit.gtid in position and commit.gtid not in had for past in self._past for commit in past):
                return self._replayed([commit for commit in log if commit.gtid in position], strict)
        return None

    def _replayed(self, commits: Sequence[Commit], strict: bool = True) -> Rows | None:
        rows = {name: dict(held) for name, held in self._start.items()}
        for commit in commits:
            if commit.replaces:
                rows[commit.replaces] = dict(commit.rows)
            for name, (before, after) in commit.changes:
                if before is not None and rows[name].pop(number_of(before), None) is None and strict:
                    return None
                if after is not None:
                    rows[name][number_of(after)] = after
        return rows


def server_uuid(incarnation: int, place: int) -> str:
    return f"5e1ec7ed-{place:04}-4000-8000-{incarnation:012}"


__all__ = ["TABLES", "Change", "Commit", "ModelSource", "Number", "Source", "server_uuid"]
