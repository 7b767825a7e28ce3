"""Texts in bytes to caches: quickly what the matcher says slowly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.matcher import QueryMatcher
from planner.text.long_lists import shortened
from planner.text.scan import scan, scan_all
from proxy.mysql.text.text_cuts import cut
from proxy.mysql.text.text_matcher import LONGEST, LONGEST_OTHER, Steer, TextMatcher, steering
from proxy.mysql.text.write_outline import write_outline
from sqltypes.errors import ParseError
from tests.support.query_texts import FRAGMENTS, client_text, fake_plan, golden_plans, variants

CACHES = (
    "SELECT c FROM sbtest1 WHERE id = ?",
    "SELECT c FROM sbtest1 WHERE id IN (?)",
    "SELECT id FROM orders WHERE customer_id = ? AND status = 'paid' LIMIT 5",
    "SELECT id FROM orders WHERE customer_id = ? AND total > ?",
    "SELECT 1 FROM orders WHERE id = ?",
)


def matchers(*queries: str, database: str = "d") -> tuple[TextMatcher[Any], QueryMatcher]:
    exact = QueryMatcher()
    for number, sql in enumerate(queries or CACHES):
        exact.add(fake_plan(sql, database), f"c{number}")
    return TextMatcher(exact), exact


def found(texts: TextMatcher[Any], sql: str, database: str = "d") -> tuple[str, tuple[object, ...]] | None:
    entry, values = texts.find(sql.encode(), database)
    return None if entry.cache is None else (entry.cache, values)


def check(texts: TextMatcher[Any], exact: QueryMatcher, sql: str, database: str = "d") -> bool:
    """That both say the same, types included. Returns whether there is a cache."""
    expected = exact.match(sql, database, ())
    assert repr(found(texts, sql, database)) == repr(expected), sql
    return expected is not None


def test_a_text_like_one_before_has_the_same_entry_and_its_own_values() -> None:
    texts, _ = matchers()
    first, one = texts.find(b"SELECT c FROM sbtest1 WHERE id=1", "d")
    second, two = texts.find(b"SELECT c FROM sbtest1 WHERE id=2", "d")
    assert first is second and first.cache == "c0"
    assert (one, two) == ((1,), (2,))


def test_what_the_caller_attaches_stays_with_the_entry() -> None:
    texts, _ = matchers()
    texts.find(b"UPDATE t SET a = 1", "d")[0].attached = "write"
    assert texts.find(b"UPDATE t SET a = 'x'", "d")[0].attached == "write"
    assert texts.find(b"UPDATE t SET b = 1", "d")[0].attached is None
    assert texts.find(b"UPDATE t SET a = 1", "other")[0].attached is None


def test_what_is_attached_never_reaches_a_text_that_reads_otherwise() -> None:
    """An entry stands for texts that differ in literals and comments, whatever the scanner here takes apart wrongly."""
    pairs = (
        ("SELECT LAST_INSERT_ID(/* c */)", "SELECT LAST_INSERT_ID(5)"),
        ("SET a = N'x ', b = 'y'", "SET a = N'x '; DROP TABLE t; 'y'"),
        ("COMMIT /*!99999 ; DROP TABLE t */", "COMMIT /*!50000 ; DROP TABLE t */"),
        ("INSERT INTO t VALUES (`a 'b`, 'c')", "INSERT INTO t VALUES (`a 'b`); DELETE FROM u WHERE a = '', 'c')"),
    )
    for one, other in pairs:
        texts, _ = matchers()
        assert texts.find(one.encode(), "d")[0] is texts.find(one.encode(), "d")[0]
        assert texts.find(one.encode(), "d")[0] is not texts.find(other.encode(), "d")[0]


def test_statements_that_are_traced_by_comments_have_one_entry() -> None:
    texts, _ = matchers()
    texts.find(b"UPDATE t SET a = 1 /*n='1'*/", "d")[0].attached = "traced"
    assert texts.find(b"UPDATE t SET a = 2 /*n='2'*/", "d")[0].attached == "traced"


def test_a_literal_of_another_kind_is_another_entry() -> None:
    texts, exact = matchers()
    entries = set()
    for literal in ("1", "'1'", "1.0", "1e0", "-1", "0x31", "0b1", '"1"', "2", "-2", "'2'"):
        check(texts, exact, f"SELECT c FROM sbtest1 WHERE id={literal}")
        entries.add(id(texts.find(f"SELECT c FROM sbtest1 WHERE id={literal}".encode(), "d")[0]))
    assert len(entries) == 7


def test_constants_of_the_cache_decide() -> None:
    texts, _ = matchers()
    for number in range(3):
        for status, limit, cache in (
            ("'paid'", 5, "c2"),
            ("'open'", 5, None),
            ("'paid'", 6, None),
            ('"paid"', 5, "c2"),
        ):
            sql = f"SELECT id FROM orders WHERE customer_id = {number} AND status = {status} LIMIT {limit}"
            assert found(texts, sql) == (None if cache is None else (cache, (number,)))


def test_the_text_of_a_select_item_decides() -> None:
    texts, _ = matchers()
    assert found(texts, "SELECT 1 FROM orders WHERE id = 7") == ("c4", (7,))
    assert found(texts, "SELECT 2 FROM orders WHERE id = 7") is None
    assert found(texts, "SELECT 1 FROM orders WHERE id = 8") == ("c4", (8,))


def test_lists_of_different_lengths_have_their_own_values() -> None:
    texts, _ = matchers()
    for items in ((1,), (1, 2), (3, 4), (-1, 2), (5, -6), ("a", "b"), (1, "b"), tuple(range(50))):
        assert found(texts, f"SELECT c FROM sbtest1 WHERE id IN ({', '.join(map(repr, items))})") == ("c1", (items,))


def test_comments_of_an_orm_do_not_matter() -> None:
    texts, _ = matchers()
    entries = set()
    for trace in ("'00-1'", '"5"', "it's", "no quote"):
        entry, values = texts.find(f"/*a={trace}*/ SELECT c FROM sbtest1 WHERE id = 3 /*b={trace}*/".encode(), "d")
        entries.add(id(entry))
        assert (entry.cache, values) == ("c0", (3,))
    assert len(entries) == 1


def test_caches_that_come_and_go_are_noticed() -> None:
    texts, exact = matchers()
    sql = "SELECT id FROM orders WHERE id = 9"
    assert found(texts, sql) is None
    exact.add(fake_plan("SELECT id FROM orders WHERE id = ?", "d"), "new")
    assert found(texts, sql) == ("new", (9,))
    exact.remove("new")
    assert found(texts, sql) is None


def test_a_cache_that_fixes_more_comes_first_whatever_was_learned_before() -> None:
    texts, exact = matchers("SELECT a FROM t WHERE b = ? AND c = ?", "SELECT a FROM t WHERE b = 1 AND c = ?")
    for b in (2, 1, 3, 1, "'1'", 2):
        check(texts, exact, f"SELECT a FROM t WHERE b = {b} AND c = 5")
    assert found(texts, "SELECT a FROM t WHERE b = 1 AND c = 8") == ("c1", (8,))


@pytest.mark.parametrize(
    ("template", "one_entry"),
    [
        ("SELECT a {} + 1 FROM t WHERE a = 1", False),
        ("SELECT a + {} 1 AS b, a FROM t WHERE a = 1", False),
        ("SELECT a + 1 {} FROM t WHERE a = 1", True),
        ("SELECT a {}, b FROM t WHERE a = 1", True),
        ("SELECT {} a + 1 FROM t WHERE a = 1", True),
        ("{} SELECT a + 1 FROM t WHERE a = 1 {}", True),
        ("SELECT a + 1 FROM t {} WHERE a = 1", True),
    ],
)
def test_a_comment_inside_of_a_select_item_is_part_of_its_columns_name(template: str, one_entry: bool) -> None:
    texts, _ = matchers(template.replace("{}", ""))
    one, other = (texts.find(template.replace("{}", f"/* {name} */").encode(), "d")[0] for name in ("x", "y"))
    assert one.cache is not None and (one is other) == one_entry


def test_a_quote_in_a_name_or_comment_is_no_literal() -> None:
    texts, exact = matchers("SELECT `it's` FROM t WHERE a = ? AND b = ?")
    for a in ("1", "'x'"):
        for comment in ("", "-- it's\n", "# it's\n", "/* it's */"):
            assert check(texts, exact, f"SELECT `it's` FROM t {comment} WHERE a = {a} AND b = 2")


def test_version_comments_count_as_the_server_counts_them() -> None:
    texts, exact = matchers("SELECT a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = ? AND c = ?")
    for version in ("40001", "80030", "40001"):
        for number in (1, 2):
            check(texts, exact, f"SELECT a FROM t WHERE b = {number} /*!{version} AND c = 7 */")
            check(texts, exact, f"SELECT a FROM t WHERE b = /*!{version} {number} AND c = */ 5")
    assert found(texts, "SELECT a FROM t WHERE b = 1 /*!40001 AND c = 7 */") == ("c1", (1, 7))
    assert found(texts, "SELECT a FROM t WHERE b = 1 /*!80030 AND c = 7 */") is None


def test_hints_are_part_of_the_query() -> None:
    texts, exact = matchers(
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ a FROM t WHERE b = ?", "SELECT a FROM t WHERE b = ?"
    )
    for hint, cache in (("/*+ MAX_EXECUTION_TIME(1000) */", "c0"), ("/*+ NO_MERGE() */", None), ("/* + */", "c1")):
        for number in (1, 2):
            assert check(texts, exact, f"SELECT {hint} a FROM t WHERE b = {number}") is (cache is not None)


def test_escapes_are_those_of_mysql() -> None:
    texts, _ = matchers()
    for literal, value in (("'a\\\\''b'", "a\\'b"), ("'\\''''", "''"), ('"a\\"""b"', 'a""b'), ("'\\%\\a'", "\\%a")):
        assert found(texts, f"SELECT c FROM sbtest1 WHERE id = {literal}") == ("c0", (value,))


