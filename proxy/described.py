"""What MySQL announces for a client's own text, and what it refuses of it."""

from __future__ import annotations

from planner.hints import with_whole_groups
from planner.scan import preparable
from proxy.source import Upqueries
from sqltypes.errors import SourceError, UnsupportedQuery
from sqltypes.schema import ResultColumn

ORDER_OF_DISTINCT = 3065  # MySQL's error


async def described(executor: Upqueries, sql: str, database: str) -> tuple[ResultColumn, ...]:
    """The columns of a SELECT's answers. Raises as `Executor.describe`, and UnsupportedQuery where the query, under the
    sql_mode that it sets, leaves to MySQL which row it shows. (Which comes first, the planner has seen to.)"""
    columns, _ = await executor.describe(preparable(sql), database)
    whole = with_whole_groups(sql)
    if whole is not None:
        try:
            await executor.describe(preparable(whole), database)
        except SourceError as error:
            if error.errno != ORDER_OF_DISTINCT:
                raise UnsupportedQuery("any_row", error.message) from None
    return columns
