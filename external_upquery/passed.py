"""A client's own statement, sent to the source as it is, with what the source had executed just before.

The reading stands in the same round trip before the transaction, so all of it is visible to the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from external_upquery.protocol import Answer, ResultSet, query
from external_upquery.snapshot import COMMIT, LOWER
from gtid_tracker.gtid import GtidSet
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn

READ_ONLY = query("START TRANSACTION READ ONLY")


@dataclass(frozen=True, slots=True)
class Passed:
    """What came of a statement: no columns where it gives no rows. `executed`: gtid_executed before it, as MySQL writes
    it."""

    columns: tuple[ResultColumn, ...]
    rows: list[Row]
    executed: str


def commands(sql: str, after: GtidSet | None = None, patience: float = 0.0) -> tuple[bytes, ...]:
    """What is to be sent. `after`: MySQL waits until it has executed that, `patience` seconds at most."""
    sent = (LOWER, READ_ONLY, query(sql), COMMIT)
    if after is None:
        return sent
    seconds = max(patience, 0.001)  # with 0 MySQL waits without end
    return (query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{after}', {seconds:.3f})"), *sent)


def passed(answers: Sequence[Answer]) -> Passed:
    """What the answers to `commands` say. Requires: none is an error."""
    before, _, answer, _ = answers[-4:]
    assert isinstance(before, ResultSet), "a variable has a value"
    executed = str(before.rows[0][0])
    if isinstance(answer, ResultSet):
        return Passed(answer.layout.result_columns(), answer.rows, executed)
    return Passed((), [], executed)
