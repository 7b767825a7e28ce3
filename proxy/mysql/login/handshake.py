"""A client's login: MySQL greets, the client answers, MySQL decides; Upwell stands between and stores no password.

`log_in` gives two open connections of which MySQL has accepted the client's account, or it raises, having told the
client why and closed both: there is no way from here into the command phase but through MySQL's OK.

The connection to MySQL is opened first, since the greeting is MySQL's. It uses TLS where the client does, unless the
upstream's settings say always or never.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from external_upquery.address import Upstream
from proxy.mysql.login.auth_relay import CACHING_SHA2, DENY_ME, AuthRelay, Outcome, Step, Terms, Turn
from proxy.mysql.login.dial import connected
from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.login.login_errors import CLIENT_SPEAKS, MYSQL_SPEAKS, source_down, source_error, unauthenticated
from proxy.mysql.login.login_packets import (
    Greeting,
    HandshakeResponse,
    decode_name,
    encode_handshake_response,
    is_too_old,
    offered_capabilities,
    parse_greeting,
    parse_handshake_response,
    tls_request,
    upstream_capabilities,
    wants_tls,
)
from proxy.mysql.login.password_key import PasswordKeys
from proxy.mysql.wire.compression import Compression, agreed
from proxy.mysql.wire.error_numbers import login_error
from proxy.mysql.wire.packet_stream import Lost, PacketStream, PlainPackets, Tls, server_stream
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_PLUGIN_AUTH,
    CLIENT_PROTOCOL_41,
    CLIENT_SECURE_CONNECTION,
    CLIENT_SSL,
    ERR,
    Malformed,
    parse_error,
)
from sqltypes.errors import (
    ClientLeft,
    DeadlinePassed,
    UpwellError,
)

LOGIN_SECONDS = 10.0  # MySQL's own default (connect_timeout)

# Who has not said yet who it is and leaves: MySQL is told a name that is nobody's, and denies it (see `DENY_ME`).
NOBODY = encode_handshake_response(
    HandshakeResponse(0, 1 << 24, 255, b"upwell-client-left", b"", b"", CACHING_SHA2, b""),
    CLIENT_PROTOCOL_41 | CLIENT_SECURE_CONNECTION | CLIENT_PLUGIN_AUTH,
)


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """What is equal for all logins. Made by `login_settings`."""

    upstream: Upstream
    client_tls: ssl.SSLContext | None
    client_tls_required: bool
    upstream_tls: ssl.SSLContext | None
    seconds: float
    keys: PasswordKeys = field(default_factory=PasswordKeys)


def login_settings(
    upstream: Upstream,
    client_tls: ssl.SSLContext | None = None,
    *,
    client_tls_required: bool = False,
    seconds: float = LOGIN_SECONDS,
) -> LoginSettings:
    """`client_tls`: what clients may use, None for no TLS. `seconds`: for one whole login. Raises ConfigError."""
    server = upstream.for_clients()
    return LoginSettings(server, client_tls, client_tls_required, server.ssl_context(), seconds)


def nothing_is_asked(capabilities: int) -> bytes:
    return b""


async def log_in(
    client: socket.socket, settings: LoginSettings, ahead: Callable[[int], bytes] = nothing_is_asked
) -> LoggedIn:
    """Takes an accepted socket of any mode; whatever happens, it is not the caller's any more. `ahead`: what MySQL is
    sent as soon as it has accepted the account of a client with these capabilities; the answers are left to be read.

    Raises SourceError (MySQL said no), SourceDown, ClientLeft, MalformedRequest, Unauthenticated (Upwell said no) and
    DeadlinePassed; the client was told and both connections are closed, also where the call is cancelled.
    """
    client.setblocking(False)
    login = _Login(client, settings, ahead)
    try:
        async with asyncio.timeout(settings.seconds):
            return await login.run()
    except TimeoutError as error:
        late = DeadlinePassed(f"the login took longer than {settings.seconds:g} s")
        late.errno, late.sqlstate = 1159, "08S01"
        login.end(late)
        raise late from error
    except UpwellError as error:
        login.end(error)
        raise
    except BaseException:
        login.end(None)
        raise


class _Login:
    """Invariants:
    1. `_client` and `_server` are what is open and can be written to at this moment; None during a TLS handshake, which
       closes its socket itself if it fails.
    2. `_relay` is not None exactly when MySQL was told who the client is.
    """

    def __init__(self, client: socket.socket, settings: LoginSettings, ahead: Callable[[int], bytes]) -> None:
        self._settings = settings
        self._ahead = ahead
        self._upstream = settings.upstream
        self._client_is_local = client.family == socket.AF_UNIX
        self._client_tls = False
        self._wake = asyncio.Event()
        self._client: PlainPackets | PacketStream | None = PlainPackets(client)
        self._server: PacketStream | None = None
        self._greeted = False
        self._relay: AuthRelay | None = None
        self._last_words = b""  # an ERR to be handed on as it is

    async def run(self) -> LoggedIn:
        server, greeting = await self._greeting()
        response, plain = await self._response(greeting)
        compression = _compression(response)
        server_tls = await self._secured(server, greeting, response)
        capabilities = upstream_capabilities(response, greeting, tls=server_tls)
        terms = await self._terms(greeting, capabilities, server_tls=server_tls)
        relay = AuthRelay(terms)
        step = self._begin(relay, server, response, capabilities)
        # A transport takes turns of the loop: MySQL looks at the password meanwhile.
        client = await self._client_stream(plain) if isinstance(plain, PlainPackets) else plain
        ok_payload = await self._authenticate(relay, step, client, server)
        if not server.lost:
            server.transport.write(self._ahead(response.capabilities))  # before the client is told: both go on at once
        return LoggedIn(
            client=client,
            server=server,
            capabilities=response.capabilities,
            compression=compression,
            server_capabilities=capabilities,
            user=decode_name(response.user, response.collation),
            database=decode_name(response.database, response.collation),
            collation=response.collation,
            greeting=greeting,
            client_tls=self._client_tls,
            server_secure=server_tls or terms.server_unix,
            ok_payload=ok_payload,
            terms=terms if terms.nonce == relay.nonce else replace(terms, nonce=relay.nonce),
        )

    # -- MySQL greets --------------------------------------------------------------------------------------------------

    async def _greeting(self) -> tuple[PacketStream, Greeting]:
        sock = await connected(self._upstream)
        with MYSQL_SPEAKS:
            server = self._server = await server_stream(sock, self._wake)
            payload = await server.packet()
            if payload[:1] == bytes((ERR,)):
                self._server = None
                server.close()
                self._last_words = payload  # without an SQLSTATE
                raise source_error(payload)
            greeting = parse_greeting(payload)
        offered = offered_capabilities(greeting, tls=self._settings.client_tls is not None)
        assert isinstance(self._client, PlainPackets)
        with CLIENT_SPEAKS:
            self._client.send(greeting.offering(offered))
        self._greeted = True
        return server, greeting

    # -- the client says who it is -------------------------------------------------------------------------------------

    async def _response(self, greeting: Greeting) -> tuple[HandshakeResponse, PlainPackets | PacketStream]:
        """What the client says, and its connection, which is a transport where it has TLS."""
        plain, context = self._client, self._settings.client_tls
        assert isinstance(plain, PlainPackets)
        client: PlainPackets | PacketStream = plain
        offered = offered_capabilities(greeting, tls=context is not None)
        with CLIENT_SPEAKS:
            payload = await plain.packet()
            if wants_tls(payload):
                if context is None:
                    raise Malformed("a TLS request, but TLS was not offered")
                client = await self._client_stream(plain, Tls(context, self._settings.seconds))
                self._client_tls = True
                payload = await client.packet()
            elif self._settings.client_tls_required and not self._client_is_local:
                raise unauthenticated(3159, "HY000", "connections without TLS are not accepted here")
            if is_too_old(payload):
                raise unauthenticated(1251, "08004", "the client's protocol is older than MySQL 4.1's")
            response = parse_handshake_response(payload, offered)
        return response, client

    async def _client_stream(self, plain: PlainPackets, tls: Tls | None = None) -> PacketStream:
        """The client's connection as a transport. Raises ClientLeft, MalformedRequest."""
        self._client = None
        with CLIENT_SPEAKS:
            self._client = await plain.stream(self._wake, tls)
        return self._client

    # -- MySQL is told -------------------------------------------------------------------------------------------------

    def _with_tls(self, greeting: Greeting) -> bool:
        """Whether the connection to MySQL has TLS. Raises SourceDown where it must and MySQL offers none."""
        mode = self._upstream.tls
        if mode not in ("required", "verify") and not (mode == "preferred" and self._client_tls):
            return False
        if greeting.capabilities & CLIENT_SSL:
            return True
        if mode != "preferred":
            raise source_down(2026, f"MySQL offers no TLS, and the upstream's tls is {mode!r}")
        return False

    async def _secured(self, server: PacketStream, greeting: Greeting, response: HandshakeResponse) -> bool:
        """Puts TLS between MySQL and us, where it is to be; whether it is."""
        if not self._with_tls(greeting):
            return False
        context = self._settings.upstream_tls
        assert context is not None
        capabilities = upstream_capabilities(response, greeting, tls=True)
        with MYSQL_SPEAKS:
            server.send(tls_request(capabilities, response.max_packet, response.collation))
            self._server = None
            await server.secure(Tls(context, self._settings.seconds, self._upstream.host))
        self._server = server
        return True

    async def _terms(self, greeting: Greeting, capabilities: int, *, server_tls: bool) -> Terms:
        terms = Terms(
            nonce=greeting.nonce,
            client_tls=self._client_tls,
            server_tls=server_tls,
            client_unix=self._client_is_local,
            server_unix=bool(self._upstream.unix_socket),
            deprecate_eof=bool(capabilities & CLIENT_DEPRECATE_EOF),
        )
        return replace(terms, key=await self._settings.keys.key()) if terms.needs_key else terms

    # -- MySQL decides -------------------------------------------------------------------------------------------------

    def _begin(self, relay: AuthRelay, server: PacketStream, response: HandshakeResponse, capabilities: int) -> Step:
        """MySQL is told who the client is: the first step."""

        def opening(answer: bytes) -> bytes:
            self._relay = relay
            return encode_handshake_response(replace(response, auth_response=answer), capabilities)

        with CLIENT_SPEAKS:
            step = relay.begin(response.plugin, response.auth_response, opening)
        _tell(server, step)
        return step

    async def _authenticate(self, relay: AuthRelay, step: Step, client: PacketStream, server: PacketStream) -> bytes:
        """MySQL's OK. `step`: the first one, of which MySQL has been told."""
        while True:
            for payload in step.to_client:
                client.put(payload)
            if step.outcome is not None:
                break
            step = await self._next(relay, client, server)
            _tell(server, step)
        if step.outcome is Outcome.ACCEPTED:
            return step.final
        self._last_words = step.final
        if step.outcome is Outcome.DENIED:
            raise source_error(step.final)
        refused = parse_error(step.final)
        raise unauthenticated(refused.errno, refused.sqlstate, refused.message)

    async def _next(self, relay: AuthRelay, client: PacketStream, server: PacketStream) -> Step:
        """What follows from the next word of either side."""
        while True:
            self._wake.clear()
            with MYSQL_SPEAKS:
                payload = server.take()
                if payload is not None:
                    return relay.from_server(payload)
            with CLIENT_SPEAKS:
                payload = client.take() if relay.turn is not Turn.SERVER else None
                if payload is not None:
                    return relay.from_client(payload)
                if client.lost:
                    raise Lost("the connection was closed")
                client.flush()
            await self._wake.wait()

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, error: UpwellError | None) -> None:
        """Tells the client (not where there is no error: the call was cancelled) and closes both connections."""
        if self._client is not None:
            if error is not None and not isinstance(error, ClientLeft):
                with contextlib.suppress(Lost):
                    self._client.send(self._last_words or self._words(error))
            self._client.close()
        server = self._server
        if server is not None:
            with contextlib.suppress(Lost):
                self._part(server)
            server.close()

    def _words(self, error: UpwellError) -> bytes:
        payload = login_error(error)
        return payload if self._greeted else payload[:3] + payload[9:]  # no SQLSTATE before the greeting

    def _part(self, server: PacketStream) -> None:
        relay = self._relay
        if relay is None:
            server.send(NOBODY)
        if relay is None or relay.turn is not Turn.NOBODY:
            if relay is None or relay.turn is Turn.SERVER:
                server.sequence += 1  # of what it is about to ask
            server.send(DENY_ME)


def _tell(server: PacketStream, step: Step) -> None:
    """Sends MySQL what a step says. Raises SourceDown."""
    if step.new_command:
        server.sequence = 0
    with MYSQL_SPEAKS:
        for payload in step.to_server:
            server.send(payload)


def _compression(response: HandshakeResponse) -> Compression | None:
    """What the client's packets are compressed by. Raises Unauthenticated, in MySQL's words."""
    try:
        return agreed(response.capabilities, response.zstd_level)
    except ValueError:
        words = "Invalid zstd compression level for algorithm 'zstd'."
        raise unauthenticated(3923, "HY000", words) from None
