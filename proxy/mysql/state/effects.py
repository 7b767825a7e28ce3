"""What a statement does to the session that MySQL executes it in, told from its kind and its text. Pure.

`OF_KINDS` is the table, a row for each kind of statement; `effects_of` adds what the text says beyond the kind. The
session trackers tell more (`session_state.py`). What they alone would tell of a transaction comes too late for some
statements, so it is here, too.

`python -m proxy.mysql.state.effects` prints the table as docs/mysql_protocol.md has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from proxy.mysql.text.statement_kind import ONE_PHASE, Kind, Statement
from proxy.mysql.text.statement_set import Scope


class Locks(Enum):
    """Whether a statement may write rows, or lock them."""

    NEVER = "no"
    WITH_TABLES = "if it names tables"
    MAYBE = "perhaps"


class Bound(Enum):
    """What a statement is to the transaction before it."""

    NONE = ""
    BEGINS = "begins one, and commits the one before"
    ENDS = "ends it"
    COMMITS = "commits it"


@dataclass(frozen=True, slots=True)
class OfKind:
    """What every statement of a kind does, or may do. `statements`: which these are, for documentation."""

    statements: str
    locks: Locks = Locks.MAYBE
    snapshot: bool = True  # tables are read by the transaction's snapshot, which is opened by that
    bound: Bound = Bound.NONE
    savepoint: bool = False  # it may set one
    table_locks: bool | None = None  # True: it takes them; False: it lets go of them; None: neither
    temporary: bool = False  # temporary tables may come or go
    explained: bool = False  # that MySQL reports a changed session needs no other explanation
    undone: bool = False  # an error means that nothing was done
    single: bool = True  # it is one statement, and none of a stored procedure or of a text prepared by SQL


OF_KINDS: dict[Kind, OfKind] = {
    Kind.READ: OfKind("`SELECT`, `TABLE`, `VALUES`, `WITH`", Locks.NEVER, undone=True),
    Kind.LOCKING_READ: OfKind("`SELECT ... FOR UPDATE`, `FOR SHARE`", snapshot=False, undone=True),
    Kind.WRITE: OfKind("`INSERT`, `UPDATE`, `DELETE`, `REPLACE`, `LOAD DATA`", snapshot=False, undone=True),
    Kind.BEGIN: OfKind("`BEGIN`, `START TRANSACTION`", Locks.NEVER, bound=Bound.BEGINS, table_locks=False),
    Kind.COMMIT: OfKind("`COMMIT`", bound=Bound.ENDS),
    Kind.ROLLBACK: OfKind("`ROLLBACK`", bound=Bound.ENDS),
    Kind.SAVEPOINT: OfKind("`SAVEPOINT`, `ROLLBACK TO`, `RELEASE SAVEPOINT`", savepoint=True, undone=True),
    Kind.SET: OfKind("`SET`", Locks.WITH_TABLES, snapshot=False, explained=True),
    Kind.USE: OfKind("`USE`", explained=True, undone=True),
    Kind.HARMLESS: OfKind("`SHOW`, `DESCRIBE`, `EXPLAIN`", Locks.NEVER, undone=True),
    Kind.LOCK_TABLES: OfKind("`LOCK TABLES`, `FLUSH TABLES ... WITH READ LOCK`", bound=Bound.COMMITS, table_locks=True),
    Kind.UNLOCK_TABLES: OfKind("`UNLOCK TABLES`", table_locks=False),
    Kind.DDL: OfKind("`CREATE`, `ALTER`, `DROP`, `GRANT`, `ANALYZE TABLE` ...", bound=Bound.COMMITS, explained=True),
    Kind.TEMPORARY: OfKind("`CREATE` and `DROP TEMPORARY TABLE`", temporary=True),
    Kind.CALL: OfKind("`CALL`", savepoint=True, single=False),
    Kind.PREPARE: OfKind("`PREPARE`", explained=True, undone=True),
    Kind.EXECUTE: OfKind("`EXECUTE`", savepoint=True, single=False),
    Kind.DEALLOCATE: OfKind("`DEALLOCATE PREPARE`", explained=True, undone=True),
    Kind.KILL: OfKind("`KILL`", undone=True),
    Kind.OTHER: OfKind("what is not recognised"),
    Kind.SEVERAL: OfKind("several in one text: as each of them", single=False),
}

SNAPSHOT = "consistent snapshot"  # an option of START TRANSACTION
OF_CHARACTER_SETS = ("names", "char", "collation")  # so begin the names of the variables by which strings are read
OF_TRANSACTIONS = frozenset({"autocommit", "transaction_isolation", "transaction_read_only"})
BOUNDS = frozenset({Bound.BEGINS, Bound.ENDS})
CALLS_PROCEDURES = frozenset(
    {Kind.CALL, Kind.EXECUTE, Kind.OTHER, Kind.SEVERAL}
)  # functions and triggers must not: error 1695


@dataclass(frozen=True, slots=True)
class Effects:
    """What a statement does to its session."""

    # Rows of tables.
    touches: bool  # it may read or change some
    opens_snapshot: bool  # and reads them by the transaction's snapshot
    locks: bool  # it may lock or write some
    # The transaction before it.
    bounds: bool  # it ends it by saying so: BEGIN, COMMIT, ROLLBACK
    ends: bool  # it ends it, so or by committing it: DDL, LOCK TABLES
    ends_only: bool  # it ends it, and does no more than that
    ends_within: bool  # one of several statements ends it
    saves: bool  # it may set a savepoint
    # The session.
    table_locks: bool | None  # as `OfKind.table_locks`
    hides_tables: bool  # temporary tables may come or go
    sets: frozenset[str]  # the names of variables that it sets, and "role"
    explained: bool  # as `OfKind.explained`
    unsettles: bool  # what the session may do must be asked anew
    resolves: bool  # behind it MySQL may resolve prepared statements otherwise
    recodes: bool  # and read strings otherwise that are bound
    # The statement.
    single: bool  # as `OfKind.single`
    several: bool  # several statements, each of them known
    sets_only: bool  # several, each of which is a SET that names no table and does not set autocommit
    calls_unknown: bool  # it may call what does anything
    procedures: bool  # of what does anything it may call procedures, which alone may switch the binlog off
    error_hides: bool  # something may have been done before an error
    triggers: bool  # it writes rows, and before an error triggers may have set variables of the session
    one_phase: bool  # it commits an XA transaction, which is in no binlog if it was prepared
    # No error: nothing of the session need be looked at, and no temporary table can have got another name.
    simple: bool


def effects_of(statement: Statement) -> Effects:
    """What a statement does to its session."""
    kind, unknown, sets = statement.kind, statement.calls_unknown, statement.settings
    of_kind = OF_KINDS[kind]
    parts = (statement, *statement.parts)
    of_parts = [OF_KINDS[part.kind] for part in parts]
    set_ = [one for part in parts for one in part.settings or () if one.scope is not Scope.USER]
    settings = frozenset([one.name for one in set_])
    touches = statement.tables or unknown or SNAPSHOT in statement.options
    understood = kind is not Kind.SEVERAL or statement.parts != ()
    goes_back = kind is Kind.SAVEPOINT and bool(statement.options)
    hides_tables = unknown or any([part.temporary for part in of_parts])
    tracks = any([name.startswith("session_track") for name in settings])
    # What is called may set roles, of which no tracker tells.
    unsettles = unknown or sets is None or any([one.scope is Scope.OTHER for one in sets])
    ddl = any([part.kind is Kind.DDL for part in parts])
    simple = not (hides_tables or unsettles or tracks or ddl)
    others_set = any([part.kind is Kind.SET for part in parts]) and not settings <= OF_TRANSACTIONS
    table_locks = [part.table_locks for part in of_parts if part.table_locks is not None]
    return Effects(
        touches=touches,
        opens_snapshot=touches and (unknown or of_kind.snapshot),
        locks=unknown or of_kind.locks is Locks.MAYBE or (of_kind.locks is Locks.WITH_TABLES and statement.tables),
        bounds=of_kind.bound in BOUNDS,
        ends=of_kind.bound is not Bound.NONE,
        ends_only=of_kind.bound is Bound.ENDS and not statement.options,
        ends_within=any([OF_KINDS[part.kind].bound is not Bound.NONE for part in statement.parts]),
        saves=not understood or (any([part.savepoint for part in of_parts]) and not goes_back),
        table_locks=table_locks[-1] if table_locks else None,
        hides_tables=hides_tables,
        sets=settings,
        explained=of_kind.explained,
        unsettles=unsettles,
        resolves=not simple or others_set,
        recodes=any([name.startswith(OF_CHARACTER_SETS) for name in settings]) or unsettles,
        single=of_kind.single,
        several=statement.parts != (),
        sets_only=statement.parts != ()
        and not statement.tables
        and not unknown
        and all([part.kind is Kind.SET for part in statement.parts])
        and "autocommit" not in settings,
        calls_unknown=unknown,
        procedures=unknown and any([part.kind in CALLS_PROCEDURES for part in parts]),
        error_hides=unknown or not of_kind.undone,
        triggers=any([part.kind is Kind.WRITE for part in parts]),
        one_phase=any([ONE_PHASE in part.options for part in parts]),
        simple=simple,
    )


_NO_TABLES = frozenset({
    Kind.COMMIT, Kind.ROLLBACK, Kind.SAVEPOINT, Kind.USE, Kind.UNLOCK_TABLES, Kind.PREPARE, Kind.DEALLOCATE, Kind.KILL,
    Kind.LOCK_TABLES, Kind.SEVERAL,
})  # fmt: skip
"""Kinds that read and write no rows themselves."""
_LOCKED = {True: "taken", False: "let go of", None: ""}
_HEADS = (
    "statements", "may write or lock rows", "tables it names are read by the snapshot", "the transaction before it",
    "may set a savepoint", "table locks", "temporary tables", "after an error nothing was done",
)  # fmt: skip


def as_markdown() -> str:
    """The table as documentation has it."""
    rows: list[tuple[str, ...]] = [_HEADS, tuple("---" for _ in _HEADS)]
    rows += [
        (
            of_kind.statements,
            "" if kind in _NO_TABLES else of_kind.locks.value,
            "" if kind in _NO_TABLES else "yes" if of_kind.snapshot else "no",
            of_kind.bound.value,
            "yes" if of_kind.savepoint else "",
            _LOCKED[of_kind.table_locks],
            "come or go" if of_kind.temporary else "",
            "yes" if of_kind.undone else "",
        )
        for kind, of_kind in OF_KINDS.items()
    ]
    return "".join("|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|\n" for row in rows)


if __name__ == "__main__":
    print(as_markdown(), end="")
