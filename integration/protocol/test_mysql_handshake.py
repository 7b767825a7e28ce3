"""Logins through Upwell on a real MySQL: every mixture of TLS, plain text and unix socket, as if there was no Upwell.

A fresh account has never shown its password, so MySQL asks for it in full; from then on it knows a digest of it.
"""

from __future__ import annotations

import itertools
import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql._auth import scramble_caching_sha2, sha2_rsa_encrypt

from external_upquery.address import parse_upstream
from integration.conftest import OwnMySQL
from integration.servers.debian_mysql import cache_folder, loader_of, newest_unpacked
from integration.servers.mysql_server import Server
from integration.support.addresses import this_machines_address
from proxy.mysql.login.certificate import server_context
from proxy.mysql.login.handshake import login_settings
from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.login.login_packets import ChangeUser, encode_change_user, parse_greeting, tls_request
from proxy.mysql.wire.packets import CLIENT_PLUGIN_AUTH, parse_error
from sqltypes.errors import ClientLeft, SourceError, Unauthenticated
from tests.support.login_proxy import LoginProxy, login_proxy
from tests.support.scripted_mysql import Wire, handshake_response

PASSWORD = "ein langes Päßwort, länger als die Nonce".encode()
CAPABILITIES = 1 << 9 | 1 << 15 | 1 << 19
NUMBERS = itertools.count()

# How Upwell reaches MySQL. "" is the default: as the client reaches Upwell.
MIRRORED, OPEN, ENCRYPTED, UNIX = "", "?tls=disabled", "?tls=required", "unix"
UPSTREAMS = pytest.mark.parametrize("upstream", [MIRRORED, OPEN, ENCRYPTED, UNIX])
CLIENTS = pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])

Account = Callable[..., str]
Through = Callable[..., LoginProxy]


@pytest.fixture
def account(mysql: Server) -> Iterator[Account]:
    """`account("BY 'password'", "REQUIRE SSL")` is the name of a fresh account, dropped after the test."""
    names: list[str] = []

    def create(identified: str = "", options: str = "") -> str:
        name = f"upwell_{os.getpid()}_{next(NUMBERS)}"
        clause = f"IDENTIFIED {identified}" if identified else ""
        mysql.execute(f"CREATE USER '{name}'@'%' {clause} {options}")
        names.append(name)
        return name

    yield create
    for name in names:
        mysql.execute(f"DROP USER '{name}'@'%'")


def url_of(mysql: Server, upstream: str) -> str:
    if upstream != UNIX:
        return f"mysql://root@{mysql.host}:{mysql.port}{upstream}"
    path = mysql.execute("SELECT @@socket")[0][0]
    if not Path(path).is_socket():
        pytest.skip("MySQL's socket file is not on this machine")
    return f"mysql://root@localhost?unix_socket={path}"


@pytest.fixture
def through(mysql: Server) -> Iterator[Through]:
    """`through(upstream, ...)` is a listener before the shared MySQL (or the one given)."""
    with ExitStack() as stack:

        def start(upstream: str = MIRRORED, server: Server | None = None, **options: Any) -> LoginProxy:
            address = parse_upstream(url_of(server or mysql, upstream))
            return stack.enter_context(login_proxy(login_settings(address, server_context(), **options)))

        yield start


def unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connect(port: int, user: str, password: bytes = b"", *, tls: bool = False, **options: Any) -> Any:
    secured: dict[str, Any] = {"ssl": unchecked()} if tls else {"ssl_disabled": True}
    return pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, **secured, **options)


def encrypted(session: LoggedIn) -> bool:
    return session.server.transport.get_extra_info("cipher") is not None


