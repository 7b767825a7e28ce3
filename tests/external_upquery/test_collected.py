"""An upquery that somebody else sends: its commands, and the bytes of their answers decoded."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from dataflow.messages import Statement, UpqueryAnswer, UpqueryFailed, UpqueryRequest
from external_upquery.collected import CollectedUpquery
from external_upquery.snapshot import BracketReader
from sqltypes.errors import Fault, SourceDown, SourceError

UUID = "5e1ec7ed-0000-4000-8000-000000000001"


def packet(sequence: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes((sequence,)) + payload


def text(value: str) -> bytes:
    return bytes((len(value),)) + value.encode()


def column(name: str, type_: int) -> bytes:
    fixed = b"\x0c\xff\x00\x00\x04\x00\x00" + bytes((type_,)) + b"\x00\x00\x00\x00\x00"
    return text("def") + text("") * 3 + text(name) + text(name) + fixed


def rows(types: list[int], *values: list[str | None]) -> bytes:
    eof = b"\xfe\0\0\2\0"
    payloads = [bytes((len(types),)), *(column(f"c{at}", type_) for at, type_ in enumerate(types)), eof]
    payloads += [b"".join(b"\xfb" if value is None else text(value) for value in row) for row in values]
    return b"".join(packet((at + 1) & 0xFF, payload) for at, payload in enumerate([*payloads, eof]))


OK = packet(1, b"\0\0\0\2\0\0\0")
STRING, LONG, DECIMAL = 0xFD, 0x03, 0xF6
OPENING = rows([STRING], [f"{UUID}:1-5"]) + OK + OK + rows([STRING] * 3, [UUID, "", f"{UUID}:1-6"])
BEHIND = rows([STRING], ["mark"])[:20]  # the last answer, cut off


def upquery(*statements: str) -> CollectedUpquery:
    request = UpqueryRequest(7, tuple(Statement(sql) for sql in statements), ("`d`.`t`",), "d", slow=True)
    return CollectedUpquery(request, BracketReader())


def ended(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            return stopped.value


def test_the_commands_are_those_of_the_snapshot_form() -> None:
    packets = upquery("SELECT 1", "SELECT 2").packets
    places = [packets.index(piece) for piece in (b"gtid_executed", b"CONSISTENT SNAPSHOT", b"DO (SELECT", b"SELECT 1",
                                                 b"SELECT 2", b"COMMIT")]  # fmt: skip
    assert places[-3:] == sorted(places[-3:]) and places[0] < places[1] < places[2]


def test_answers_with_their_bracket() -> None:
    received = OPENING + rows([LONG, STRING], ["1", "one"], ["2", None]) + rows([LONG]) + OK
    for behind in (b"", BEHIND):
        answer = ended(upquery("SELECT 1", "SELECT 2").answered([received, behind], 3.5))
        assert isinstance(answer, UpqueryAnswer)
        assert (answer.id, answer.results, answer.connected_at) == (7, ([(1, "one"), (2, None)], []), 3.5)
        assert (str(answer.bracket.lower), answer.bracket.history) == (f"{UUID}:1-5", UUID)
        assert str(answer.bracket.uncertain) == f"{UUID}:6"


def test_an_error_of_mysqls_is_the_upquerys() -> None:
    error = packet(1, b"\xff\x1a\x04#42S22Unknown column")
    failed = ended(upquery("SELECT x").answered([OPENING + error + OK], 0.0))
    assert isinstance(failed, UpqueryFailed) and isinstance(failed.error, SourceError)
    assert (failed.error.errno, failed.error.message) == (1050, "Unknown column")


def test_what_is_cut_off_or_no_answer_is_the_sources_fault() -> None:
    whole = OPENING + rows([LONG], ["1"]) + OK
    for received in (b"", whole[:-1], OPENING, b"\x01\0\0\1\xfb" + whole):
        failed = ended(upquery("SELECT 1").answered([received], 0.0))
        assert isinstance(failed, UpqueryFailed) and isinstance(failed.error, SourceDown), received


def test_a_value_that_is_none_of_its_type_is_a_fault() -> None:
    failed = ended(upquery("SELECT 1").answered([OPENING + rows([LONG], ["x"]) + OK], 0.0))
    assert isinstance(failed, UpqueryFailed) and isinstance(failed.error, Fault)


def test_a_large_answer_is_decoded_in_steps() -> None:
    many: list[list[str | None]] = [[str(n), "x" * 200] for n in range(1000)]
    received = OPENING + rows([LONG, STRING], *many) + OK
    steps = upquery("SELECT 1").answered([received], 0.0)
    assert sum(1 for _ in steps) == -(-len(received) // (1 << 16))