def test_text_that_is_no_utf8_has_no_cache() -> None:
    texts, _ = matchers()
    for text in (b"SELECT c FROM sbtest1 WHERE id = 'a'", b"SELECT c FROM sbtest1 WHERE id = '\xff'"):
        entry, _ = texts.find(text, "d")
    assert entry.cache is None
    assert texts.find(b"\xff\xfe", "d")[0].cache is None
    assert texts.find(b"", "d")[0].cache is None


def test_a_number_too_long_to_read_has_no_cache() -> None:
    texts, exact = matchers()
    for digits in (10, 4300, 4301, 10_000):
        for sign in ("", "-"):
            check(texts, exact, f"SELECT c FROM sbtest1 WHERE id = {sign}{'9' * digits}")


def test_long_texts_are_not_looked_at() -> None:
    texts, _ = matchers()
    read = "SELECT c FROM sbtest1 WHERE id = '{}'"
    assert found(texts, read.format("x" * LONGEST_OTHER)) is not None
    assert found(texts, read.format("x" * LONGEST)) is None
    insert = b"INSERT INTO t VALUES " + b", ".join([b"(1)"] * LONGEST_OTHER)
    assert texts.find(insert, "d")[0] is not texts.find(insert, "d")[0]


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.mysql.text.text_matcher.REMEMBERED_BYTES", 2000)
    texts, exact = matchers()
    hot = texts.find(b"SELECT c FROM sbtest1 WHERE id = 1", "d")[0]
    for number in range(200):
        check(texts, exact, f"SELECT c{number} FROM sbtest1 WHERE id = 1")
        check(texts, exact, f"SELECT c FROM sbtest1 WHERE id = x'{number:02}'")
        assert texts.find(b"SELECT c FROM sbtest1 WHERE id = 7", "d")[0] is hot
        assert len(texts._old) + len(texts._young) < 50


