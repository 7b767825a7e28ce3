"""The packets of a login: MySQL's greeting, the client's TLS request and answer, COM_CHANGE_USER. Pure.

What a client sends is read as leniently as MySQL reads it (a last string may lack its zero byte), what Upwell sends is
written as the protocol says. `Malformed` for what is neither.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets.html
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pymysql.charset import charset_by_id

from proxy.mysql.wire.compression import COMPRESSING
from proxy.mysql.wire.packets import (
    CLIENT_CONNECT_ATTRS,
    CLIENT_CONNECT_WITH_DB,
    CLIENT_OPTIONAL_RESULTSET_METADATA,
    CLIENT_PLUGIN_AUTH,
    CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA,
    CLIENT_PROTOCOL_41,
    CLIENT_SECURE_CONNECTION,
    CLIENT_SESSION_TRACK,
    CLIENT_SSL,
    CLIENT_ZSTD_COMPRESSION_ALGORITHM,
    COM_CHANGE_USER,
    Malformed,
    lenenc,
    read_lenenc,
    read_null_terminated,
)

NOT_SPOKEN = CLIENT_OPTIONAL_RESULTSET_METADATA
NATIVE_PASSWORD = b"mysql_native_password"
PROTOCOL_VERSION = 10
# Capabilities, largest packet, collation, 23 zero bytes: a TLS request is nothing else, an answer goes on behind it.
FIXED_PART = struct.Struct("<IIB23x")


@dataclass(frozen=True, slots=True)
class Greeting:
    """MySQL's first packet. `low` and `high`: where in `payload` the two halves of the capabilities are."""

    payload: bytes
    version: str
    connection_id: int
    nonce: bytes
    capabilities: int
    plugin: bytes
    low: int
    high: int

    def offering(self, capabilities: int) -> bytes:
        """The payload with these capabilities instead, and all else MySQL's."""
        changed = bytearray(self.payload)
        changed[self.low : self.low + 2] = (capabilities & 0xFFFF).to_bytes(2, "little")
        changed[self.high : self.high + 2] = (capabilities >> 16).to_bytes(2, "little")
        return bytes(changed)


def parse_greeting(payload: bytes) -> Greeting:
    """Raises Malformed, also for a server that is older than MySQL 4.1."""
    if payload[:1] != bytes((PROTOCOL_VERSION,)):
        raise Malformed(f"a greeting begins with {payload[:1]!r}, expected protocol version {PROTOCOL_VERSION}")
    version, at = read_null_terminated(payload, 1)
    low = at + 4 + 8 + 1
    high = low + 2 + 1 + 2
    rest = high + 2 + 1 + 10
    if len(payload) < rest + 13:
        raise Malformed(f"a greeting of {len(payload)} bytes is cut off")
    nonce_size = max(13, payload[high + 2] - 8)
    nonce = payload[at + 4 : at + 12] + payload[rest : rest + nonce_size].rstrip(b"\0")
    plugin, _ = _string(payload, rest + nonce_size)
    return Greeting(
        payload=payload,
        version=version.decode("ascii", "replace"),
        connection_id=int.from_bytes(payload[at : at + 4], "little"),
        nonce=nonce,
        capabilities=int.from_bytes(payload[low : low + 2] + payload[high : high + 2], "little"),
        plugin=plugin or NATIVE_PASSWORD,
        low=low,
        high=high,
    )


def offered_capabilities(greeting: Greeting, *, tls: bool) -> int:
    """What Upwell offers to clients of this server; `tls`: whether they may use TLS."""
    offered = greeting.capabilities & ~NOT_SPOKEN & ~CLIENT_SSL
    return offered | CLIENT_SSL if tls else offered


@dataclass(frozen=True, slots=True)
class HandshakeResponse:
    """What a client says of itself. `attributes`: the connection attributes as they came, without their total length.

    `capabilities` are in effect: the client's, without those that were not offered.
    """

    capabilities: int
    max_packet: int
    collation: int
    user: bytes
    auth_response: bytes
    database: bytes
    plugin: bytes
    attributes: bytes
    zstd_level: int = 0  # what the client asks for, 0 where it does not say


def wants_tls(payload: bytes) -> bool:
    """Whether a client's first packet asks for TLS before it says who it is."""
    return len(payload) == FIXED_PART.size and bool(payload[1] << 8 & CLIENT_SSL)


def tls_request(capabilities: int, max_packet: int, collation: int) -> bytes:
    return FIXED_PART.pack(capabilities | CLIENT_SSL, max_packet, collation & 0xFF)


def is_too_old(payload: bytes) -> bool:
    """Whether a client's first packet is of a protocol that MySQL itself no longer speaks."""
    needed = CLIENT_PROTOCOL_41 | CLIENT_SECURE_CONNECTION
    return len(payload) >= 2 and int.from_bytes(payload[:4], "little") & needed != needed


