"""Greetings, handshake responses and COM_CHANGE_USER as MySQL, its clients and other drivers write them."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.mysql.login.login_packets import (
    NATIVE_PASSWORD,
    NOT_SPOKEN,
    ChangeUser,
    HandshakeResponse,
    decode_name,
    encode_change_user,
    encode_handshake_response,
    is_too_old,
    offered_capabilities,
    parse_change_user,
    parse_greeting,
    parse_handshake_response,
    tls_request,
    upstream_capabilities,
    wants_tls,
)
from proxy.mysql.wire.packets import (
    CLIENT_COMPRESS,
    CLIENT_CONNECT_ATTRS,
    CLIENT_CONNECT_WITH_DB,
    CLIENT_PLUGIN_AUTH,
    CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA,
    CLIENT_PROTOCOL_41,
    CLIENT_SECURE_CONNECTION,
    CLIENT_SESSION_TRACK,
    CLIENT_SSL,
    CLIENT_ZSTD_COMPRESSION_ALGORITHM,
    Malformed,
)
from tests.support.scripted_mysql import CAPABILITIES, NONCE, greeting

MODERN = (
    CLIENT_PROTOCOL_41
    | CLIENT_SECURE_CONNECTION
    | CLIENT_CONNECT_WITH_DB
    | CLIENT_PLUGIN_AUTH
    | CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | CLIENT_CONNECT_ATTRS
)
OFFERED = CAPABILITIES & ~NOT_SPOKEN
no_zero = st.binary(max_size=40).filter(lambda text: b"\0" not in text)
responses = st.builds(
    HandshakeResponse,
    capabilities=st.just(MODERN),
    max_packet=st.integers(0, (1 << 32) - 1),
    collation=st.integers(0, 255),
    user=no_zero,
    auth_response=st.binary(max_size=300),
    database=no_zero,
    plugin=no_zero,
    attributes=st.binary(max_size=300),
)
changes = st.builds(
    ChangeUser,
    user=no_zero,
    auth_response=st.binary(max_size=255),
    database=no_zero,
    collation=st.integers(0, 65535),
    plugin=no_zero,
    attributes=st.binary(max_size=300),
)


def test_all_of_a_greeting_but_the_capabilities_stays_mysqls() -> None:
    seen = parse_greeting(greeting())
    assert (seen.version, seen.connection_id, seen.nonce) == ("9.7.0", 77, NONCE)
    assert seen.plugin == b"caching_sha2_password"
    assert seen.offering(seen.capabilities) == seen.payload
    changed = parse_greeting(seen.offering(0x12345678))
    assert changed.capabilities == 0x12345678
    assert replace(changed, payload=b"", capabilities=0) == replace(seen, payload=b"", capabilities=0)


def test_mysqls_own_greeting_is_read() -> None:
    seen = parse_greeting(greeting(CAPABILITIES))
    assert offered_capabilities(seen, tls=True) == CAPABILITIES & ~NOT_SPOKEN
    assert offered_capabilities(seen, tls=False) == CAPABILITIES & ~NOT_SPOKEN & ~CLIENT_SSL


def test_tls_is_upwells_to_offer_whatever_mysql_does() -> None:
    seen = parse_greeting(greeting(CAPABILITIES & ~CLIENT_SSL))
    assert offered_capabilities(seen, tls=True) & CLIENT_SSL


@pytest.mark.parametrize("payload", [b"", b"\x09old\0", greeting()[:40], b"\x0a" + b"x" * 90])
def test_a_greeting_that_cannot_be_read_is_malformed(payload: bytes) -> None:
    with pytest.raises(Malformed):
        parse_greeting(payload)


@given(responses)
def test_a_response_written_again_says_the_same(response: HandshakeResponse) -> None:
    assert parse_handshake_response(encode_handshake_response(response, MODERN), OFFERED) == response


@given(changes)
def test_a_change_of_user_written_again_says_the_same(change: ChangeUser) -> None:
    assert parse_change_user(encode_change_user(change, MODERN), MODERN) == change


def response_of(capabilities: int) -> HandshakeResponse:
    return HandshakeResponse(capabilities, 1 << 24, 45, b"ann", b"x" * 20, b"shop", b"plug", b"\x01a\x01b")


@pytest.mark.parametrize(
    "without", [CLIENT_CONNECT_WITH_DB, CLIENT_PLUGIN_AUTH, CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA, CLIENT_CONNECT_ATTRS]
)
def test_parts_are_there_as_the_capabilities_say(without: int) -> None:
    capabilities = MODERN & ~without
    seen = parse_handshake_response(encode_handshake_response(response_of(capabilities), capabilities), OFFERED)
    assert seen.auth_response == b"x" * 20
    assert seen.database == (b"" if without == CLIENT_CONNECT_WITH_DB else b"shop")
    assert seen.plugin == (NATIVE_PASSWORD if without == CLIENT_PLUGIN_AUTH else b"plug")
    assert seen.attributes == (b"" if without == CLIENT_CONNECT_ATTRS else b"\x01a\x01b")


def test_a_last_string_may_lack_its_zero_byte() -> None:
    capabilities = MODERN & ~CLIENT_CONNECT_ATTRS
    payload = encode_handshake_response(response_of(capabilities), capabilities)
    assert parse_handshake_response(payload[:-1], OFFERED).plugin == b"plug"


def test_announced_attributes_may_be_missing() -> None:
    payload = encode_handshake_response(response_of(MODERN), MODERN & ~CLIENT_CONNECT_ATTRS)
    announced = MODERN.to_bytes(4, "little") + payload[4:]
    assert parse_handshake_response(announced, OFFERED).attributes == b""


def test_what_was_not_offered_is_not_in_effect() -> None:
    asked = MODERN | CLIENT_COMPRESS
    payload = encode_handshake_response(response_of(asked), asked)
    assert parse_handshake_response(payload, OFFERED & ~CLIENT_COMPRESS).capabilities == MODERN
    assert parse_handshake_response(payload, OFFERED).capabilities == asked


@pytest.mark.parametrize("tail, level", [(b"", 0), (b"\x03", 3), (b"\x16more", 22)])
def test_the_level_of_compression_is_the_last_that_a_client_says(tail: bytes, level: int) -> None:
    asked = MODERN | CLIENT_ZSTD_COMPRESSION_ALGORITHM
    payload = encode_handshake_response(response_of(asked), asked) + tail
    assert parse_handshake_response(payload, OFFERED).zstd_level == level
    without = payload[: len(payload) - len(tail)] if tail else payload
    assert parse_handshake_response(without, OFFERED & ~CLIENT_ZSTD_COMPRESSION_ALGORITHM).zstd_level == 0


def test_compression_is_no_matter_between_upwell_and_mysql() -> None:
    asked = MODERN | CLIENT_COMPRESS | CLIENT_ZSTD_COMPRESSION_ALGORITHM
    seen = parse_greeting(greeting(CAPABILITIES))
    assert upstream_capabilities(response_of(asked), seen, tls=False) == MODERN | CLIENT_SESSION_TRACK


def test_what_was_not_offered_is_still_read_as_the_client_wrote_it() -> None:
    payload = encode_handshake_response(response_of(MODERN), MODERN)
    seen = parse_handshake_response(payload, OFFERED & ~CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA & ~CLIENT_CONNECT_WITH_DB)
    assert (seen.auth_response, seen.plugin, seen.attributes) == (b"x" * 20, b"plug", b"\x01a\x01b")


def test_mysql_is_always_asked_for_the_sessions_state() -> None:
    response, seen = response_of(MODERN | CLIENT_SSL), parse_greeting(greeting(CAPABILITIES))
    assert upstream_capabilities(response, seen, tls=False) == MODERN | CLIENT_SESSION_TRACK
    assert upstream_capabilities(response, seen, tls=True) == MODERN | CLIENT_SESSION_TRACK | CLIENT_SSL


def test_only_a_bare_head_with_the_flag_is_a_tls_request() -> None:
    request = tls_request(MODERN, 1 << 24, 300)
    assert wants_tls(request)
    assert not wants_tls(MODERN.to_bytes(4, "little") + request[4:])
    assert not wants_tls(request + b"ann\0")


@pytest.mark.parametrize(
    ("first", "too_old"),
    [
        (MODERN.to_bytes(4, "little"), False),
        ((MODERN & ~CLIENT_PROTOCOL_41).to_bytes(4, "little"), True),
        ((MODERN & ~CLIENT_SECURE_CONNECTION).to_bytes(4, "little"), True),
        (b"\x85\x24", True),
    ],
)
def test_clients_before_mysql_4_1_are_known_by_their_capabilities(first: bytes, too_old: bool) -> None:
    assert is_too_old(first + bytes(40)) is too_old


@given(st.binary(max_size=120))
def test_anything_else_is_malformed_and_nothing_worse(payload: bytes) -> None:
    for head in (b"", tls_request(MODERN, 0, 0), tls_request(MODERN & ~CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA, 0, 0)):
        with contextlib.suppress(Malformed):
            parse_handshake_response(head + payload, OFFERED)
        with contextlib.suppress(Malformed):
            parse_change_user(b"\x11" + payload, MODERN)


def test_a_change_of_user_may_end_after_the_database() -> None:
    change = parse_change_user(b"\x11ann\0\x03abcshop\0", CLIENT_PROTOCOL_41 | CLIENT_SECURE_CONNECTION)
    assert change == ChangeUser(b"ann", b"abc", b"shop", 0, NATIVE_PASSWORD, b"")


@pytest.mark.parametrize(
    ("name", "collation", "expected"),
    [
        (b"ann", 255, "ann"),
        ("jörg".encode(), 45, "jörg"),
        ("jörg".encode("latin-1"), 8, "jörg"),
        ("jörg".encode("latin-1"), 255, "j\udcf6rg"),
        (b"ann", 63, "ann"),
        (b"ann", 0, "ann"),
        (b"ann", 35, "ann"),
    ],
)
def test_names_are_in_the_clients_character_set(name: bytes, collation: int, expected: str) -> None:
    assert decode_name(name, collation) == expected
