"""Bytes of any kind against what takes bytes apart: what comes is an answer or `Malformed`, and nothing else; and where
there is more to say (nothing is lost, pieces do not matter), that holds."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from proxy.mysql.login.auth_relay import AuthRelay, Terms, Turn
from proxy.mysql.login.login_packets import (
    encode_change_user,
    encode_handshake_response,
    is_too_old,
    offered_capabilities,
    parse_change_user,
    parse_greeting,
    parse_handshake_response,
    wants_tls,
)
from proxy.mysql.login.password_key import PasswordKey, encrypt
from proxy.mysql.reads.announced import Announced, definitions_in, same_names
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.session.questions_to_mysql import only_row
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import ASK_COLUMNS, BETWEEN, TOGETHER, asked_values
from proxy.mysql.wire.bound_values import NotDecoded, text_at
from proxy.mysql.wire.packet_stream import LARGEST_LOGIN, Lost, PacketStream
from proxy.mysql.wire.packets import LARGEST, Malformed, lenenc, packet, parse_error, parse_ok
from proxy.mysql.wire.responses import Exchange, Kind, Outcome, Responses
from proxy.mysql.wire.sockets import Commands
from proxy.mysql.wire.tracker_entries import entries
from proxy.port.session import SessionCache
from tests.fuzz.payloads import cut, mutated, pieces
from tests.fuzz.shrinking import smaller_bytes, spelled
from tests.fuzz.system import COLUMNS, DEFINITIONS, BenchCache, Counts
from tests.fuzz.upstream import STATES, WILD_STATES, ScriptedUpstream
from tests.support.mysql_packets import error, prepared, result_set
from tests.support.scripted_mysql import greeting, handshake_response

ALL = 0xDFFFFFFF


@dataclass(frozen=True, slots=True)
class BytesCase:
    """Bytes for one decoder. `seed`: of how they are cut and what is chosen beside them."""

    kind: str
    seed: int
    data: bytes

    def run(self, counts: Counts) -> None:
        TARGETS[self.kind][1](self.data, random.Random(self.seed))

    def smaller(self) -> Iterator[BytesCase]:
        for data in smaller_bytes(self.data):
            yield replace(self, data=data)

    def script(self) -> str:
        return (
            f"from tests.fuzz.decoders import BytesCase\n"
            f"BytesCase({self.kind!r}, {self.seed}, {spelled(self.data)}).run(Counter())"
        )


def bytes_case(rng: random.Random) -> BytesCase:
    target = rng.choice(tuple(TARGETS))
    data = TARGETS[target][0](rng)
    if rng.random() < 0.8:
        data = mutated(rng, data) if rng.random() < 0.9 else rng.randbytes(rng.choice((0, 1, 5, 40, 300)))
    return BytesCase(target, rng.randrange(1 << 30), data)


# -- a client's bytes --------------------------------------------------------------------------------------------------


def some_commands(rng: random.Random) -> bytes:
    sizes = (0, 1, 5, 300, 65_535, 65_536, 65_537, 70_000)
    pieces = [packet(rng.randbytes(1) * rng.choice(sizes), rng.choice((0, 0, 1))) for _ in range(rng.randrange(1, 6))]
    if rng.random() < 0.02:
        pieces.append(packet(b"\3" * (LARGEST + rng.choice((0, 5))), 0))
    return b"".join(pieces)


def cut_commands(data: bytes, rng: random.Random) -> None:
    """No byte is lost, doubled or moved; what is held is bounded by what a command may be."""
    limit = rng.choice((100, 80_000, 1 << 30))
    commands = Commands(limit)
    out, at = bytearray(), 0
    with suppress(Malformed):
        while at < len(data):
            size = rng.choice((1, 3, 100, 1 << 16, len(data)))
            commands.add(data[at : at + size])
            at += size
            if rng.random() < 0.1 and not commands.forwarding:
                commands.begin_file()
            while True:
                if commands.forwarding:
                    out += commands.more()
                    if commands.forwarding:
                        break
                found = commands.next()
                if found is None:
                    break
                if found[1] and rng.random() < 0.2:  # it is to wait, and comes again
                    commands.put_back(found[0])
                    assert commands.next() == found
                out += found[0]
            assert commands.held == min(at, len(data)) - len(out)
            assert commands.pending == (commands.held > 0 or commands.forwarding)
            assert not commands.forwarding or commands.held < 4
        assert data.startswith(out)
        assert (
            bytes(out) + (b"" if commands.forwarding else commands.take())
            == data[: len(out) + (0 if commands.forwarding else len(data))]
        )


VALUES = {
    0x01: b"\7", 0x02: b"\7\0", 0x0D: b"\7\0", 0x03: bytes(4), 0x09: bytes(4), 0x08: bytes(8), 0x05: bytes(8),
    0x04: bytes(4), 0x06: b"", 0x07: b"\4\xe8\7\1\2", 0x0A: b"\7\xe8\7\1\2\0\0\0", 0x0B: b"\x0c\1" + bytes(11),
    0x0C: b"\x0b\xe8\7\1\2\3\4\5\1\0\0\0",
    0xFD: b"\4text", 0xFE: b"\2\xff\xfe", 0x0F: b"\0", 0xF6: b"\0051.250", 0x00: b"\3nan",
    0xFC: b"\3abc", 0xF9: b"\0", 0xFA: b"\1a", 0xFB: b"\1a", 0xFF: b"\1g", 0x10: b"\1b",
}  # fmt: skip


def an_execution(rng: random.Random) -> bytes:
    """Of a statement with some parameters, their types told or not; with a count of them or not."""
    types = [rng.choice(tuple(VALUES)) for _ in range(rng.choice((0, 1, 1, 2, 9)))]
    nulls = sum(1 << number for number in range(len(types)) if rng.random() < 0.1)
    named = rng.random() < 0.5
    head = struct.pack("<BIBI", 0x17, 1, rng.choice((0, 8)), 1) + (bytes((len(types),)) if named else b"")
    told = b"".join(
        bytes((one, rng.choice((0, 0, 0x80)))) + (rng.choice((b"\0", b"\1n")) if named else b"") for one in types
    )
    values = b"".join(VALUES[one] for number, one in enumerate(types) if not nulls >> number & 1)
    mask = nulls.to_bytes(len(types) + 7 >> 3, "little")
    return head + mask + rng.choice((b"\1" + told, b"\1" + told, b"\0")) + values


def execution(data: bytes, rng: random.Random) -> None:
    """MySQL is told the same values, though it may have to be told the types of them."""
    answer = b"\0" + struct.pack("<IHHxH", 1, 0, rng.choice((0, 1, 1, 2, 9, 200)), 0)
    attributes = rng.random() < 0.5
    statement = PreparedStatement(b"SELECT", "d", [answer], attributes=attributes)
    bound = statement.bound
    bound.types = rng.choice((None, None, (0x08,) * statement.parameters))
    whole = packet(data, 0)
    for _ in range(2):
        with suppress(Malformed, NotDecoded):
            values = bound.values(data)
            assert len(values) == statement.parameters
            fresh = PreparedStatement(b"SELECT", "d", [answer], attributes=attributes)
            assert repr(fresh.bound.values(bound.for_mysql(whole)[4:])) == repr(values)
    with suppress(Malformed, NotDecoded):
        bound.note(data)
    if len(data) > 5:
        bound.binds(whole)
    with suppress(Malformed):
        bound.for_mysql(whole)


def a_text(rng: random.Random) -> bytes:
    types = [rng.choice(tuple(VALUES)) for _ in range(rng.choice((0, 1, 2, 9)))]
    told = b"".join(bytes((one, 0)) + rng.choice((b"\0", b"\1n")) for one in types)
    values = b"".join(VALUES[one] for one in types)
    given = bytes(len(types) + 7 >> 3) + b"\1" + told + values if types else b""
    return bytes((len(types), rng.choice((1, 1, 1, 2)))) + given + b"SELECT 1"


def text(data: bytes, rng: random.Random) -> None:
    with suppress(Malformed):
        assert 0 <= text_at(data) <= len(data)


def a_response(rng: random.Random) -> bytes:
    return handshake_response(answer=rng.randbytes(20), capabilities=ALL & ~(1 << 11 | 1 << 3 | 1 << 20))


def response(data: bytes, rng: random.Random) -> None:
    """What is understood and written anew is understood alike."""
    wants_tls(data)
    if is_too_old(data) or wants_tls(data):
        return
    with suppress(Malformed):
        found = parse_handshake_response(data, ALL)
        again = encode_handshake_response(found, found.capabilities | 1 << 3 | 1 << 19 | 1 << 20 | 1 << 21)
        other = parse_handshake_response(again, ALL)
        assert (other.user, other.auth_response, other.plugin) == (found.user, found.auth_response, found.plugin)
        assert (other.database, other.attributes) == (found.database, found.attributes)


def a_change(rng: random.Random) -> bytes:
    return b"\x11app\0\x03abcshop\0\xff\0caching_sha2_password\0" + lenenc(lenenc(b"a") + lenenc(b"b"))


def change(data: bytes, rng: random.Random) -> None:
    with suppress(Malformed):
        found = parse_change_user(data, rng.choice((ALL, 1 << 9)))
        assert parse_change_user(encode_change_user(found, ALL), ALL) == found


class SilentTransport:
    """What a packet stream asks of a transport."""

    def __init__(self) -> None:
        self.reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


def some_packets(rng: random.Random) -> bytes:
    sizes = (0, 1, 5, 300, LARGEST_LOGIN, LARGEST_LOGIN + 1, 70_000)
    first = rng.randrange(300)
    return b"".join(packet(b"p" * rng.choice(sizes), first + number) for number in range(rng.randrange(1, 5)))


def packets(data: bytes, rng: random.Random) -> None:
    """In whatever pieces they come, the same packets are taken; no more is held than a login may be."""
    first = rng.choice((data[3:4] or b"\0", b"\0"))[0]
    whole = taken(data, [len(data)], first)
    assert taken(data, [len(piece) for piece in pieces(rng, data)], first) == whole
    assert data.startswith(b"".join(packet(payload, first + number) for number, payload in enumerate(whole)))


def taken(data: bytes, sizes: list[int], first: int) -> list[bytes]:
    found: list[bytes] = []
    stream = PacketStream(first, asyncio.Event())
    stream.connection_made(cast(asyncio.Transport, transport := SilentTransport()))
    at = 0
    with suppress(Malformed):
        for size in sizes:
            if not transport.reading:
                return found
            stream.data_received(data[at : at + size])
            at += size
            while (payload := stream.take()) is not None:
                found.append(payload)
            assert len(stream._held) <= LARGEST_LOGIN + 4, "more is held than one packet"
        stream.connection_lost(None)
        with suppress(Lost):
            assert stream.take() is None
    return found


# -- MySQL's bytes -----------------------------------------------------------------------------------------------------


def a_greeting(rng: random.Random) -> bytes:
    return greeting()


def greeted(data: bytes, rng: random.Random) -> None:
    with suppress(Malformed):
        found = parse_greeting(data)
        offered = offered_capabilities(found, tls=rng.random() < 0.5)
        assert parse_greeting(found.offering(offered)).capabilities == offered


SERVER_SAYS = (
    b"\0\0\0\2\0\0\0", b"\1\3", b"\1\4", b"\1\4", b"\xfe", b"\xfecaching_sha2_password\0" + b"n" * 20 + b"\0",
    b"\1", b"", b"\xfesha256_password\0" + b"n" * 20 + b"\0", b"\xfemysql_clear_password\0", b"\2sha256_password\0abc",
    b"\4root", error(1045, "28000", "no"), error(1862, "HY000", "expired"),
)  # fmt: skip
CLIENT_SAYS = (b"", b"\1", b"\2", b"secret\0", b"s" * 20, b"\0")


@cache
def key() -> PasswordKey:
    return PasswordKey()


def an_authentication(rng: random.Random) -> bytes:
    """Packets, of MySQL's where the number is odd."""
    made = []
    for _ in range(rng.randrange(1, 7)):
        odd = rng.random() < 0.05
        if rng.random() < 0.6:
            made.append(packet(b"\1" + key().pem if odd else rng.choice(SERVER_SAYS), 1))
        else:
            made.append(
                packet(encrypt(b"secret\0", b"n" * 20, key().pem) or b"" if odd else rng.choice(CLIENT_SAYS), 0)
            )
    return b"".join(made)


