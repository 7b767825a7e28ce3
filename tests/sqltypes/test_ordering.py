"""Which strings MySQL sorts by as a whole."""

from __future__ import annotations

import pytest

from sqltypes.errors import UnprovenString
from sqltypes.ordering import mostly_sorted_whole, order_key, require_sorted_whole, sorted_whole
from sqltypes.schema import SqlType


def text(collation: str, length: int | None = None) -> SqlType:
    return SqlType("varchar", length=length, collation=collation)


@pytest.mark.parametrize(
    ("collation", "letter", "most"),
    [
        ("utf8mb4_general_ci", "a", 512),
        ("utf8mb4_unicode_ci", "a", 512),
        ("utf8mb4_unicode_ci", "\u00df", 256),  # of two weights
        ("utf8mb4_bin", "a", 341),
        ("utf8mb3_bin", "a", 341),
        ("latin1_swedish_ci", "a", 1024),
        ("latin1_bin", "a", 1024),
        ("ascii_general_ci", "a", 1024),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
def test_longer_strings_have_no_place_in_an_order(collation: str, letter: str, most: int, descending: bool) -> None:
    key = order_key(text(collation), True, descending)
    assert key is not None
    assert key(None) is not None and key(letter * most + " " * 2000) == key(letter * most)
    with pytest.raises(UnprovenString):
        key(letter * (most + 1))


@pytest.mark.parametrize("collation", ["utf8mb4_0900_ai_ci", "utf8mb4_0900_bin"])
def test_strings_without_padding_are_sorted_whole(collation: str) -> None:
    key = order_key(text(collation), False, False)
    assert key is not None and key("a" * 5000 + "b") > key("a" * 5001)


def test_short_types_are_sorted_whole() -> None:
    whole = [("utf8mb4_general_ci", 512), ("utf8mb4_bin", 341), ("latin1_swedish_ci", 1024), ("utf8mb4_unicode_ci", 64)]
    for collation, length in whole:
        assert sorted_whole(text(collation, length)) and not sorted_whole(text(collation, length + 1))
        assert not sorted_whole(text(collation))
    assert sorted_whole(SqlType("enum", length=9, collation="utf8mb4_general_ci", members=("a" * 600,)))


def test_strings_of_few_characters_may_have_too_many_weights() -> None:
    type_ = text("utf8mb4_unicode_ci", 255)
    assert not sorted_whole(type_) and mostly_sorted_whole(type_)
    assert not mostly_sorted_whole(text("utf8mb4_unicode_ci", 513))
    require = require_sorted_whole(type_)
    for short in (None, "a" * 255, "\u00df" * 255, "\u00bc" * 60):
        require(short)
    with pytest.raises(UnprovenString):
        require("\u00bc" * 255)  # of three weights