@pytest.mark.parametrize(
    ("sql", "steer"),
    [
        ("/* upwell: skip */ SELECT 1", Steer.SKIP),
        ("SELECT 1 /*UPWELL:Skip*/;", Steer.SKIP),
        ("SELECT /* upwell: force */ 1", Steer.FORCE),
        ("/* a='1' */ SELECT 1 /* upwell: force */ /* upwell: skip */", Steer.FORCE),
        ("SELECT '/* upwell: skip */'", Steer.NOT),
        ("SELECT `it's` FROM t /* upwell: skip */ WHERE a = 'b'", Steer.SKIP),
        ("SELECT x'00' /* upwell: skip */", Steer.SKIP),
        ("-- upwell: skip\nSELECT 1", Steer.NOT),
        ("SELECT 1 /* upwell skip */", Steer.NOT),
        ("SELECT 1 /* upwell: never */", Steer.NOT),
        ("SELECT 'open /* upwell: skip */", Steer.SKIP),
    ],
)
def test_comments_steer(sql: str, steer: Steer) -> None:
    assert steering(sql.encode()) is steer
    texts, _ = matchers()
    assert texts.find(sql.encode(), "d")[0].steer is steer
    assert texts.find(sql.encode(), "d")[0].steer is steer


def test_a_text_that_is_steered_still_has_its_cache() -> None:
    texts, _ = matchers()
    for number in range(2):
        entry, values = texts.find(f"/* upwell: skip */ SELECT c FROM sbtest1 WHERE id={number}".encode(), "d")
        assert (entry.cache, entry.steer, values) == ("c0", Steer.SKIP, (number,))
        assert texts.find(f"SELECT c FROM sbtest1 WHERE id={number}".encode(), "d")[0].steer is Steer.NOT