def authentication(data: bytes, rng: random.Random) -> None:
    terms = Terms(
        b"n" * 20,
        client_tls=rng.random() < 0.4,
        server_tls=rng.random() < 0.4,
        client_unix=rng.random() < 0.2,
        server_unix=rng.random() < 0.2,
    )
    relay = AuthRelay(replace(terms, key=key()) if terms.needs_key else terms)
    plugin = rng.choice(
        (b"caching_sha2_password", b"sha256_password", b"mysql_native_password", b"mysql_clear_password")
    )
    step = relay.begin(plugin, rng.choice(CLIENT_SAYS), lambda answer: answer)
    with suppress(Malformed):
        for side, payload in cut(data):
            if step.outcome is not None:
                assert relay.turn is Turn.NOBODY
                return
            step = relay.from_server(payload) if side & 1 else relay.from_client(payload)


def an_ok(rng: random.Random) -> bytes:
    return ScriptedUpstream(rng, False, 0).ok()


def ok(data: bytes, rng: random.Random) -> None:
    parse_error(data)
    for tracks in (False, True):
        with suppress(Malformed):
            parse_ok(data, session_track=tracks)


def some_state(rng: random.Random) -> bytes:
    return b"".join(rng.choice((*STATES, *WILD_STATES)) for _ in range(rng.randrange(1, 4)))


