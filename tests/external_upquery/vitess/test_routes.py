"""Which keyspace vtgate answers from, as its plans say it."""

from __future__ import annotations

import json

import pytest

from external_upquery.vitess.routes import (
    Route,
    Routes,
    explain,
    keyspaces,
    question,
    reads_table,
    route_of,
    vindexes_of,
)
from sqltypes.errors import SourceError


def route(keyspace: str) -> dict[str, object]:
    """As v24 prints one."""
    return {
        "OperatorType": "Route",
        "Variant": "Scatter",
        "Keyspace": {"Name": keyspace, "Sharded": True},
        "FieldQuery": "select 1 from item where 1 != 1",
        "Query": "select 1 from item",
    }


def plan(*names: str) -> str:
    routes = [route(name) for name in names]
    return json.dumps(routes[0] if len(routes) == 1 else {"OperatorType": "Join", "Inputs": routes})


HASH = (("id", "hash", "xxhash", "", ""),)
Said = list[tuple[str]] | SourceError


def by(answer: str | SourceError) -> Said:
    return answer if isinstance(answer, SourceError) else [(answer,)]


def defined(*vindexes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """As vtgate tells of all vindexes."""
    return [("other", "hash", "binary", "", ""), *(("shop", *vindex[1:]) for vindex in vindexes)]


def test_the_keyspaces_of_a_plan() -> None:
    assert keyspaces(plan("shop")) == {"shop"}
    nested = {"OperatorType": "Aggregate", "Inputs": [{"OperatorType": "Join", "Inputs": [route("a"), route("b")]}]}
    assert keyspaces(json.dumps(nested)) == {"a", "b"}
    assert keyspaces('{"OperatorType": "Rows"}') == set()


@pytest.mark.parametrize("text", ["", "[]", "Route", '{"a":'])
def test_what_is_no_plan(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        keyspaces(text)


def test_questions_are_by_the_name_that_clients_have() -> None:
    assert explain(reads_table("a`b", "u-v")) == "VEXPLAIN PLAN SELECT 1 FROM `a``b`.`u-v`"
    assert vindexes_of("a`b", "u-v") == "SHOW VSCHEMA VINDEXES ON `a``b`.`u-v`"
    of_two = Route("", (("a, `b`", "pair", "multicol", "", ""),), by=("a", "b"))
    assert route_of([("a, `b`", "pair", "multicol", "", "")]) == of_two
    assert question("shop", "t", of_two) == "VEXPLAIN PLAN SELECT 1 FROM `shop`.`t` WHERE `a` = 1 AND `b` = 1"
    routes = Routes("shop")
    assert routes.asked("t") == explain(reads_table("shop", "t"))
    routes.reflected("t", of_two, refused=False)
    assert routes.asked("t") == question("shop", "t", of_two)


def test_a_table_moves_away_and_comes_back() -> None:
    routes = Routes("shop")
    home = {"item": by(plan("shop")), "note": by(plan("shop").replace("from item", "from note"))}
    assert routes.told(home) is None and not routes.elsewhere
    moved = routes.told({**home, "note": by(plan("archive"))})
    assert moved is not None and moved.gtid is None and moved.schema
    assert moved.tables == frozenset({"shop.note"}) and "shop.note: answered from archive" in moved.statement
    assert routes.elsewhere == {"shop.note": "answered from archive"}
    assert routes.told({**home, "note": by(plan("archive"))}) is None, "told once"
    back = routes.told(home)
    assert back is not None and back.tables == frozenset({"shop.note"}) and not routes.elsewhere


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (plan("shop", "archive"), "answered from archive"),  # a view of both
        (plan("archive"), "answered from archive"),
        ('{"OperatorType": "Rows"}', "answered from nowhere"),
        ("no plan", "vtgate does not say where it is answered from"),
        (SourceError(1105, "HY000", "table note not found"), "vtgate does not answer: table note not found"),
    ],
)
def test_what_is_not_answered_from_its_own_keyspace_alone(answer: str | SourceError, reason: str) -> None:
    """At first sight, too."""
    routes = Routes("shop")
    found = routes.told({"note": by(answer)})
    assert found is not None and found.tables == frozenset({"shop.note"})
    assert routes.elsewhere == {"shop.note": reason}
    back = routes.told({"note": by(plan("shop").replace("item", "note"))})
    assert back is not None and back.tables == found.tables and not routes.elsewhere


