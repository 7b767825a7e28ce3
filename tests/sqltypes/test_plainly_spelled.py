"""Of plainly spelled strings no two are equal, by any collation of which that is said."""

from __future__ import annotations

import random

import pytest

from sqltypes.collation import EXACT_NO_PAD, EXACT_PAD, WEIGHTED, sort_key
from sqltypes.plainly_spelled import is_known, is_plain

LETTERS = [chr(code) for code in range(0x20, 0x7F) if not chr(code).isupper()]


def collations() -> list[str]:
    return sorted(filter(is_known, {*EXACT_NO_PAD, *EXACT_PAD, *WEIGHTED}))


def test_some_are_known() -> None:
    assert {"utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_bin", "latin1_swedish_ci"} <= set(collations())
    assert not is_known("utf8mb4_hu_0900_ai_ci") and not is_known(None)


@pytest.mark.parametrize("collation", collations())
def test_no_two_are_equal(collation: str) -> None:
    """Each character has a weight of its own, which does not depend on what stands beside it."""
    rng = random.Random(7)
    texts = {*LETTERS, *(one + other for one in LETTERS for other in LETTERS)}
    texts |= {"".join(rng.choices(LETTERS, k=rng.randrange(1, 9))) for _ in range(3000)}
    key = sort_key(collation)
    plain = [text for text in texts if is_plain(text, collation)]
    assert len({key(text) for text in plain}) == len(plain) > 6000


@pytest.mark.parametrize("text", ["A", "aB", "é", "a ", " ", "a\t", "a\n", "\0", "ｱ"])
def test_what_is_not_plain(text: str) -> None:
    assert not is_plain(text, "utf8mb4_0900_ai_ci")


def test_plain_ones() -> None:
    for text in ("", "0b7f7f4e-8d5c-4c5e-9f0a-2c1c3a9c8d11", "someone@example.com", "a b"):
        assert is_plain(text, "utf8mb4_0900_ai_ci")
    assert is_plain("É", "utf8mb4_bin") and not is_plain("É ", "utf8mb4_bin")
