"""Keys and orders of strings; the whole comparison with MySQL is
`integration/planner_truth/test_collations_mysql.py`."""

from __future__ import annotations

import pytest

from sqltypes.collation import encodes, key_function, sort_key, supported
from sqltypes.errors import UnprovenString, UnsupportedQuery


@pytest.mark.parametrize(
    ("collation", "left", "right", "equal"),
    [
        ("utf8mb4_0900_ai_ci", "\u00c9t\u00e9", "ete", True),
        ("utf8mb4_0900_ai_ci", "e\u0301", "E", True),
        ("utf8mb4_0900_ai_ci", "a ", "a", False),
        ("utf8mb4_0900_ai_ci", "a\u0001", "a", True),
        ("utf8mb4_0900_ai_ci", "stra\u00dfe", "STRASSE", True),
        ("utf8mb4_general_ci", "a  ", "A", True),
        ("utf8mb4_general_ci", "\u00df", "s", True),
        ("utf8mb4_general_ci", "\U0001f600", "\U0001f601", True),
        ("utf8mb4_unicode_ci", "\u00df", "ss", True),
        ("latin1_swedish_ci", "\u00c4", "\u00e4", True),
        ("latin1_swedish_ci", "\u00c4", "a", False),
        ("utf8mb4_bin", "a", "A", False),
        ("utf8mb4_bin", "a ", "a", True),
        ("utf8mb4_0900_bin", "a ", "a", False),
        ("ascii_general_ci", "A ", "a", True),
    ],
)
def test_strings_are_equal_as_mysql_says(collation: str, left: str, right: str, equal: bool) -> None:
    key = key_function(collation)
    assert (key(left) == key(right)) is equal


def test_order_is_by_weight_and_not_by_code_point() -> None:
    order = sort_key("utf8mb4_0900_ai_ci")
    assert sorted(["b", "_", "A", "\u00e4c", "9", "Z", "a"], key=order) == ["_", "9", "A", "a", "\u00e4c", "b", "Z"]


def test_character_outside_of_the_character_set_is_unproven() -> None:
    with pytest.raises(UnprovenString):
        key_function("latin1_swedish_ci")("\u4e00")


def test_control_characters_have_no_proven_order_where_spaces_pad() -> None:
    with pytest.raises(UnprovenString):
        sort_key("utf8mb4_general_ci")("a\n")
    with pytest.raises(UnprovenString):
        sort_key("utf8mb4_bin")("a\n")
    assert sort_key("utf8mb4_0900_ai_ci")("a\n") > sort_key("utf8mb4_0900_ai_ci")("a")


def test_other_collations_are_refused_by_name() -> None:
    assert not supported("utf8mb4_de_pb_0900_ai_ci")
    with pytest.raises(UnsupportedQuery) as caught:
        key_function("utf8mb4_de_pb_0900_ai_ci")
    assert caught.value.code == "collation"


def test_character_sets_know_their_characters() -> None:
    assert encodes("latin1", "\u20ac")
    assert not encodes("latin1", "\u4e00")
    assert not encodes("utf8mb3", "\U0001f600")
    assert encodes("utf8mb4", "\U0001f600")
