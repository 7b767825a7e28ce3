"""What is sent to vtgate for an upquery, and the bracket that the shards' answers tell."""

from __future__ import annotations

import pytest
from pymysql.constants import FIELD_TYPE

from dataflow.messages import Statement
from external_upquery.protocol import Answer, Answers, query
from external_upquery.vitess.snapshot import Plan, plan, read
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceDown, SourceError
from tests.support import mysql_packets as server

LEFT, RIGHT = "3aff29c1-ea19-11f1-a6e4-02fc00000001", "3c52d3d8-ea19-11f1-8b70-02fc00000001"
TEXT = server.column("t", FIELD_TYPE.VAR_STRING, charset=server.UTF8MB4)
DONE = server.packet(server.ok())


def texts(*values: str) -> bytes:
    return server.result_set([TEXT] * len(values), [[value.encode() for value in values]])


def sending(*statements: Statement) -> Plan:
    return plan(statements, "shop", ("-80", "80-"))


def decoded(count: int, *answers: bytes) -> list[Answer]:
    decoder = Answers(deprecate_eof=True)
    decoder.expect(count)
    return decoder.feed(b"".join(answers))


def of_two_shards(answer: bytes, *, left: str = LEFT, executed: str = "1-6") -> list[bytes]:
    """vtgate's answers to a plan of one statement."""
    below = [DONE, texts(LEFT, f"{LEFT}:1-5"), DONE, texts(RIGHT, f"{RIGHT}:1-3")]
    above = [DONE, texts(left, f"{LEFT}:8#12", f"{LEFT}:{executed}"), DONE, texts(RIGHT, "", f"{RIGHT}:1-3")]
    return [DONE, *below, DONE, answer, *above, DONE, DONE]


def test_each_shard_is_asked_before_and_behind_the_statements() -> None:
    told = sending(Statement("SELECT 1", ("SET @a = 1",), ("SET @a = 2",)), Statement("SELECT 2"))
    lower, upper = (
        "SELECT @@server_uuid, @@global.gtid_executed",
        ("SELECT @@server_uuid, @@global.gtid_owned, @@global.gtid_executed"),
    )
    expected = (
        *("BEGIN", "USE `shop:-80`", lower, "USE `shop:80-`", lower, "USE `shop`"),
        *("SET @a = 1", "SELECT 1", "SET @a = 2", "SELECT 2"),
        *("USE `shop:-80`", upper, "USE `shop:80-`", upper, "USE `shop`", "COMMIT"),
    )
    assert told.packets == b"".join(map(query, expected)) and told.count == len(expected)
    assert [expected[at] for at in (*told.rows, *told.lowers, *told.uppers)] == [
        *("SELECT 1", "SELECT 2"), *(lower, lower), *(upper, upper)
    ]  # fmt: skip


def test_the_bracket_is_the_union_of_what_the_shards_say() -> None:
    told = sending(Statement("SELECT x"))
    found = read(told, decoded(told.count, *of_two_shards(texts("x"))))
    assert not isinstance(found, Exception)
    bracket, (result,) = found
    assert isinstance(bracket, Bracket) and result.rows == [("x",)]
    assert bracket.history == "keyspace shop"
    assert bracket.lower == GtidSet.parse(f"{LEFT}:1-5,{RIGHT}:1-3")
    assert bracket.uncertain == GtidSet.parse(f"{LEFT}:6:8")


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        (of_two_shards(server.packet(server.error(1146, "42S02", "no such table"))), SourceError),
        (of_two_shards(DONE), SourceDown),
        (of_two_shards(texts("x"), left=RIGHT), SourceDown),  # another server from one reading to the next
        (of_two_shards(texts("x"), executed="0"), SourceDown),
    ],
)
def test_what_is_no_answer_of_one_history(answers: list[bytes], error: type[Exception]) -> None:
    told = sending(Statement("SELECT x"))
    assert isinstance(read(told, decoded(told.count, *answers)), error)


def test_checks_are_within_the_bracket_and_may_fail() -> None:
    """A request of checks alone has no other statements that it could be the bracket of."""
    told = plan((), "shop", ("-80",), (Statement("SELECT 1"), Statement("SELECT 2")))
    (lower,), (upper,) = told.lowers, told.uppers
    assert all(lower < at < upper for at in told.checks) and len(told.checks) == 2
    refused = server.packet(server.error(1105, "HY000", "no"))
    below, above = [DONE, texts(LEFT, f"{LEFT}:1-5")], [DONE, texts(LEFT, "", f"{LEFT}:1-6")]
    found = read(told, decoded(told.count, DONE, *below, DONE, texts("x"), refused, *above, DONE, DONE))
    assert not isinstance(found, Exception)
    bracket, results = found
    assert results == () and bracket.uncertain == GtidSet.parse(f"{LEFT}:6")