# ----------------------------------------------------------------------------------------------------------------------
# Equal to the matcher, in any order of learning.


@pytest.mark.parametrize("seed", range(6))
def test_texts_of_the_golden_queries_are_matched_as_the_matcher_does(seed: int) -> None:
    rng = random.Random(seed)
    plans = list(golden_plans())
    exact = QueryMatcher()
    for number, (_, plan) in enumerate(plans):
        if rng.random() < 0.7:
            exact.add(plan, f"c{number}")
    texts: TextMatcher[Any] = TextMatcher(exact)
    matched = repeated = 0
    for database, plan in rng.choices(plans, k=60):
        for _ in range(20):
            sql = client_text(rng, plan.sql)
            matched += check(texts, exact, sql, database)
            repeated += texts.find(sql.encode(), database)[0] is texts.find(sql.encode(), database)[0]
    assert matched > 200 and repeated > 1000, (matched, repeated)


def compare_fragments(rng: random.Random, fragments: Sequence[str | None]) -> None:
    """Texts of the fragments, of which some are caches themselves."""
    written = variants(rng, [rng.choice(("SELECT ", "/*c*/ select ", "(SELECT ", "with ", "")), *fragments], 12)
    exact = QueryMatcher()
    for number, sql in enumerate(written[:6]):
        try:
            tokens = scan(sql)
        except ParseError:
            continue
        if "/*!" in sql or not tokens or tokens[0].text.upper() not in ("SELECT", "WITH", "("):
            continue  # no cache has such a text
        spans = [token for token in tokens if token.kind in ("number", "string") and rng.random() < 0.5]
        for token in reversed(spans):
            sql = sql[: token.start] + "?" + sql[token.end :]
        exact.add(fake_plan(sql, "d"), f"c{number}")
    texts: TextMatcher[Any] = TextMatcher(exact)
    for sql in rng.choices(written, k=24):
        check(texts, exact, sql)


