"""The judge of `make hammer`: a right answer passes; a mix, a value that never was, and an older state do not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from gtid_tracker.gtid import Gtid, GtidSet
from integration.hammer.judge import AHEAD, BACK, IMPOSSIBLE, MIX, SHAPE, STALE, SWAPS, History, Seen, judge
from integration.hammer.readers import seen
from integration.hammer.rest import every_key
from integration.hammer.tables import KEYS, PARTS, TOKENS, VERSIONED
from integration.hammer.writers import statements
from upwell.rows import Answer, Row

SOURCE = "00000000-0000-0000-0000-000000000001"
COMMITTED = 4  # versions 1 to 4 of group 0, under the GTIDs 1 to 4


def history(committed: int = COMMITTED) -> History:
    made = History([0, 1, SWAPS])
    for number in range(1, committed + 1):
        assert made.begin(0, number - 1) == number
        made.committing(0, number)
        made.committed(0, number, Gtid(SOURCE, number))
    return made


def position(count: int) -> str:
    return f"{SOURCE}:1-{count}"


def kinds(made: History, *shown: object, served: str = "hit", at: int = COMMITTED, **other: Any) -> list[str]:
    answer = Seen("rows", (0,), served, position(at), [(0, version) for version in shown], **other)
    return [finding.kind for finding in judge(made, answer)]


def test_the_state_at_the_position_passes() -> None:
    assert kinds(history(), 4, 4) == []
    assert kinds(history(), 3, at=3) == []
    assert kinds(history(0), 0, at=9) == []


def test_a_mix_of_two_transactions_is_found() -> None:
    assert kinds(history(), 4, 3) == [MIX]
    assert kinds(history(), 3.5) == [MIX]


@pytest.mark.parametrize("served", ["hit", "miss"])
def test_an_answer_older_than_its_position_is_found(served: str) -> None:
    assert kinds(history(), 3, served=served) == [STALE]


@pytest.mark.parametrize("served", ["hit", "miss", "passed"])
def test_an_answer_beyond_its_horizon_is_found(served: str) -> None:
    assert kinds(history(), 4, at=3, served=served) == [AHEAD]
    assert kinds(history(), 4, at=2, served=served, horizon=position(3)) == [AHEAD]
    assert kinds(history(), 3, at=2, served=served, horizon=position(3)) == []


def test_what_mysql_itself_answers_has_all_that_was_committed_before() -> None:
    assert kinds(history(), 3, at=1, served="passed", before={0: 3}, horizon=position(4)) == []
    assert kinds(history(), 2, at=1, served="passed", before={0: 3}, horizon=position(4)) == [STALE]


def test_a_hit_before_an_earlier_hit_is_found() -> None:
    assert kinds(history(), 3, at=3, floor=position(4)) == [BACK]
    assert kinds(history(), 4, at=4, floor=position(3)) == []


def test_what_the_shape_of_an_answer_tells_is_passed_on() -> None:
    assert kinds(history(), 4, wrong="2 rows, not 3") == [SHAPE]


@pytest.mark.parametrize("version", [5, -3, 1_000_003])
def test_a_version_that_never_was_is_found(version: int) -> None:
    assert kinds(history(), version) == [IMPOSSIBLE]


def test_a_version_is_impossible_until_its_commit_is_sent_and_after_its_rollback() -> None:
    made = history()
    assert made.begin(0, 4) == 5
    assert kinds(made, 5, served="miss") == [IMPOSSIBLE]
    made.committing(0, 5)
    assert kinds(made, 5, served="miss") == []
    assert made.begin(0, 4) == 6  # the next writer does not find it: it was lost with its connection
    assert kinds(made, 5, served="miss") == [IMPOSSIBLE]
    made.rolled_back(0, 6)
    assert kinds(made, 6, served="miss") == [IMPOSSIBLE]


def test_a_hit_may_show_what_is_committing_while_its_gtid_is_not_known() -> None:
    made = history()
    made.committing(0, made.begin(0, 4))
    assert kinds(made, 4) == kinds(made, 5) == []
    made.committed(0, 5, Gtid(SOURCE, 5))
    assert kinds(made, 5) == [AHEAD]
    assert kinds(made, 4, at=5) == [STALE]


def test_a_gtid_chosen_before_tells_at_once_what_the_position_shows() -> None:
    made = history()
    made.committing(0, made.begin(0, 4, Gtid(SOURCE, 5)))
    assert kinds(made, 4) == []
    assert kinds(made, 5) == [AHEAD]
    assert kinds(made, 4, at=5) == [STALE]


def test_a_chosen_gtid_says_nothing_once_its_transaction_is_in_doubt() -> None:
    made = history()
    made.committing(0, made.begin(0, 4, Gtid(SOURCE, 5)))
    made.lost_sight(0, 5)
    assert kinds(made, 4, at=5) == kinds(made, 5, at=5) == []


def test_what_is_in_doubt_is_settled_by_who_has_the_lock_next() -> None:
    made = history()
    made.committing(0, made.begin(0, 4))
    made.lost_sight(0, 5)
    assert (made.last(0), kinds(made, 5)) == (4, [])
    assert made.begin(0, 5) == 6
    made.lost_sight(0, 6)
    assert made.last(0) == 5
    assert kinds(made, 6) == [IMPOSSIBLE]


def test_a_commit_that_mysql_lost_is_noticed() -> None:
    with pytest.raises(AssertionError, match="lost version 4"):
        history().begin(0, 3)


def test_sides_of_swapped_tables() -> None:
    made = history()
    made.committing(SWAPS, made.begin(SWAPS, 0))
    made.committed(SWAPS, 1, Gtid(SOURCE, 5))
    assert kinds(made, 4, at=4, sides={0}) == kinds(made, 4, at=5, sides={1}) == []
    assert kinds(made, 4, at=5, sides={0}) == kinds(made, 4, at=4, sides={1}) == [STALE]
    assert kinds(made, 4, at=4, sides={0, 1}) == [MIX]
    assert kinds(made, 4, served="miss", at=4, sides={1}, horizon=position(5)) == []
    assert kinds(made, 4, served="passed", sides={0}, before={SWAPS: 1}, horizon=position(5)) == [STALE]


# -- how answers are read ---------------------------------------------------------------------------------------------

PIECES = [(part, 7) for part in range(PARTS)]
TOKEN_ROWS = [(at, at % KEYS, 7) for at in range(TOKENS)]
# What MySQL answers for key 0 (group 0) when everything is at version 7.
ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "rows": PIECES,
    "star": [(0, 0, 7)],
    "groups": [(0, PARTS * 7, 7, 7, PARTS)],
    "joined": [(7, 7)] * PARTS,
    "joined_groups": [(0, 7, 7, 7)],
    "subquery": [(7, PARTS * 7)],
    "top": [(7, 0), (7, 1)],
    "answers": [(1, 7)],
    "united": [(7,)] * (PARTS + 1),
    "list": [(key, 7) for key in range(KEYS) for _ in range(PARTS)],
    "list_joined": [(key, 7, 7) for key in range(KEYS) for _ in range(PARTS)],
    "group_total": [(0, KEYS * 7, KEYS)],
    "sided": [(7, 0)],
    "both_sides": [(7, 0, 7, 1)],
    "tokens": TOKEN_ROWS,
    "newest": [(key, 7) for key in range(6)],
}


def as_seen(cache: str, rows: Sequence[tuple[Any, ...]]) -> Seen:
    answer = Answer(map(Row, rows))
    answer.served, answer.position = "hit", position(COMMITTED)
    return seen(cache, next(every_key(cache)), answer, {})


@pytest.mark.parametrize("cache", list(VERSIONED))
def test_each_cache_s_right_answer_is_read_as_one_version(cache: str) -> None:
    read = as_seen(cache, ANSWERS[cache])
    assert {version for _, version in read.shown} == {7}
    assert (read.wrong, len(set(read.sides)) < 2) == ("", True)


@pytest.mark.parametrize("cache", list(VERSIONED))
def test_one_changed_version_in_any_place_is_found(cache: str) -> None:
    made = History(range(-1, 4))
    for group in range(4):
        for number in range(7):
            made.committing(group, made.begin(group, number))
    rows = ANSWERS[cache]
    found = judge(made, as_seen(cache, rows))
    assert found == []
    for at, row in enumerate(rows):
        for place, value in enumerate(row):
            if value in (7, 7 * PARTS, 7 * KEYS):
                older = (*row[:place], value - 1, *row[place + 1 :])
                judged = judge(made, as_seen(cache, [*rows[:at], older, *rows[at + 1 :]]))
                alone = sum(value in (7, 7 * PARTS, 7 * KEYS) for row in rows for value in row) == 1
                assert judged or (alone and cache in ("star", "answers", "sided")), (cache, at, place)


@pytest.mark.parametrize("cache", list(VERSIONED))
def test_a_row_that_lacks_is_found(cache: str) -> None:
    found = judge(History(range(-1, 4)), as_seen(cache, ANSWERS[cache][1:]))
    assert SHAPE in [finding.kind for finding in found]


def test_a_fresh_query_has_a_condition_more_that_all_keys_pass() -> None:
    assert VERSIONED["rows"].fresh(99) == "SELECT id, version FROM pieces WHERE k = ? AND k < 99"
    assert "WHERE p.k IN (?) AND p.k < 99 ORDER BY" in VERSIONED["list_joined"].fresh(99)
    assert "WHERE g = ? AND g < 99 GROUP BY" in VERSIONED["group_total"].fresh(99)
    assert VERSIONED["united"].fresh(99).count("? AND k < 99") == 2


def test_a_transaction_writes_every_row_of_its_group() -> None:
    for seed in range(50):
        text = "; ".join(statements(random.Random(seed), 3, 9))
        for table in ("heads", "shown", "hidden", "tokens"):
            assert f"UPDATE {table} SET version = 9" in text
        for piece in range(3 * KEYS * PARTS, 4 * KEYS * PARTS):
            assert f"UPDATE pieces SET version = 9 WHERE id = {piece}" in text


def test_positions_of_several_sources_are_told_apart() -> None:
    made = History([0])
    other = SOURCE[:-1] + "2"
    made.committing(0, made.begin(0, 0, Gtid(other, 1)))
    made.committed(0, 1, Gtid(other, 1))
    assert made.at(0, GtidSet.parse(position(9))) == {0}
    assert made.at(0, GtidSet.parse(f"{position(9)},{other}:1")) == {1}
