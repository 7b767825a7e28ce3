"""Rows that are taken out of answers and put back are those that were there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.messages import UpqueryAnswer, UpqueryFailed
from external_upquery.protocol import Answers, Done, ProtocolBroken, ResultSet
from external_upquery.rows_apart import FEW, PART, put_back, taken_out
from sqltypes.errors import SourceDown
from tests.external_upquery.test_collected import (
    DECIMAL,
    LONG,
    OK,
    OPENING,
    STRING,
    ended,
    packet,
    rows,
    upquery,
)

MANY: list[list[str | None]] = [[str(n), None if n % 7 == 3 else f"text {n}"] for n in range(FEW + 1)]
DECIMALS: list[list[str | None]] = [[str(n), "1.10"] for n in range(FEW + 1)]
NUMBERS: list[list[str | None]] = [[str(n)] for n in range(FEW)]
values = st.one_of(st.none(), st.text(max_size=20).filter(lambda text: len(text.encode()) < 250))


@given(st.lists(st.lists(st.tuples(values, values), max_size=3 * FEW), max_size=4))
def test_what_is_put_back_is_what_the_decoder_gives(tables: list[list[tuple[str | None, str | None]]]) -> None:
    received = OK + b"".join(_table(table) for table in tables)
    plain = _decoded(received, len(tables) + 1)
    left, packed = taken_out(received, len(tables) + 1)
    assert {number for number, _ in packed} == {at + 1 for at, table in enumerate(tables) if len(table) > FEW}
    assert len(left) < len(received) or not packed
    answers = _decoded(left, len(tables) + 1)
    for _ in put_back(answers, packed):
        pass
    assert isinstance(answers[0], Done)
    assert [one.rows for one in answers[1:]] == [one.rows for one in plain[1:]] == [list(map(tuple, t)) for t in tables]


def _table(table: list[tuple[str | None, str | None]]) -> bytes:
    eof = b"\xfe\0\0\2\0"
    head = rows([STRING, STRING])[: -len(packet(0, eof))]
    body = b"".join(
        packet(0, b"".join(b"\xfb" if v is None else bytes((len(v.encode()),)) + v.encode() for v in row))
        for row in table
    )
    return head + body + packet(0, eof)


def _decoded(received: bytes, count: int) -> list[ResultSet]:
    answers = Answers(deprecate_eof=False)
    answers.expect(count + 1)
    return answers.feed(received)  # type: ignore[return-value]  # but for the first


def test_a_collected_answer_is_the_same_either_way() -> None:
    received = OPENING + rows([LONG, STRING], *MANY) + rows([LONG], ["1"]) + OK
    question = upquery("SELECT 1", "SELECT 2")
    left, packed = taken_out(received, question.answers)
    assert [number for number, _ in packed] == [4] and b"text 1" not in left
    apart, whole = ended(question.answered([left], 0.0, packed)), ended(question.answered([received], 0.0))
    assert isinstance(apart, UpqueryAnswer) and len(apart.results[0]) == FEW + 1
    assert (apart.results, apart.columns, repr(apart.bracket)) == (whole.results, whole.columns, repr(whole.bracket))


def test_many_rows_are_several_parts() -> None:
    left, packed = taken_out(_table([("a", "b")] * (2 * PART + 1)), 1)
    assert len(packed) == 3 and len(left) < 200
    (answer,) = _decoded(left, 1)
    assert [len(answer.rows) for _ in put_back([answer], packed)] == [PART, 2 * PART, 2 * PART + 1]


@pytest.mark.parametrize(
    "received",
    [
        OPENING + rows([LONG, DECIMAL], *DECIMALS) + OK,
        OPENING + rows([LONG], *NUMBERS) + OK,
        OPENING + rows([LONG], *NUMBERS, ["7"], ["x"]) + OK,
        OPENING + b"\x01\0\0\1\xfb",
        OPENING + packet(1, b"\xff\x1a\x04#42S22Unknown column") + OK,
        b"",
    ],
    ids=["decimals", "few", "no number", "no answer", "an error", "nothing"],
)
def test_what_is_not_taken_out_is_left_as_it_is(received: bytes) -> None:
    assert taken_out(received, upquery("SELECT 1").answers) == (received, [])


def test_an_answer_that_is_cut_off_gives_no_rows() -> None:
    whole = OPENING + rows([LONG, STRING], *MANY)
    left, packed = taken_out(whole[:-3], upquery("SELECT 1").answers)
    assert (left, packed) == (whole[:-3], [])


def test_rows_of_an_answer_that_has_none_are_the_sources_fault() -> None:
    received = OPENING + rows([LONG, STRING], *MANY) + OK
    question = upquery("SELECT 1")
    _, packed = taken_out(received, question.answers)
    for asked, sent in (([received], packed), ([OPENING + OK + OK], packed)):
        failed = ended(question.answered(asked, 0.0, packed))
        assert isinstance(failed, UpqueryFailed) and isinstance(failed.error, SourceDown), sent
    with pytest.raises(ProtocolBroken):
        next(put_back(_decoded(OK, 1), [(0, packed[0][1])]))