@pytest.mark.parametrize("seed", range(20))
def test_fragments_are_matched_as_the_matcher_does(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        compare_fragments(rng, [rng.choice((None, None, rng.choice(FRAGMENTS))) for _ in range(rng.randint(2, 9))])


@settings(max_examples=150)
@given(st.integers(0, 1 << 30), st.lists(st.one_of(st.none(), st.sampled_from(FRAGMENTS)), max_size=10))
def test_any_fragments_are_matched_as_the_matcher_does(seed: int, fragments: list[str | None]) -> None:
    compare_fragments(random.Random(seed), fragments)


# ----------------------------------------------------------------------------------------------------------------------
# Long texts.


def test_an_in_list_of_any_length_is_one_shape() -> None:
    texts, exact = matchers()
    entries = set()
    for items in ([5], [1, 2], list(range(-3, 20)), list(range(5000))):
        sql = f"SELECT c FROM sbtest1 WHERE id IN ({', '.join(map(str, items))})"
        entry, values = texts.find(sql.encode(), "d")
        assert values == (tuple(items),) and entry.cache == "c1"
        assert check(texts, exact, sql)
        entries.add(id(entry))
    assert len(entries) == 2  # a minus stands before the list, or none


@pytest.mark.parametrize(
    "items", [["'a'"] * 40, ["'it''s'", "'\\''"] * 40, ["0x1F", "0xabc"] * 20, ["1.50", "-2"] * 30]
)
def test_long_lists_of_one_kind_are_taken_as_they_are(items: list[str]) -> None:
    texts, exact = matchers()
    for length in (1, 2, len(items)):
        assert check(texts, exact, f"SELECT c FROM sbtest1 WHERE id IN ({','.join(items[:length])})")


def test_a_cache_of_a_long_list_is_for_that_list_alone() -> None:
    items = ", ".join(map(str, range(100)))
    texts, exact = matchers(f"SELECT c FROM sbtest1 WHERE id IN ({items}) AND k = ?")
    assert check(texts, exact, f"SELECT c FROM sbtest1 WHERE id IN ({items}) AND k = 5")
    assert not check(texts, exact, f"SELECT c FROM sbtest1 WHERE id IN ({items}, 100) AND k = 5")
    assert not check(texts, exact, f"SELECT c FROM sbtest1 WHERE id IN ({items.replace('7', '8')}) AND k = 5")


def test_a_list_that_names_a_column_stays_in_the_text() -> None:
    items = ", ".join(map(str, range(30)))
    texts, exact = matchers(f"SELECT id IN ({items}) FROM orders WHERE id = ?")
    assert check(texts, exact, f"SELECT id IN ({items}) FROM orders WHERE id = 5")
    assert not check(texts, exact, f"SELECT id IN ({items}, 30) FROM orders WHERE id = 5")


def test_a_text_of_too_many_words_is_not_looked_at() -> None:
    texts, _ = matchers()
    for sql in (" OR ".join(f"a = {number}" for number in range(3000)), "(" * 20_000, "f(" * 300, "1," * 600 + "2"):
        entry, values = texts.find(f"SELECT {sql}".encode(), "d")
        assert (entry.cache, values, entry.large) == (None, (), True)
    assert not texts.find(b"SELECT a FROM t WHERE " + b" OR ".join([b"a = 1"] * 50), "d")[0].large


def test_what_texts_have_in_common_takes_few_bytes() -> None:
    """A comment within a select item is a part of the column's name."""
    texts, _ = matchers("SELECT id, c FROM t WHERE k = ?")
    found = [texts.find(b"SELECT id, /* %s */ c FROM t WHERE k = 1" % (b"%d" % n * 3000), "d")[0] for n in range(3)]
    kept = [entry.alike for entry in found if entry.cache is not None]
    assert [len(alike) for alike in kept] == [16] * 3 and len(set(kept)) == 3


def test_a_name_in_backquotes_is_one_word() -> None:
    """As an object-relational mapper writes a join of two tables of thirty columns."""
    columns = ", ".join(f"`p`.`column_{number}` AS `p.column_{number}`" for number in range(60))
    sql = f"SELECT {columns} FROM `posts` AS `p` WHERE `p`.`id` = "
    texts, _ = matchers(f"{sql}?")
    assert found(texts, f"{sql}7") == ("c0", (7,))


HOSTILE = {
    "quotes": "'\\'" * 20_000,
    "double quotes": '"\\"' * 20_000,
    "comments": "/*" * 30_000,
    "hints": "/*+" * 20_000,
    "closed comments": "/**/" * 15_000,
    "names": "`" * 60_001,
    "variables": "@'" * 30_000,
    "version comments": "/*!99999 " * 6000,
    "numbers": "1" * 60_000 + "a",
    "points": "1." * 30_000,
    "hex": "0x" + "1" * 60_000 + "z",
    "lists": "in (1," * 10_000,
    "lists of strings": "in ('a','" * 6000,
    "spaces": "in" + " " * 60_000 + "x",
    "steering": "/* upwell :" * 5000,
    "functions": "f(" * 30_000,
    "slashes": "/" * 60_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_is_gone_over_twice(name: str) -> None:
    """Twice the text takes twice the time. Where it took four times as long, these would take minutes."""
    texts, _ = matchers()
    for text in (HOSTILE[name], "SELECT " + HOSTILE[name], "/* upwell: skip */ INSERT " + HOSTILE[name]):
        data = text.encode()
        texts.find(data[:LONGEST], "d")
        cut(data)
        steering(data)
        write_outline(data)
        shortened(text, str)
        with suppress(ParseError):
            scan_all(text)


@pytest.mark.parametrize(
    ("behind", "more"),
    [("", False), (";", False), ("; ;\n", False), (" -- ;", False), ("/* ; */;", False)]
    + [(text, True) for text in (";-- ", "; #", ";/* */", ";/* */;", ";/*! */", "; SELECT 1", ";\0", "; 'a")],
)
def test_a_text_tells_what_stands_behind_its_semicolon(behind: str, more: bool) -> None:
    texts, _ = matchers()
    for verb in (CACHES[0].replace("?", "{}"), "SELECT c FROM other WHERE id = {}", "COMMIT"):
        for key in (1, 2, 1):
            assert texts.find(f"{verb.format(key)}{behind}".encode(), "d")[0].more == more
    assert texts.find(b"COMMIT" + b" " * LONGEST_OTHER, "d")[0].more, "it is not looked at"
