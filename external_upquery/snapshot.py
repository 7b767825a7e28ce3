"""The bracket: one round trip that answers an upquery and encloses what it can have seen.

    short: one statement      long: several statements, or one       exact: the only form that locks
                              that runs long
    ------------------------  -------------------------------------  ------------------------------------
    L (unless it is known)    L (unless it is known)                 SET TRANSACTION ... SERIALIZABLE
    statement                 START TRANSACTION WITH CONSISTENT      START TRANSACTION READ ONLY
    O, X                          SNAPSHOT, READ ONLY                statements ... FOR SHARE NOWAIT
                              DO (SELECT 1 FROM t LIMIT 0), ...      O'
                              O, X                                   a moment, until O' has been executed
                              statements                             O, X
                              COMMIT                                 COMMIT

The DO of the long form takes the metadata locks: no RENAME can swap a table unseen.

L is gtid_executed before the snapshot, all of it visible to what follows. O is gtid_owned and X gtid_executed after it,
in this order: everything visible is in one of them or in L. In the long form O and X are read at once after the
snapshot was taken, so the bracket is one commit group wide however long the statements run. docs/consistency.md says
what follows from a bracket.

In the exact form shared locks lie on all that was read until X has been read. So each transaction of X that touches
those rows had committed before they were read: X serves as L. A transaction that may have been seen and is not in X was
owned before, in O', and still is, in O. Mostly there is none: a transaction that had changed those rows had committed,
and needs only a moment to become executed. (A transaction that has its GTID beforehand, as on replicas, is owned while
it waits for the locks: Q keeps it.)

It never waits for a lock. A transaction that waits for one lock while it holds another can be half of a deadlock. MySQL
might then roll back the other half, the application's. (SERIALIZABLE locks, without NOWAIT, also the rows of
subqueries.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dataflow.messages import OwnAnswer, Statement, UpqueryRequest
from external_upquery.login import PINNED
from external_upquery.protocol import COM_STMT_PREPARE, Answer, Done, ResultSet, command, query
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import CachedParser, GtidSet, parse_owned
from planner.text.hints import MARK, collation_of
from sqltypes.errors import SourceDown, SourceError
from sqltypes.expression import Row

LOWER = query("SELECT @@global.gtid_executed")
# In this order: what was visible and is no longer owned has moved to executed, which is read later.
UPPER = query("SELECT @@server_uuid, @@global.gtid_owned, @@global.gtid_executed")
HISTORY = query(
    "SELECT @@server_uuid, @@global.gtid_owned, @@global.gtid_executed,"
    " CONCAT(@@global.activate_all_roles_on_login, ' ', @@global.mandatory_roles)"
)
SNAPSHOT = query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
COMMIT = query("COMMIT")
OWN_CHARSETS = query("SET character_set_results=NULL")
UTF8MB4 = query("SET character_set_results=utf8mb4")
OWN_COLLATION = query(f"SET collation_connection={PINNED['collation_connection']}")
NOTHING_OWNED = GtidSet.empty()

# Whoever locks must let go: of a lock that does not come, of a statement that runs long, of a client that is gone (the
# server would wait for its next command, or for it to read, with the locks held).
LIMITS = {
    "max_execution_time": 200,  # milliseconds, waits for locks included
    "innodb_lock_wait_timeout": 1,  # seconds, the least there is
    "wait_timeout": 2,
    "net_read_timeout": 2,
    "net_write_timeout": 2,
}
LIMITED = query("SET SESSION " + ", ".join(f"{name}={value}" for name, value in LIMITS.items()))
UNLIMITED = query("SET SESSION " + ", ".join(f"{name}={PINNED.get(name, 'DEFAULT')}" for name in LIMITS))
SERIALIZABLE = query("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
LOCKING = query("START TRANSACTION READ ONLY")
OWNED = query("SET @upwell_owned = @@global.gtid_owned")
# gtid_owned as a GTID set: it has thread numbers, and nothing between a thread number and the next UUID.
UUID_PATTERN = "([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
SETTLED = query(
    "SELECT @upwell_owned, IF(@upwell_owned = '', 0, WAIT_FOR_EXECUTED_GTID_SET(REGEXP_REPLACE("
    f"REGEXP_REPLACE(@upwell_owned, '{UUID_PATTERN}', ',$1'), '#[0-9]+', ''), 0.03))"
)
EXACT_OPENING = (LIMITED, SERIALIZABLE, LOCKING)
EXACT_END = (OWNED, SETTLED, UPPER, COMMIT, UNLIMITED)
NOW_OR_NEVER = " FOR SHARE NOWAIT"
# What is no refusal: a lock that somebody else has, a deadlock, a statement that ran long or was killed.
NOT_NOW = frozenset({1205, 1213, 1317, 3024, 3572})


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send for a request: `packets` of `count` commands. Indices of answers: `rows`: of each statement;
    `upper`: of the one that tells X; `checks`: of each check.

    `lower`: L, where it is known and therefore not asked for. `settled`: of the exact form, the answer that tells O'.
    `restoring`: so many of the last commands leave the connection as it was.
    """

    packets: bytes
    count: int
    rows: tuple[int, ...]
    upper: int
    lower: GtidSet | None = None
    settled: int | None = None
    checks: tuple[int, ...] = ()
    restoring: int = 0


