"""Groups of strings that MySQL may sort by a part alone."""

from __future__ import annotations

import pytest

from dataflow.graph.whole_strings import of_whole_strings
from sqltypes.errors import UnprovenString
from sqltypes.schema import BIGINT, SqlType

UNICODE = SqlType("varchar", length=255, collation="utf8mb4_unicode_ci")
GENERAL = SqlType("varchar", length=255, collation="utf8mb4_general_ci")


def test_a_group_of_too_many_weights_has_no_key() -> None:
    key = of_whole_strings(lambda row: row[0], [BIGINT, UNICODE], lambda row: row)
    assert [key((at, text)) for at, text in enumerate((None, "a" * 255, ""))] == [0, 1, 2]
    with pytest.raises(UnprovenString):
        key((1, "\u00bc" * 255))


def test_other_keys_stay_as_they_are() -> None:
    key = len
    assert of_whole_strings(key, [BIGINT, GENERAL], lambda row: row) is key
