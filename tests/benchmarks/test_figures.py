"""Figures, the ideal cache, and what the workloads say about themselves."""

import pytest

from benchmarks import changes
from benchmarks.bench import median_ratio
from benchmarks.pages import Ideal, simulated, single_keys
from benchmarks.result import text
from examples.lobsters.queries import CATALOGUE


def test_a_list_read_is_a_key_for_each_value_and_hits_only_if_all_were_asked() -> None:
    assert single_keys((1, (2, 3))) == [(1, 2), (1, 3)]
    assert single_keys(()) == [()]
    ideal = Ideal()
    assert not ideal.ask("F10", (1, (2, 3)))
    assert ideal.ask("F10", (1, (3,)))
    assert not ideal.ask("F10", (1, (3, 4)))
    assert not ideal.ask("F11", (1, (3,)))


def test_every_template_has_a_simulated_hit_rate() -> None:
    assert all(0 < simulated(id) <= 1 for id in CATALOGUE)


def test_median_leaves_out_what_could_not_be_measured() -> None:
    assert median_ratio([None, 3.0, 1.0, 2.0]) == 2.0
    assert median_ratio([None]) is None


@pytest.mark.parametrize("column", [1, 7, changes.COLUMNS])
def test_three_of_ten_keys_held_are_three_of_ten_rows_touched(column: int) -> None:
    touched = sum(changes.group_of(row, column) < 0.3 * changes.GROUPS for row in range(changes.ROWS))
    assert abs(touched / changes.ROWS - 0.3) < 0.01


def test_numbers_are_readable_at_any_size() -> None:
    assert [text(value) for value in (None, 0.01234, 12345.6, 12345, "x")] == ["-", "0.01234", "12,346", "12,345", "x"]
