"""Which keyspace vtgate answers from, as its plans say it."""

from __future__ import annotations

import json

import pytest

from external_upquery.vtgate_routes import Routes, explain, keyspaces, reads_table
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
    assert Routes("a`b").questions(["t", "u-v"]) == [
        "VEXPLAIN PLAN SELECT 1 FROM `a``b`.`t`",
        "VEXPLAIN PLAN SELECT 1 FROM `a``b`.`u-v`",
    ]
    assert explain(reads_table("shop", "t")) == "VEXPLAIN PLAN SELECT 1 FROM `shop`.`t`"


def test_a_table_moves_away_and_comes_back() -> None:
    routes = Routes("shop")
    home = {"item": plan("shop"), "note": plan("shop").replace("from item", "from note")}
    assert routes.told(home) is None and not routes.elsewhere
    moved = routes.told({**home, "note": plan("archive")})
    assert moved is not None and moved.gtid is None and moved.schema
    assert moved.tables == frozenset({"shop.note"}) and "shop.note: answered from archive" in moved.statement
    assert routes.elsewhere == {"shop.note": "answered from archive"}
    assert routes.told({**home, "note": plan("archive")}) is None, "told once"
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
    found = routes.told({"note": answer})
    assert found is not None and found.tables == frozenset({"shop.note"})
    assert routes.elsewhere == {"shop.note": reason}
    routes.forget("note")
    assert not routes.elsewhere


def test_a_table_that_is_answered_from_another_one() -> None:
    """A routing rule leads to another table, perhaps of the same keyspace."""

    def reads(table: str) -> str:
        return plan("shop").replace("from item", f"from {table}")

    routes = Routes("shop")
    assert routes.told({"item": reads("item")}) is None
    assert routes.told({"item": reads("`item`")}) is None
    moved = routes.told({"item": reads("item_v2 as item")})
    assert moved is not None and routes.elsewhere == {"shop.item": "answered from item_v2 as item"}
