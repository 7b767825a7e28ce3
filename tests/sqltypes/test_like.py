"""LIKE: what a pattern takes, and that no pattern takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqltypes.errors import UnprovenString
from sqltypes.implementations import LONGEST_PATTERN, MOST_LIKE, matcher


def by_definition(pattern: str, value: str) -> bool:
    """`_` is one character, `%` any number of them, `\\` takes what follows as it is, itself at the end."""
    ends = {0}  # how much of the value the pattern may have taken until here
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "%":
            ends = set(range(min(ends), len(value) + 1)) if ends else ends
        else:
            escaped = character == "\\"
            if escaped and at + 1 < len(pattern):
                at += 1
                character = pattern[at]
            any_one = character == "_" and not escaped
            ends = {end + 1 for end in ends if end < len(value) and (any_one or value[end] == character)}
        at += 1
    return len(value) in ends


@given(st.text("ab%_\\", max_size=9), st.text("ab%\\", max_size=10))
def test_a_pattern_takes_what_its_definition_says(pattern: str, value: str) -> None:
    assert matcher(pattern, "\\", True)(value) == by_definition(pattern, value)
    as_bytes = matcher(pattern.encode(), "\\", True)
    assert as_bytes(value.encode()) == by_definition(pattern, value)


@pytest.mark.parametrize("pattern", ["%" + "a%" * 200 + "b", "%" + "ab%a" * 100 + "_", "%_" * 200 + "b"])
def test_many_percent_signs_are_no_work(pattern: str) -> None:
    """By trying every way it would take years."""
    assert matcher(pattern, "\\", True)("a" * 1000) == 0


def test_what_would_take_long_is_mysqls() -> None:
    with pytest.raises(UnprovenString):
        matcher("a" * (LONGEST_PATTERN + 1), "\\", True)
    test = matcher("%" + "a" * (LONGEST_PATTERN - 1), "\\", True)
    assert test("a" * (MOST_LIKE // LONGEST_PATTERN)) == 1
    with pytest.raises(UnprovenString):
        test("a" * (MOST_LIKE // LONGEST_PATTERN + 1))
