"""Values that are equal and are spelled otherwise: 'a' and 'A' by most collations, 0.0 and -0.0.

Where MySQL shows one value for several rows (GROUP BY, DISTINCT, MIN, MAX), it shows that of the row which it reads
first. Its plan says which row that is; the plan of a fill need not be the plan of the client's text. So where rows of
one group are spelled otherwise, the answer is MySQL's own to give.
"""

from __future__ import annotations

from sqltypes.errors import EvaluationError
from sqltypes.expression import Value
from sqltypes.schema import SqlType

SPELLINGS = "rows that MySQL takes for one are spelled otherwise: which stands for all is its choice"


def shows_as_is(type_: SqlType) -> bool:
    """Whether equal values of the type are the same value."""
    if type_.name in ("enum", "set"):
        return True
    return not type_.is_approximate and (not type_.is_string or type_.collation in (None, "utf8mb4_0900_bin"))


def one_spelling(value: Value, one: Value) -> Value:
    """The value, if all rows that it stands for spell it so: `one` is not 0."""
    if not one:
        raise EvaluationError(SPELLINGS)
    return value
