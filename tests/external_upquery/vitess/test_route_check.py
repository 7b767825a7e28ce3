"""Whether an answer came by the routes that are known: what is asked for that, and what is made of it."""

from __future__ import annotations

import json

import pytest
from pymysql.constants import FIELD_TYPE

from dataflow.messages import Keyed, Statement, UpqueryRequest
from external_upquery.protocol import Answer, Answers, query
from external_upquery.vitess.dialect import VtgateDialect
from external_upquery.vitess.route_check import Looking
from external_upquery.vitess.routes import Route, Routes, question, vindexes_of
from external_upquery.vitess.shard_of_key import Vindex
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceDown
from sqltypes.schema import Column, SqlType, Table
from tests.support import mysql_packets as server

BIGINT = SqlType("bigint")
TABLE = Table("shop", "item", (Column("id", BIGINT, False, 0), Column("n", BIGINT, True, 1)), ("id",))
KEYED = Statement("SELECT id, n FROM item WHERE id IN (1)", keyed=Keyed(TABLE, ("id",), [(1,)]))
ALL = Statement("SELECT COUNT(*) FROM item")
PLAN = json.dumps({"Keyspace": {"Name": "shop", "Sharded": True}, "Query": "select 1 from item"})
MOVED = PLAN.replace('"shop"', '"archive"')
HASH, REVERSED = ("id", "hash", "xxhash", "", ""), ("id", "hash", "reverse_bits", "", "")
ROUTE = Route(PLAN, (HASH,), by=("id",))
HOW, BY = question("shop", "item", ROUTE), vindexes_of("shop", "item")
UUID = "3aff29c1-ea19-11f1-a6e4-02fc00000001"


def looking(route: Route | None = ROUTE) -> Looking:
    routes = Routes("shop")
    if route is not None:
        routes.reflected("item", route, refused=False)
    return Looking("shop", routes)


def rows(*found: tuple[str, ...], of: str = ".") -> bytes:
    columns = [server.column("c", FIELD_TYPE.VAR_STRING, server.UTF8MB4, of=of) for _ in (found or [("",)])[0]]
    return server.result_set(columns, [[value.encode() for value in row] for row in found])


def decoded(*answers: bytes) -> list[Answer]:
    decoder = Answers(deprecate_eof=True)
    decoder.expect(len(answers))
    return decoder.feed(b"".join(answers))


DONE, ERROR = server.packet(server.ok()), server.packet(server.error(1105, "HY000", "no such table"))


def test_by_a_route_that_leads_elsewhere_nothing_is_held() -> None:
    """Whoever has reflected the table has found that out before the watch."""
    for route in (Route(MOVED, (HASH,), by=("id",)), Route("", (HASH,), refused="no")):
        looks = looking(route).of(["item"], [KEYED])
        assert looks.commands == [] and looks.astray([]) == {"item": None}


def test_what_is_asked_is_what_the_answer_does_not_tell() -> None:
    unsharded = Route(PLAN.replace("true", "false"), ())
    assert looking().of(["item"], [KEYED]).commands == [query(BY)]
    assert looking().of(["item"], [ALL]).commands == [query(HOW), query(BY)]
    assert looking().of(["item"], [KEYED, ALL]).commands == [query(HOW), query(BY)]
    assert looking(unsharded).of(["item"], [KEYED]).commands == []
    assert looking(unsharded).of(["item"], [ALL]).commands == [query(question("shop", "item", unsharded))]
    found = looking().of(["item", "other"], [KEYED])
    assert found.unknown == ("other",) and found.astray(decoded(rows(HASH), rows(HASH))) == {"other": None}


def test_the_tables_of_a_request() -> None:
    found = looking().tables(("`shop`.`item`", "`shop`.`a``b`", "`plain`.`lone`"))
    assert found == ("item", "a`b")


@pytest.mark.parametrize(
    ("answers", "astray"),
    [
        ((rows((PLAN,)), rows(HASH)) * 2, ""),
        ((rows((MOVED,)), rows(HASH), rows((PLAN,)), rows(HASH)), "item"),
        ((rows((PLAN,)), rows(HASH), rows((MOVED,)), rows(HASH)), "item"),
        ((rows((PLAN,)), rows(REVERSED), rows((PLAN,)), rows(HASH)), "item"),
        ((rows((PLAN,)), rows(HASH), rows((PLAN,)), rows(HASH, HASH)), "item"),
        ((rows((PLAN,)), rows(HASH), rows((PLAN,)), rows()), "item"),
        ((rows((PLAN,)), rows(HASH), rows((PLAN,)), ERROR), "item"),
        ((ERROR, rows(HASH), rows((PLAN,)), rows(HASH)), "item"),
        ((DONE, rows(HASH), rows((PLAN,)), rows(HASH)), "item"),
    ],
)
def test_another_route_before_or_behind(answers: tuple[bytes, ...], astray: str) -> None:
    assert looking().of(["item"], [ALL]).astray(decoded(*answers)) == ({astray: ROUTE} if astray else {})


