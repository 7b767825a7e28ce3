"""What two columns are called the same by."""

from __future__ import annotations

import pytest

from proxy.planning.column_names import named


@pytest.mark.parametrize("other", ["count( * )", "COUNT(*)", "count(/* all */ *)", "`count`(*)"])
def test_spellings_of_one_name(other: str) -> None:
    assert named("count(*)") == named(other) != named("count(1)")
