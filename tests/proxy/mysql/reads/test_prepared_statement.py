"""The parameters of executions of prepared statements, as each kind of client writes them."""

from __future__ import annotations

import random
import struct

import pytest

from proxy.mysql.reads.prepared_statement import (
    MOST_PARAMETERS,
    PARAMETER_COUNT,
    RANKS,
    REAL,
    TEXTS,
    PreparedStatement,
    _places,
    _turned,
    read_types,
)
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import PINNED_VALUES
from proxy.mysql.state.sql_modes import marks_of
from proxy.mysql.wire.bound_values import NotDecoded
from proxy.mysql.wire.packets import COM_STMT_EXECUTE, Malformed, lenenc, packet
from sqltypes.expression import Value

LONGLONG, STRING = 0x08, 0xFD


def execution(*, flags: int, counted: bool, nulls: int = 0) -> bytes:
    """The payload of an execution with two parameters, 7 and 'x', those whose bit is in `nulls` left out."""
    named = b"\0" if counted else b""
    parts = [struct.pack("<BIBI", COM_STMT_EXECUTE, 1, flags, 1), b"\x02" if counted else b"", bytes((nulls, 1))]
    parts += [struct.pack("<H", type_) + named for type_ in (LONGLONG, STRING)]
    parts += [] if nulls & 1 else [struct.pack("<q", 7)]
    parts += [] if nulls & 2 else [lenenc(b"x")]
    return b"".join(parts)


def statement(parameters: int, *, attributes: bool) -> PreparedStatement:
    answer = b"\0" + struct.pack("<IHHxH", 1, 0, parameters, 0)
    return PreparedStatement(b"SELECT ?, ?", "shop", [answer], attributes=attributes)


@pytest.mark.parametrize("flags", [0, PARAMETER_COUNT], ids=["no flag", "flag"])
@pytest.mark.parametrize(("nulls", "expected"), [(0, (7, "x")), (1, (None, "x")), (2, (7, None)), (3, (None, None))])
def test_parameters_of_a_session_with_query_attributes_are_counted_and_named_whatever_the_flag_says(
    flags: int, nulls: int, expected: tuple[Value, ...]
) -> None:
    assert statement(2, attributes=True).values(execution(flags=flags, counted=True, nulls=nulls)) == expected


@pytest.mark.parametrize("flags", [0, PARAMETER_COUNT], ids=["no flag", "flag"])
def test_parameters_of_a_session_without_query_attributes_are_never_counted(flags: int) -> None:
    assert statement(2, attributes=False).values(execution(flags=flags, counted=False)) == (7, "x")


def test_types_that_were_bound_once_hold_for_the_next_execution() -> None:
    bound = statement(2, attributes=True)
    with pytest.raises(NotDecoded, match="never sent"):
        bound.values(bare_execution())
    bound.note_types(execution(flags=0, counted=True))
    assert bound.values(bare_execution()) == (8, "y")


def bare_execution() -> bytes:
    """Counted, without types: 8 and 'y'."""
    return struct.pack("<BIBI", COM_STMT_EXECUTE, 1, 0, 1) + b"\x02\0\0" + struct.pack("<q", 8) + lenenc(b"y")


@pytest.mark.parametrize("size", [9, 12, 13])
def test_an_execution_that_is_cut_off_goes_to_mysql_as_it_is(size: int) -> None:
    bound = statement(2, attributes=True)
    bound.note_types(execution(flags=0, counted=True))
    cut_off = packet(bare_execution(), 0)[:size]
    assert bound.for_mysql(cut_off) == cut_off


def test_statement_without_parameters_may_still_bring_attributes_which_are_no_parameters() -> None:
    fixed = struct.pack("<BIBI", COM_STMT_EXECUTE, 1, PARAMETER_COUNT, 1)
    attribute = fixed + b"\x01\0\x01" + struct.pack("<H", STRING) + lenenc(b"trace") + lenenc(b"1")
    assert statement(0, attributes=True).values(attribute) == ()
    assert statement(0, attributes=True).values(fixed + b"\0") == ()
    assert statement(0, attributes=True).values(struct.pack("<BIBI", COM_STMT_EXECUTE, 1, 0, 1)) == ()


