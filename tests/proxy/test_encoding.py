"""For which columns rows are encoded, as MySQL announces now these and now those."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataflow.entries import Held
from dataflow.reader import ReaderNode
from proxy.encoding import OTHER_FORMS, OTHER_TYPES, Encoding, carried
from sqltypes.errors import InvariantViolated
from sqltypes.schema import ResultColumn, SqlType

YEAR, INT, TEXT = SqlType("year"), SqlType("int"), SqlType("text", collation="latin1_swedish_ci")


def columns(*types: SqlType) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(f"c{number}", type_, True) for number, type_ in enumerate(types))


def encoding(*types: SqlType, maintained: bool) -> tuple[Encoding, Any]:
    reader: Any = SimpleNamespace(entries={}, encoders=[], on_columns=None)
    names = [lambda of: lambda rows: ",".join(column.type.name for column in of).encode()] * 2
    held = carried(types) if maintained else None
    return Encoding(cast(ReaderNode, reader), columns(*types), held, names), reader


def test_rows_are_encoded_for_the_columns_that_a_client_was_told() -> None:
    made, reader = encoding(YEAR, maintained=True)
    held = Held(reader, 7)
    held.bodies = [b"other", b"stored"]
    reader.entries[7] = held
    assert made.learn(1, columns(INT), "int") == ""
    assert (reader.encoders[0]([]), reader.encoders[1]([])) == (b"year", b"int")
    assert held.bodies is None, "stored for other columns"
    assert made.learn(1, columns(INT), "int") == ""
    assert made.learn(1, columns(YEAR), "year") == OTHER_FORMS


def test_values_are_not_written_as_other_types() -> None:
    made, _ = encoding(SqlType("decimal", scale=2), maintained=True)
    for other in (SqlType("decimal", scale=4), INT, TEXT):
        assert made.learn(1, columns(other), "another") == OTHER_TYPES
    assert made.learn(1, columns(SqlType("decimal", precision=30, scale=2)), "decimal") == ""


def test_what_is_held_as_it_came_has_the_types_of_the_answer() -> None:
    made, reader = encoding(SqlType("bit", length=9), TEXT, maintained=False)
    assert made.learn(1, columns(SqlType("varbinary"), TEXT), "bytes") == ""
    reader.on_columns(columns(INT, SqlType("mediumtext", collation="utf8mb4_0900_ai_ci")))
    assert reader.encoders[0]([]) == b"int,mediumtext"
    assert [column.type for column in made.columns] == [INT, TEXT], "strings in their own collation"
    with pytest.raises(InvariantViolated):
        reader.encoders[1]([])
    with pytest.raises(InvariantViolated):
        reader.on_columns(columns(SqlType("double"), TEXT))


def test_columns_are_told_as_mysql_told_them_with_an_answer() -> None:
    made, reader = encoding(YEAR, maintained=True)
    made.learn(1, columns(YEAR), "year")
    made.on_own_answer(columns(INT))
    assert made.columns == columns(INT)
    assert (reader.encoders[0]([]), reader.encoders[1]([])) == (b"int", b"year")
    made.on_own_answer(columns(SqlType("double")))
    made.on_own_answer(columns(INT, INT))
    assert made.columns == columns(INT)
