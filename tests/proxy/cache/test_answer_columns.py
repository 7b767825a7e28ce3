"""For which columns rows are encoded, as MySQL announces now these and now those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataflow.entries import Held
from dataflow.held.arrangement import Memory
from dataflow.readers.encodings import Encodings
from dataflow.readers.reader import ReaderNode
from proxy.cache.answer_columns import OTHER_FORMS, OTHER_TYPES, Encoding, carried
from proxy.port.api import EncoderFor
from sqltypes.errors import OtherTypes
from sqltypes.expression import Key
from sqltypes.schema import ResultColumn, SqlType
from tests.support.engine_rig import ROWS, Rig, gtids

YEAR, INT, TEXT = SqlType("year"), SqlType("int"), SqlType("text", collation="latin1_swedish_ci")


def columns(*types: SqlType) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(f"c{number}", type_, True) for number, type_ in enumerate(types))


def encoding(*types: SqlType, maintained: bool) -> tuple[Encoding, Any]:
    reader: Any = SimpleNamespace(
        entries={}, encodings=Encodings(Memory()), listed=[], on_columns=None, memory=Memory()
    )
    names = [lambda of: lambda rows: ",".join(column.type.name for column in of).encode()] * 2
    held = carried(types) if maintained else None
    return Encoding(cast(ReaderNode, reader), columns(*types), held, names), reader


def test_rows_are_encoded_for_the_columns_that_a_client_was_told() -> None:
    made, reader = encoding(YEAR, maintained=True)
    held = Held(reader, 7)
    held.renew()
    held.bodies = [b"other", b"stored"]
    reader.entries[7] = held
    reader.encodings.encoded[1].add(7)
    assert made.learn(1, columns(INT), "int") == ""
    assert (reader.encodings.encoders[0]([]), reader.encodings.encoders[1]([])) == (b"year", b"int")
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
    assert reader.encodings.encoders[0]([]) == b"int,mediumtext"
    assert [column.type for column in made.columns] == [INT, TEXT], "strings in their own collation"
    with pytest.raises(OtherTypes):
        reader.encodings.encoders[1]([])
    with pytest.raises(OtherTypes):
        reader.on_columns(columns(SqlType("double"), TEXT))


def test_columns_are_told_as_mysql_told_them_with_an_answer() -> None:
    made, reader = encoding(YEAR, maintained=True)
    made.learn(1, columns(YEAR), "year")
    made.on_own_answer(columns(INT))
    assert made.columns == columns(INT)
    assert (reader.encodings.encoders[0]([]), reader.encodings.encoders[1]([])) == (b"int", b"year")
    made.on_own_answer(columns(SqlType("double")))
    made.on_own_answer(columns(INT, INT))
    assert made.columns == columns(INT)


class Walked(dict[Key, Held]):
    """Counts what is looked at one after the other."""

    walked = 0

    def __iter__(self) -> Iterator[Key]:
        for key in super().__iter__():
            self.walked += 1
            yield key

    def values(self) -> Any:
        return [self[key] for key in self]


def held_by_many(keys: int) -> tuple[Rig, Encoding, Walked]:
    """A maintained reader that holds so many keys, each with one row."""
    rig = Rig(ROWS)
    reader = rig.readers[0]
    reader.entries = Walked()
    formats = [lambda of: lambda rows: (",".join(column.type.name for column in of) + repr(rows)).encode()] * 2
    made = Encoding(reader, columns(INT, YEAR), carried((INT, YEAR)), formats)
    for key in range(keys):
        rig.read(key)
    while rig.engine.reads.pending:
        for request in rig.asked():
            filled = rig.engine.fills.by_number[request.id].whole
            rig.answer(request, [(key, key, 2000) for key in filled], lower=gtids(1))
    return rig, made, reader.entries


def hits(rig: Rig, keys: Iterable[int], format_: int) -> list[bytes | None]:
    reader = rig.readers[0]
    return [reader.body(reader.entries[key], (key,), format_) for key in keys]


def test_a_format_is_learned_without_a_look_at_all_keys() -> None:
    """A million keys took 89 ms, in one step."""
    rig, made, entries = held_by_many(300)
    assert hits(rig, range(5, 305 - 5), 0)[0] == b"int,year[(5, 2000)]"
    assert hits(rig, (7, 8), 1) == [b"int,year[(7, 2000)]", b"int,year[(8, 2000)]"]
    entries.walked = 0
    assert made.learn(1, columns(INT, INT), "ints") == ""
    assert entries.walked == 0
    assert hits(rig, (7, 8, 9), 1) == [b"int,int[(%d, 2000)]" % key for key in (7, 8, 9)]
    assert hits(rig, (7, 9), 0) == [b"int,year[(%d, 2000)]" % key for key in (7, 9)], "the other one's columns stay"
    rig.engine.check_invariants()


def test_what_a_client_was_told_first_stays() -> None:
    """MySQL's announcements may alternate: each made all encodings of all keys anew."""
    rig, made, entries = held_by_many(10)
    before = hits(rig, range(10), 0)
    made.on_own_answer(columns(INT, INT))
    assert hits(rig, (3,), 0) == [b"int,int[(3, 2000)]"]
    kept = [entries[key].bodies for key in range(10)]
    for types in ((INT, YEAR), (INT, INT)) * 3:
        made.on_own_answer(columns(*types))
    assert [entries[key].bodies for key in range(10)] == kept and before != hits(rig, range(10), 0)
    assert made.columns == columns(INT, INT) and entries.walked == 0
    made.learn(0, columns(INT, INT), "ints")
    assert entries[3].bodies is kept[3], "the same columns: what is stored stays"


