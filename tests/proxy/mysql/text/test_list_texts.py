"""Texts that are known by what stands around a list: they have the values that they would have without that."""

from __future__ import annotations

import random
from typing import Any

import pytest

from planner.matcher import QueryMatcher
from proxy.mysql.text.list_texts import LEAST_LISTED, REMEMBERED
from proxy.mysql.text.text_matcher import LONGEST, TextMatcher
from tests.support.query_texts import fake_plan

CACHES = (
    "SELECT c FROM sbtest1 WHERE id IN (?)",
    "SELECT c FROM sbtest1 WHERE id IN (?) AND k = 5",
    "SELECT c FROM sbtest1 WHERE id IN (?) AND k = 5 ORDER BY c",
    "SELECT c FROM sbtest1 WHERE id IN (?) AND k = ?",
    "SELECT id FROM orders WHERE customer_id IN (1, 2, 3) AND total = ?",
    "SELECT id FROM hides WHERE user_id = ? AND story_id IN (?)",
    "SELECT id FROM taggings WHERE story_id IN (?) AND tag_id IN (?)",
)
MANY = ", ".join(map(str, range(100, 200)))
LISTS = (
    MANY,
    MANY.replace(" ", ""),
    MANY.replace(", ", " ,\n "),
    MANY + " ",
    " " + MANY,
    f"-5, {MANY}",
    f"{MANY}, -5",
    f"{MANY}, - 5",
    f"{MANY}, +5",
    f"{MANY}, 007",
    f"007, {MANY}",
    f"{MANY}, 1.0",
    f"{MANY}, 1e2",
    f"{MANY}, '5'",
    f"{MANY}, NULL",
    f"{MANY}, 0x1F",
    f"{MANY}, {MANY}",
    f"{MANY}, {2**63}, {2**64}, {10**30}",
    f"{MANY},, 5",
    f"{MANY},",
    f"{MANY} 5",
    f"{MANY}5-6",
    f"{MANY}, (5)",
    f"{MANY}) OR id IN (5, 6",
    f"{MANY}, {'9' * 5000}",
    "5",
    "",
)
AROUND = (
    ("SELECT c FROM sbtest1 WHERE id IN (", ")"),
    ("SELECT c FROM sbtest1 WHERE id IN (", ") AND k = 5"),
    ("SELECT c FROM sbtest1 WHERE id IN (", ") AND k = 6"),
    ("SELECT c FROM sbtest1 WHERE id IN (", ") AND k = 5 ORDER BY c"),
    ("SELECT c FROM sbtest1 WHERE id IN (", ") ORDER BY LENGTH(c)"),
    ("SELECT c FROM sbtest1 WHERE id NOT IN (", ")"),
    ("SELECT c FROM sbtest1 WHERE id IN  (", ")"),
    ("SELECT c FROM sbtest1 WHERE id IN (", ") -- )"),
    ("/* upwell: skip */ SELECT c FROM sbtest1 WHERE id IN (", ")"),
    ("SELECT id FROM orders WHERE customer_id IN (", ") AND total = 5"),
    ("SELECT id FROM hides WHERE user_id = 5 AND story_id IN (", ")"),
    ("SELECT id FROM hides WHERE user_id = 6 AND story_id IN (", ")"),
    ("SELECT id FROM hides WHERE user_id = '5' AND story_id IN (", ")"),
    ("SELECT id FROM hides WHERE user_id = /* ( */ 5 AND story_id IN (", ")"),
    ("SELECT id FROM taggings WHERE story_id IN (", ") AND tag_id IN (3, 4)"),
    ("SELECT id FROM taggings WHERE story_id IN (", ") AND tag_id IN (5)"),
    ("SELECT id FROM taggings WHERE story_id IN (3, 4) AND tag_id IN (", ")"),
    (f"SELECT id FROM taggings WHERE story_id IN ({MANY}) AND tag_id IN (", ")"),
    ("SELECT id FROM taggings WHERE story_id IN (", f") AND tag_id IN ({MANY})"),
    ("SELECT id FROM taggings WHERE story_id IN (", ") AND tag_id IN (3, 4) -- (5, 6)"),
    ("SELECT id FROM taggings WHERE story_id IN (", ") AND tag_id IN (3, 4) AND '(5, 6)' = '(5, 6)'"),
    ("SELECT id IN (", ") FROM sbtest1"),
    ("SELECT 'id IN (", ")' FROM sbtest1"),
    ("INSERT INTO t VALUES (", ")"),
)


