"""Authentication handed from one side to the other: MySQL asks, the client answers, MySQL decides. Pure; no I/O.

One `AuthRelay` serves one login or one COM_CHANGE_USER. It is given what each side says and tells what to send to
which, until MySQL has decided. Where both connections are safe to show a password on (TLS, a unix socket), or neither
is, everything is relayed as it comes. Where one is and the other is not, the client and MySQL would speak past each
other at the one moment at which a password travels: there, and only there, Upwell turns the one form into the other,
and the password exists for that step.

What must not happen here: a password that a client showed because its own connection is safe, sent on in clear.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from proxy.mysql.login.login_packets import NATIVE_PASSWORD
from proxy.mysql.login.password_key import PasswordKey, encrypt
from proxy.mysql.wire.packets import (
    COM_QUERY,
    EOF,
    ERR,
    MORE_AUTH,
    NEXT_FACTOR,
    OK,
    Malformed,
    error_payload,
    parse_error,
    read_null_terminated,
)

CACHING_SHA2 = b"caching_sha2_password"
SHA256 = b"sha256_password"
OLD_PASSWORD = b"mysql_old_password"
NEVER_IN_CLEAR = frozenset({b"", NATIVE_PASSWORD, CACHING_SHA2})  # until MySQL asks for full authentication

FAST_ENOUGH, FULL = b"\x03", b"\x04"  # caching_sha2_password's words
ASK_FOR_KEY = {CACHING_SHA2: b"\x02", SHA256: b"\x01"}
NO_PASSWORD = (b"", b"\0")

# An answer that no plugin takes for a password: MySQL denies it. One who just leaves in the middle is counted as a
# connection error instead, and after `max_connect_errors` of them MySQL shuts everybody at Upwell's address out.
DENY_ME = b"\xff"

WHO_AM_I = bytes((COM_QUERY,)) + b"SHOW CREATE USER CURRENT_USER()"
MUST_CHANGE_PASSWORD = 1820


class Turn(Enum):
    """Who speaks next. EITHER: a plugin whose order is not known here."""

    CLIENT = "client"
    SERVER = "server"
    EITHER = "either"
    NOBODY = "nobody"


class Outcome(Enum):
    ACCEPTED = "accepted"  # `final` is MySQL's OK
    DENIED = "denied"  # `final` is MySQL's ERR
    REFUSED = "refused"  # `final` is an ERR of Upwell's own


@dataclass(frozen=True, slots=True)
class Step:
    """Payloads to send now. With an `outcome` it is over: `final` is for the client and not among `to_client`; unless
    it is ACCEPTED, both connections end.

    `new_command`: what goes to MySQL begins a new command, the sequence numbers start anew.
    """

    to_client: tuple[bytes, ...] = ()
    to_server: tuple[bytes, ...] = ()
    outcome: Outcome | None = None
    final: bytes = b""
    new_command: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """What authentication stands on. `nonce`: the last that MySQL sent on this connection (`AuthRelay.nonce`).

    `client_tls`, `client_unix`: the client's connection has TLS, is a unix socket; `server_...` likewise MySQL's.
    `deprecate_eof`: in effect with MySQL. `key`: Upwell's own, required where `needs_key`.
    """

    nonce: bytes
    client_tls: bool
    server_tls: bool
    client_unix: bool = False
    server_unix: bool = False
    deprecate_eof: bool = False
    key: PasswordKey | None = None

    @property
    def needs_key(self) -> bool:
        """Whether the client may have to encrypt for Upwell."""
        return not self.client_tls and (self.server_tls or (self.server_unix and not self.client_unix))


class AuthRelay:
    """Invariants:
    1. `_password` is not empty only between a client's answer and MySQL's key, one message.
    2. Where only the client's connection is safe, nothing is asked of it or sent on for a plugin not known here.
    """

    def __init__(self, terms: Terms) -> None:
        assert terms.key is not None or not terms.needs_key, "no key for the client"
        self.turn = Turn.CLIENT
        self.nonce = terms.nonce
        self._terms = terms
        self._plugin = b""
        self._full = False  # MySQL wants the password itself
        self._own_key = False  # over a safe connection the client asked for MySQL's key all the same
        self._password = b""
        self._proven = False  # MySQL has looked at a password
        self._opening: Callable[[bytes], bytes] | None = None
        self._accepted = b""  # MySQL's OK while the account is looked at
        self._account: list[bytes] = []

    def begin(self, plugin: bytes, response: bytes, opening: Callable[[bytes], bytes]) -> Step:
        """The client has named its plugin and given its first answer. `opening` puts an answer into the packet that
        carries the first one to MySQL: a handshake response or COM_CHANGE_USER."""
        self._plugin = plugin
        self._opening = opening
        return self.from_client(response)

    # -- what the client says ------------------------------------------------------------------------------------------

    def from_client(self, payload: bytes) -> Step:
        if self.turn not in (Turn.CLIENT, Turn.EITHER):
            return self._refuse(1156, "08S01", "an answer came while it was MySQL's turn")
        client_safe, server_safe = self._safe()
        if client_safe == server_safe:
            return self._to_server(payload)
        return self._into_the_open(payload) if client_safe else self._into_safety(payload)

    def _into_the_open(self, payload: bytes) -> Step:
        """The client may show its password, Upwell may not: it asks MySQL for its key and encrypts."""
        if self._may_show_password():
            return self._refuse_plugin()
        if not self._carries_password(payload) or self._own_key:
            return self._to_server(payload)
        if payload == ASK_FOR_KEY[self._plugin]:
            self._own_key = True
            return self._to_server(payload)
        self._password = payload
        return self._to_server(ASK_FOR_KEY[self._plugin])

    def _into_safety(self, payload: bytes) -> Step:
        """The client may not show its password, Upwell may: the client encrypts for Upwell's key."""
        if not self._carries_password(payload):
            return self._to_server(payload)
        key = self._terms.key
        assert key is not None
        if payload == ASK_FOR_KEY[self._plugin]:
            self.turn = Turn.CLIENT
            return Step(to_client=(bytes((MORE_AUTH,)) + key.pem,))
        password = key.decrypt(payload, self.nonce)
        if password is None:
            return self._refuse(
                1045, "28000", "the password is encrypted for another key than Upwell's: ask the server for its key"
            )
        return self._to_server(password)

    def _safe(self) -> tuple[bool, bool]:
        """Whether a password is shown on the client's connection, and on MySQL's, with this plugin."""
        terms, unix_is = self._terms, self._plugin != SHA256  # which encrypts there too
        return terms.client_tls or (terms.client_unix and unix_is), terms.server_tls or (terms.server_unix and unix_is)

    def _may_show_password(self) -> bool:
        """Whether this plugin's client side is one that might send a password as it is, seeing a safe connection."""
        return self._safe() == (True, False) and self._plugin not in NEVER_IN_CLEAR and self._plugin != SHA256

    def _carries_password(self, payload: bytes) -> bool:
        if self._plugin == SHA256:
            return payload not in NO_PASSWORD
        return self._plugin == CACHING_SHA2 and self._full

    def _to_server(self, payload: bytes) -> Step:
        self.turn = Turn.SERVER
        if self._opening is not None:
            payload = self._opening(payload)
            self._opening = None
        return Step(to_server=(payload,))

    # -- what MySQL says -----------------------------------------------------------------------------------------------

    def from_server(self, payload: bytes) -> Step:
        """Raises Malformed for what is no part of authentication."""
        if self._accepted:
            return self._account_told(payload)
        first = payload[0] if payload else -1
        if first == OK:
            return self._on_ok(payload)
        if first == ERR:
            return self._over(Outcome.DENIED, payload)
        if first in (EOF, NEXT_FACTOR):
            return self._on_switch(payload)
        if first == MORE_AUTH:
            return self._on_more(payload)
        raise Malformed(f"MySQL answered a login with {payload[:1]!r}")

    def _on_switch(self, payload: bytes) -> Step:
        """Another plugin, with a nonce of its own: the account's is not the client's first choice, or one more factor
        is asked for."""
        named = b""
        if len(payload) > 1:
            named, at = read_null_terminated(payload, 1)
            self.nonce = payload[at:].removesuffix(b"\0") or self.nonce
        # Without a name, or with an empty one, the client chooses: the oldest ones take this plugin.
        self._plugin = named or OLD_PASSWORD
        self._password = b""
        self._full = self._own_key = False
        self.turn = Turn.CLIENT
        if self._may_show_password():
            return self._refuse_plugin()
        return Step(to_client=(payload,))

    def _on_more(self, payload: bytes) -> Step:
        if self._password:
            encrypted = encrypt(self._password, self.nonce, payload[1:])
            self._password = b""
            if encrypted is None:
                self.turn = Turn.CLIENT
                return self._refuse(1045, "28000", "MySQL's key for passwords cannot be used for this password")
            return self._to_server(encrypted)
        self._proven = True
        if self._plugin == CACHING_SHA2:
            self._full = self._full or payload[1:] == FULL
            self.turn = Turn.SERVER if payload[1:] == FAST_ENOUGH else Turn.CLIENT
        else:
            self.turn = Turn.CLIENT if self._plugin == SHA256 else Turn.EITHER
        return Step(to_client=(payload,))

    def _on_ok(self, payload: bytes) -> Step:
        if not self._terms.server_unix or self._proven:
            return self._over(Outcome.ACCEPTED, payload)
        # An account of the plugin auth_socket is let in because of whose process is at the other end: Upwell's, whoever
        # the client is. What MySQL then says looks as with an empty password; only the account itself tells.
        self._accepted = payload
        self.turn = Turn.SERVER
        return Step(to_server=(WHO_AM_I,), new_command=True)

    def _account_told(self, payload: bytes) -> Step:
        self._account.append(payload)
        if payload[:1] == bytes((ERR,)):
            if parse_error(payload).errno != MUST_CHANGE_PASSWORD:  # who must change one has one
                return self._over(Outcome.DENIED, payload)
        elif len(self._account) < (4 if self._terms.deprecate_eof else 5):  # count, column, [EOF], row, end
            return Step()
        elif b"auth_socket" in self._account[-2]:
            return self._refuse(
                1045, "28000", "the account is authenticated by the process that connects, and that would be Upwell"
            )
        return self._over(Outcome.ACCEPTED, self._accepted)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _refuse_plugin(self) -> Step:
        name = self._plugin.decode("utf-8", "replace")
        return self._refuse(
            1251,
            "08004",
            f"the authentication plugin {name!r} may show a password, and Upwell's connection to MySQL has no TLS",
        )

    def _refuse(self, errno: int, sqlstate: str, message: str) -> Step:
        waits = self.turn is not Turn.SERVER and self._opening is None
        return self._over(
            Outcome.REFUSED, error_payload(errno, sqlstate, message), to_server=(DENY_ME,) if waits else ()
        )

    def _over(self, outcome: Outcome, final: bytes, to_server: tuple[bytes, ...] = ()) -> Step:
        self.turn = Turn.NOBODY
        self._password = b""
        return Step(to_server=to_server, outcome=outcome, final=final)