def parse_handshake_response(payload: bytes, offered: int) -> HandshakeResponse:
    """Raises Malformed. Requires: not `is_too_old` and not `wants_tls`."""
    if len(payload) <= FIXED_PART.size:
        raise Malformed(f"a handshake response of {len(payload)} bytes is cut off")
    asked, max_packet, collation = FIXED_PART.unpack_from(payload)
    capabilities = asked & offered
    user, at = read_null_terminated(payload, FIXED_PART.size)
    if asked & CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA:
        auth_response, at = read_lenenc(payload, at)
    else:
        auth_response, at = _short_string(payload, at)
    database = b""
    if asked & CLIENT_CONNECT_WITH_DB:
        database, at = _string(payload, at)
    plugin = NATIVE_PASSWORD
    if asked & CLIENT_PLUGIN_AUTH:
        plugin, at = _string(payload, at)
    attributes = b""
    if asked & CLIENT_CONNECT_ATTRS and at < len(payload):
        attributes, at = read_lenenc(payload, at)
    level = payload[at] if asked & CLIENT_ZSTD_COMPRESSION_ALGORITHM and at < len(payload) else 0
    return HandshakeResponse(
        capabilities, max_packet, collation, user, auth_response, database, plugin, attributes, level
    )


def encode_handshake_response(response: HandshakeResponse, capabilities: int) -> bytes:
    """The response with `capabilities` in the place of its own: what it has to say must be expressible in them."""
    parts = [FIXED_PART.pack(capabilities, response.max_packet, response.collation), response.user, b"\0"]
    if capabilities & CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA:
        parts.append(lenenc(response.auth_response))
    else:
        parts.append(_short(response.auth_response))
    if capabilities & CLIENT_CONNECT_WITH_DB:
        parts += response.database, b"\0"
    if capabilities & CLIENT_PLUGIN_AUTH:
        parts += response.plugin, b"\0"
    if capabilities & CLIENT_CONNECT_ATTRS:
        parts.append(lenenc(response.attributes))
    return b"".join(parts)


def upstream_capabilities(response: HandshakeResponse, greeting: Greeting, *, tls: bool) -> int:
    """The client's, but for compression, which is between it and Upwell alone; and the session's trackers always, from
    which Upwell knows the session's state."""
    kept = response.capabilities & ~(CLIENT_SSL | COMPRESSING)
    capabilities = kept | greeting.capabilities & CLIENT_SESSION_TRACK
    return capabilities | CLIENT_SSL if tls else capabilities


@dataclass(frozen=True, slots=True)
class ChangeUser:
    """COM_CHANGE_USER. `collation` 0: the packet does not name one."""

    user: bytes
    auth_response: bytes
    database: bytes
    collation: int
    plugin: bytes
    attributes: bytes


def parse_change_user(payload: bytes, capabilities: int) -> ChangeUser:
    """`payload` begins with the command byte; `capabilities` are in effect with this client. Raises Malformed."""
    user, at = read_null_terminated(payload, 1)
    auth_response, at = _short_string(payload, at)
    database, at = _string(payload, at)
    collation = int.from_bytes(payload[at : at + 2], "little")
    at += 2
    plugin, attributes = NATIVE_PASSWORD, b""
    if capabilities & CLIENT_PLUGIN_AUTH:
        plugin, at = _string(payload, at)
    if capabilities & CLIENT_CONNECT_ATTRS:
        attributes = _attributes(payload, at)
    return ChangeUser(user, auth_response, database, collation, plugin, attributes)


def encode_change_user(change: ChangeUser, capabilities: int) -> bytes:
    parts = [bytes((COM_CHANGE_USER,)), change.user, b"\0", _short(change.auth_response), change.database, b"\0"]
    parts.append(change.collation.to_bytes(2, "little"))
    if capabilities & CLIENT_PLUGIN_AUTH:
        parts += change.plugin, b"\0"
    if capabilities & CLIENT_CONNECT_ATTRS:
        parts.append(lenenc(change.attributes))
    return b"".join(parts)


def decode_name(name: bytes, collation: int) -> str:
    """A user's or a database's name in the character set of this collation. What is no character of it is kept as
    surrogates, so that two names stay two."""
    try:
        return name.decode(charset_by_id(collation).encoding or "utf-8", "surrogateescape")
    except (LookupError, UnicodeDecodeError):  # a set that Python does not know, or one that MySQL takes from no client
        return name.decode("utf-8", "surrogateescape")


def _string(payload: bytes, at: int) -> tuple[bytes, int]:
    """(string, position behind it): up to a zero byte, or to the end of the packet, as some drivers write it."""
    end = payload.find(b"\0", at)
    return (payload[at:], len(payload)) if end < 0 else (payload[at:end], end + 1)


def _short_string(payload: bytes, at: int) -> tuple[bytes, int]:
    if at >= len(payload) or at + 1 + payload[at] > len(payload):
        raise Malformed(f"a string at byte {at} of {len(payload)} is cut off")
    end = at + 1 + payload[at]
    return payload[at + 1 : end], end


def _short(text: bytes) -> bytes:
    if len(text) > 0xFF:
        raise Malformed(f"a string of {len(text)} bytes where one byte tells the length")
    return bytes((len(text),)) + text


def _attributes(payload: bytes, at: int) -> bytes:
    return read_lenenc(payload, at)[0] if at < len(payload) else b""