def state(data: bytes, rng: random.Random) -> None:
    told = SessionState()
    told.tracks.wanted = rng.choice(({}, {"session_track_system_variables": "*", "session_track_gtids": "OWN_GTID"}))
    with suppress(Malformed):
        told.on_trackers(data)
    with suppress(Malformed):
        shown = told.tracks.shown(data)
        assert len(entries(shown)) <= len(entries(data))


def a_row(rng: random.Random) -> bytes:
    values = [b"value" if rng.random() < 0.8 else None for _ in range(ASK_COLUMNS - 1)]
    together = BETWEEN.join("1" for _ in range(len(TOGETHER) - (rng.random() < 0.1)))
    return b"".join(b"\xfb" if value is None else lenenc(value) for value in (*values, together.encode()))


def row(data: bytes, rng: random.Random) -> None:
    with suppress(Malformed):
        SessionState().learn(asked_values(only_row([b"", b"", data, b""], ASK_COLUMNS)), data)


def a_definition(rng: random.Random) -> bytes:
    return rng.choice(DEFINITIONS)


def definition(data: bytes, rng: random.Random) -> None:
    with suppress(Malformed):
        same_names([data, DEFINITIONS[1]], COLUMNS)
    answer = [b"\0" + struct.pack("<IHH", 1, len(data) % 5, 0), data, DEFINITIONS[1], b"\xfe\0\0\2\0"]
    with suppress(Malformed):
        eof = rng.random() < 0.5
        cache = cast(SessionCache, BenchCache("c", binary=True, eof=eof))
        announced = Announced(cache, definitions_in(answer, eof=eof), binary=True, eof=eof)
        announced.learn([data, DEFINITIONS[1]], lambda: data[:1], rows=rng.random() < 0.5)
        announced.check_invariants()


