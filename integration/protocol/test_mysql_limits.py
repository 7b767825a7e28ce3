"""What a client may cost: connections, time, sizes, memory; and that what it does holds up nobody else."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_process import Serving, serving
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import PATIENCE, Ended, RawClient, bound
from proxy.mysql.login.login_packets import tls_request
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_PROTOCOL_41,
    CLIENT_SECURE_CONNECTION,
    COM_STMT_SEND_LONG_DATA,
    error_payload,
    packet,
)

DATABASE = "limits"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v MEDIUMTEXT)",
    "INSERT INTO item VALUES (1, 'one'), (2, REPEAT('x', 500000))",
    "CREATE TABLE loaded (id INT, v LONGTEXT)",
)
BY_ID = "SELECT id, v FROM item WHERE id = {}"
GROWTH = 24 << 20
"""Bytes by which memory may grow: many times what a client's buffers are, and a fraction of what is sent."""
ROWS = "JSON_TABLE(CONCAT('[1', REPEAT(',1', 99), ']'), '$[*]' COLUMNS (a INT PATH '$'))"
MUCH = f"SELECT REPEAT('y', 1000000) FROM {ROWS} j"


@pytest.fixture(scope="module")
def database(mysql: Server) -> Iterator[str]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    yield DATABASE
    mysql.execute(f"DROP DATABASE {DATABASE}")


# -- connections and time ----------------------------------------------------------------------------------------------


def test_clients_beyond_the_limit_are_told(mysql: Server, database: str, tmp_path: Path) -> None:
    with proxy_in_thread(mysql, database, tmp_path, mysql_connections="3") as beside, ExitStack() as stack:
        clients = [stack.enter_context(beside.client()) for _ in range(3)]
        for _ in range(5):
            with pytest.raises(ConnectionRefusedError) as refused:
                beside.client()
            assert refused.value.args[0] == b"\xff" + (1040).to_bytes(2, "little") + b"Too many connections"
        clients[0].close()
        beside.until(lambda: len(beside.shared.sessions) < 3)
        stack.enter_context(beside.client()).query("SELECT 1")


def test_a_silent_session_is_ended_and_no_other(mysql: Server, database: str, tmp_path: Path) -> None:
    with proxy_in_thread(mysql, database, tmp_path, mysql_idle_timeout="0.6s") as beside, ExitStack() as stack:
        reading = stack.enter_context(beside.client())
        reading.query(f"CREATE CACHE FROM {BY_ID.format('?')}")  # on a busy machine the others would be ended meanwhile
        silent, waiting, slow = (stack.enter_context(beside.client()) for _ in range(3))
        waiting.write(packet(waiting.text("SELECT SLEEP(2)"), 0))
        slow.write(packet(slow.text(MUCH), 0))
        while not select_ready(silent):
            reading.query(BY_ID.format(1))
        assert silent.at_end()
        assert waiting.result()[4:6] == b"\1\x1e", "a command was under way"
        assert len(slow.result()) > 100_000_000, "its answer was under way"


def select_ready(client: RawClient) -> bool:
    client.socket.setblocking(False)
    try:
        return client.socket.recv(1, socket.MSG_PEEK) is not None
    except BlockingIOError:
        return False
    finally:
        client.socket.settimeout(PATIENCE)