def texts_of(*queries: str) -> tuple[TextMatcher[Any], QueryMatcher]:
    exact = QueryMatcher()
    for number, sql in enumerate(queries):
        exact.add(fake_plan(sql, "d"), f"c{number}")
    return TextMatcher(exact), exact


def said(texts: TextMatcher[Any], text: str, database: str = "d") -> str:
    entry, values = texts.find(text.encode(), database)
    return repr((entry.cache, entry.steer, values if entry.cache is not None else ()))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_of_one_list_is_what_each_text_says_by_itself(seed: int) -> None:
    """In any order: what is learned of one is never said of another that reads otherwise."""
    rng = random.Random(seed)
    warm, exact = texts_of(*CACHES)
    asked = [(before + items + behind) for before, behind in AROUND for items in LISTS] * 2
    rng.shuffle(asked)
    for text in asked:
        assert said(warm, text) == said(TextMatcher(exact), text), text


def test_a_list_is_read_without_cutting_the_text_again(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, _ = texts_of(*CACHES)
    first = [texts.find(f"SELECT c FROM sbtest1 WHERE id IN ({MANY})".encode(), "d") for _ in range(2)][1]
    monkeypatch.setattr("proxy.mysql.text.text_matcher.cut", None)
    items = ", ".join(map(str, range(7, 900)))
    entry, values = texts.find(f"SELECT c FROM sbtest1 WHERE id IN ({items})".encode(), "d")
    assert entry is first[0] and values == (tuple(range(7, 900)),)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT id FROM hides WHERE user_id = 5 AND story_id IN ({})", (5, ...)),
        ("SELECT id FROM taggings WHERE story_id IN ({}) AND tag_id IN (3, 4)", (..., (3, 4))),
        ("SELECT id FROM taggings WHERE story_id IN (3, 4) AND tag_id IN ({})", ((3, 4), ...)),
    ],
)
def test_a_list_beside_other_values_is_read_without_cutting_the_text_again(
    monkeypatch: pytest.MonkeyPatch, text: str, values: tuple[Any, ...]
) -> None:
    texts, _ = texts_of(*CACHES)
    first = [texts.find(text.format(MANY).encode(), "d") for _ in range(2)][1]
    monkeypatch.setattr("proxy.mysql.text.text_matcher.cut", None)
    items = tuple(range(7, 900))
    entry, found = texts.find(text.format(", ".join(map(str, items))).encode(), "d")
    assert entry is first[0] and found == tuple(items if value is ... else value for value in values)


def test_another_database_is_another_text() -> None:
    texts, _ = texts_of(*CACHES)
    text = f"SELECT c FROM sbtest1 WHERE id IN ({MANY})"
    assert "c0" in said(texts, text) == said(texts, text)
    assert "c0" not in said(texts, text, "other")


def test_a_cache_that_is_dropped_is_known_no_more() -> None:
    texts, exact = texts_of(*CACHES)
    text = f"SELECT c FROM sbtest1 WHERE id IN ({MANY})"
    assert "c0" in said(texts, text) == said(texts, text)
    exact.remove("c0")
    assert "c0" not in said(texts, text)


def test_a_cache_that_fixes_the_very_list_comes_first() -> None:
    text = f"SELECT c FROM sbtest1 WHERE id IN ({MANY})"
    texts, exact = texts_of(CACHES[0], text)
    for items in (MANY, MANY.replace("7", "8"), MANY):
        asked = text.replace(MANY, items)
        for _ in range(2):
            assert said(texts, asked) == said(TextMatcher(exact), asked)


def test_what_is_remembered_has_a_limit_and_longer_texts_are_not_looked_at() -> None:
    texts, _ = texts_of(*CACHES)
    for number in range(REMEMBERED + 50):
        text = f"SELECT c FROM sbtest1 WHERE id IN ({MANY}) AND k = 5{' ' * (number % 60)}{chr(10) * (number // 60)}"
        for _ in range(2):
            texts.find(text.encode(), "d")
    assert 0 < len(texts._lists._known) <= REMEMBERED
    text = f"SELECT c FROM sbtest1 WHERE id IN ({', '.join(map(str, range(LONGEST)))})"
    assert texts.find(text.encode(), "d")[0].cache is None
    assert len("SELECT c FROM sbtest1 WHERE id IN (1, 2)") < LEAST_LISTED
