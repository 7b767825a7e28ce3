"""Addresses of a source, good and bad."""

from __future__ import annotations

import pytest

from external_upquery.address import parse_upstream
from sqltypes.errors import ConfigError


def test_all_parts_are_read() -> None:
    upstream = parse_upstream(
        "mysql://us%65r:p%40s%2Fs%3A%C3%A9@db.example.com:3307/my%2Fapp?tls=verify&ca=/etc/ca.pem"
    )
    assert (upstream.user, upstream.password, upstream.host, upstream.port) == (
        "user",
        "p@s/s:é",
        "db.example.com",
        3307,
    )
    assert (upstream.database, upstream.tls, upstream.ca) == ("my/app", "verify", "/etc/ca.pem")


def test_port_database_and_password_may_be_left_out() -> None:
    upstream = parse_upstream("mysql://root@127.0.0.1")
    assert (upstream.port, upstream.database, upstream.password) == (3306, "", "")


@pytest.mark.parametrize(
    ("url", "tls"),
    [
        ("mysql://a@127.0.0.1", "disabled"),
        ("mysql://a@localhost", "disabled"),
        ("mysql://a@[::1]:3306", "disabled"),
        ("mysql://a@h?unix_socket=/run/s", "disabled"),
        ("mysql://a@10.0.0.1", "preferred"),
        ("mysql://a@db.example.com", "preferred"),
        ("mysql://a@db.example.com?ca=/etc/ca.pem", "verify"),
        ("mysql://a@127.0.0.1?tls=required", "required"),
        ("mysql://a@db.example.com?tls=disabled", "disabled"),
    ],
)
def test_tls_is_off_only_where_nobody_listens_in(url: str, tls: str) -> None:
    assert parse_upstream(url).tls == tls


@pytest.mark.parametrize(
    ("url", "tls"),
    [
        ("mysql://a@127.0.0.1", "preferred"),
        ("mysql://a@127.0.0.1?tls=disabled", "disabled"),
        ("mysql://a@127.0.0.1?tls=required", "required"),
        ("mysql://a@h?unix_socket=/run/s", "disabled"),
        ("mysql://a@h?unix_socket=/run/s&tls=preferred", "preferred"),
        ("mysql://a@db.example.com", "preferred"),
        ("mysql://a@db.example.com?ca=/etc/ca.pem", "verify"),
    ],
)
def test_sessions_of_clients_follow_the_client_where_nobody_said_how(url: str, tls: str) -> None:
    assert parse_upstream(url).for_clients().tls == tls


def test_upwells_own_certificate_does_not_vouch_for_clients() -> None:
    upstream = parse_upstream("mysql://a@h?tls=required&cert=/etc/cert.pem&key=/etc/key.pem&ca=/etc/ca.pem")
    clients = upstream.for_clients()
    assert (clients.cert, clients.key, clients.ca) == ("", "", "/etc/ca.pem")
    assert upstream.cert == "/etc/cert.pem"


def test_ipv6_address_keeps_its_brackets_in_print() -> None:
    upstream = parse_upstream("mysql://a:secret@[2001:db8::1]:3307/d")
    assert upstream.host == "2001:db8::1"
    assert upstream.redacted == "mysql://a@[2001:db8::1]:3307/d"


def test_password_is_never_shown() -> None:
    upstream = parse_upstream("mysql://a:secret@h")
    assert "secret" not in repr(upstream) + str(upstream) + upstream.redacted


@pytest.mark.parametrize(
    ("url", "port", "grpc", "shown"),
    [
        (
            "vitess://a:p@vt:15307/shop?grpc=other:15999",
            15307,
            "other:15999",
            "vitess://a@vt:15307/shop?grpc=other:15999",
        ),
        ("vitess://a@vt/shop", 15306, "vt:15991", "vitess://a@vt:15306/shop?grpc=vt:15991"),
        ("vitess://a@vt/shop?grpc=other", 15306, "other:15991", "vitess://a@vt:15306/shop?grpc=other:15991"),
        ("vitess://a@[::1]/shop", 15306, "[::1]:15991", "vitess://a@[::1]:15306/shop?grpc=[::1]:15991"),
    ],
)
def test_a_vtgate_has_two_ports(url: str, port: int, grpc: str, shown: str) -> None:
    upstream = parse_upstream(url)
    assert (upstream.kind, upstream.database, upstream.port, upstream.grpc) == ("vitess", "shop", port, grpc)
    assert upstream.redacted == shown


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgres://a@h", "postgres"),
        ("vitess://a@h", "names no keyspace: expected vitess://user:password@host:port/keyspace"),
        ("vitess://a@h/shop:-80", "names 'shop:-80' for a keyspace"),
        ("vitess://h/shop", "names no user"),
        ("vitess://a@h/shop?unix_socket=/x", "'unix_socket' is not known: expected one of grpc, tls"),
        ("vitess://a@h/shop?grpc=h:x", "grpc is 'h:x': expected host:port"),
        ("vitess://a@h/shop?grpc=u@h:1", "grpc is 'u@h:1'"),
        ("vitess://a@h/shop?grpc=h:1/x", "expected host:port"),
        ("mysql://a@h/shop?grpc=h:1", "'grpc' is not known"),
        ("127.0.0.1:3306", "expected mysql://"),
        ("mysql://h:3306", "names no user"),
        ("mysql://a@h:port", "cannot be read"),
        ("mysql://a@h:99999", "cannot be read"),
        ("mysql://a@/d", "names no host"),
        ("mysql://a@h/d/e", "%2F"),
        ("mysql://a@h?tls=maybe", "expected one of disabled"),
        ("mysql://a@h?ssl=1", "'ssl' is not known"),
        ("mysql://a@h?tls", "cannot be read"),
        ("mysql://a:p#w@h", "%23"),
        ("mysql://a@h?key=/k", "'cert'"),
        ("mysql://a@[::1", "cannot be read"),
    ],
)
def test_wrong_address_is_one_sentence(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_upstream(url)
    assert words in raised.value.message
    assert "\n" not in raised.value.message


def test_missing_certificate_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        parse_upstream("mysql://a@h?ca=nowhere.pem").ssl_context()