def test_a_table_that_is_answered_from_another_one() -> None:
    """A routing rule leads to another table, perhaps of the same keyspace."""

    def reads(table: str) -> Said:
        return by(plan("shop").replace("from item", f"from {table}"))

    routes = Routes("shop")
    assert routes.told({"item": reads("item")}) is None
    assert Routes("shop").told({"item": reads("`item`")}) is None
    assert routes.told({"item": by(plan("shop").replace("from item", "from item where id = 1"))}) is not None
    moved = routes.told({"item": reads("item_v2 as item")})
    assert moved is not None and routes.elsewhere == {"shop.item": "answered from item_v2 as item"}


def test_a_table_is_distributed_otherwise() -> None:
    """Rows are on other shards, though they are read from the same keyspace."""
    routes = Routes("shop")
    known = route_of(HASH).planned(by(plan("shop")))
    routes.reflected("item", known, refused=False)
    home, reversed_ = {"item": by(plan("shop"))}, ("id", "hash", "reverse_bits", "", "")
    assert routes.told(home, defined(*HASH)) is None
    scatters = {"item": by(plan("shop").replace("Scatter", "EqualUnique"))}
    for plans, vindexes in ((home, [reversed_]), (home, []), (scatters, []), (home, HASH)):
        moved = routes.told(plans, defined(*vindexes))
        assert moved is not None and moved.tables == frozenset({"shop.item"}) and not routes.elsewhere
        assert routes.told(plans, defined(*vindexes)) is None, "told once"
        assert routes.known("item") is known, "what is known of keys is of this one"


def test_what_has_changed_since_it_was_reflected_is_told() -> None:
    routes = Routes("shop")
    old, new = (route_of([("id", "hash", kind, "", "")]).planned(by(plan("shop"))) for kind in ("binary", "xxhash"))
    routes.reflected("item", old, refused=True)
    assert list(routes.refused) == ["shop.item"]
    assert routes.told({"item": by(plan("shop"))}, defined(*HASH)) is not None
    routes.reflected("item", new, refused=False)
    assert routes.told({"item": by(plan("shop"))}, defined(*HASH)) is None and not routes.refused


def test_a_shard_that_has_moved_takes_all_tables_with_it() -> None:
    routes = Routes("shop")
    home = {"item": by(plan("shop"))}
    assert routes.told(home) is None
    moved = routes.shards_told({"-80": "archive"}, ["item", "unknown"])
    assert moved is not None and moved.tables == frozenset({"shop.item"})
    assert routes.elsewhere == {"shop.item": "shard -80 is answered from archive"}
    assert routes.told(home) is None and routes.shards_told({"-80": "archive"}, ["item"]) is None
    routes.reflected("item", route_of(HASH).planned(home["item"]), refused=True)
    assert routes.told(home) is None, "it was reflected with that"
    assert routes.shards_told({}, ["item"]) is not None and not routes.elsewhere and not routes.away


def test_a_table_that_comes_into_the_vschema() -> None:
    """vtgate has planned it before, by what it knows of its shards."""
    routes, home = Routes("shop"), {"item": by(plan("shop"))}
    lacks = SourceError(1105, "HY000", "VT05005: table 'item' does not exist in keyspace 'shop'")
    routes.reflected("item", route_of(lacks).planned(home["item"]), refused=True)
    assert routes.without_vindexes("item") and routes.told(home, [], {"item": lacks}) is None
    assert routes.told(home, defined(*HASH), {"item": HASH}) is not None
    assert not routes.without_vindexes("item") and not routes.without_vindexes("other")


def test_who_reflects_may_find_another_route_before_the_watch_does() -> None:
    routes, here = Routes("shop"), route_of(HASH).planned(by(plan("shop")))
    assert not routes.reflected("item", here, refused=False), "nothing is held yet"
    assert not routes.reflected("item", here, refused=False)
    for news in (here.planned(by(plan("archive"))), route_of([("id", "hash", "reverse_bits", "", "")]).planned([])):
        assert routes.reflected("item", news, refused=True)
        assert not routes.reflected("item", news, refused=True)
    refused = [here.planned(SourceError(1105, "HY000", said)) for said in ("at 12:00", "at 12:01")]
    assert [routes.reflected("item", one, refused=True) for one in refused] == [True, False], "the words are no news"
