"""Authentication handed on: what each side says, in every mixture of safe and unsafe connections."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.mysql.login.auth_relay import CACHING_SHA2, DENY_ME, SHA256, WHO_AM_I, AuthRelay, Outcome, Step, Terms, Turn
from proxy.mysql.login.login_packets import NATIVE_PASSWORD
from proxy.mysql.login.password_key import PasswordKey, encrypt
from proxy.mysql.wire.packets import Malformed, error_payload, lenenc, ok_payload, parse_error

NONCE = b"0123456789abcdefghij"
SECOND_NONCE = b"ABCDEFGHIJ0123456789"
SCRAMBLE = b"s" * 32
PASSWORD = "p%ß".encode() + b"\0"
OK = ok_payload(2)
DENIED = error_payload(1045, "28000", "Access denied for user 'ann'@'localhost' (using password: YES)")
FAST_ENOUGH, FULL = b"\x01\x03", b"\x01\x04"


@cache
def upwells_key() -> PasswordKey:
    return PasswordKey()


@cache
def mysqls_key() -> PasswordKey:
    return PasswordKey()


def opened(answer: bytes) -> bytes:
    return b"first:" + answer


def relay_of(
    *, client_safe: bool, server_safe: bool, server_unix: bool = False, deprecate_eof: bool = True
) -> AuthRelay:
    terms = Terms(NONCE, client_safe, server_safe, server_unix=server_unix, deprecate_eof=deprecate_eof)
    return AuthRelay(replace(terms, key=upwells_key()))


def begun(
    plugin: bytes = CACHING_SHA2, answer: bytes = SCRAMBLE, *, client_safe: bool = False, server_safe: bool = False
) -> AuthRelay:
    relay = relay_of(client_safe=client_safe, server_safe=server_safe)
    assert relay.begin(plugin, answer, opened) == Step(to_server=(opened(answer),))
    assert turn_of(relay) is Turn.SERVER
    return relay


def switch(plugin: bytes, nonce: bytes = SECOND_NONCE) -> bytes:
    return b"\xfe" + plugin + b"\0" + nonce + b"\0"


def turn_of(relay: AuthRelay) -> Turn:
    return relay.turn


def refusal(step: Step) -> str:
    assert step.outcome is Outcome.REFUSED
    return parse_error(step.final).message


EVERY_MIXTURE = pytest.mark.parametrize("client_safe", [False, True])
EVERY_UPSTREAM = pytest.mark.parametrize("server_safe", [False, True])


@EVERY_MIXTURE
@EVERY_UPSTREAM
def test_a_password_that_mysql_remembers_is_accepted_without_being_shown(client_safe: bool, server_safe: bool) -> None:
    relay = begun(client_safe=client_safe, server_safe=server_safe)
    assert relay.from_server(FAST_ENOUGH) == Step(to_client=(FAST_ENOUGH,))
    assert turn_of(relay) is Turn.SERVER
    assert relay.from_server(OK) == Step(outcome=Outcome.ACCEPTED, final=OK)
    assert turn_of(relay) is Turn.NOBODY


@EVERY_MIXTURE
@EVERY_UPSTREAM
def test_a_native_password_is_one_answer(client_safe: bool, server_safe: bool) -> None:
    relay = begun(client_safe=client_safe, server_safe=server_safe)
    asked = switch(NATIVE_PASSWORD)
    assert relay.from_server(asked) == Step(to_client=(asked,))
    assert turn_of(relay) is Turn.CLIENT
    assert relay.from_client(b"n" * 20) == Step(to_server=(b"n" * 20,))
    assert relay.from_server(OK).outcome is Outcome.ACCEPTED


@EVERY_MIXTURE
@EVERY_UPSTREAM
def test_mysqls_no_is_handed_on_as_it_is(client_safe: bool, server_safe: bool) -> None:
    relay = begun(client_safe=client_safe, server_safe=server_safe)
    assert relay.from_server(DENIED) == Step(outcome=Outcome.DENIED, final=DENIED)


def test_two_safe_connections_show_the_password_as_it_is() -> None:
    relay = begun(client_safe=True, server_safe=True)
    assert relay.from_server(FULL) == Step(to_client=(FULL,))
    assert turn_of(relay) is Turn.CLIENT
    assert relay.from_client(PASSWORD) == Step(to_server=(PASSWORD,))
    assert relay.from_server(OK).outcome is Outcome.ACCEPTED


def test_two_open_connections_exchange_mysqls_own_key() -> None:
    relay = begun()
    relay.from_server(FULL)
    assert relay.from_client(b"\x02") == Step(to_server=(b"\x02",))
    key = b"\x01" + mysqls_key().pem
    assert relay.from_server(key) == Step(to_client=(key,))
    assert turn_of(relay) is Turn.CLIENT
    assert relay.from_client(b"e" * 256) == Step(to_server=(b"e" * 256,))


def test_a_password_shown_on_tls_is_encrypted_where_mysql_is_reached_in_the_open() -> None:
    relay = begun(client_safe=True)
    relay.from_server(FULL)
    assert relay.from_client(PASSWORD) == Step(to_server=(b"\x02",))
    step = relay.from_server(b"\x01" + mysqls_key().pem)
    assert step.to_client == ()
    assert mysqls_key().decrypt(step.to_server[0], NONCE) == PASSWORD
    assert relay.from_server(OK) == Step(outcome=Outcome.ACCEPTED, final=OK)


def test_the_nonce_is_that_of_the_last_switch() -> None:
    relay = begun(NATIVE_PASSWORD, b"n" * 20, client_safe=True)
    relay.from_server(switch(CACHING_SHA2))
    relay.from_client(SCRAMBLE)
    relay.from_server(FULL)
    relay.from_client(PASSWORD)
    encrypted = relay.from_server(b"\x01" + mysqls_key().pem).to_server[0]
    assert mysqls_key().decrypt(encrypted, SECOND_NONCE) == PASSWORD
    assert relay.nonce == SECOND_NONCE


def test_a_client_on_tls_that_asks_for_mysqls_key_gets_it() -> None:
    relay = begun(client_safe=True)
    relay.from_server(FULL)
    assert relay.from_client(b"\x02") == Step(to_server=(b"\x02",))
    key = b"\x01" + mysqls_key().pem
    assert relay.from_server(key) == Step(to_client=(key,))
    assert relay.from_client(b"e" * 256) == Step(to_server=(b"e" * 256,))


@pytest.mark.parametrize("key", [b"no key at all", b""])
def test_a_key_that_cannot_be_used_ends_the_login_without_the_password(key: bytes) -> None:
    relay = begun(client_safe=True)
    relay.from_server(FULL)
    relay.from_client(PASSWORD)
    step = relay.from_server(b"\x01" + key)
    assert "key" in refusal(step)
    assert step.to_server == (DENY_ME,)


def test_a_password_too_long_for_the_key_ends_the_login() -> None:
    relay = begun(client_safe=True)
    relay.from_server(FULL)
    relay.from_client(b"x" * 300 + b"\0")
    assert "cannot be used for this password" in refusal(relay.from_server(b"\x01" + mysqls_key().pem))


def test_a_client_in_the_open_encrypts_for_upwells_key() -> None:
    relay = begun(server_safe=True)
    relay.from_server(FULL)
    assert relay.from_client(b"\x02") == Step(to_client=(b"\x01" + upwells_key().pem,))
    assert turn_of(relay) is Turn.CLIENT
    encrypted = encrypt(PASSWORD, NONCE, upwells_key().pem)
    assert encrypted is not None
    assert relay.from_client(encrypted) == Step(to_server=(PASSWORD,))


def test_a_client_that_kept_upwells_key_need_not_ask() -> None:
    relay = begun(server_safe=True)
    relay.from_server(FULL)
    encrypted = encrypt(PASSWORD, NONCE, upwells_key().pem)
    assert encrypted is not None
    assert relay.from_client(encrypted) == Step(to_server=(PASSWORD,))


@pytest.mark.parametrize("made", ["for mysql's key", "for another nonce", "in clear", "without its end"])
def test_what_is_not_encrypted_for_upwell_is_refused(made: str) -> None:
    relay = begun(server_safe=True)
    relay.from_server(FULL)
    answers = {
        "for mysql's key": encrypt(PASSWORD, NONCE, mysqls_key().pem),
        "for another nonce": encrypt(PASSWORD, SECOND_NONCE, upwells_key().pem),
        "in clear": PASSWORD,
        "without its end": encrypt(b"secret", NONCE, upwells_key().pem),
    }
    answer = answers[made]
    assert answer is not None
    step = relay.from_client(answer)
    assert "another key" in refusal(step)
    assert step.to_server == (DENY_ME,)


def test_sha256_password_shown_on_tls_is_encrypted_from_the_first_answer() -> None:
    relay = relay_of(client_safe=True, server_safe=False)
    assert relay.begin(SHA256, PASSWORD, opened) == Step(to_server=(opened(b"\x01"),))
    encrypted = relay.from_server(b"\x01" + mysqls_key().pem).to_server[0]
    assert mysqls_key().decrypt(encrypted, NONCE) == PASSWORD


def test_sha256_password_in_the_open_is_answered_before_mysql_is_asked() -> None:
    relay = relay_of(client_safe=False, server_safe=True)
    assert relay.begin(SHA256, b"\x01", opened) == Step(to_client=(b"\x01" + upwells_key().pem,))
    encrypted = encrypt(PASSWORD, NONCE, upwells_key().pem)
    assert encrypted is not None
    assert relay.from_client(encrypted) == Step(to_server=(opened(PASSWORD),))


def test_sha256_password_is_not_shown_on_a_unix_socket() -> None:
    relay = AuthRelay(Terms(NONCE, client_tls=True, server_tls=False, server_unix=True))
    assert relay.begin(SHA256, PASSWORD, opened) == Step(to_server=(opened(b"\x01"),))
    relay = AuthRelay(Terms(NONCE, client_tls=False, server_tls=False, server_unix=True, key=upwells_key()))
    assert relay.begin(SHA256, b"\x01", opened) == Step(to_server=(opened(b"\x01"),))


def test_two_unix_sockets_or_one_and_tls_are_equal() -> None:
    for client_tls in (False, True):
        terms = Terms(NONCE, client_tls, server_tls=False, client_unix=not client_tls, server_unix=True)
        assert not terms.needs_key
        relay = AuthRelay(terms)
        relay.begin(CACHING_SHA2, SCRAMBLE, opened)
        relay.from_server(FULL)
        assert relay.from_client(PASSWORD) == Step(to_server=(PASSWORD,))


@EVERY_MIXTURE
@EVERY_UPSTREAM
@pytest.mark.parametrize("nothing", [b"", b"\0"])
def test_an_empty_password_of_sha256_needs_no_key(client_safe: bool, server_safe: bool, nothing: bytes) -> None:
    relay = begun(SHA256, nothing, client_safe=client_safe, server_safe=server_safe)
    assert relay.from_server(OK).outcome is Outcome.ACCEPTED


@pytest.mark.parametrize("plugin", [b"mysql_clear_password", b"dialog", b"authentication_openid_connect_client"])
def test_a_plugin_that_shows_passwords_is_not_asked_for_one_that_would_leave_in_the_open(plugin: bytes) -> None:
    relay = begun(client_safe=True)
    step = relay.from_server(switch(plugin))
    assert repr(plugin.decode()) in refusal(step)
    assert step.to_client == ()
    assert step.to_server == (DENY_ME,)


def test_a_password_shown_in_the_first_answer_is_not_sent_on_in_the_open() -> None:
    relay = relay_of(client_safe=True, server_safe=False)
    step = relay.begin(b"mysql_clear_password", PASSWORD, opened)
    assert "mysql_clear_password" in refusal(step)
    assert step.to_server == ()  # MySQL was told nothing yet


@pytest.mark.parametrize("safe", [False, True])
def test_plugins_of_any_kind_pass_between_equal_connections(safe: bool) -> None:
    relay = begun(client_safe=safe, server_safe=safe)
    relay.from_server(switch(b"authentication_ldap_sasl_client", b"SCRAM-SHA-256"))
    assert relay.from_client(b"n,,n=ann,r=x") == Step(to_server=(b"n,,n=ann,r=x",))
    assert relay.from_server(b"\x01r=xy,s=,i=4096") == Step(to_client=(b"\x01r=xy,s=,i=4096",))
    assert turn_of(relay) is Turn.EITHER
    assert relay.from_client(b"c=,r=xy,p=z") == Step(to_server=(b"c=,r=xy,p=z",))
    assert relay.from_server(OK).outcome is Outcome.ACCEPTED


def test_a_second_factor_has_its_own_nonce() -> None:
    relay = begun(server_safe=True)
    relay.from_server(FAST_ENOUGH)
    factor = b"\x02" + CACHING_SHA2 + b"\0" + SECOND_NONCE + b"\0"
    assert relay.from_server(factor) == Step(to_client=(factor,))
    relay.from_client(SCRAMBLE)
    relay.from_server(FULL)
    encrypted = encrypt(PASSWORD, SECOND_NONCE, upwells_key().pem)
    assert encrypted is not None
    assert relay.from_client(encrypted) == Step(to_server=(PASSWORD,))


@pytest.mark.parametrize("switch", [b"\xfe", b"\xfe\0", b"\xfe\0" + NONCE + b"\0", b"\x02", b"\x02\0"])
def test_a_switch_without_a_plugin_name_is_to_a_plugin_that_may_show_a_password(switch: bytes) -> None:
    relay = begun()
    assert relay.from_server(switch) == Step(to_client=(switch,))
    assert "mysql_old_password" in refusal(begun(client_safe=True).from_server(switch))


def test_an_answer_out_of_turn_ends_the_login() -> None:
    assert "turn" in refusal(begun().from_client(b"again"))


@pytest.mark.parametrize("payload", [b"", b"\x03abc", b"\xfb"])
def test_what_is_no_part_of_a_login_is_malformed(payload: bytes) -> None:
    with pytest.raises(Malformed):
        begun().from_server(payload)


PLUGINS = (CACHING_SHA2, SHA256, NATIVE_PASSWORD, b"mysql_clear_password", b"dialog")
SAID_BY_A_SERVER = st.one_of(
    st.sampled_from([switch(plugin) for plugin in PLUGINS]),
    st.sampled_from([b"\x02" + plugin + b"\0" + NONCE + b"\0" for plugin in PLUGINS]),
    st.sampled_from([FAST_ENOUGH, FULL, b"\xfe", OK, DENIED]),
    st.builds(lambda: b"\x01" + mysqls_key().pem),
    st.binary(max_size=8),
)


def answer_on_tls(plugin: bytes, question: bytes) -> bytes:
    """What a client says that trusts its own connection."""
    if plugin == CACHING_SHA2 and question != FULL:
        return SCRAMBLE
    return b"n" * 20 if plugin == NATIVE_PASSWORD else PASSWORD


@given(st.sampled_from(PLUGINS), st.lists(SAID_BY_A_SERVER, max_size=8))
def test_whatever_a_server_says_a_password_shown_on_tls_does_not_leave_in_the_open(
    plugin: bytes, said: list[bytes]
) -> None:
    relay = relay_of(client_safe=True, server_safe=False)
    step = relay.begin(plugin, answer_on_tls(plugin, b""), opened)
    questions = iter(said)
    while step.outcome is None:
        assert not any(PASSWORD[:-1] in payload for payload in step.to_server)
        if step.to_client and relay.turn is not Turn.SERVER:
            question = step.to_client[-1]
            if question[:1] in b"\xfe\x02":
                plugin = question[1:].split(b"\0")[0] or b"mysql_old_password"
            step = relay.from_client(answer_on_tls(plugin, question))
            continue
        try:
            step = relay.from_server(next(questions))
        except (Malformed, StopIteration):
            return
    assert not any(PASSWORD[:-1] in payload for payload in step.to_server)


def account_packets(statement: bytes, *, deprecate_eof: bool) -> list[bytes]:
    end = b"\xfe\0\0\x02\0\0\0" if deprecate_eof else b"\xfe\0\0\x02\0"
    columns = [b"\x01", b"\x03def and more"]
    return [*columns, *([] if deprecate_eof else [end]), lenenc(statement), end]


def unproven(*, deprecate_eof: bool) -> AuthRelay:
    relay = relay_of(client_safe=True, server_safe=False, server_unix=True, deprecate_eof=deprecate_eof)
    relay.begin(CACHING_SHA2, b"\0", opened)
    assert relay.from_server(OK) == Step(to_server=(WHO_AM_I,), new_command=True)
    return relay


@pytest.mark.parametrize("deprecate_eof", [False, True])
def test_an_account_that_a_process_vouches_for_is_not_let_in_by_upwells(deprecate_eof: bool) -> None:
    relay = unproven(deprecate_eof=deprecate_eof)
    statement = b"CREATE USER `root`@`localhost` IDENTIFIED WITH 'auth_socket' REQUIRE NONE"
    *before, last = account_packets(statement, deprecate_eof=deprecate_eof)
    assert [relay.from_server(payload) for payload in before] == [Step()] * len(before)
    step = relay.from_server(last)
    assert "the process that connects" in refusal(step)
    assert step.to_server == ()


@pytest.mark.parametrize("deprecate_eof", [False, True])
def test_an_account_without_a_password_is_let_in_over_a_unix_socket(deprecate_eof: bool) -> None:
    relay = unproven(deprecate_eof=deprecate_eof)
    statement = b"CREATE USER `root`@`localhost` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE"
    *before, last = account_packets(statement, deprecate_eof=deprecate_eof)
    assert [relay.from_server(payload) for payload in before] == [Step()] * len(before)
    assert relay.from_server(last) == Step(outcome=Outcome.ACCEPTED, final=OK)


def test_an_account_that_must_change_its_password_has_one() -> None:
    error = error_payload(1820, "HY000", "You must reset your password using ALTER USER statement")
    assert unproven(deprecate_eof=True).from_server(error) == Step(outcome=Outcome.ACCEPTED, final=OK)


def test_an_account_that_cannot_be_looked_at_is_not_let_in() -> None:
    error = error_payload(1044, "42000", "Access denied")
    assert unproven(deprecate_eof=True).from_server(error) == Step(outcome=Outcome.DENIED, final=error)


def test_a_password_that_mysql_has_looked_at_needs_no_look_at_the_account() -> None:
    relay = relay_of(client_safe=True, server_safe=False, server_unix=True)
    relay.begin(CACHING_SHA2, SCRAMBLE, opened)
    relay.from_server(FAST_ENOUGH)
    assert relay.from_server(OK) == Step(outcome=Outcome.ACCEPTED, final=OK)
