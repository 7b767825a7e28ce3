"""A client's login: MySQL greets, the client answers, MySQL decides; Upwell stands between and stores no password.

`log_in` gives two open connections of which MySQL has accepted the client's account, or it raises, having told the
client why and closed both: there is no way from here into the command phase but through MySQL's OK.

The connection to MySQL is opened first, since the greeting is MySQL's. It uses TLS where the client does, unless the
upstream's settings say always or never. Or it is one that is kept (`kept.py`), on which the client's account is changed
to; a client that asks for other than was foreseen gets a new one all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import time
from dataclasses import dataclass, field, replace

from external_upquery.upstream import Upstream
from proxy.mysql.auth_relay import CACHING_SHA2, DENY_ME, AuthRelay, Outcome, Step, Terms, Turn
from proxy.mysql.compression import Compression, agreed
from proxy.mysql.dial import connected
from proxy.mysql.error_numbers import login_error
from proxy.mysql.kept import Kept, KeptConnections, likeness
from proxy.mysql.logged_in import LoggedIn
from proxy.mysql.login_errors import CLIENT_SPEAKS, MYSQL_SPEAKS, source_down, source_error, unauthenticated
from proxy.mysql.login_packets import (
    NONCE,
    ChangeUser,
    Greeting,
    HandshakeResponse,
    decode_name,
    encode_change_user,
    encode_handshake_response,
    is_too_old,
    offered_capabilities,
    parse_greeting,
    parse_handshake_response,
    tls_request,
    upstream_capabilities,
    wants_tls,
)
from proxy.mysql.packet_stream import Lost, PacketStream, PlainPackets, Tls
from proxy.mysql.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_PLUGIN_AUTH,
    CLIENT_PROTOCOL_41,
    CLIENT_SECURE_CONNECTION,
    CLIENT_SSL,
    EOF,
    ERR,
    Malformed,
    parse_error,
)
from proxy.mysql.password_key import PasswordKeys
from sqltypes.errors import (
    ClientLeft,
    DeadlinePassed,
    UpwellError,
)

LOGIN_SECONDS = 10.0  # MySQL's own default (connect_timeout)

TOO_MANY = 1040  # connections, MySQL says
TRIES, PAUSE = 20, 0.005
"""How often a connection is asked for, and seconds between: MySQL closes one before it counts one less."""

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
    kept: KeptConnections = field(default_factory=lambda: KeptConnections(0, time.monotonic))


def login_settings(
    upstream: Upstream,
    client_tls: ssl.SSLContext | None = None,
    *,
    client_tls_required: bool = False,
    seconds: float = LOGIN_SECONDS,
    kept: int = 0,
) -> LoginSettings:
    """`client_tls`: what clients may use, None for no TLS. `seconds`: for one whole login. `kept`: how many connections
    wait for the next logins at most. Raises ConfigError."""
    server = upstream.for_clients()
    waiting = KeptConnections(kept, time.monotonic)
    return LoginSettings(server, client_tls, client_tls_required, server.ssl_context(), seconds, kept=waiting)


async def log_in(client: socket.socket, settings: LoginSettings) -> LoggedIn:
    """Takes an accepted socket of any mode; whatever happens, it is not the caller's any more.

    Raises SourceError (MySQL said no), SourceDown, ClientLeft, MalformedRequest, Unauthenticated (Upwell said no) and
    DeadlinePassed; the client was told and both connections are closed, also where the call is cancelled.
    """
    client.setblocking(False)
    login = _Login(client, settings)
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


class Unfit(Exception):
    """A connection that was kept is none for this client."""


class _Login:
    """Invariants:
    1. `_client` and `_server` are what is open and can be written to at this moment; None during a TLS handshake, which
       closes its socket itself if it fails.
    2. `_relay` is not None exactly when MySQL was told who the client is.
    3. `_kept` is not None while `_server` is a connection that was kept.
    3. `_kept` is not None while `_server` is a connection that was kept.
    """

    def __init__(self, client: socket.socket, settings: LoginSettings) -> None:
        self._settings = settings
        self._upstream = settings.upstream
        self._client_is_local = client.family == socket.AF_UNIX
        self._address = _address(client)
        self._client_tls = False
        self._wake = asyncio.Event()
        self._client: PlainPackets | PacketStream | None = PlainPackets(client)
        self._server: PlainPackets | PacketStream | None = None
        self._kept: Kept | None = None
        self._greeted = False
        self._relay: AuthRelay | None = None
        self._last_words = b""  # an ERR to be handed on as it is

    async def run(self) -> LoggedIn:
        kept = self._settings.kept.take(self._address)
        greeted = await self._greeting() if kept is None else self._greet_on(kept)
        response, client = await self._response(greeted)
        compression = _compression(response)
        if kept is None:
            return await self._logged_in(greeted, greeted, client, response, compression)
        try:
            self._must_be_as_foreseen(kept, response)
            return await self._logged_in(greeted, greeted, client, response, compression)
        except Unfit:
            self._settings.kept.callers.forget(self._address)
            greeting, response = await self._other_connection(client, response)
            return await self._logged_in(greeted, greeting, client, response, compression)

    async def _logged_in(
        self,
        greeted: Greeting,
        greeting: Greeting,
        client: PacketStream,
        response: HandshakeResponse,
        compression: Compression | None,
    ) -> LoggedIn:
        """`greeted`: with which the client was greeted; `greeting`: of the connection that it gets."""
        kept = self._kept
        if kept is None:
            server, server_tls = await self._secured(greeting, response)
            capabilities = upstream_capabilities(response, greeting, tls=server_tls)
        else:
            server, (capabilities, server_tls) = kept.stream, kept.likeness
        terms = await self._terms(greeting, capabilities, server_tls=server_tls)
        relay = AuthRelay(terms)
        ok_payload = await self._authenticate(relay, client, server, response, capabilities)
        like = likeness(capabilities, tls=server_tls)
        self._settings.kept.callers.note(self._address, like)
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
            greeted_as=greeted.connection_id,
            client_tls=self._client_tls,
            server_secure=server_tls or terms.server_unix,
            ok_payload=ok_payload,
            terms=replace(terms, nonce=relay.nonce),
            like=like,
            begun_anew=kept is not None,
        )

    # -- MySQL greets --------------------------------------------------------------------------------------------------

    async def _greeting(self) -> Greeting:
        greeting = await self._greeting_of_new()
        self._greet(greeting)
        return greeting

    async def _greeting_of_new(self) -> Greeting:
        """Opens a connection to MySQL. Where it has too many, those that wait for nobody make room."""
        tries = 1
        while True:
            server = PlainPackets(await connected(self._upstream))
            self._server = server
            with MYSQL_SPEAKS:
                payload = await server.packet()
                if payload[:1] != bytes((ERR,)):
                    return parse_greeting(payload)
            self._server = None
            server.close()
            error = source_error(payload)
            if error.errno == TOO_MANY and self._settings.kept.part_with_all():
                tries = TRIES
            tries -= 1
            if error.errno != TOO_MANY or not tries:
                self._last_words = b"" if self._greeted else payload  # without an SQLSTATE
                raise error
            await asyncio.sleep(PAUSE)

    def _greet_on(self, kept: Kept) -> Greeting:
        """The greeting of a connection that is kept, with a nonce that MySQL does not know: it will send one."""
        self._kept, self._server = kept, kept.stream
        kept.stream.wake = self._wake
        greeting = kept.greeting.with_nonce(_nonce())
        self._greet(greeting)
        return greeting

    def _greet(self, greeting: Greeting) -> None:
        offered = offered_capabilities(greeting, tls=self._settings.client_tls is not None)
        assert isinstance(self._client, PlainPackets)
        with CLIENT_SPEAKS:
            self._client.send(greeting.offering(offered))
        self._greeted = True

    # -- the client says who it is -------------------------------------------------------------------------------------

    async def _response(self, greeting: Greeting) -> tuple[HandshakeResponse, PacketStream]:
        plain, context = self._client, self._settings.client_tls
        assert isinstance(plain, PlainPackets)
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
            if not self._client_tls:
                client = await self._client_stream(plain)
        return response, client

    async def _client_stream(self, plain: PlainPackets, tls: Tls | None = None) -> PacketStream:
        self._client = None
        self._client = await plain.stream(self._wake, accepted=True, tls=tls)
        return self._client

    # -- on a connection that is kept ----------------------------------------------------------------------------------

    def _must_be_as_foreseen(self, kept: Kept, response: HandshakeResponse) -> None:
        """Raises Unfit where the client is not."""
        tls = self._with_tls(kept.greeting)
        like = likeness(upstream_capabilities(response, kept.greeting, tls=tls), tls=tls)
        if like != kept.likeness or len(response.auth_response) > 0xFF:  # one byte tells its length
            raise Unfit

    async def _other_connection(
        self, client: PacketStream, response: HandshakeResponse
    ) -> tuple[Greeting, HandshakeResponse]:
        """A new connection in the place of the one on which the client was greeted: its greeting, and the client's
        answer to its nonce."""
        if not response.capabilities & CLIENT_PLUGIN_AUTH:
            raise unauthenticated(
                1251, "08004", "Client does not support authentication protocol requested by server;"
                " consider upgrading MySQL client",
            )  # fmt: skip
        self._part_with_kept()
        greeting = await self._greeting_of_new()
        with CLIENT_SPEAKS:
            client.send(bytes((EOF,)) + greeting.plugin + b"\0" + greeting.nonce + b"\0")
            answer = await client.packet()
        return greeting, replace(response, plugin=greeting.plugin, auth_response=answer)

    async def _change_on(self, kept: Kept, opening: tuple[bytes, ...]) -> None:
        """Sends COM_CHANGE_USER. Raises Unfit where no session may begin there, or MySQL has ended the connection."""
        try:
            kept.say(kept.fit, *opening)
            fit = await kept.agrees()
        except Lost:
            fit = False
        if not fit:
            self._relay = None
            kept.stream.abort()  # MySQL waits for a password
            raise Unfit
        kept.stream.sequence = 1

    def _part_with_kept(self) -> None:
        kept, self._kept, self._server = self._kept, None, None
        assert kept is not None
        kept.part()

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

    async def _secured(self, greeting: Greeting, response: HandshakeResponse) -> tuple[PacketStream, bool]:
        """The connection to MySQL as a transport, and whether it has TLS."""
        plain, context = self._server, self._settings.upstream_tls
        assert isinstance(plain, PlainPackets)
        tls = None
        if self._with_tls(greeting):
            assert context is not None
            tls = Tls(context, self._settings.seconds, self._upstream.host)
        with MYSQL_SPEAKS:
            if tls is not None:
                capabilities = upstream_capabilities(response, greeting, tls=True)
                plain.send(tls_request(capabilities, response.max_packet, response.collation))
            self._server = None
            self._server = await plain.stream(self._wake, accepted=False, tls=tls)
        return self._server, tls is not None

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

    async def _authenticate(
        self,
        relay: AuthRelay,
        client: PacketStream,
        server: PacketStream,
        response: HandshakeResponse,
        capabilities: int,
    ) -> bytes:
        """MySQL's OK. Raises Unfit where it must be sought on another connection."""
        kept = self._kept

        def opening(answer: bytes) -> bytes:
            self._relay = relay
            said = replace(response, auth_response=answer)
            return (encode_handshake_response if kept is None else _change)(said, capabilities)

        with CLIENT_SPEAKS:
            step = relay.begin(response.plugin, response.auth_response, opening)
        if kept is not None and step.to_server:
            await self._change_on(kept, step.to_server)
            step = await self._next(relay, client, server)
        while True:
            if step.new_command:
                server.sequence = 0
            with MYSQL_SPEAKS:
                for payload in step.to_server:
                    server.send(payload)
            with CLIENT_SPEAKS:
                for payload in step.to_client:
                    client.send(payload)
            if step.outcome is not None:
                break
            step = await self._next(relay, client, server)
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

    def _part(self, server: PlainPackets | PacketStream) -> None:
        relay = self._relay
        if relay is None and self._kept is not None:
            self._part_with_kept()
            return
        if relay is None:
            server.send(NOBODY)
        if relay is None or relay.turn is not Turn.NOBODY:
            if relay is None or relay.turn is Turn.SERVER:
                server.sequence += 1  # of what it is about to ask
            server.send(DENY_ME)


def _address(client: socket.socket) -> str:
    """Of the machine that a client is on; "" for this one's unix sockets, and for who has left already."""
    with contextlib.suppress(OSError):
        if client.family != socket.AF_UNIX:
            return str(client.getpeername()[0])
    return ""


def _nonce() -> bytes:
    """As MySQL's: of seven bits, and no zero."""
    return bytes(1 + byte % 0x7F for byte in os.urandom(NONCE))


def _change(said: HandshakeResponse, capabilities: int) -> bytes:
    """What a client has said of itself, as COM_CHANGE_USER."""
    change = ChangeUser(said.user, said.auth_response, said.database, said.collation, said.plugin, said.attributes)
    return encode_change_user(change, capabilities)


def _compression(response: HandshakeResponse) -> Compression | None:
    """What the client's packets are compressed by. Raises Unauthenticated, in MySQL's words."""
    try:
        return agreed(response.capabilities, response.zstd_level)
    except ValueError:
        words = "Invalid zstd compression level for algorithm 'zstd'."
        raise unauthenticated(3923, "HY000", words) from None
