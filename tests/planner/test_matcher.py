"""Which texts are for which cache, and with which values."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from planner.api import plan_query
from planner.matcher import QueryMatcher
from planner.text.bare_names import BareNames
from planner.text.fingerprint import Constant, ListSlot, Placeholder, fingerprint
from planner.text.scan import unwrap_version_comments
from sqltypes.errors import ParseError
from tests.support.goldens import PLANS, snapshot

DATABASE, SCHEMA = snapshot(PLANS / "rows.sql")


def matcher(*queries: str) -> QueryMatcher:
    found = QueryMatcher(SCHEMA.server_version)
    for number, sql in enumerate(queries):
        found.add(plan_query(sql, DATABASE, SCHEMA), f"c{number}")
    return found


def test_spacing_case_of_keywords_and_comments_do_not_matter() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ?")
    assert found.match("select  id\nfrom orders where customer_id=? -- mine", DATABASE, (7,)) == ("c0", (7,))


def test_it_is_known_whether_some_text_tells_a_collation() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ?")
    assert not found.tells_collations
    sql = "SELECT /*+ QB_NAME(upwell_collation_utf8mb4_bin) */ id FROM orders WHERE customer_id = ?"
    found.add(plan_query(sql, DATABASE, SCHEMA), "told")
    assert found.tells_collations and found.match(sql, DATABASE, (7,)) == ("told", (7,))
    found.remove("told")
    assert not found.tells_collations and found.match(sql, DATABASE, (7,)) is None


def test_quotes_around_plain_names_do_not_matter() -> None:
    """As ORMs write them."""
    found = matcher("SELECT id, o.status FROM orders o WHERE customer_id = ?")
    for text in (
        "SELECT `id`, `o`.`status` FROM `orders` `o` WHERE `customer_id` = 7",
        "SELECT id, o.`status` FROM `orders` o WHERE customer_id = 7",
    ):
        assert found.match(text, DATABASE, ()) == ("c0", (7,))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT `user`, `a b`, `select` AS x FROM t",
        "SELECT `own`(1) AS x FROM t",
        "SELECT d.`own` (1) AS x FROM t",
        "SELECT a AS x FROM t ORDER BY `_utf8mb4`",
        "SELECT x AS y FROM t WHERE `n` 'a' = 1",
        "SELECT x AS y FROM t WHERE t.`order` = 1",
        "SELECT x AS y FROM t WHERE `end` = 1",
    ],
)
def test_quotes_stay_where_the_name_may_mean_something_else_without(text: str) -> None:
    quoted = set(re.findall("`[^`]*`", text))
    assert set(re.findall("`[^`]*`", fingerprint(text, "d").shape)) == quoted


def test_the_name_of_an_unnamed_column_keeps_its_quotes() -> None:
    found = matcher("SELECT id + 1 FROM orders WHERE customer_id = ?")
    assert found.match("SELECT `id` + 1 FROM orders WHERE customer_id = 7", DATABASE, ()) is None


def test_literals_stand_where_parameters_are() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ? AND total > ?")
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND total > -9.50;", DATABASE, ()) == (
        "c0",
        (7, Decimal("-9.50")),
    )


def test_literals_and_placeholders_mix() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ? AND status = ?")
    assert found.match("SELECT id FROM orders WHERE customer_id = ? AND status = 'it''s'", DATABASE, (7,)) == (
        "c0",
        (7, "it's"),
    )


def test_a_list_matches_any_length() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id IN (?)")
    assert found.match("SELECT id FROM orders WHERE customer_id IN (1, 2, 3)", DATABASE, ()) == ("c0", ((1, 2, 3),))
    assert found.match("SELECT id FROM orders WHERE customer_id IN (?, 2)", DATABASE, (1,)) == ("c0", ((1, 2),))
    assert found.match("SELECT id FROM orders WHERE customer_id IN (?)", DATABASE, ((4, 5),)) == ("c0", ((4, 5),))


def test_constants_of_the_cache_must_agree() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ? AND status = 'paid' LIMIT 5")
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status = 'paid' LIMIT 5", DATABASE, ())
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status = 'open' LIMIT 5", DATABASE, ()) is None
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status = 'paid' LIMIT 6", DATABASE, ()) is None
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status = ? LIMIT 5", DATABASE, ("paid",))


def test_a_constant_of_another_type_does_not_agree() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ? AND total = 1.5")
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND total = 1.50", DATABASE, ()) is None
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND total = 1.5", DATABASE, ())


def test_the_cache_with_more_constants_comes_first() -> None:
    found = matcher(
        "SELECT id FROM orders WHERE customer_id = ? AND status = ?",
        "SELECT id FROM orders WHERE customer_id = ? AND status = 'paid'",
    )
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status = 'paid'", DATABASE, ()) == ("c1", (7,))
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status = 'x'", DATABASE, ()) == ("c0", (7, "x"))


def test_constant_lists_are_compared_whole() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ? AND status IN ('a', 'b')")
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status IN ('a','b')", DATABASE, ())
    assert found.match("SELECT id FROM orders WHERE customer_id = 7 AND status IN ('a')", DATABASE, ()) is None


def test_text_that_names_a_column_is_not_folded() -> None:
    found = matcher("SELECT COUNT(*) FROM orders WHERE customer_id = ?")
    assert found.match("SELECT COUNT(*) FROM orders WHERE customer_id = 1", DATABASE, ())
    assert found.match("SELECT count(*) FROM orders WHERE customer_id = 1", DATABASE, ()) is None


def test_another_database_or_number_of_values_is_no_match() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ?")
    assert found.match("SELECT id FROM orders WHERE customer_id = ?", "other", (1,)) is None
    assert found.match("SELECT id FROM orders WHERE customer_id = ?", DATABASE, ()) is None


def test_a_removed_cache_is_not_found() -> None:
    found = matcher("SELECT id FROM orders WHERE customer_id = ?")
    assert found.match("SELECT id FROM orders WHERE customer_id = ?", DATABASE, (1,))
    found.remove("c0")
    assert found.match("SELECT id FROM orders WHERE customer_id = ?", DATABASE, (1,)) is None


def test_text_that_is_no_sql_is_no_match() -> None:
    assert matcher().match("SELECT 'open", DATABASE, ()) is None
    with pytest.raises(ParseError, match="line 1, column 8"):
        fingerprint("SELECT 'open", DATABASE)


def test_slots_come_in_the_order_of_the_text() -> None:
    found = fingerprint("SELECT a AS x FROM t WHERE b = ? AND c IN (1, ?) AND d BETWEEN -2 AND x'0aFF' LIMIT 3", "d")
    assert found.shape == "SELECT a AS x FROM t WHERE b = ? AND c IN (?...) AND d BETWEEN ? AND ? LIMIT ?"
    assert found.slots == (
        Placeholder(0),
        ListSlot((Constant("int", 1), Placeholder(1))),
        Constant("int", -2),
        Constant("hex", b"\x0a\xff"),
        Constant("int", 3),
    )


def test_subtraction_is_no_sign() -> None:
    assert fingerprint("SELECT x AS y FROM t WHERE a -1 = b", "d").shape == "SELECT x AS y FROM t WHERE a - ? = b"


def test_version_comments_count_as_the_server_counts_them() -> None:
    text = "SELECT a /*!80100 , b */ /*!99999 , c */ FROM t"
    assert unwrap_version_comments(text, (8, 4, 0)).split() == ["SELECT", "a", ",", "b", "FROM", "t"]
    assert unwrap_version_comments(text, (8, 0, 30)).split() == ["SELECT", "a", "FROM", "t"]
    assert unwrap_version_comments("SELECT '/*!80100 x */'", (8, 4, 0)) == "SELECT '/*!80100 x */'"


def test_a_comment_for_some_servers_is_no_caches_text_where_the_server_is_not_known() -> None:
    plans = ("SELECT id FROM orders WHERE customer_id = ?", "SELECT id FROM orders WHERE customer_id = ? AND total = 1")
    text = "SELECT id FROM orders WHERE customer_id = 7 /*!80030 AND total = 1 */"
    for version, found in (((8, 0, 29), ("c0", (7,))), ((9, 7, 0), ("c1", (7,))), (None, None)):
        texts = QueryMatcher(version)
        for number, sql in enumerate(plans):
            texts.add(plan_query(sql, DATABASE, SCHEMA), f"c{number}")
        assert texts.match(text, DATABASE, ()) == found
        assert texts.match(text.replace("80030", "50000"), DATABASE, ()) == ("c1", (7,))


def test_a_server_that_comes_back_as_another_version_is_read_anew() -> None:
    texts = QueryMatcher()
    texts.add(plan_query("SELECT id FROM orders WHERE customer_id = ?", DATABASE, SCHEMA), "c")
    text = "SELECT id FROM orders /*!80400 WHERE customer_id = 7 */"
    assert texts.match(text, DATABASE, ()) is None
    for version, found in (((8, 4, 1), ("c", (7,))), ((8, 0, 40), None)):
        before = texts.changes
        texts.read_as(version)
        assert texts.changes != before
        assert texts.match(text, DATABASE, ()) == found
    before = texts.changes
    texts.read_as((8, 0, 40))
    assert texts.changes == before


def test_hints_stay_in_the_shape() -> None:
    assert fingerprint("SELECT /*+ NO_MERGE(t) */ a FROM t", "d").shape == "SELECT /*+ NO_MERGE(t) */ a FROM t"


def test_a_session_without_a_database() -> None:
    """A text that names all databases has the caches of the default one. Of other names somebody must say so."""
    qualified = f"SELECT id FROM {DATABASE}.orders WHERE customer_id = ?"
    unqualified = "SELECT id FROM orders WHERE customer_id = ?"
    bare = BareNames()
    for names in (None, bare):
        found = QueryMatcher(SCHEMA.server_version, DATABASE, names)
        for number, sql in enumerate((qualified, unqualified)):
            found.add(plan_query(sql, DATABASE, SCHEMA), f"c{number}")
        assert found.match(qualified, "", (7,)) == ("c0", (7,)) and found.match(qualified, "other", (7,)) is None
        assert found.match(unqualified, "", (7,)) is None
    version = found.changes
    bare.told(frozenset({"orders"}))
    assert list(bare.asked) == ["orders"] and found.changes != version
    assert found.match(unqualified, "", (7,)) == ("c1", (7,))
    bare.told(frozenset())
    assert found.match(unqualified, "", (7,)) is None