def plan(request: UpqueryRequest) -> Plan:
    """The pipelined commands of a request. Requires: at least one statement or check."""
    statements = request.statements
    if request.exact and not any(statement.before for statement in statements):  # EXECUTE takes no locks
        exact = [*EXACT_OPENING]
        rows = add(exact, [replace(statement, sql=statement.sql + NOW_OR_NEVER) for statement in statements])
        settled = len(exact) + EXACT_END.index(SETTLED)
        exact += EXACT_END
        return Plan(b"".join(exact), len(exact), rows, settled + 1, settled=settled, restoring=2)
    packets = [LOWER] if request.lower is None else []
    if len(statements) == 1 and not request.slow and not request.checks:
        rows = add(packets, statements)
        packets.append(UPPER)
        return Plan(b"".join(packets), len(packets), rows, len(packets) - 1, request.lower)
    packets.append(SNAPSHOT)
    if request.tables:
        packets.append(query("DO " + ", ".join(f"(SELECT 1 FROM {table} LIMIT 0)" for table in request.tables)))
    upper = len(packets)
    packets.append(UPPER)
    rows, checks = add(packets, statements), add(packets, request.checks)
    packets.append(COMMIT)
    return Plan(b"".join(packets), len(packets), rows, upper, request.lower, checks=checks, restoring=1)


def describing(sql: str) -> tuple[list[bytes], int]:
    """Commands that prepare a text so that each of its columns has its own collation, and which of them does."""
    before = [OWN_CHARSETS, *_by_collation(collation_of(sql))]
    return [*before, command(COM_STMT_PREPARE, sql.encode()), UTF8MB4, OWN_COLLATION], len(before)


def _by_collation(name: str) -> tuple[bytes, ...]:
    """The statement before a text that tells this collation; `OWN_COLLATION` goes after the text."""
    return (query(f"SET collation_connection={name}"),) if name else ()


def add(packets: list[bytes], statements: Sequence[Statement]) -> tuple[int, ...]:
    """The indices of their answers."""
    found = []
    for statement in statements:
        sql, before, collation = statement.sql, statement.before, ""
        if before or MARK in sql:
            collation = next(filter(None, map(collation_of, (sql, *before))), "")
            packets += _by_collation(collation)
            packets += map(query, before)
        found.append(len(packets))
        packets.append(query(sql))
        packets += map(query, statement.after)
        if collation:
            packets.append(OWN_COLLATION)
    return tuple(found)


def refused(plan: Plan, answers: Sequence[Answer]) -> SourceError | None:
    """Why this server does not let this user use the exact form at all; None if nothing says so."""
    for index, answer in enumerate(answers):
        if isinstance(answer, SourceError) and index not in plan.rows and answer.errno not in NOT_NOW:
            return answer
    return None


class BracketReader:
    """Reads the brackets of one source. Sets are parsed only where their text has changed; while the source is at rest,
    an answer comes as the same object as the one before (`Answers`), and gives the same bracket."""

    def __init__(self) -> None:
        self._executed = CachedParser()
        self._last: tuple[GtidSet | None, Answer, Bracket] | None = None

    def read(
        self, plan: Plan, answers: Sequence[Answer]
    ) -> tuple[Bracket, tuple[ResultSet, ...]] | SourceError | SourceDown:
        """The bracket and what each statement gave, or the first error among the answers but the checks'."""
        for at, answer in enumerate(answers):
            if isinstance(answer, SourceError) and at not in plan.checks:
                return answer
        upper = answers[plan.upper]
        found = [answers[at] for at in plan.rows]
        rows = tuple([result for result in found if isinstance(result, ResultSet)])
        if not isinstance(upper, ResultSet) or len(rows) != len(found):
            return SourceDown(f"a statement of an upquery gave no rows: {_kinds(answers)}")
        try:
            if plan.settled is not None:
                return self._exact(answers[plan.settled], upper.rows[0]), rows
            last = self._last
            if last is not None and last[0] is plan.lower and last[1] is upper:
                return last[2], rows
            bracket = self._bracket(plan.lower, answers[0], upper.rows[0])
            self._last = None if plan.lower is None else (plan.lower, upper, bracket)
            return bracket, rows
        except (ValueError, TypeError, IndexError) as error:
            return SourceDown(f"the source's position cannot be read: {error}")

    def _bracket(self, lower: GtidSet | None, first: Answer, upper: Row) -> Bracket:
        history, owned, executed = upper
        if lower is None:
            if not isinstance(first, ResultSet):
                raise ValueError("no L")
            # L and X are parsed by one parser, L first: on a source at rest both are the same object.
            (executed_before,) = first.rows[0]
            lower = self._executed.parse(_text(executed_before))
        after = self._executed.parse(_text(executed))
        return Bracket(_text(history), lower, parse_owned(_text(owned)) if owned else NOTHING_OWNED, after)

    def _exact(self, settled: Answer, upper: Row) -> Bracket:
        if not isinstance(settled, ResultSet):
            raise ValueError("no O'")
        history, owned, executed = upper
        before, _ = settled.rows[0]
        owned_before, still = (parse_owned(_text(text)) if text else NOTHING_OWNED for text in (before, owned))
        return Bracket.exact(_text(history), owned_before, still, self._executed.parse(_text(executed)))


def own_answers(checks: Sequence[int], answers: Sequence[Answer]) -> tuple[OwnAnswer | SourceError, ...]:
    """MySQL's answers to the checks' texts, which are those of these indices. Requires: `BracketReader.read` found no
    error."""
    found: list[OwnAnswer | SourceError] = []
    for answer in [answers[at] for at in checks]:
        if isinstance(answer, ResultSet):
            found.append(OwnAnswer(answer.rows, answer.layout.result_columns))
        else:
            found.append(answer if isinstance(answer, SourceError) else SourceError(0, "", "no rows"))
    return tuple(found)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the source gave {value!r} where a text was expected")
    return value


def _kinds(answers: Sequence[Answer]) -> str:
    return ", ".join("nothing" if isinstance(answer, Done) else type(answer).__name__ for answer in answers)
