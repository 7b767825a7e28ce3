"""The bracket of an upquery that vtgate answers from several shards. Pure.

    BEGIN
    USE `keyspace:shard`; U, X       for each shard
    USE `keyspace`
    statements
    USE `keyspace:shard`; U, O, X    for each shard
    COMMIT

In a transaction vtgate keeps one connection of each shard, to which `USE keyspace:shard` leads, too. So of each shard
the order is that of a bracket on MySQL (`snapshot.py`): X before the first row is read, which opens the snapshot there;
O and X behind it. Each shard's MySQL has GTIDs of its own (U is its UUID). So the union of what the shards say is a
bracket: the lower bound of each shard's snapshot, and what may be in it beyond that. What vtgate makes of the shards'
rows is a function of one snapshot of each. (Across shards there is no one moment, in no transaction of Vitess'.)
Outside of a transaction a tablet may hand over what another session has been answered before: there is no bracket then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.messages import Statement
from external_upquery.protocol import Answer, ResultSet, query
from external_upquery.snapshot import COMMIT, UPPER
from gtid_tracker.bracket import Bracket, history_of
from gtid_tracker.gtid import GtidSet, parse_owned
from sqltypes.errors import SourceDown, SourceError

BEGIN = query("BEGIN")
LOWER = query("SELECT @@server_uuid, @@global.gtid_executed")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send: `packets` of `count` commands. Indices of answers: `rows`: of each statement; `lowers`, `uppers`:
    of each of the `shards`."""

    packets: bytes
    count: int
    keyspace: str
    shards: tuple[str, ...]
    rows: tuple[int, ...]
    lowers: tuple[int, ...]
    uppers: tuple[int, ...]


def plan(statements: Sequence[Statement], keyspace: str, shards: Sequence[str]) -> Plan:
    """`shards`: those that may answer, at least one."""
    packets = [BEGIN]
    lowers = _on_each(packets, keyspace, shards, LOWER)
    packets.append(_use(keyspace))
    rows = []
    for statement in statements:
        packets += map(query, statement.before)
        rows.append(len(packets))
        packets.append(query(statement.sql))
        packets += map(query, statement.after)
    uppers = _on_each(packets, keyspace, shards, UPPER)
    packets += _use(keyspace), COMMIT
    return Plan(b"".join(packets), len(packets), keyspace, tuple(shards), tuple(rows), lowers, uppers)


def _on_each(packets: list[bytes], keyspace: str, shards: Sequence[str], command: bytes) -> tuple[int, ...]:
    """The indices of the answers."""
    found = []
    for shard in shards:
        packets.append(_use(f"{keyspace}:{shard}"))
        found.append(len(packets))
        packets.append(command)
    return tuple(found)


def _use(target: str) -> bytes:
    return query(f"USE `{target.replace('`', '``')}`")


def read(plan: Plan, answers: Sequence[Answer]) -> tuple[Bracket, tuple[ResultSet, ...]] | SourceError | SourceDown:
    """The bracket and what each statement gave, or the first error."""
    for answer in answers:
        if isinstance(answer, SourceError):
            return answer
    rows = [answers[at] for at in plan.rows]
    results = tuple([one for one in rows if isinstance(one, ResultSet)])
    if len(results) != len(rows):
        return SourceDown("a statement of an upquery gave no rows")
    lower = owned = executed = GtidSet.empty()
    try:
        for shard, first, last in zip(plan.shards, plan.lowers, plan.uppers, strict=True):
            before, had = _row(answers[first])
            after, has, now = _row(answers[last])
            if before != after:  # the tablet's MySQL was exchanged in between
                return SourceDown(f"shard {shard} was answered by {before}, and then by {after}")
            lower = lower.union(GtidSet.parse(had))
            owned = owned.union(parse_owned(has))
            executed = executed.union(GtidSet.parse(now))
    except (ValueError, TypeError) as error:
        return SourceDown(f"a shard's position cannot be read: {error}")
    return Bracket(history_of(plan.keyspace), lower, owned, executed), results


def _row(answer: Answer) -> list[str]:
    if not isinstance(answer, ResultSet) or len(answer.rows) != 1:
        raise ValueError("no position")
    return [str(value) for value in answer.rows[0]]
