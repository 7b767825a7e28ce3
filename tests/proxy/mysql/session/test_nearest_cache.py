"""How alike two queries are, and what differs, in words."""

from __future__ import annotations

import pytest

from proxy.mysql.session.nearest_cache import MOST_WORDS, NEAR, differences, likeness, words_of

CACHE = "SELECT id, n FROM item WHERE id = ?"


@pytest.mark.parametrize(
    ("query", "differs"),
    [
        ("select id, n from item where id = 7", ""),
        ("SELECT `id`, n FROM item WHERE id = 'x'", ""),
        ("SELECT id, n FROM item AS i WHERE id = 1", "`AS i` more"),
        ("SELECT id, n FROM item WHERE id = 1 LIMIT 1", "`LIMIT 1` more"),
        ("SELECT id FROM item WHERE id = 1", "no `, n`"),
        ("SELECT id, m FROM item WHERE id = 1", "`m` for `n`"),
        ("SELECT n, id FROM item WHERE id = 1 AND n > 2", "`n ,` more, no `, n`, `AND n > ?` more"),
    ],
)
def test_what_differs(query: str, differs: str) -> None:
    assert differences(words_of(CACHE), words_of(query)) == differs
    assert likeness(words_of(CACHE), words_of(query)) > NEAR


def test_what_is_far_or_no_query_is_not_alike() -> None:
    assert likeness(words_of(CACHE), words_of("DELETE FROM orders LIMIT 1")) < NEAR
    assert words_of("SELECT 'a") == () and likeness((), words_of(CACHE)) == 0
    assert words_of("SELECT " + "a, " * MOST_WORDS + "a FROM t") == words_of("SELECT " + "a, " * 20_000 + "a") == ()