def some_answers(rng: random.Random) -> bytes:
    upstream = ScriptedUpstream(rng, rng.random() < 0.5, 0)
    if rng.random() < 0.4:  # as most are
        columns, rows = DEFINITIONS[:1] * rng.randrange(1, 5), [(b"7",)] * rng.randrange(3)
        return result_set(columns, rows, deprecate_eof=not upstream.eof, status=rng.choice((2, 2, 3, 8, 0x4000)))
    answers = [upstream.anything() for _ in range(rng.randrange(1, 4))]
    return b"".join(answers) + prepared(1, DEFINITIONS, DEFINITIONS[:1]) * rng.randrange(2)


def responses(data: bytes, rng: random.Random) -> None:
    """In whatever pieces they come, the same is forwarded and the same is said."""
    kinds = [rng.choice(tuple(Kind)) for _ in range(rng.randrange(1, 6))]
    visible = [rng.random() < 0.7 or kind is Kind.ENDLESS for kind in kinds]
    eof, tracks = rng.random() < 0.5, rng.random() < 0.5
    whole = streamed(data, [len(data)], kinds, visible, eof=eof, tracks=tracks)
    cuts = [rng.choice((1, 2, 5, 100, 1 << 15)) for _ in range(200)]
    pieces = streamed(data, cuts, kinds, visible, eof=eof, tracks=tracks)
    assert pieces[1:] == whole[1:] and (whole[2] or pieces[0] == whole[0])


def streamed(
    data: bytes, cuts: list[int], kinds: list[Kind], visible: list[bool], *, eof: bool, tracks: bool
) -> tuple[bytes, list[tuple[int, bool, bytes]], bool, int]:
    """(what was forwarded, the outcomes, whether it was malformed, how many farewells)."""
    forwarded = bytearray()
    outcomes: list[tuple[int, bool, bytes]] = []
    farewells: list[bytes] = []

    def done(outcome: Outcome) -> None:
        outcomes.append((outcome.status, outcome.error is not None, outcome.state))

    made = Responses(
        forwarded.extend, farewells.append, deprecate_eof=not eof, session_track=tracks, keep_state=lambda state: state
    )
    for kind, seen in zip(kinds, visible, strict=True):
        made.expect(Exchange(kind, done, visible=seen, collected=not seen and kind is Kind.RESULT))
    at = 0
    try:
        while at < len(data):
            size = cuts.pop(0) if cuts else 1 << 16
            made.feed(data[at : at + size])
            at += size
    except Malformed:
        return bytes(forwarded), outcomes, True, 0
    return bytes(forwarded), outcomes, False, bool(farewells)


TARGETS: dict[str, tuple[Callable[[random.Random], bytes], Callable[[bytes, random.Random], None]]] = {
    "commands": (some_commands, cut_commands),
    "execution": (an_execution, execution),
    "text": (a_text, text),
    "response": (a_response, response),
    "packets": (some_packets, packets),
    "change": (a_change, change),
    "greeting": (a_greeting, greeted),
    "authentication": (an_authentication, authentication),
    "ok": (an_ok, ok),
    "state": (some_state, state),
    "row": (a_row, row),
    "definition": (a_definition, definition),
    "responses": (some_answers, responses),
}
