"""The generator's promises: the same rows for the same seed, the site's sizes and skew."""

import hashlib
from collections import Counter
from random import Random

import pytest

from examples.lobsters.data import SETS, Dataset, hotness, shape_of, slug
from examples.lobsters.histogram import WIDTHS, Histogram, read_bins, scaled_counts
from examples.lobsters.load import Chunk, inserts, statements, tsv

TINY = SETS["tiny"]


def digest(seed: int) -> str:
    hasher = hashlib.sha256()
    for table, columns, _, rows in Dataset(TINY, seed).tables():
        hasher.update(f"{table}{columns}".encode())
        hasher.update(tsv(rows))
    return hasher.hexdigest()


def test_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    assert digest(7) == digest(7) != digest(8)


def test_sets_have_the_sizes_that_they_promise() -> None:
    for shape in (TINY, SETS["mid"]):
        sizes = {table: len(list(rows)) for table, _, _, rows in Dataset(shape).tables()}
        assert (sizes["users"], sizes["stories"], sizes["comments"]) == (shape.users, shape.stories, shape.comments)
        assert sizes["votes"] == shape.votes
        assert sizes["hidden_stories"] == shape.votes * 10_000 // 1_000_000
        assert all(sizes.values())


def test_a_number_scales_the_set_std() -> None:
    shape = shape_of("0.5")
    assert (shape.users, shape.votes) == (2898, 500_000)


@pytest.mark.parametrize("scale", ["huge", "", "0", "-1", "1e9"])
def test_a_scale_that_is_none_is_refused_with_what_would_be_accepted(scale: str) -> None:
    with pytest.raises(ValueError, match="tiny, mid, std, users10"):
        shape_of(scale)


@pytest.mark.parametrize("name", list(WIDTHS))
def test_a_histogram_scaled_to_its_own_size_keeps_its_bins(name: str) -> None:
    counts = [count for _, count in read_bins(name)]
    assert scaled_counts(counts, sum(counts)) == counts
    assert sum(scaled_counts(counts, 577)) == 577


@pytest.mark.parametrize("name", list(WIDTHS))
def test_entities_are_drawn_as_often_as_their_bins_weigh(name: str) -> None:
    bins = read_bins(name)
    histogram = Histogram(name, sum(count for _, count in bins))
    draws = Counter(histogram.draws(Random(1), 200_000))
    total = sum((start or WIDTHS[name] / 4) * count for start, count in bins)
    first = 0
    for start, count in bins:
        expected = 200_000 * (start or WIDTHS[name] / 4) * count / total
        seen = sum(draws[entity] for entity in range(first, first + count))
        assert abs(seen - expected) < 5 * expected**0.5 + 5, (start, seen, expected)
        first += count


def test_top_tenth_of_the_users_casts_three_quarters_of_the_votes() -> None:
    histogram = Histogram("votes_per_user", 5_797)
    share = 1 - histogram.cumulative[5_797 - 580] / histogram.cumulative[-1]
    assert abs(share - 0.769) < 0.01


def test_single_draws_and_bulk_draws_have_the_same_ends() -> None:
    histogram = Histogram("votes_per_story", 50)
    seen = {histogram.draw(Random(seed)) for seed in range(2000)}
    assert seen <= set(range(50)) and {0, 49} <= seen


def test_denormalised_counters_equal_the_votes_and_nobody_votes_twice() -> None:
    dataset = Dataset(TINY)
    tables = {table: (columns, list(rows)) for table, columns, _, rows in dataset.tables()}
    votes = tables["votes"][1]
    historic = votes[TINY.stories + TINY.comments :]
    pairs = Counter((user, comment, story if comment is None else 0) for user, story, comment, _ in historic)
    assert max(pairs.values()) == 1
    for table, of_comment in (("stories", False), ("comments", True)):
        columns, rows = tables[table]
        up_at, down_at = columns.index("upvotes"), columns.index("downvotes")
        ups: Counter[object] = Counter()
        downs: Counter[object] = Counter()
        for _, story, comment, up in votes:
            if (comment is not None) == of_comment:
                (ups if up else downs)[comment or story] += 1
        assert all((row[up_at], row[down_at]) == (ups[row[0]], downs[row[0]]) for row in rows)


def test_faithful_data_has_the_authors_votes_only_and_three_comments_a_story() -> None:
    tables = {table: list(rows) for table, _, _, rows in Dataset(TINY, faithful=True).tables()}
    assert len(tables["votes"]) == TINY.stories + TINY.comments
    assert set(Counter(row[4] for row in tables["comments"]).values()) == {3}
    assert len(tables["tags"]) == 1 and "read_ribbons" not in tables


def test_a_reply_is_on_its_parents_story() -> None:
    comments = next(list(rows) for table, _, _, rows in Dataset(TINY).tables() if table == "comments")
    story_of = {row[0]: row[4] for row in comments}
    replies = [(row[4], row[6]) for row in comments if row[6] is not None]
    assert replies and all(story_of[parent] == story for story, parent in replies)


def test_slugs_are_six_characters_and_differ() -> None:
    assert slug(0) == "000000" and slug(35) == "00000z" and slug(36**6 - 1) == "zzzzzz"
    assert len({slug(i) for i in range(5000)}) == 5000


def test_hotness_falls_with_the_score_and_with_time() -> None:
    from datetime import datetime

    early, late = datetime(2026, 1, 2), datetime(2026, 1, 3)
    assert hotness(10, early) < hotness(1, early) < hotness(-10, early)
    assert hotness(1, late) < hotness(1, early)


def test_rows_in_both_forms_of_loading() -> None:
    chunk = Chunk("keystores", ("key", "value"), [("a", 1), ("b", None)])
    assert tsv(chunk.rows) == b"a\t1\nb\t\\N\n"
    assert list(inserts(chunk)) == ["INSERT INTO `keystores` (`key`, `value`) VALUES ('a',1),('b',NULL)"]


def test_schema_creates_every_table_before_it_adds_keys() -> None:
    create, keys = statements()
    tables = {statement.split()[2] for statement in create}
    assert len(tables) == 14 == len(create)
    assert {statement.split()[2] for statement in keys} <= tables
    assert any("by_story (story_id, comment_id)" in key for key in keys)
    assert any("by_parent (parent_comment_id)" in key for key in keys)