def test_columns_that_are_told_late_do_not_encode_many_keys_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("dataflow.readers.encodings", "proxy.cache.answer_columns"):
        monkeypatch.setattr(f"{module}.MOST_ENCODED", 20)
    for keys, told in ((20, INT), (21, YEAR), (30, YEAR)):
        rig, made, entries = held_by_many(keys)
        hits(rig, range(keys), 0)
        made.on_own_answer(columns(INT, INT))
        assert made.columns == columns(INT, told) and entries.walked == 0
        assert len(rig.readers[0].encodings.encoded[0]) <= 21
    assert made.learn(0, columns(INT, INT), "ints") == "", "a client must be told them: then all are looked at"
    assert hits(rig, range(keys), 0) == [b"int,int[(%d, 2000)]" % key for key in range(keys)]


def test_an_answer_that_is_being_encoded_meanwhile_is_not_stored() -> None:
    """A large answer is encoded in several steps, by the encoder that was there at the first."""
    rig, made, entries = held_by_many(3)
    reader = rig.readers[0]
    hits(rig, (1,), 1)
    held, version = entries[1], entries[1].version
    reader.encodings.note(held, 0)
    made.learn(0, columns(INT, INT), "ints")
    assert version is not None and held.version is None, "what is encoded now is for other columns"
    assert reader.link(held, (1,)) and held.version not in (None, version), "also where it is linked again at once"


def test_a_format_that_comes_later_gets_a_place_and_tells_instants_as_planned() -> None:
    formats: list[EncoderFor] = [lambda found: lambda rows: ",".join(c.type.name for c in found).encode()]
    reader: Any = SimpleNamespace(entries={}, encodings=Encodings(Memory()), listed=[{}], on_columns=None)
    made = Encoding(cast(ReaderNode, reader), columns(SqlType("timestamp"), SqlType("datetime")), None, formats)
    formats *= 3
    made.provide(2)
    made.provide(1)
    assert (len(reader.encodings.encoders), sorted(reader.encodings.encoded), len(reader.listed)) == (3, [0, 1, 2], 3)
    assert made.learn(2, columns(SqlType("datetime"), SqlType("timestamp")), "forms") == ""
    assert [encode([]) for encode in reader.encodings.encoders] == [b"timestamp,datetime"] * 3