def test_types_of_many_parameters_are_read_as_those_of_one_after_the_other() -> None:
    rng = random.Random(3)
    kinds = [0x08, 0x03, 0xFD, 0x05, 0x06, 0x0C, 0x8008, 0x8003]
    for count in (0, 1, 2, 7, 300):
        types = tuple(rng.choices(kinds, k=count))
        plain = b"".join(type_.to_bytes(2, "little") for type_ in types)
        assert read_types(b"ab" + plain + b"rest", 2, count, named=False) == (types, 2 + 2 * count)
        for names in ([b""] * count, [rng.choice([b"", b"a", b"name"]) for _ in range(count)]):
            named = b"".join(
                type_.to_bytes(2, "little") + bytes([len(name)]) + name
                for type_, name in zip(types, names, strict=True)
            )
            assert read_types(b"ab" + named, 2, count, named=True) == (types, 2 + len(named))
            for cut in range(max(0, len(named) - 3), len(named)):
                with pytest.raises(Malformed):
                    read_types(b"ab" + named[:cut], 2, count, named=True)


def test_what_mysql_goes_on_comparing_by_is_the_same_however_many_parameters_there_are() -> None:
    rng = random.Random(4)
    kinds = [0x08, 0x03, 0xFD, 0x05, 0xF6, 0x06, 0x0C, 0x0B, 0x8008, 0xFE]
    for _ in range(300):
        types = tuple(rng.choices(rng.sample(kinds, rng.randrange(1, 4)), k=rng.randrange(1, 9)))
        ranks = tuple(rng.choice((0, 1, REAL)) for _ in types)
        naive = ranks
        if not all(RANKS.get(type_, 0) <= rank for type_, rank in zip(types, ranks, strict=True)):
            naive = tuple(REAL if type_ & 0xFF in TEXTS else RANKS.get(type_, 0) for type_ in types)
        assert _turned(ranks, types) == naive
        assert _places(types, {0x08, 0xFD}) == {at for at, type_ in enumerate(types) if type_ in (0x08, 0xFD)}
        assert _places(types, set()) == frozenset()


def test_what_differs_where_mysql_executes_it_counts_from_then_on() -> None:
    """It prepares the statement again where a table has changed, by the settings of the execution."""
    quoted = PreparedStatement(b'SELECT "a"', "shop", [b"\0" + struct.pack("<IHHxH", 1, 0, 0, 0)], attributes=False)
    others = "NO_ZERO_DATE,NO_ZERO_IN_DATE,STRICT_ALL_TABLES"
    for other, misread, differed in (
        ({}, False, set()),
        ({"time_zone": "+05:00"}, False, {"time_zone"}),
        ({"sql_mode": f"ANSI_QUOTES,{others}"}, True, {"time_zone"}),
        ({}, True, {"time_zone"}),
    ):
        values = {**PINNED_VALUES, **other}
        quoted.note_session(SessionState(values=values, marks=marks_of(values["sql_mode"])))
        assert quoted.misread == misread and quoted.differed == differed


@pytest.mark.parametrize(("more", "noted"), [(0, True), (1, False)])
def test_of_more_parameters_than_a_cache_may_have_the_types_alone_are_noted(more: int, noted: bool) -> None:
    """None of its executions is a hit. The sets of 20,000 parameters took 7 ms for each execution."""
    count = MOST_PARAMETERS + more
    made = statement(count, attributes=False)
    made._note_bound((0x08,) * count)
    assert made.types == (0x08,) * count
    assert (len(made.numbers) == count) == noted


def of_two(types: tuple[int, int], first: bytes, second: bytes) -> bytes:
    """The payload of an execution of two parameters with these types."""
    return struct.pack("<BIBI", COM_STMT_EXECUTE, 1, 0, 1) + b"\0\1" + struct.pack("<HH", *types) + first + second


def test_a_negative_number_of_a_list_is_looked_at_where_others_than_whole_ones_were_bound() -> None:
    bound = statement(2, attributes=False)
    negative = packet(of_two((LONGLONG, LONGLONG), struct.pack("<q", 5), struct.pack("<q", -1)), 0)
    bound.note_types(negative[4:])
    assert bound.longs(negative, 2) == (5, -1)
    bound.note_types(of_two((0xF6, LONGLONG), lenenc(b"7.0"), struct.pack("<q", 7)))
    bound.note_types(of_two((LONGLONG, LONGLONG), struct.pack("<q", 5), struct.pack("<q", 7)))
    assert bound.longs(negative, 2) is None
    assert bound.longs(packet(of_two((LONGLONG, LONGLONG), struct.pack("<q", 5), struct.pack("<q", 7)), 0), 2) == (5, 7)
