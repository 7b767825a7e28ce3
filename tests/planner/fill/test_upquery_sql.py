"""The SQL that fills keys."""

from __future__ import annotations

from planner.api import plan_query
from planner.fill.upquery_sql import answer_sql, fill_columns, fill_sql, semijoin_sql, topk_fetch
from planner.tree.plan import AggregateArrangement, AnswerArrangement, RowsArrangement, TopKArrangement
from sqltypes.expression import Value
from sqltypes.schema import Column, SchemaSnapshot, SqlType, Table
from tests.support.goldens import PLANS, snapshot

DATABASE, SCHEMA = snapshot(PLANS / "rows.sql")


def root(sql: str) -> RowsArrangement | AggregateArrangement | TopKArrangement:
    arrangement = plan_query(sql, DATABASE, SCHEMA).reader.root
    assert not isinstance(arrangement, AnswerArrangement)
    return arrangement


def where(sql: str, *keys: tuple[Value, ...]) -> str:
    return fill_sql(root(sql), keys).partition(" WHERE ")[2]


def test_one_key_is_an_equality_and_several_are_a_list() -> None:
    query = "SELECT id FROM orders WHERE customer_id = ?"
    assert where(query, (1,)) == "`customer_id` = 1"
    assert where(query, (1,), (2,), (1,)) == "`customer_id` IN (1, 2)"


def test_null_is_asked_for_apart() -> None:
    query = "SELECT id FROM products WHERE parent_id <=> ?"
    assert where(query, (None,)) == "`parent_id` IS NULL"
    assert where(query, (1,), (None,)) == "(`parent_id` = 1 OR `parent_id` IS NULL)"


def test_keys_that_differ_in_one_part_share_the_others() -> None:
    query = "SELECT id FROM orders WHERE customer_id = ? AND status = ?"
    assert where(query, (1, "a"), (1, "b")) == "`customer_id` = 1 AND `status` IN ('a', 'b')"


def test_keys_that_differ_in_both_parts_are_alternatives() -> None:
    query = "SELECT id FROM orders WHERE customer_id = ? AND status = ? AND total > 3"
    expected = "((`customer_id` = 1 AND `status` = 'a') OR (`customer_id` = 2 AND `status` = 'b')) AND `total` > 3"
    assert where(query, (1, "a"), (2, "b")) == expected


def test_a_filter_with_or_is_bracketed() -> None:
    query = "SELECT id FROM orders WHERE customer_id = ? AND (total > 3 OR note IS NULL)"
    assert where(query, (1,)) == "`customer_id` = 1 AND (`total` > 3 OR `note` IS NULL)"


def test_aggregates_come_with_the_counts_that_maintain_them() -> None:
    arrangement = root("SELECT AVG(price), SUM(quantity), MIN(price) FROM order_lines WHERE order_id = ?")
    assert [name for name, _ in fill_columns(arrangement)] == [
        "order_id",
        "order_id",
        "sum of a0",
        "count of a0",
        "a1",
        "a2",
        "count(*)",
        "count of a1",
    ]
    assert fill_sql(arrangement, [(1,)]).startswith(
        "SELECT `order_id`, `order_id`, SUM(`price`), COUNT(`price`), SUM(`quantity`), MIN(`price`), "
        "COUNT(*), COUNT(`quantity`) FROM"
    )


def test_float_columns_are_selected_as_double() -> None:
    assert "CAST(`weight` AS DOUBLE)" in fill_sql(root("SELECT weight FROM orders WHERE id = ?"), [(1,)])


def test_top_rows_bring_what_their_order_reads() -> None:
    arrangement = root("SELECT title FROM products ORDER BY price LIMIT 5")
    assert isinstance(arrangement, TopKArrangement)
    assert [name for name, _ in fill_columns(arrangement)] == ["title", "price", "id"]
    assert fill_sql(arrangement, [()]).endswith(f"ORDER BY `price`, `id` LIMIT {topk_fetch(arrangement)}")


def test_a_semijoin_follows_the_lookups_before_it() -> None:
    plan = plan_query(
        "SELECT p.title FROM orders o JOIN order_lines l ON l.order_id = o.id JOIN products p ON p.id = l.product_id "
        "WHERE o.customer_id = ? AND l.quantity > 1",
        DATABASE,
        SCHEMA,
    )
    assert semijoin_sql(plan, 1, [(7,), (8,)]) == (
        "SELECT `id`, `title` FROM `shop`.`products` WHERE `id` IN ("
        "SELECT `l`.`product_id` FROM `shop`.`orders` AS `o` "
        "JOIN (SELECT * FROM `shop`.`order_lines` WHERE `quantity` > 1) AS `l` ON `l`.`order_id` = `o`.`id` "
        "WHERE `o`.`customer_id` IN (7, 8))"
    )


def test_a_semijoin_with_parameters_of_its_own_has_a_part_for_each_key() -> None:
    plan = plan_query(
        "SELECT l.line FROM orders o JOIN order_lines l ON l.order_id = o.id "
        "WHERE o.customer_id = ? AND l.product_id = ?",
        DATABASE,
        SCHEMA,
    )
    text = semijoin_sql(plan, 0, [(7, 1), (8, 2)])
    assert "(`order_id`, `product_id`) IN (SELECT `o`.`id`, 1 FROM" in text
    assert " OR (`order_id`, `product_id`) IN (SELECT `o`.`id`, 2 FROM" in text


def test_an_answer_is_the_clients_text_with_values() -> None:
    plan = plan_query(
        "SELECT DISTINCT status, '{x}' FROM orders WHERE customer_id IN (?) AND total > ?", DATABASE, SCHEMA
    )
    arrangement = plan.reader.root
    assert isinstance(arrangement, AnswerArrangement)
    assert answer_sql(arrangement, ((1, 2), 5)).sql == (
        "SELECT DISTINCT status, '{x}' FROM orders WHERE customer_id IN (1, 2) AND total > 5"
    )
    assert "IN (NULL)" in answer_sql(arrangement, ((), 5)).sql


def test_what_is_looked_up_has_the_character_set_and_collation_of_the_column() -> None:
    """MySQL misses rows of another one that it has put into a table of its own."""
    integer = SqlType("int")
    utf16 = SqlType("varchar", length=12, collation="utf16_general_ci")
    general = SqlType("varchar", length=12, collation="utf8mb4_general_ci")
    binary = SqlType("varchar", length=12, collation="utf8mb4_bin")
    left = Table(
        "d",
        "l",
        (Column("k", integer, True, 0), Column("u", utf16, True, 1), Column("g", general, True, 2)),
    )
    right = Table("d", "r", (Column("v", binary, True, 0), Column("n", integer, True, 1)))
    schema = SchemaSnapshot({("d", "l"): left, ("d", "r"): right}, (9, 7, 0))
    for name, read in (
        ("u", "CONVERT(`l`.`u` USING utf8mb4) COLLATE utf8mb4_bin"),
        ("g", "`l`.`g` COLLATE utf8mb4_bin"),
    ):
        plan = plan_query(f"SELECT r.n FROM l JOIN r ON r.v = l.{name} WHERE l.k = ?", "d", schema)
        assert f" IN (SELECT {read} FROM " in semijoin_sql(plan, 0, [(1,)])