def ask(connection: Any, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


# -- passwords ---------------------------------------------------------------------------------------------------------


@CLIENTS
@UPSTREAMS
def test_a_password_is_shown_once_and_then_known(tls: bool, upstream: str, account: Account, through: Through) -> None:
    user, proxy = account(f"BY '{PASSWORD.decode()}'"), through(upstream)
    for _ in ("in full", "by its digest"):
        with closing(connect(proxy.port, user, PASSWORD, tls=tls)) as connection:
            session = proxy.logged_in()
            assert ask(connection, "SELECT CURRENT_USER(), CONNECTION_ID()") == ((f"{user}@%", session.connection_id),)
        assert (session.user, session.client_tls) == (user, tls)
        assert encrypted(session) == (upstream == ENCRYPTED or (upstream == MIRRORED and tls))
        assert session.server_secure == (encrypted(session) or upstream == UNIX)


@CLIENTS
@UPSTREAMS
def test_no_password_is_no_password(tls: bool, upstream: str, account: Account, through: Through) -> None:
    user, proxy = account(), through(upstream)
    with closing(connect(proxy.port, user, tls=tls)) as connection:
        assert ask(connection, "SELECT CURRENT_USER()") == ((f"{user}@%",),)


@CLIENTS
@UPSTREAMS
def test_a_wrong_password_gets_mysqls_own_error(
    tls: bool, upstream: str, account: Account, through: Through, mysql: Server
) -> None:
    user, proxy = account("BY 'right'"), through(upstream)
    for password in (b"wrong", b""):
        with pytest.raises(pymysql.err.OperationalError) as directly:
            connect(mysql.port, user, password, tls=tls)
        with pytest.raises(pymysql.err.OperationalError) as raised:
            connect(proxy.port, user, password, tls=tls)
        assert raised.value.args == directly.value.args
        assert raised.value.args[0] == 1045
        failure = proxy.failure()
        assert isinstance(failure, SourceError) and failure.errno == 1045


@CLIENTS
@UPSTREAMS
def test_sha256_passwords_come_through(
    tls: bool, upstream: str, account: Account, through: Through, mysql: Server
) -> None:
    if not mysql.execute("SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'sha256_password'"):
        pytest.skip("this MySQL has no sha256_password any more")
    user, proxy = account("WITH sha256_password BY 'secret'"), through(upstream)
    connect(proxy.port, user, b"secret", tls=tls).close()
    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        connect(proxy.port, user, b"wrong", tls=tls)


@CLIENTS
@UPSTREAMS
def test_sha256_as_the_clients_own_choice_comes_through(
    tls: bool, upstream: str, account: Account, through: Through, mysql: Server
) -> None:
    if not mysql.execute("SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'sha256_password'"):
        pytest.skip("this MySQL has no sha256_password any more")
    user, proxy = account("WITH sha256_password BY 'secret'"), through(upstream)
    with closing(RawClient(proxy.port, tls=tls)) as client:
        assert client.log_in(user, b"secret", plugin=b"sha256_password")[:1] == b"\0"
        assert client.wire.command(b"\x0e")[:1] == b"\0"


# -- what else MySQL decides -------------------------------------------------------------------------------------------


def same_refusal(mysql: Server, proxy: LoginProxy, user: str, password: bytes, **options: Any) -> int:
    """The error that a login gets, equal directly and through Upwell."""
    errors = []
    for port in (mysql.port, proxy.port):
        with pytest.raises(pymysql.err.MySQLError) as raised:
            connect(port, user, password, **options)
        errors.append(raised.value.args)
    assert errors[0] == errors[1]
    assert isinstance(proxy.failure(), SourceError)
    return int(errors[0][0])


def test_an_unknown_database_is_mysqls_error(account: Account, through: Through, mysql: Server) -> None:
    assert same_refusal(mysql, through(), "root", b"", database="upwell_nowhere") == 1049
    assert same_refusal(mysql, through(), account("BY 'x'"), b"x", database="mysql") == 1044


def test_the_database_is_selected(database: str, through: Through) -> None:
    proxy = through()
    with closing(connect(proxy.port, "root", database=database)) as connection:
        assert ask(connection, "SELECT DATABASE()") == ((database,),)
    assert proxy.logged_in().database == database


def test_an_unknown_account_is_denied(through: Through, mysql: Server) -> None:
    assert same_refusal(mysql, through(), "upwell_nobody", b"secret") == 1045


def test_an_expired_password_is_mysqls_to_treat(account: Account, through: Through, mysql: Server) -> None:
    user, proxy = account("BY 'old'", "PASSWORD EXPIRE"), through()
    assert same_refusal(mysql, proxy, user, b"old") == 1862
    with closing(RawClient(proxy.port)) as client:
        assert client.log_in(user, b"old", capabilities=CAPABILITIES | 1 << 22)[:1] == b"\0"
        assert parse_error(client.wire.command(b"\x03SELECT 1")).errno == 1820
        assert client.wire.command(b"\x03SET PASSWORD = 'new'")[:1] == b"\0"
    connect(proxy.port, user, b"new").close()


def test_a_locked_account_stays_locked(account: Account, through: Through, mysql: Server) -> None:
    assert same_refusal(mysql, through(), account("BY 'x'", "ACCOUNT LOCK"), b"x") == 3118


@pytest.mark.parametrize("upstream", [MIRRORED, ENCRYPTED])
def test_an_account_that_requires_tls_gets_it(upstream: str, account: Account, through: Through, mysql: Server) -> None:
    user, proxy = account("BY 'x'", "REQUIRE SSL"), through(upstream)
    with closing(connect(proxy.port, user, b"x", tls=True)) as connection:
        assert ask(connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
    assert isinstance(proxy.outcome(), LoggedIn)
    if upstream == MIRRORED:
        assert same_refusal(mysql, proxy, user, b"x") == 1045


def test_connection_attributes_reach_mysql(through: Through) -> None:
    proxy = through()
    with closing(connect(proxy.port, "root", program_name="the application")) as connection:
        told = dict(
            ask(
                connection,
                "SELECT ATTR_NAME, ATTR_VALUE FROM performance_schema.session_connect_attrs"
                " WHERE PROCESSLIST_ID = CONNECTION_ID()",
            )
        )
    assert told["program_name"] == "the application"
    assert told["_client_name"] == "pymysql"


def test_commands_after_a_denied_login_are_not_answered(account: Account, through: Through) -> None:
    user, proxy = account("BY 'x'"), through()
    with closing(RawClient(proxy.port)) as client:
        assert parse_error(client.log_in(user, b"wrong")).errno == 1045
        try:
            client.wire.sequence = 0
            client.wire.send(b"\x03SELECT 1")
        except ConnectionError:
            pass
        assert client.wire.is_closed()


# -- COM_CHANGE_USER ---------------------------------------------------------------------------------------------------


class RawClient:
    """MySQL's protocol by hand, over what PyMySQL does not do."""

    def __init__(self, port: int, *, tls: bool = False) -> None:
        self.tls = tls
        self.asked_in_full = False
        self.wire = Wire(socket.create_connection(("127.0.0.1", port)))
        self.nonce = parse_greeting(self.wire.receive()).nonce
        if tls:
            self.wire.send(tls_request(CAPABILITIES, 1 << 24, 255))
            self.wire.sock = unchecked().wrap_socket(self.wire.sock)

    def close(self) -> None:
        self.wire.sock.close()

    def log_in(
        self,
        user: str,
        password: bytes,
        plugin: bytes = b"caching_sha2_password",
        capabilities: int = CAPABILITIES,
    ) -> bytes:
        """MySQL's last word."""
        self.wire.send(handshake_response(user.encode(), self._answer(plugin, password), plugin, capabilities))
        return self._dialogue(plugin, password)

    def change_user(self, user: str, password: bytes, database: str = "") -> bytes:
        plugin = b"caching_sha2_password"
        change = ChangeUser(user.encode(), self._answer(plugin, password), database.encode(), 255, plugin, b"")
        self.wire.sequence = 0
        self.wire.send(encode_change_user(change, CLIENT_PLUGIN_AUTH))
        return self._dialogue(plugin, password)

    def _answer(self, plugin: bytes, password: bytes) -> bytes:
        if plugin == b"sha256_password":
            return password + b"\0" if self.tls else b"\x01"
        return scramble_caching_sha2(password, self.nonce) if password else b""

    def _dialogue(self, plugin: bytes, password: bytes) -> bytes:
        self.asked_in_full = False
        while True:
            payload = self.wire.receive()
            if payload[:1] in b"\0\xff":
                return payload
            if payload[:1] == b"\xfe":
                plugin, self.nonce = payload[1:].removesuffix(b"\0").split(b"\0")
                self.wire.send(self._answer(plugin, password))
            elif payload == b"\x01\x04":
                self.asked_in_full = True
                self.wire.send(password + b"\0" if self.tls else b"\x02")
            elif payload != b"\x01\x03":
                self.wire.send(sha2_rsa_encrypt(password, self.nonce, payload[1:]))


@CLIENTS
@UPSTREAMS
def test_the_user_changes_as_a_login_does(
    tls: bool, upstream: str, account: Account, through: Through, database: str
) -> None:
    first, second = account("BY 'one'"), account(f"BY '{PASSWORD.decode()}'")
    proxy = through(upstream)
    with closing(RawClient(proxy.port, tls=tls)) as client:
        assert client.log_in(first, b"one")[:1] == b"\0"
        assert client.asked_in_full
        for full in (True, False):
            assert client.change_user(second, PASSWORD)[:1] == b"\0"
            assert client.asked_in_full == full
        assert client.change_user("root", b"", database)[:1] == b"\0"
        assert client.wire.command(b"\x03SELECT CONCAT(CURRENT_USER(), DATABASE())") == b"\x01"
        row = [client.wire.receive() for _ in range(3)][-1]
        assert row[1:].startswith(b"root@") and row.endswith(database.encode())


def test_a_change_of_user_that_is_denied_ends_the_session(account: Account, through: Through) -> None:
    proxy = through()
    with closing(RawClient(proxy.port)) as client:
        assert client.log_in("root", b"")[:1] == b"\0"
        assert parse_error(client.change_user(account("BY 'x'"), b"wrong")).errno == 1045
        assert client.wire.is_closed()
    proxy.wait_until_ended()


# -- the command -------------------------------------------------------------------------------------------------------


def mysql_command() -> list[str]:
    root = newest_unpacked(cache_folder())
    if root is None:
        pytest.skip("no mysql command is unpacked here")
    loader = loader_of(root)
    assert loader is not None
    libraries = [str(root / top / loader.parent.name) for top in ("usr/lib", "lib")]
    return [str(loader), "--library-path", ":".join(libraries), str(root / "usr/bin/mysql"), "--no-defaults"]


@UPSTREAMS
@pytest.mark.parametrize(
    ("options", "tls"),
    [
        ((), True),
        (("--ssl-mode=REQUIRED",), True),
        (("--ssl-mode=DISABLED", "--get-server-public-key"), False),
    ],
)
def test_the_mysql_command_logs_in(
    options: tuple[str, ...], tls: bool, upstream: str, account: Account, through: Through
) -> None:
    command, user, proxy = mysql_command(), account("BY 'secret'"), through(upstream)
    where = ["--protocol=tcp", "--host=127.0.0.1", f"--port={proxy.port}", f"--user={user}", *options]
    for _ in ("in full", "by its digest"):
        done = subprocess.run(
            [*command, *where, "--batch", "--skip-column-names", "--execute=SELECT CURRENT_USER(); SELECT 7"],
            env=os.environ | {"MYSQL_PWD": "secret"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.stdout, done.returncode) == (f"{user}@%\n7\n", 0), done.stderr
        assert proxy.logged_in().client_tls == tls


def test_the_mysql_command_that_will_not_show_its_password_leaves(account: Account, through: Through) -> None:
    command, user, proxy = mysql_command(), account("BY 'secret'"), through()
    done = subprocess.run(
        [*command, "--protocol=tcp", f"--port={proxy.port}", f"--user={user}", "--ssl-mode=DISABLED"],
        env=os.environ | {"MYSQL_PWD": "secret"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Authentication requires secure connection" in done.stderr
    assert isinstance(proxy.failure(), ClientLeft)


# -- a MySQL of our own ------------------------------------------------------------------------------------------------


@pytest.fixture
def far(own_mysql: OwnMySQL, through: Through) -> tuple[Server, LoginProxy]:
    """A MySQL that Upwell reaches from an address that MySQL counts errors of."""
    address = this_machines_address()
    server = own_mysql(f"--bind-address=127.0.0.1,{address}", "--max-connections=5", "--max-connect-errors=1")
    server.execute(f"CREATE USER 'root'@'{address}'", "CREATE USER 'guest' IDENTIFIED BY 'x'")
    local, server.host = server.host, address
    proxy = through(MIRRORED, server)
    server.host = local
    return server, proxy


def test_too_many_connections_are_handed_on(far: tuple[Server, LoginProxy]) -> None:
    _, proxy = far
    with ExitStack() as sessions, pytest.raises(pymysql.err.OperationalError) as raised:
        for _ in range(10):
            sessions.enter_context(closing(connect(proxy.port, "root")))
    assert raised.value.args == (1040, "Too many connections")


def test_clients_that_leave_do_not_shut_out_the_others(far: tuple[Server, LoginProxy]) -> None:
    server, proxy = far
    with closing(RawClient(proxy.port)) as client:
        client.wire.send(handshake_response(b"guest", b"x" * 32))
        assert client.wire.receive() == b"\x01\x04"
    RawClient(proxy.port).close()
    denied = "COUNT_AUTHENTICATION_ERRORS + COUNT_AUTH_PLUGIN_ERRORS"
    with closing(server.connect()) as admin:
        seen: tuple[tuple[int, int], ...] = ()
        while not seen or sum(seen[0]) < 2:
            seen = ask(admin, f"SELECT {denied}, SUM_CONNECT_ERRORS FROM performance_schema.host_cache")
    assert seen == ((2, 0),)
    connect(proxy.port, "guest", b"x").close()


def test_a_blocked_host_is_handed_on(far: tuple[Server, LoginProxy]) -> None:
    server, proxy = far
    with socket.create_connection((this_machines_address(), server.port)) as bare:
        assert bare.recv(4)
    with pytest.raises(pymysql.err.OperationalError, match=r"1129.*is blocked because of many connection errors"):
        while True:  # until MySQL has noticed that the bare connection is gone
            connect(proxy.port, "guest", b"x").close()


def test_upwells_own_process_does_not_vouch_for_a_client(own_mysql: OwnMySQL, through: Through) -> None:
    server = own_mysql()
    try:
        server.execute("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'")
    except pymysql.err.OperationalError:
        pytest.skip("this MySQL has no auth_socket")
    owner = Path("~").expanduser().owner()
    server.execute(f"CREATE USER 'boss'@'localhost' IDENTIFIED WITH auth_socket AS '{owner}'", "CREATE USER 'open'")
    proxy = through(UNIX, server)
    path = server.execute("SELECT @@socket")[0][0]
    pymysql.connect(unix_socket=path, user="boss").close()
    for password in (b"", b"whatever"):
        with pytest.raises(pymysql.err.OperationalError, match="the process that connects"):
            connect(proxy.port, "boss", password)
        assert isinstance(proxy.failure(), Unauthenticated)
    connect(proxy.port, "open").close()
    with closing(RawClient(proxy.port)) as client:
        assert client.log_in("open", b"")[:1] == b"\0"
        assert "the process that connects" in parse_error(client.change_user("boss", b"")).message
        assert client.wire.is_closed()
