"""A client's own statement, sent to the source as it is, between two readings of what the source had executed.

All three go in one round trip. The statement sees everything in the first reading. Everything that it sees is in the
second reading, or was owned when that was made (`gtid_tracker/bracket.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from external_upquery.protocol import Answer, ResultSet, query
from external_upquery.snapshot import COMMIT, LOWER, UPPER
from gtid_tracker.gtid import GtidSet, parse_owned
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn

READ_ONLY = query("START TRANSACTION READ ONLY")


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of a statement; no columns if it gives no rows. `executed`: gtid_executed before it, as MySQL writes
    it. `horizon`: all that may be visible to it, where that may be more."""

    columns: tuple[ResultColumn, ...]
    rows: list[Row]
    executed: str
    horizon: str = ""


def commands(sql: str, after: GtidSet | None = None, patience: float = 0.0) -> tuple[bytes, ...]:
    """What is to be sent. `after`: MySQL waits until it has executed that, `patience` seconds at most."""
    sent = (LOWER, READ_ONLY, query(sql), COMMIT, UPPER)
    if after is None:
        return sent
    seconds = max(patience, 0.001)  # with 0 MySQL waits without end
    return (query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{after}', {seconds:.3f})"), *sent)


def passed(answers: Sequence[Answer]) -> Passed:
    """What the answers to `commands` say. Requires: none is an error."""
    before, _, answer, _, after = answers[-5:]
    assert isinstance(before, ResultSet) and isinstance(after, ResultSet), "a variable has a value"
    executed = str(before.rows[0][0])
    _, owned, later = after.rows[0]
    horizon = ""
    if owned or later != executed:
        horizon = str(GtidSet.parse(str(later)).union(parse_owned(str(owned)) if owned else GtidSet.empty()))
    if isinstance(answer, ResultSet):
        return Passed(answer.layout.result_columns, answer.rows, executed, horizon)
    return Passed((), [], executed, horizon)
