"""The bracket of an upquery that vtgate answers from several shards. Pure.

    BEGIN
    USE `keyspace:shard`; U, X       for each shard
    USE `keyspace`
    looks, statements, checks, looks
    USE `keyspace:shard`; U, O, X    for each shard
    USE `keyspace`
    COMMIT

In a transaction vtgate keeps one connection of each shard, to which `USE keyspace:shard` leads, too. So of each shard
the order is that of a bracket on MySQL (`snapshot.py`): X before the first row is read, which opens the snapshot there;
O and X behind it. Each shard's MySQL has GTIDs of its own (U is its UUID). So the union of what the shards say is a
bracket: the lower bound of each shard's snapshot, and what may be in it beyond that. What vtgate makes of the shards'
rows is a function of one snapshot of each. (Across shards there is no one moment, in no transaction of Vitess'.)
The looks are questions about the VSchema (`vitess/routes.py`), which vtgate answers itself.
Outside of a transaction a tablet may hand over what another session has been answered before: there is no bracket then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.messages import Statement
from external_upquery.protocol import Answer, ResultSet, query
from external_upquery.snapshot import COMMIT, UPPER, add
from external_upquery.vitess.route_check import NO_LOOKS, Looks
from gtid_tracker.bracket import NOTHING, Bracket, history_of
from gtid_tracker.gtid import GtidSet, parse_owned
from sqltypes.errors import SourceDown, SourceError

BEGIN = query("BEGIN")
LOWER = query("SELECT @@server_uuid, @@global.gtid_executed")
RESTORING = 2  # USE and COMMIT at the end: what is refused there is the next job's transaction, or a shard


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send: `packets` of `count` commands. Indices of answers: `rows`: of each statement; `lowers`, `uppers`:
    of each of the `shards`; `checks`: of each check; `looks`: of each look, before the statements and behind the
    checks. `whole`: there are no other shards."""

    packets: bytes
    count: int
    keyspace: str
    shards: tuple[str, ...]
    rows: tuple[int, ...]
    lowers: tuple[int, ...]
    uppers: tuple[int, ...]
    checks: tuple[int, ...] = ()
    whole: bool = True
    looked: Looks = NO_LOOKS
    looks: tuple[int, ...] = ()
    statements: tuple[Statement, ...] = ()
    restoring: int = RESTORING


def plan(
    statements: Sequence[Statement],
    keyspace: str,
    shards: Sequence[str],
    checks: Sequence[Statement] = (),
    *,
    whole: bool = True,
    database: str = "",
    looks: Looks = NO_LOOKS,
) -> Plan:
    """`shards`: those that may answer the statements, at least one; the checks, where there are no statements.
    `database`: which the connection has selected, and the statements are about; "" is the keyspace."""
    assert shards, "what no shard is asked for has no bracket"
    packets = [BEGIN]
    lowers = _on_each(packets, keyspace, shards, LOWER)
    packets.append(use(database or keyspace))
    first = _added(packets, looks.commands)
    rows, of_checks = add(packets, statements), add(packets, checks)
    seen = (*first, *_added(packets, looks.commands))
    uppers = _on_each(packets, keyspace, shards, UPPER)
    packets += use(database or keyspace), COMMIT
    at = (rows, lowers, uppers, of_checks)
    return Plan(b"".join(packets), len(packets), keyspace, tuple(shards), *at, whole, looks, seen, tuple(statements))


def _added(packets: list[bytes], commands: Sequence[bytes]) -> range:
    """The indices of their answers."""
    first = len(packets)
    packets += commands
    return range(first, len(packets))


def _on_each(packets: list[bytes], keyspace: str, shards: Sequence[str], command: bytes) -> tuple[int, ...]:
    """The indices of the answers."""
    found = []
    for shard in shards:
        packets.append(use(f"{keyspace}:{shard}"))
        found.append(len(packets))
        packets.append(command)
    return tuple(found)


def use(target: str) -> bytes:
    """The command that selects a keyspace, or `keyspace:shard`."""
    return query(f"USE `{target.replace('`', '``')}`")


def read(plan: Plan, answers: Sequence[Answer]) -> tuple[Bracket, tuple[ResultSet, ...]] | SourceError | SourceDown:
    """The bracket and what each statement gave, or the first error that is not a check's."""
    for at in plan.rows:
        if isinstance(error := answers[at], SourceError):
            return error
    for at, answer in enumerate(answers):
        if isinstance(answer, SourceError) and at not in plan.checks and at not in plan.looks:
            return SourceDown(f"a shard cannot be asked: {answer.message}")
    rows = [answers[at] for at in plan.rows]
    results = tuple([one for one in rows if isinstance(one, ResultSet)])
    if len(results) != len(rows):
        return SourceDown("a statement of an upquery gave no rows")
    try:
        return bracket_of(plan, answers), results
    except (ValueError, TypeError) as error:
        return SourceDown(f"a shard's position cannot be read: {error}")


def bracket_of(plan: Plan, answers: Sequence[Answer]) -> Bracket:
    """Raises ValueError, TypeError: a shard has told no position, or its MySQL was exchanged in between."""
    lower = owned = executed = NOTHING
    for shard, first, last in zip(plan.shards, plan.lowers, plan.uppers, strict=True):
        before, had = _row(answers[first])
        after, has, now = _row(answers[last])
        if before != after:
            raise ValueError(f"shard {shard} was answered by {before}, and then by {after}")
        lower = lower.union(GtidSet.parse(had))
        owned = owned.union(parse_owned(has))
        executed = executed.union(GtidSet.parse(now))
    if executed == lower:
        executed = lower  # at rest both are the same object
    return Bracket(history_of(plan.keyspace), lower, owned, executed)


def of_some(bracket: Bracket, position: GtidSet) -> Bracket:
    """The bracket of an answer that not all shards gave. `position`: what the stream has brought by now."""
    asked = position.of_servers(bracket.lower, bracket.owned, bracket.executed)
    others = position.difference(asked)
    return Bracket(bracket.history, bracket.lower, bracket.owned, bracket.executed, others)


def spoiled(plan: Plan, answers: Sequence[Answer]) -> SourceError | None:
    """Why the last statement's rows are not the keyspace's: where a USE is refused, a shard was asked."""
    for answer in answers[plan.lowers[-1] + 1 : plan.rows[-1] + 1]:
        if isinstance(answer, SourceError):
            return answer
    return None


def positions(keyspace: str, shards: Sequence[str]) -> list[bytes]:
    """Commands that ask each shard what it owns and has executed. They go in a transaction: outside of one, vtgate
    could hand over an answer that another session was given before."""
    packets = [BEGIN]
    _on_each(packets, keyspace, shards, UPPER)
    return [*packets, use(keyspace), COMMIT]


def positioned(answers: Sequence[Answer]) -> tuple[GtidSet, GtidSet]:
    """The owned and the executed GTIDs, from the answers to `positions`. Raises SourceDown."""
    owned = executed = NOTHING
    try:
        for answer in answers[2:-2:2]:
            _, has, now = _row(answer)
            owned, executed = owned.union(parse_owned(has)), executed.union(GtidSet.parse(now))
    except (ValueError, TypeError) as error:
        raise SourceDown(f"a shard's position cannot be read: {error}") from error
    return owned, executed


def _row(answer: Answer) -> list[str]:
    if not isinstance(answer, ResultSet) or len(answer.rows) != 1:
        raise ValueError("no position")
    return [str(value) for value in answer.rows[0]]
