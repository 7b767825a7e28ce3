"""Where the source is and how to log in: the `mysql://` or `vitess://` address, parsed and checked once.

Pure text handling. Both edges (upqueries and the change stream) are given an `Upstream` by the composition root.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, replace
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from sqltypes.errors import ConfigError

DEFAULT_PORTS = {"mysql": 3306, "vitess": 15306}
GRPC_PORT = 15991  # of vtgate, where the address names none
TLS_MODES = ("disabled", "preferred", "required", "verify")
TLS_OPTIONS = ("tls", "ca", "cert", "key")
OPTIONS = {"mysql": ("unix_socket", *TLS_OPTIONS), "vitess": ("grpc", *TLS_OPTIONS)}
EXPECTED = {
    "mysql": "expected mysql://user:password@host:port[/database]",
    "vitess": "expected vitess://user:password@host:port/keyspace[?grpc=host:port]",
}
EITHER = f"{EXPECTED['mysql']} or {EXPECTED['vitess'].removeprefix('expected ')}"


@dataclass(frozen=True, slots=True)
class Upstream:
    """One MySQL server, or a vtgate of Vitess. `tls`: "disabled", "preferred" (without a check of the certificate),
    "required" (likewise) or "verify".

    `database` is Vitess' keyspace, `grpc` the `host:port` of vtgate's gRPC. `tls_given`: somebody asked for this mode,
    it is not the default. `ca`, `cert` and `key` are paths of PEM files, "" for none. With `unix_socket`, host and port
    are not used.
    """

    host: str
    port: int
    user: str
    password: str
    database: str = ""
    unix_socket: str = ""
    tls: str = "preferred"
    ca: str = ""
    cert: str = ""
    key: str = ""
    tls_given: bool = True
    kind: str = "mysql"  # or "vitess"
    grpc: str = ""

    def for_clients(self) -> Upstream:
        """The same server, for the sessions of clients. "preferred" then means: TLS if the client uses it.

        Nobody listens in on loopback, but an account may require TLS (REQUIRE SSL), so the default follows the client.
        A unix socket needs none: MySQL itself calls it secure. Upwell's own certificate is not shown, because it would
        vouch for clients that have none (REQUIRE X509).
        """
        follows = self.tls == "disabled" and not self.tls_given and not self.unix_socket
        return replace(self, tls="preferred" if follows else self.tls, cert="", key="")

    @property
    def redacted(self) -> str:
        """The address without the password, for logs and status."""
        return self.address.replace("//", f"//{quote(self.user, safe='')}@", 1)

    @property
    def address(self) -> str:
        """The same without the account: what everybody may know."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        text = f"{self.kind}://{host}:{self.port}"
        if self.database:
            text += f"/{quote(self.database, safe='')}"
        if self.unix_socket:
            text += f"?unix_socket={quote(self.unix_socket)}"
        if self.grpc:
            text += f"?grpc={self.grpc}"
        return text

    def __repr__(self) -> str:
        return f"Upstream({self.redacted!r})"

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS settings of a connection, None for plain text. Raises ConfigError where a file is missing or
        wrong.
        """
        if self.tls == "disabled":
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.tls == "verify"
        if self.tls != "verify":
            context.verify_mode = ssl.CERT_NONE
        try:
            if self.ca:
                context.load_verify_locations(self.ca)
            elif self.tls == "verify":
                context.load_default_certs()
            if self.cert:
                context.load_cert_chain(self.cert, self.key or None)
        except OSError as error:  # ssl.SSLError is one
            named = ", ".join(repr(path) for path in (self.ca, self.cert, self.key) if path)
            raise ConfigError(f"the upstream's TLS files {named} cannot be used: {error}") from error
        return context


def parse_upstream(url: str) -> Upstream:
    """The address as a user gives it:
    `mysql://user:pw@host:port[/db][?unix_socket=PATH&tls=MODE&ca=PATH&cert=PATH&key=PATH]` or
    `vitess://user:pw@host:port/keyspace[?grpc=HOST:PORT&tls=MODE&...]`.

    Parts are percent-encoded. TLS is disabled by default on loopback and unix sockets, preferred elsewhere. Raises
    ConfigError, which never shows the password.
    """
    if "#" in url:
        raise ConfigError("the upstream's address has a '#': expected %23 where it is part of the password or a name")
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        # Not the parser's own words: with an unescaped password they quote a piece of it.
        wanted = f"{EITHER}, with /, @, : and # in a name or password percent-encoded"
        raise ConfigError(f"the upstream's address cannot be read: {wanted}") from error
    kind = parts.scheme
    if kind not in OPTIONS:
        begins = f"begins with {kind + '://'!r}" if "://" in url else "does not begin with mysql://"
        raise ConfigError(f"the upstream's address {begins}: {EITHER}")
    if not parts.username:
        raise ConfigError(f"the upstream's address names no user: {EXPECTED[kind]}")
    options = _options(parts)
    unix_socket = options.get("unix_socket", "")
    host = unquote(parts.hostname or "")
    if not host and not unix_socket:
        raise ConfigError(f"the upstream's address names no host: {EXPECTED[kind]}")
    database = unquote(parts.path.removeprefix("/"))
    if "/" in parts.path.removeprefix("/"):
        raise ConfigError(f"the upstream's database is {database!r}: expected one name, a slash in it written as %2F")
    if kind == "vitess" and (not database or not set(database).isdisjoint(":@")):
        named = f"{database!r} for a keyspace" if database else "no keyspace"
        raise ConfigError(f"the upstream's address names {named}: {EXPECTED[kind]}")
    return Upstream(
        host=host or "localhost",
        port=DEFAULT_PORTS[kind] if port is None else port,
        user=unquote(parts.username),
        password=unquote(parts.password or ""),
        database=database,
        unix_socket=unix_socket,
        tls=_tls_mode(options, host, unix_socket),
        ca=options.get("ca", ""),
        cert=options.get("cert", ""),
        key=options.get("key", ""),
        tls_given="tls" in options,
        kind=kind,
        grpc=_grpc(options.get("grpc", ""), host) if kind == "vitess" else "",
    )


def _grpc(given: str, host: str) -> str:
    """`host:port` of vtgate's gRPC: where nothing is said, vtgate's usual port on the same host."""
    named = f"[{host}]" if ":" in host else host
    try:
        found = urlsplit(f"//{given or named}")
        name, port, fits = found.hostname or "", found.port or GRPC_PORT, not found.path and found.username is None
    except ValueError:
        name, port, fits = "", 0, False
    if not name or not fits:
        raise ConfigError(f"the upstream's grpc is {given!r}: expected host:port of vtgate's --grpc-port")
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _options(parts: SplitResult) -> dict[str, str]:
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigError(f"the upstream's options {parts.query!r} cannot be read: expected name=value&...") from error
    options, known = dict(pairs), OPTIONS[parts.scheme]
    if unknown := sorted(set(options) - set(known)):
        raise ConfigError(f"the upstream's option {unknown[0]!r} is not known: expected one of {', '.join(known)}")
    if options.get("key") and not options.get("cert"):
        raise ConfigError("the upstream's option 'key' stands alone: expected 'cert' beside it")
    return options


def _tls_mode(options: dict[str, str], host: str, unix_socket: str) -> str:
    mode = options.get("tls")
    if mode is None:
        if options.get("ca"):
            return "verify"
        return "disabled" if unix_socket or is_loopback(host) else "preferred"
    if mode not in TLS_MODES:
        raise ConfigError(f"the upstream's tls is {mode!r}: expected one of {', '.join(TLS_MODES)}")
    return mode


def is_loopback(host: str) -> bool:
    """Whether the name or address is this machine's own."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