def test_a_session_that_ends_while_its_client_does_not_read_is_let_go(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    """What it was sent last waits for it for a while, and not for ever."""
    with proxy_in_thread(mysql, database, tmp_path) as beside, beside.client(receive_buffer=4096) as client:
        client.query(f"CREATE CACHE FROM {BY_ID.format('?')}")
        client.query(BY_ID.format(2))
        for _ in range(20):
            client.write(packet(client.text(BY_ID.format(2)), 0))
        (session,) = beside.shared.sessions
        beside.until(lambda: not session.relay.client.writable)
        beside.call(session.relay.close)
        beside.call(beside.proxy.app.mysql.tick)  # type: ignore[union-attr]  # it is there
        assert beside.shared.sessions.closing
        later(beside, 100)
        beside.at_rest()


def later(beside: Beside, seconds: float) -> None:
    """Moves the listener's clock."""
    clock = beside.shared.clock
    beside.shared.clock = lambda: clock() + seconds


def test_a_client_that_takes_nothing_any_more_is_given_up(mysql: Server, database: str, tmp_path: Path) -> None:
    """MySQL would wait for net_write_timeout."""
    with proxy_in_thread(mysql, database, tmp_path) as beside, beside.client(receive_buffer=4096) as client:
        client.query(f"CREATE CACHE FROM {BY_ID.format('?')}")
        client.query(BY_ID.format(2))
        for _ in range(20):
            client.write(packet(client.text(BY_ID.format(2)), 0))
        (session,) = beside.shared.sessions
        beside.until(lambda: not session.relay.client.writable)
        later(beside, 100)
        beside.at_rest()


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "size"), [("1KiB", 1025), ("1KiB", 100_000), ("1MiB", 3 << 20), ("20MiB", 40 << 20)])
def test_a_command_beyond_the_limit_ends_the_connection(
    mysql: Server, database: str, tmp_path: Path, limit: str, size: int
) -> None:
    """The client sends all of it before it reads."""
    with proxy_in_thread(mysql, database, tmp_path, mysql_max_packet=limit) as beside, beside.client() as client:
        client.query("SELECT 1")
        client.write(packet(client.text("SELECT '" + "x" * (size - 10) + "'"), 0))
        number = 1 if size < 20 << 20 else 2
        words = "Got a packet bigger than 'max_allowed_packet' bytes"
        assert client.one() == packet(error_payload(1153, "08S01", words), number)
        assert client.at_end()
        client.close()
        beside.at_rest()


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process(mysql: Server, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")[4] == 0
            for _ in range(2):
                client.query(BY_ID.format(2))
                client.query(MUCH)
        yield found


def sent_until_it_stands(client: RawClient, data: Iterator[bytes]) -> int:
    """Sends until nothing is taken for a while; bytes that were taken."""
    client.socket.settimeout(1)
    sent = 0
    with suppress(TimeoutError):
        for piece in data:
            client.socket.sendall(piece)
            sent += len(piece)
    client.socket.settimeout(PATIENCE)
    return sent


def test_hits_that_nobody_reads(process: Serving) -> None:
    """Each is half a megabyte."""
    before = process.memory()
    with process.client(receive_buffer=4096) as client:
        client.query(BY_ID.format(2))
        request = packet(client.text(BY_ID.format(2)), 0)
        sent_until_it_stands(client, iter([request * 1000] * 200))
        assert process.memory() - before < GROWTH
        with process.client() as other:
            other.query(BY_ID.format(1))
        for _ in range(50):
            assert len(client.result()) > 500_000


def test_a_result_that_nobody_reads(process: Serving) -> None:
    before = process.memory()
    with process.client(receive_buffer=4096) as client:
        client.write(packet(client.text(MUCH), 0))
        client.packet()
        with process.client() as other:
            for _ in range(20):
                other.query(BY_ID.format(2))
        assert process.memory() - before < GROWTH
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        rest = client.rows()
        assert len(rest) > 100_000_000
        assert process.memory() - before < GROWTH


def test_statements_whose_answers_nobody_reads(process: Serving) -> None:
    before = process.memory()
    with process.client(receive_buffer=4096) as client:
        request = packet(client.text("DO 1 /* " + "z" * 1000 + " */"), 0) + packet(client.text(MUCH), 0)
        assert sent_until_it_stands(client, iter([request * 10] * 10_000)) < 20 << 20
        assert process.memory() - before < GROWTH


def test_what_mysql_does_not_take(mysql: Server, process: Serving) -> None:
    """It is busy with a statement before; what is sent behind it stays with the client."""
    before = process.memory()
    with process.client() as client:
        statement = client.prepare("SELECT LENGTH(?)")
        client.write(packet(client.text("SELECT SLEEP(30)"), 0))
        head = bytes((COM_STMT_SEND_LONG_DATA,)) + struct.pack("<IH", statement.id, 0)
        assert sent_until_it_stands(client, iter([packet(head + b"l" * 1_000_000, 0)] * 300)) < 40 << 20
        assert process.memory() - before < GROWTH


def test_a_large_command_that_mysql_does_not_take(mysql: Server, process: Serving) -> None:
    """Tables are locked, so that MySQL stops to read the file that it loads."""
    before = process.memory()
    with mysql.connect(database=DATABASE) as lock, process.client() as client:
        lock.query("LOCK TABLES loaded READ")
        client.write(packet(client.text("LOAD DATA LOCAL INFILE 'a' INTO TABLE loaded"), 0))
        pieces = iter([packet(b"1\t" + b"f" * 1_000_000 + b"\n", number & 0xFF) for number in range(2, 62)])
        assert sent_until_it_stands(client, pieces) < 20 << 20
        assert process.memory() - before < GROWTH
        lock.query("UNLOCK TABLES")


def test_many_clients_that_do_not_read_hold_up_nobody(process: Serving) -> None:
    before = process.memory()
    with ExitStack() as stack:
        for _ in range(10):
            client = stack.enter_context(process.client(receive_buffer=4096))
            client.query(BY_ID.format(2))
            client.write(packet(client.text(BY_ID.format(2)), 0) * 50)
        with process.client() as other:
            for _ in range(100):
                other.query(BY_ID.format(1))
                other.query("SELECT 1")
        assert process.memory() - before < 10 * (2 << 20) + GROWTH


# -- floods ------------------------------------------------------------------------------------------------------------


def half_open(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def stalling_tls(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    capabilities = CLIENT_DEPRECATE_EOF | CLIENT_PROTOCOL_41 | CLIENT_SECURE_CONNECTION
    client.sendall(packet(tls_request(capabilities, 1 << 24, 255), 1))
    client.sendall(b"\x16\x03\x01")
    return client


@pytest.mark.parametrize("stall", [half_open, stalling_tls])
def test_logins_that_stand_still_stop_no_reads_and_no_other_logins(
    process: Serving, stall: Callable[[int], socket.socket]
) -> None:
    with ExitStack() as stack, process.client() as client:
        stalled = [stack.enter_context(stall(process.port)) for _ in range(120)]
        for _ in range(100):
            client.query(BY_ID.format(1))
        with process.client() as other:
            other.query("SELECT 1")
        for one in stalled:
            one.settimeout(0)
        assert not any(ended(one) for one in stalled), "they are still logging in"


def ended(sock: socket.socket) -> bool:
    try:
        while True:
            if not sock.recv(4096):
                return True
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_flood_of_logins_stops_no_reads(process: Serving) -> None:
    stop = threading.Event()
    refused: list[BaseException] = []

    def flood() -> None:
        while not stop.is_set():
            try:
                process.client().close()
            except (Ended, OSError) as error:
                refused.append(error)

    with process.client() as client:
        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(300):
            client.query(BY_ID.format(1))
        stop.set()
        for thread in threads:
            thread.join()
    assert not refused


# -- clients that vanish -----------------------------------------------------------------------------------------------


def vanish(sock: socket.socket, *, reset: bool) -> None:
    if reset:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def in_a_hit(client: RawClient) -> None:
    client.query(BY_ID.format(2))
    client.write(packet(client.text(BY_ID.format(2)), 0) * 20)


def in_a_statement(client: RawClient) -> None:
    client.write(packet(client.text("SELECT SLEEP(0.5)"), 0))


def in_a_result(client: RawClient) -> None:
    client.write(packet(client.text(MUCH), 0))
    client.packet()


def in_a_miss(client: RawClient) -> None:
    client.write(packet(client.text(BY_ID.format(7)), 0))


def in_a_file(client: RawClient) -> None:
    client.write(packet(client.text("LOAD DATA LOCAL INFILE 'a' INTO TABLE loaded"), 0))
    client.packet()
    client.write(packet(b"1\tone\n", 2) + b"\xff\xff")


def in_a_command(client: RawClient) -> None:
    client.write(packet(client.text("SELECT '" + "x" * 200_000 + "'"), 0)[:100_000])


def in_a_small_command(client: RawClient) -> None:
    client.write(packet(client.text("SELECT 1"), 0)[:7])


def in_a_cursor(client: RawClient) -> None:
    statement = client.prepare("SELECT v FROM item WHERE id > ?")
    client.execute(statement.id, bound((8,), (struct.pack("<q", 0),)), flags=1)


def in_a_change_of_the_account(client: RawClient) -> None:
    client.write(packet(b"\x11limits_vanishing\0\0\0\xff\0caching_sha2_password\0", 0))


def in_a_transaction(client: RawClient) -> None:
    client.query("BEGIN")
    client.query("INSERT INTO loaded VALUES (1, 'x')")


PHASES = (
    in_a_hit,
    in_a_statement,
    in_a_result,
    in_a_miss,
    in_a_file,
    in_a_command,
    in_a_small_command,
    in_a_cursor,
    in_a_change_of_the_account,
    in_a_transaction,
)


def test_clients_that_vanish_leave_nothing(mysql: Server, database: str, tmp_path: Path) -> None:
    """In each phase, closed or reset; in the middle of a login too."""
    own = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'limits_vanishing'"
    mysql.execute(
        "DROP USER IF EXISTS limits_vanishing", "CREATE USER limits_vanishing", "GRANT ALL ON *.* TO limits_vanishing"
    )
    with serving(mysql, database, tmp_path) as process:
        with process.client() as client:
            client.query(f"CREATE CACHE by_id FROM {BY_ID.format('?')}")
            client.query(BY_ID.format(1))
            assert process.clients() == 1
        for reset in (False, True):
            for phase in PHASES:
                client = process.client(receive_buffer=4096, user="limits_vanishing")
                phase(client)
                vanish(client.socket, reset=reset)
                client.stream.close()
            for bytes_sent in (0, 1, 4, 5, 36, 40):
                login = socket.create_connection(("127.0.0.1", process.port))
                login.sendall(packet(b"\x0d\xa2\x3a\x00" + bytes(40) + b"root\0", 1)[:bytes_sent])
                vanish(login, reset=reset)
        with mysql.connect() as connection, connection.cursor() as cursor:
            left = 1
            while left or process.clients():
                cursor.execute(own)
                left = cursor.fetchall()[0][0]
    mysql.execute("DROP USER limits_vanishing")


def test_the_proxy_stops_though_clients_do_not_read(mysql: Server, database: str, tmp_path: Path) -> None:
    with proxy_in_thread(mysql, database, tmp_path) as beside:
        clients = [beside.client(receive_buffer=4096) for _ in range(3)]
        clients[0].query(f"CREATE CACHE FROM {BY_ID.format('?')}")
        for client in clients:
            in_a_hit(client)
    for client in clients:
        client.close()
