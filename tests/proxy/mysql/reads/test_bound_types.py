"""The parameters of executions of prepared statements, as each kind of client writes them."""

from __future__ import annotations

import random
import struct

import pytest

from proxy.mysql.reads.bound_types import (
    BOUND_BEFORE,
    CURSOR,
    MOST_PARAMETERS,
    PARAMETER_COUNT,
    TOO_MANY,
    UNSHOWN,
    UNTYPED,
    BoundTypes,
)
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.state.session_variables import PINNED_VALUES
from proxy.mysql.state.sql_modes import marks_of
from proxy.mysql.wire.bound_values import NotDecoded, read_types
from proxy.mysql.wire.packets import COM_STMT_EXECUTE, Malformed, lenenc, packet
from sqltypes.expression import Value
from tests.support.session_states import session_state

LONGLONG, STRING = 0x08, 0xFD


def execution(*, flags: int, counted: bool, nulls: int = 0) -> bytes:
    """The payload of an execution with two parameters, 7 and 'x', those whose bit is in `nulls` left out."""
    named = b"\0" if counted else b""
    parts = [struct.pack("<BIBI", COM_STMT_EXECUTE, 1, flags, 1), b"\x02" if counted else b"", bytes((nulls, 1))]
    parts += [struct.pack("<H", type_) + named for type_ in (LONGLONG, STRING)]
    parts += [] if nulls & 1 else [struct.pack("<q", 7)]
    parts += [] if nulls & 2 else [lenenc(b"x")]
    return b"".join(parts)


def statement(parameters: int, *, attributes: bool) -> BoundTypes:
    return BoundTypes(parameters, attributes=attributes)


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
    bound.note(execution(flags=0, counted=True))
    assert bound.values(bare_execution()) == (8, "y")


def bare_execution() -> bytes:
    """Counted, without types: 8 and 'y'."""
    return struct.pack("<BIBI", COM_STMT_EXECUTE, 1, 0, 1) + b"\x02\0\0" + struct.pack("<q", 8) + lenenc(b"y")


@pytest.mark.parametrize("size", [9, 12, 13])
def test_an_execution_that_is_cut_off_goes_to_mysql_as_it_is(size: int) -> None:
    bound = statement(2, attributes=True)
    bound.note(execution(flags=0, counted=True))
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
        quoted.note_session(session_state(values=values, marks=marks_of(values["sql_mode"])))
        assert quoted.misread == misread and quoted.differed == differed


def of_two(types: tuple[int, int], first: bytes = b"", second: bytes = b"", *, flags: int = 0, nulls: int = 0) -> bytes:
    """The packet of an execution of two parameters with these types."""
    fixed = struct.pack("<BIBI", COM_STMT_EXECUTE, 1, flags, 1)
    return packet(fixed + bytes((nulls, 1)) + struct.pack("<HH", *types) + first + second, 0)


def number(value: int) -> bytes:
    return struct.pack("<q", value)


def noted(bound: BoundTypes, *executions: bytes) -> BoundTypes:
    for each in executions:
        bound.note(each[4:])
        bound.check_invariants()
    return bound


ONE = of_two((LONGLONG, STRING), number(1), lenenc(b"a"))
TWO = of_two((LONGLONG, STRING), number(2), lenenc(b"b"))
NOTHING = of_two((LONGLONG, STRING), number(2), nulls=2)
OTHER = of_two((STRING, STRING), lenenc(b"1"), lenenc(b"a"))


def test_the_first_type_of_a_parameter_that_is_not_null_sticks() -> None:
    bound = noted(statement(2, attributes=False), of_two((0x06, 0x0F), second=lenenc(b"x"), nulls=1))
    assert bound.first == (0x06, STRING) and bound.nulled
    noted(bound, of_two((0x03, 0x06), struct.pack("<i", 1), nulls=2))
    assert bound.first == (LONGLONG, STRING) and not bound.turned
    noted(bound, ONE, of_two((0x01, 0xFE), b"\1", lenenc(b"x")))
    assert not bound.turned
    noted(bound, OTHER)
    assert bound.turned == BOUND_BEFORE
    assert bound.for_mysql(OTHER) == OTHER
    noted(bound, ONE)
    assert bound.turned == BOUND_BEFORE, "it stays so"


