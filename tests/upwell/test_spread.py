"""Keys for a load: as they are written, and as they are drawn."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from upwell.spread import Numbers, drawing, parse_key, parse_numbers


def test_keys_are_json_or_the_text_itself() -> None:
    assert [parse_key(text) for text in ("7", '"7"', '[7, "a"]', "a b", "null")] == [
        (7,), ("7",), (7, "a"), ("a b",), (None,)
    ]  # fmt: skip


def test_a_range_has_both_its_ends() -> None:
    keys = parse_numbers("-1..3")
    assert (list(keys), len(keys), keys[-1], keys[1:3]) == ([(-1,), (0,), (1,), (2,), (3,)], 5, (3,), [(0,), (1,)])
    assert list(parse_numbers("5..5")) == [(5,)]
    for text in ("5", "5..4", "a..b", "1..2..3", ""):
        with pytest.raises(ValueError, match=r"a range such as 1\.\.100000 is accepted"):
            parse_numbers(text)


def test_a_uniform_draw_gives_each_key_as_often() -> None:
    draw = drawing(Numbers(1, 10), "uniform", Random(5))
    counts = Counter(draw() for _ in range(10_000))
    assert len(counts) == 10 and max(counts.values()) < 1.2 * min(counts.values())


@pytest.mark.parametrize("keys", [1, 7, 100_000])
def test_a_zipf_draw_gives_the_first_keys_most(keys: int) -> None:
    draw = drawing(Numbers(1, keys), "zipf", Random(5))
    counts = Counter(draw() for _ in range(20_000))
    assert set(counts) <= set(Numbers(1, keys))
    if keys > 1:
        assert 1.4 < counts[(1,)] / counts[(2,)] < 2.0  # as the logarithms of 2 and 3/2
        assert counts[(1,)] > counts[(2,)] > counts[(4,)] > counts[(7,)] > 0
