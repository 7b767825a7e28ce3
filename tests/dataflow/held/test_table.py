"""A dictionary whose keys come and go stays as large as it was when they had come."""

from __future__ import annotations

from sys import getsizeof

from dataflow.held.table import MARGIN, Table

KEYS, ROUND = 45_000, 200


def churned(*, tidy: bool, rounds: int = 1_000) -> tuple[dict[int, int], int]:
    """The dictionary, and the largest that its table was once all keys were there."""
    entries = dict.fromkeys(range(KEYS), 0)
    table, largest = Table(entries), 0
    for number in range(rounds):
        first = number * ROUND
        for key in range(first, first + ROUND):
            del entries[key]
            entries[KEYS + key] = 0
        table.gone += ROUND
        if tidy:
            table.tidy()
        largest = max(largest, getsizeof(entries))
    return entries, largest


def test_keys_that_go_leave_their_places_to_those_that_come() -> None:
    entries, largest = churned(tidy=True)
    assert list(entries) == list(range(200_000, 200_000 + KEYS)), "all are there, in their order"
    assert largest == getsizeof(dict.fromkeys(range(KEYS)))
    assert churned(tidy=False)[1] > 1.9 * largest, "else there would be nothing to this"


def test_a_table_of_which_little_has_gone_is_left_as_it_is() -> None:
    entries = dict.fromkeys(range(KEYS), 0)
    table = Table(entries)
    for key in range(MARGIN):
        del entries[key]
        table.gone += 1
        table.tidy()
    assert table.gone == MARGIN
