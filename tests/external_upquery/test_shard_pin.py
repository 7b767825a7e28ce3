"""At which shard vtgate asks about a session's variables."""

from __future__ import annotations

from external_upquery.shard_pin import MOST_TRIED, Order, shards_told

TARGETS = [f"shop:{shard}" for shard in ("-20", "20-40", "40-60", "60-80", "80-")]


def test_a_shard_that_was_late_is_tried_last() -> None:
    order = Order()
    for late in TARGETS[:-1]:
        order.was_late(late)
    for _ in range(50):
        tried = order.of(TARGETS)
        assert tried[0] == (TARGETS[-1], True)
        assert tried[-1] == (TARGETS[-1], False), "it is given all the time that there is"
        assert len(tried) == MOST_TRIED + 1 and len({target for target, _ in tried}) == MOST_TRIED


def test_each_shard_has_its_turn() -> None:
    assert {Order().of(TARGETS)[0][0] for _ in range(1000)} == set(TARGETS)


def test_of_a_keyspace_without_shards_there_is_nothing_to_try() -> None:
    assert Order().of([]) == []
    assert shards_told("shop", [("shop/-80",), ("shop/80-",), ("shop_2/-",)]) == ["-80", "80-"]
    assert shards_told("none", []) == []
