"""What a vtgate says of its release, and what others say."""

from __future__ import annotations

import pytest

from external_upquery.vitess.release import release_of
from sqltypes.errors import ConfigError


def test_a_release_that_is_new_enough() -> None:
    said = "Version: 24.0.4 (Git revision  branch '') built on  by @ using go1.26.8 linux/amd64"
    assert release_of(said) == "24.0.4"
    assert release_of("Version: 23.0.0-rc1 (Git revision abc)") == "23.0.0-rc1"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Version: 22.0.1 (Git revision abc)", "of Vitess 22.0.1: Vitess 23 or newer is wanted"),
        ("(Debian)", "no vtgate ('(Debian)'): the port of vtgate's MySQL protocol is wanted"),
        ("", "no vtgate"),
    ],
)
def test_what_cannot_be_cached_is_one_sentence(said: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        release_of(said)
    assert words in raised.value.message