def test_an_answer_tells_of_which_table_its_columns_are() -> None:
    found = looking()

    def elsewhere(statement: Statement, of: str) -> str:
        (answer,) = decoded(rows(("1", "2"), of=of))
        assert not isinstance(answer, Exception)
        return found.announced_elsewhere(statement, answer.layout.columns)  # type: ignore[union-attr]

    assert elsewhere(KEYED, "shop.item") == "" == elsewhere(ALL, ".") == elsewhere(ALL, "shop.child")
    assert elsewhere(KEYED, "archive.item") == "archive.item" == elsewhere(ALL, "archive.item")
    assert elsewhere(KEYED, "shop.item_v2") == "shop.item_v2"
    assert found.of(["item"], [KEYED]).commands == [query(BY)]
    assert elsewhere(KEYED, ".") == "an unknown place", "once"
    assert found.of(["item"], [KEYED]).commands == [query(HOW), query(BY)], "from now on its plan is asked for"
    assert elsewhere(KEYED, ".") == "" and elsewhere(KEYED, "archive.item") == "archive.item"


class Asked:
    """A dialect, and what vtgate answers to a request for a key of one shard."""

    def __init__(self) -> None:
        self.astray: list[frozenset[str]] = []
        self.dialect = VtgateDialect("shop", lambda: ("-80", "80-"), GtidSet.empty, lambda: 0.0)
        self.dialect.on_astray = self.astray.append
        self.dialect.places.distributed("shop.item", Vindex("hash", ("id",), ("xxhash", "")))
        self.dialect.routes.reflected("item", ROUTE, refused=False)
        self.request = UpqueryRequest(1, (KEYED,), ("`shop`.`item`",))

    def places(self, before: tuple[str, ...] = HASH, behind: tuple[str, ...] = HASH) -> None:
        asked = self.dialect.before(self.request)
        assert asked is not None and asked.count == 3
        asked.told(decoded(rows(before), rows(("-80",)), rows(behind)))

    def answer(self, before: tuple[str, ...] = HASH, behind: tuple[str, ...] = HASH, of: str = "shop.item") -> object:
        sending = self.dialect.upquery(self.request)
        assert sending.shards == ("-80",)
        lower, upper = rows((UUID, f"{UUID}:1-5")), rows((UUID, "", f"{UUID}:1-5"))
        looked, answer = (rows(before), rows(behind)), rows(("1", "2"), of=of)
        answers = decoded(
            *(DONE, DONE, lower, DONE, looked[0], answer, looked[1], DONE, upper, DONE, DONE),
        )
        assert len(answers) == sending.count
        return self.dialect.bracketed(sending, answers)


def test_an_answer_by_another_route_is_none() -> None:
    asked = Asked()
    asked.places()
    assert isinstance(asked.answer(), tuple)
    for wrong in (asked.answer(REVERSED), asked.answer(HASH, REVERSED), asked.answer(of="archive.item")):
        assert isinstance(wrong, SourceDown)
    item: frozenset[str] = frozenset({"item"})
    assert isinstance(asked.answer(), tuple) and asked.astray == [item, item, frozenset()]


def test_where_a_key_is_by_another_vindex_is_not_remembered() -> None:
    asked = Asked()
    asked.places(REVERSED, HASH)
    asked.places(HASH, REVERSED)
    assert len(asked.astray) == 2 and asked.dialect.upquery(asked.request).whole
    before = asked.dialect.before(asked.request)
    asked.dialect.places.distributed("shop.item", Vindex("hash", ("id",), ("reverse_bits", "")))
    assert before is not None
    before.told(decoded(rows(HASH), rows(("-80",)), rows(HASH)))
    assert asked.dialect.upquery(asked.request).whole, "all was forgotten since it was asked"


def test_what_was_reflected_anew_since_it_was_asked_is_not_astray() -> None:
    asked = Asked()
    asked.places()
    sending = asked.dialect.upquery(asked.request)
    lower, upper = rows((UUID, f"{UUID}:1-5")), rows((UUID, "", f"{UUID}:1-5"))
    answer = rows(("1", "2"), of="shop.item")
    answers = decoded(DONE, DONE, lower, DONE, rows(HASH), answer, rows(REVERSED), DONE, upper, DONE, DONE)
    asked.dialect.routes.reflected("item", Route(PLAN, (REVERSED,), by=("id",)), refused=False)
    assert isinstance(asked.dialect.bracketed(sending, answers), SourceDown)
    assert asked.astray == [frozenset()]


@pytest.mark.parametrize(("how", "of", "is_astray"), [(PLAN, "shop.item", 0), (PLAN, "a.item", 1), (MOVED, ".", 1)])
def test_what_is_compared_comes_by_the_known_routes_too(how: str, of: str, is_astray: int) -> None:
    """Else a table that moves would look like an answer that differs."""
    asked = Asked()
    sending = asked.dialect.upquery(UpqueryRequest(1, (), ("`shop`.`item`",), checks=(ALL,)))
    lower, upper = rows((UUID, f"{UUID}:1-5")), rows((UUID, "", f"{UUID}:1-5"))
    lowers, uppers = (DONE, lower) * 2, (DONE, upper) * 2
    looks = (rows((how,)), rows(HASH))
    answers = decoded(DONE, *lowers, DONE, *looks, rows(("1", "2"), of=of), *looks, *uppers, DONE, DONE)
    assert len(answers) == sending.count
    assert isinstance(asked.dialect.bracketed(sending, answers), SourceDown) == bool(is_astray)
    assert len(asked.astray) == is_astray
