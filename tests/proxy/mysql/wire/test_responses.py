"""MySQL's answers as they stream by: in whatever pieces they come, the client gets the same bytes, and the ends are
seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from proxy.mysql.wire.packets import (
    EOF,
    LARGEST,
    OK,
    STATUS_AUTOCOMMIT,
    STATUS_CURSOR_EXISTS,
    STATUS_MORE_RESULTS,
    STATUS_PS_OUT_PARAMS,
    STATUS_SESSION_STATE_CHANGED,
    OkAnswer,
    end_payload,
    error_payload,
    lenenc,
    ok_bytes,
    ok_payload,
    packet,
)
from proxy.mysql.wire.responses import NO_STATUS, Exchange, Kind, Outcome, Responses, whole_answer

STATE = b"\x01" + lenenc(lenenc(b"shop"))
DEFINITION = lenenc(b"def") + b"the rest of a definition"


@dataclass
class Seen:
    responses: Responses
    forwarded: bytearray = field(default_factory=bytearray)
    outcomes: list[Outcome] = field(default_factory=list)
    farewells: list[bytes] = field(default_factory=list)
    files: int = 0


def seen(*kinds: Kind, eof: bool = False, tracks: bool = False, hidden: Sequence[int] = ()) -> Seen:
    forwarded, outcomes, farewells = bytearray(), [], []  # type: ignore[var-annotated]  # lists of what comes

    responses = Responses(
        forwarded.extend,
        farewells.append,
        deprecate_eof=not eof,
        session_track=tracks,
        keep_state=lambda state: b"",
        file_wanted=lambda: setattr(watched, "files", watched.files + 1),
    )
    for number, kind in enumerate(kinds):
        responses.expect(Exchange(kind, outcomes.append, visible=number not in hidden))
    watched = Seen(responses, forwarded, outcomes, farewells)
    return watched


def numbered(*payloads: bytes) -> bytes:
    return b"".join(packet(payload, number) for number, payload in enumerate(payloads, 1))


def end(status: int, eof: bool) -> bytes:
    return end_payload(status, deprecate_eof=not eof)


def result(rows: Sequence[bytes], eof: bool, status: int = STATUS_AUTOCOMMIT, columns: int = 2) -> bytes:
    definitions_end = [end(status, eof)] if eof else []
    return numbered(bytes((columns,)), *[DEFINITION] * columns, *definitions_end, *rows, end(status, eof))


ROWS = [lenenc(b"one") + lenenc(b"row"), b"\xfb" + lenenc(b"x" * 300), b"\0\0binary", lenenc(b"\xfe") + lenenc(b"\xff")]


@pytest.mark.parametrize("eof", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_any_size_are_forwarded_alike(eof: bool, seed: int) -> None:
    chosen = random.Random(seed)
    answers = [
        (Kind.RESULT, result(ROWS, eof)),
        (Kind.RESULT, numbered(ok_bytes(OkAnswer(3, 7, 2, 0), OK, session_track=False))),
        (Kind.RESULT, numbered(error_payload(1064, "42000", "near it"))),
        (Kind.RESULT, result([], eof)),
        (Kind.RESULT, result(ROWS[:1], eof, STATUS_MORE_RESULTS) + result(ROWS[:2], eof)),
        (Kind.ROWS, numbered(*ROWS[2:3], end(STATUS_AUTOCOMMIT, eof))),
        (Kind.ROWS, numbered(error_payload(1146, "42S02", "no table"))),
        (Kind.ONE, numbered(b"Uptime: 3")),
        (Kind.PREPARED, prepared(2, 1, eof)),
        (Kind.PREPARED, prepared(0, 0, eof)),
    ]
    chosen.shuffle(answers)
    hidden = [number for number in range(len(answers)) if chosen.random() < 0.3]
    watched = seen(*(kind for kind, _ in answers), eof=eof, hidden=hidden)
    stream = b"".join(data for _, data in answers)
    at = 0
    while at < len(stream):
        size = chosen.choice((1, 2, 3, 5, 20, 400))
        watched.responses.feed(stream[at : at + size])
        at += size
    assert watched.forwarded == b"".join(data for number, (_, data) in enumerate(answers) if number not in hidden)
    assert len(watched.outcomes) == len(answers)
    assert not watched.responses.exchanges
    assert [one.error is not None for one in watched.outcomes] == [data[4] == 0xFF for _, data in answers]


LOOKS_LIKE_AN_END = [b"\xfc" + end_packet for end_packet in (b"\7\0\0\5\xfe\0\0\2\0\0\0", b"\5\0\0\5\xfe\0\0\2\0")]


def some_answer(chosen: random.Random, eof: bool) -> bytes:
    """An answer to a statement, of any kind."""
    if chosen.random() < 0.2:
        return numbered(error_payload(1064, "42000", "near it"))
    status = chosen.choice((0, 2, 3, 0x21, 0x2022))
    state = STATE if chosen.random() < 0.2 else b""
    told = OkAnswer(
        0, 0, status | (STATUS_SESSION_STATE_CHANGED if state else 0), chosen.choice((0, 1, 300)), b"", state
    )
    if chosen.random() < 0.3:
        return numbered(
            ok_bytes(OkAnswer(chosen.choice((0, 1, 300)), 7, told.status, 0, b"", state), OK, session_track=True)
        )
    more = chosen.random() < 0.2
    rows = chosen.choices([*ROWS, *LOOKS_LIKE_AN_END], k=chosen.randrange(6))
    if more or eof or not state:
        flags = status | STATUS_MORE_RESULTS if more else status
        first = result(rows, eof, flags, columns=chosen.choice((1, 2, 250)))
        return first + some_answer(chosen, eof) if more else first
    return numbered(b"\1", DEFINITION, *rows, ok_bytes(told, EOF, session_track=True))


@pytest.mark.parametrize("eof", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_an_answer_that_comes_at_once_tells_what_it_tells_byte_by_byte(eof: bool, seed: int) -> None:
    chosen = random.Random(seed)
    answers = [some_answer(chosen, eof) for _ in range(20)]
    together, apart = (seen(*[Kind.RESULT] * len(answers), eof=eof) for _ in range(2))
    for answer in answers:
        together.responses.feed(answer)
        for at in range(len(answer)):
            apart.responses.feed(answer[at : at + 1])
    assert together.forwarded == apart.forwarded
    assert together.outcomes == apart.outcomes
    assert len(together.outcomes) == len(answers)


@pytest.mark.parametrize("eof", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_what_is_taken_for_a_whole_answer_is_one_also_where_bytes_are_wrong(eof: bool, seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(50):
        data = bytearray(result(chosen.choices(ROWS, k=2), eof, columns=1))
        for _ in range(chosen.choice((1, 1, 2, 5))):
            data[chosen.randrange(len(data))] = chosen.choice((0, 1, 5, 7, 0xFB, 0xFE, 0xFF, chosen.randrange(256)))
        data = data[: chosen.choice((len(data), len(data), chosen.randrange(len(data))))]
        outcome = whole_answer(bytes(data), deprecate_eof=not eof)
        if outcome is None:
            continue
        watched = seen(Kind.RESULT, eof=eof)
        for at in range(len(data)):
            assert not watched.outcomes
            watched.responses.feed(bytes(data[at : at + 1]))
        assert watched.outcomes == [outcome]
        assert watched.forwarded == data


def prepared(columns: int, parameters: int, eof: bool) -> bytes:
    head = b"\0\5\0\0\0" + columns.to_bytes(2, "little") + parameters.to_bytes(2, "little") + b"\0\0\0"
    payloads = [head]
    for count in (parameters, columns):
        payloads += [DEFINITION] * count + ([end(0, True)] if eof and count else [])
    return numbered(*payloads)


def test_an_ending_tells_the_status_and_an_error_tells_none() -> None:
    watched = seen(Kind.RESULT, Kind.RESULT)
    watched.responses.feed(result(ROWS, False, status=0x21) + numbered(error_payload(1213, "40001", "deadlock")))
    done, failed = watched.outcomes
    assert (done.status, done.error) == (0x21, None)
    assert failed.status == NO_STATUS
    assert failed.error is not None and failed.error.errno == 1213


@pytest.mark.parametrize("tracks", [False, True])
def test_what_the_trackers_say_is_ours_and_the_client_sees_the_rest(tracks: bool) -> None:
    told = OkAnswer(1, 2, STATUS_AUTOCOMMIT | STATUS_SESSION_STATE_CHANGED, 3, b"Rows matched: 1", STATE)
    watched = seen(Kind.RESULT, tracks=tracks)
    watched.responses.feed(numbered(ok_bytes(told, OK, session_track=True)))
    assert watched.outcomes[0].state == STATE
    shown = OkAnswer(1, 2, STATUS_AUTOCOMMIT, 3, b"Rows matched: 1")
    assert watched.forwarded == numbered(ok_bytes(shown, OK, session_track=tracks))


def test_trackers_at_the_end_of_rows_are_taken_out_too() -> None:
    told = ok_bytes(OkAnswer(0, 0, 0x4002, 0, b"", STATE), EOF, session_track=True)
    watched = seen(Kind.RESULT)
    watched.responses.feed(numbered(b"\1", DEFINITION, ROWS[0], told))
    assert watched.forwarded == numbered(b"\1", DEFINITION, ROWS[0], end(STATUS_AUTOCOMMIT, False))
    assert watched.outcomes[0].state == STATE


@pytest.mark.parametrize("eof", [False, True])
def test_the_rows_of_a_cursor_are_not_waited_for(eof: bool) -> None:
    opened = end(STATUS_CURSOR_EXISTS | STATUS_AUTOCOMMIT, eof)
    watched = seen(Kind.RESULT, eof=eof)
    watched.responses.feed(numbered(b"\1", DEFINITION, opened))
    assert [one.status for one in watched.outcomes] == [STATUS_CURSOR_EXISTS | STATUS_AUTOCOMMIT]


@pytest.mark.parametrize("eof", [False, True])
def test_a_row_of_several_packets_whose_last_one_looks_like_an_end(eof: bool) -> None:
    rest = end(STATUS_AUTOCOMMIT, eof)
    large = packet(b"\xfe" + b"x" * (LARGEST - 1) + rest, 4 if not eof else 5)
    stream = result([], eof, columns=1)
    cut = len(stream) - len(rest) - 4
    watched = seen(Kind.RESULT, eof=eof)
    whole = stream[:cut] + large + packet(rest, 9)
    for at in range(0, len(whole), 1 << 16):
        assert not watched.outcomes
        watched.responses.feed(whole[at : at + (1 << 16)])
    assert len(watched.outcomes) == 1
    assert watched.forwarded == whole


def test_a_row_of_exactly_the_largest_size_has_an_empty_packet_behind() -> None:
    watched = seen(Kind.RESULT)
    whole = numbered(b"\1", DEFINITION) + packet(b"y" * LARGEST, 3) + packet(end(2, False), 5)
    watched.responses.feed(whole)
    assert len(watched.outcomes) == 1
    assert watched.forwarded == whole


def test_a_file_is_asked_for_and_then_all_is_said() -> None:
    watched = seen(Kind.RESULT)
    watched.responses.feed(numbered(b"\xfbdata.csv"))
    assert watched.files == 1
    watched.responses.feed(packet(ok_bytes(OkAnswer(5, 0, 2, 0), OK, session_track=False), 4))
    assert len(watched.outcomes) == 1


def test_a_statement_that_is_ours_asks_the_client_for_no_file() -> None:
    watched = seen(Kind.RESULT, hidden=[0])
    watched.responses.feed(numbered(b"\xfbdata.csv"))
    assert watched.files == 0


@pytest.mark.parametrize("pieces", [1, 1000])
def test_parameters_that_come_out_are_followed_by_an_ok_though_their_end_does_not_say_so(pieces: int) -> None:
    flags = STATUS_PS_OUT_PARAMS | STATUS_MORE_RESULTS | STATUS_AUTOCOMMIT
    whole = numbered(b"\1", DEFINITION, end(flags, True), ROWS[2], end(STATUS_AUTOCOMMIT, True), ok_payload(2))
    watched = seen(Kind.RESULT, Kind.ONE, eof=True)
    whole += packet(b"statistics", 1)
    for at in range(0, len(whole), pieces):
        watched.responses.feed(whole[at : at + pieces])
    assert watched.forwarded == whole
    assert [one.status for one in watched.outcomes] == [2, NO_STATUS]


def test_nothing_is_kept_of_rows_that_nobody_wants() -> None:
    watched = seen(Kind.RESULT, hidden=[0])
    rest = end(STATUS_AUTOCOMMIT, False)
    large = packet(b"\xfe" + b"x" * (LARGEST - 1) + rest, 3)
    whole = numbered(b"\1", DEFINITION) + large + packet(rest, 9)
    for at in range(0, len(whole), 1 << 16):
        watched.responses.feed(whole[at : at + (1 << 16)])
    (outcome,) = watched.outcomes
    assert (outcome.status, outcome.payloads, watched.forwarded) == (STATUS_AUTOCOMMIT, [], bytearray())


def test_what_nothing_asked_for_is_a_farewell() -> None:
    watched = seen()
    said = packet(error_payload(4031, "HY000", "The client was disconnected"), 0)
    watched.responses.feed(said[:3])
    watched.responses.feed(said[3:])
    assert watched.farewells == [said[4:]]
    assert not watched.forwarded


def test_events_go_by_without_end() -> None:
    watched = seen(Kind.ENDLESS)
    events = numbered(*[b"\0" + bytes((kind,)) * 40 for kind in range(20)])
    for at in range(0, len(events), 7):
        watched.responses.feed(events[at : at + 7])
    assert watched.forwarded == events
    assert not watched.outcomes
