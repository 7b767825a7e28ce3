"""The columns of a statement's answers, as vtgate and a shard announce them. Pure.

vtgate prepares a statement by its own plan. So it announces extra columns at the end that no answer has: those by which
it sorts. And it tells no lengths of values that it computes itself. A shard's MySQL prepares the same text and knows
both. The types are vtgate's: it computes some values differently from MySQL.

vtgate prepares some statements and refuses them later, when it plans them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymysql.constants import FLAG

from external_upquery import snapshot
from external_upquery.columns import RawColumn
from external_upquery.dialect import Describing
from external_upquery.protocol import Answer, Prepared, query
from external_upquery.vitess.snapshot import use
from sqltypes.errors import SourceError

PLANNED = "VEXPLAIN PLAN "


def describing(sql: str, keyspace: str, shard: str) -> Describing:
    packets, at = snapshot.describing(sql)
    own = (use(keyspace), *packets, query(PLANNED + sql))
    commands = (*own, use(f"{keyspace}:{shard}"), *packets, use(keyspace))
    at_both = (1 + at, len(own) + 1 + at)
    return Describing(b"".join(commands), len(commands), at_both, (shard,), restoring=1)


def described(sending: Describing, answers: Sequence[Answer]) -> Prepared | SourceError:
    """As `Dialect.described`."""
    own, shards = (answers[at] for at in sending.prepared)
    for answer in answers[: len(answers) // 2]:  # of vtgate itself; the other half is the shard's
        if isinstance(answer, SourceError):
            return answer
    assert isinstance(own, Prepared)
    if not isinstance(shards, Prepared) or len(shards.columns) > len(own.columns):
        return own  # a text that means something else there, or nothing
    columns = tuple(map(_of_both, own.columns, shards.columns))
    return Prepared(own.statement_id, columns, own.parameters)


def _of_both(vtgate: RawColumn, shard: RawColumn) -> RawColumn:
    same = (vtgate.code, vtgate.flags & FLAG.UNSIGNED) == (shard.code, shard.flags & FLAG.UNSIGNED)
    return shard if same else vtgate
