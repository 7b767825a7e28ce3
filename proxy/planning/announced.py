"""MySQL's announcement for a client's own text, and its refusals."""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Sequence

from planner.text.hints import with_whole_groups
from planner.text.scan import preparable
from proxy.source.source import Upqueries
from sqltypes.errors import DeadlinePassed, SourceError, UnsupportedQuery
from sqltypes.schema import ResultColumn

ORDER_OF_DISTINCT = 3065  # MySQL's error
PATIENCE = 10.0  # seconds in which MySQL prepares a text: it does not while a table is locked, or DDL waits for one


async def described(executor: Upqueries, sql: str, database: str, tables: Sequence[str]) -> tuple[ResultColumn, ...]:
    """The columns of a SELECT's answers. `tables`: that it reads. Raises as `Executor.describe`, and UnsupportedQuery
    where the query, under the sql_mode that it sets, leaves to MySQL which row it shows. (Which comes first, the
    planner has seen to.)"""
    deadline = get_running_loop().time() + PATIENCE
    try:
        columns, _ = await executor.describe(preparable(sql), database, deadline=deadline, tables=tables)
        whole = with_whole_groups(sql)
        if whole is not None:
            await _check_groups(executor, whole, database, deadline, tables)
    except DeadlinePassed:
        what = f"MySQL has not prepared the query within {PATIENCE:g} s"
        raise DeadlinePassed(f"{what}: a table is locked, a DDL statement waits for one, or MySQL is busy") from None
    return columns


async def _check_groups(executor: Upqueries, whole: str, database: str, deadline: float, tables: Sequence[str]) -> None:
    """Raises UnsupportedQuery where MySQL refuses the text with whole groups."""
    try:
        await executor.describe(preparable(whole), database, deadline=deadline, tables=tables)
    except SourceError as error:
        if error.errno != ORDER_OF_DISTINCT:
            raise UnsupportedQuery("any_row", error.message) from None
