"""What a statement's answers have for columns, by what vtgate and a shard announce."""

from __future__ import annotations

import pytest
from pymysql.constants import FIELD_TYPE, FLAG

from external_upquery.columns import RawColumn
from external_upquery.protocol import COM_STMT_PREPARE, Answer, Done, Prepared, command, query
from external_upquery.vitess.columns import described, describing
from sqltypes.errors import SourceError

SENDING = describing("SELECT 1", "shop", "-80")
DONE = Done(0, 0, 2, 0)
OWN, AT_SHARD = SENDING.prepared


def column(name: str, code: int, length: int, *, decimals: int = 0, flags: int = 0) -> RawColumn:
    return RawColumn(name, "", code, flags, 63, length, decimals)


def answers(own: Answer, at_shard: Answer) -> list[Answer]:
    found: list[Answer] = [DONE] * SENDING.count
    found[OWN], found[AT_SHARD] = own, at_shard
    return found


def statement(number: int, *columns: RawColumn) -> Prepared:
    return Prepared(number, columns, 0)


ID = column("id", FIELD_TYPE.LONG, 11)
SORTED_BY = column("count(*)", FIELD_TYPE.LONGLONG, 0)


def test_it_is_prepared_by_vtgate_and_at_a_shard() -> None:
    prepare = command(COM_STMT_PREPARE, b"SELECT 1")
    before, between, rest = SENDING.packets.split(prepare)
    assert before.startswith(query("USE `shop`")) and query("USE `shop:-80`") in between
    assert rest.endswith(query("USE `shop`"))


def test_what_vtgate_sorts_by_is_no_column_of_the_answer() -> None:
    found = described(SENDING, answers(statement(3, ID, SORTED_BY), statement(4, ID)))
    assert found == statement(3, ID)


def test_lengths_are_those_of_the_shard_and_types_those_of_vtgate() -> None:
    told = column("n", FIELD_TYPE.NEWDECIMAL, 0), column("x", FIELD_TYPE.DOUBLE, 0), column("u", FIELD_TYPE.LONG, 0)
    known = (
        column("n", FIELD_TYPE.NEWDECIMAL, 24),
        column("x", FIELD_TYPE.NEWDECIMAL, 24),
        column("u", FIELD_TYPE.LONG, 10, flags=FLAG.UNSIGNED),
    )
    found = described(SENDING, answers(statement(3, *told), statement(4, *known)))
    assert found == statement(3, known[0], told[1], told[2])


@pytest.mark.parametrize("at_shard", [SourceError(1146, "42S02", "no such table"), statement(4, ID, ID, ID)])
def test_a_text_that_means_another_thing_at_a_shard_is_as_vtgate_says(at_shard: Answer) -> None:
    assert described(SENDING, answers(statement(3, ID, SORTED_BY), at_shard)) == statement(3, ID, SORTED_BY)


def test_what_vtgate_refuses_as_it_prepares_or_as_it_plans_is_refused() -> None:
    refused = SourceError(1235, "42000", "unsupported")
    assert described(SENDING, answers(refused, statement(4, ID))) == refused
    before, _ = SENDING.packets.split(query("VEXPLAIN PLAN SELECT 1"))
    planned = answers(statement(3, ID), statement(4, ID))
    planned[number_of_packets(before)] = refused
    assert described(SENDING, planned) == refused


def number_of_packets(data: bytes) -> int:
    number, at = 0, 0
    while at < len(data):
        number, at = number + 1, at + 4 + int.from_bytes(data[at : at + 3], "little")
    return number
