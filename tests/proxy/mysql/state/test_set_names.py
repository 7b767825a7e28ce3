"""Which texts are a lone SET NAMES. `integration/settings/test_set_names.py` compares what is made of them with
MySQL."""

from __future__ import annotations

import pytest

from proxy.mysql.state.set_names import MOST, SetNames, names_of

VALUES = {
    "character_set_client": "utf8mb4", "character_set_connection": "utf8mb4", "character_set_results": "utf8mb4",
    "collation_connection": "utf8mb4_bin", "default_collation_for_utf8mb4": "utf8mb4_0900_ai_ci",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b"SET NAMES utf8mb4", (b"utf8mb4", b"")),
        (b" set  names 'UTF8' ; ", (b"utf8", b"")),
        (b"SET NAMES \"latin1\" COLLATE 'latin1_bin'", (b"latin1", b"latin1_bin")),
        (b"SET NAMES DEFAULT", None),
        (b"SET NAMES utf8mb4, @a = 1", None),
        (b"SET NAMES 'utf8mb4\"", None),
        (b"SET NAMES /* x */ utf8mb4", None),
        (b"SET NAMES utf8mb4; SELECT 1", None),
        (b"SET CHARACTER SET utf8mb4", None),
    ],
)
def test_a_lone_set_names(text: bytes, names: tuple[bytes, bytes] | None) -> None:
    assert names_of(text) == names


def test_what_is_learned_is_of_one_default() -> None:
    known, names = SetNames(), (b"utf8mb4", b"")
    assert known.find(names, VALUES) is None
    known.learn(names, VALUES, 46)
    found = known.find(names, VALUES)
    assert found is not None and found.number == 46 and found.values[-1] == "utf8mb4_bin"
    assert known.find(names, VALUES | {"default_collation_for_utf8mb4": "utf8mb4_general_ci"}) is None
    for number in range(MOST + 1):
        known.learn((b"latin1", b"%d" % number), VALUES, 8)
    assert len(known._known) <= MOST
    known.forget()
    assert not known._known