def test_of_more_parameters_than_a_cache_may_have_none_sticks() -> None:
    """None of its executions is a hit."""
    assert not statement(MOST_PARAMETERS, attributes=False).turned
    assert statement(MOST_PARAMETERS + 1, attributes=False).turned == TOO_MANY


def test_mysql_is_shown_the_execution_that_resolves_the_statement_and_the_one_before() -> None:
    bound = noted(statement(2, attributes=False), NOTHING, ONE, NOTHING, TWO)
    assert bound.owed(TWO) == [NOTHING, ONE, NOTHING], "what is resolved for NULL fits no value, and NULL fits all"
    assert bound.owed(TWO) == [], "it was shown them"
    noted(bound, TWO)
    bound.fits = True
    assert bound.owed(TWO) == [], "it resolves nothing, and no value of the one before is used"


def test_decimals_of_the_oldest_type_resolve_a_statement_as_others_do() -> None:
    """Its number is 0."""
    decimals = of_two((0, 0), lenenc(b"1.5"), lenenc(b"2.5"))
    bound = noted(statement(2, attributes=False), decimals)
    assert bound.kinds == (0xF6, 0xF6)
    assert bound.owed() == [decimals]


def test_an_execution_that_turns_the_statement_follows_the_one_before() -> None:
    bound = noted(statement(2, attributes=False), ONE, TWO, OTHER)
    assert bound.owed(OTHER) == [ONE, TWO]
    noted(bound, ONE, TWO)
    assert bound.owed(TWO) == [], "MySQL has seen them"


def test_types_that_hits_have_bound_are_told() -> None:
    bare = packet(ONE[4:15] + b"\0" + number(1) + lenenc(b"a"), 0)
    bound = noted(statement(2, attributes=False), ONE, bare)
    bound.fits = True
    assert bound.owed(bare) == [] and bound.for_mysql(bare) == ONE
    assert bound.for_mysql(bare) == bare, "they were told"
    unknown = statement(2, attributes=False)
    assert unknown.for_mysql(bare) == bare and unknown.turned == UNTYPED


def test_strings_bound_in_another_character_set_are_not_known_without_their_types() -> None:
    bare = packet(ONE[4:15] + b"\0" + number(1) + lenenc(b"a"), 0)
    bound = noted(statement(2, attributes=False), ONE)
    assert bound.owed() == [ONE]
    bound.recode()
    with pytest.raises(NotDecoded):
        bound.values(bare[4:])
    assert noted(bound, ONE).values(bare[4:]) == (1, "a")


def test_what_mysql_was_not_shown_as_settings_changed_turns_the_statement() -> None:
    bound = noted(statement(2, attributes=False), ONE)
    bound.resolve_unshown()
    assert bound.turned == UNSHOWN
    seen = noted(statement(2, attributes=False), ONE)
    seen.owed(ONE)
    seen.for_mysql(ONE)
    seen.resolve_unshown()
    assert not seen.turned


def test_before_a_cursor_behind_hits_the_same_is_executed_without_one() -> None:
    opened = of_two((LONGLONG, STRING), number(1), lenenc(b"a"), flags=CURSOR)
    bound = noted(statement(2, attributes=False), ONE)
    bound.behind = True
    assert bound.owed(opened)[-1] == ONE
    assert bound.owed(opened) == []


def test_whole_numbers_are_read_at_once_unless_mysql_resolves_the_statement_anew() -> None:
    bound = statement(2, attributes=False)
    both = of_two((LONGLONG, LONGLONG), number(5), number(-1))
    assert bound.longs(both) is None
    assert noted(bound, both).longs(both) == (5, -1)
    assert noted(bound, OTHER).longs(both) is None
    resolved_for_null = noted(statement(2, attributes=False), of_two((LONGLONG, LONGLONG), number(5), nulls=2))
    assert resolved_for_null.longs(both) is None


def test_no_execution_is_like_those_of_a_turned_statement_without_parameters() -> None:
    """What is at hand of its hits is found by its kinds."""
    bound = noted(statement(0, attributes=False), packet(struct.pack("<BIBI", COM_STMT_EXECUTE, 1, 0, 1), 0))
    before = bound.kinds
    bound.note_pieces()
    bound.check_invariants()
    assert bound.kinds != before
