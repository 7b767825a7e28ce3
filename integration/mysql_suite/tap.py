"""Between `mysqltest` and the proxy: relays every command, and has each read judged."""

from __future__ import annotations

import io
import itertools
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from integration.mysql_suite import statements
from integration.mysql_suite.judge import SKIP, Judge, Read
from integration.mysql_suite.statements import Treatment, treatment
from integration.mysql_suite.tally import Finding, Tally
from integration.proxy_thread import Beside
from integration.raw_client import Ended, RawClient
from proxy.mysql.login_packets import parse_greeting
from proxy.mysql.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_QUERY_ATTRIBUTES,
    COM_CHANGE_USER,
    COM_FIELD_LIST,
    COM_INIT_DB,
    COM_QUERY,
    COM_QUIT,
    COM_STMT_CLOSE,
    COM_STMT_EXECUTE,
    COM_STMT_FETCH,
    COM_STMT_PREPARE,
    COM_STMT_SEND_LONG_DATA,
    ERR,
    LARGEST,
    OK,
    packet,
)

PATIENCE = 45.0  # seconds that a statement may take through the proxy
CURSORS, ATTRIBUTES = 0x07, 0x08  # flags of an execution
RECENT = 5  # reads that are asked again after a change
OK_PACKET = packet(b"\0\0\0\2\0\0\0", 1)
NUMBERS = itertools.count(1)  # of caches: a name is never used again
LETTERS = 300  # of a statement, where it is shown


class Gone(Exception):
    """The proxy (or MySQL) has ended the connection, or does not answer. The message says which."""


def error(number: int, message: str) -> bytes:
    return packet(bytes((ERR,)) + struct.pack("<H", number) + b"#HY000" + message.encode(), 1)


class Upstream(RawClient):
    """A connection on which somebody else has logged in: answers are as they came, files are the client's to send."""

    def __init__(self, host: str, port: int, send_file: Callable[[bytes], None]) -> None:
        self.transcript = []
        self.tracks_transactions = True
        self.files = []
        self.eof = False
        self.attributes = False
        self.capabilities = 0
        self.socket = socket.create_connection((host, port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = io.BufferedReader(socket.SocketIO(self.socket, "r"), 1 << 16)
        self._asked_for_file = send_file
        self.last = b""

    def packet(self) -> bytes:
        try:
            self.last = super().packet()
        except TimeoutError:
            raise Gone("hangs") from None
        except (Ended, OSError, ValueError) as broken:
            raise Gone("ended") from broken
        return self.last

    def write(self, data: bytes) -> None:
        try:
            super().write(data)
        except OSError as broken:
            raise Gone("ended") from broken

    def _masked(self, data: bytes) -> bytes:
        return data

    def _send_file(self, sequence: int) -> None:
        self._asked_for_file(self.last)


class Tap:
    """Listens at `port`. `beside`: the proxy; `at`: where the relayed sessions go."""

    def __init__(
        self, beside: Beside, tally: Tally, at: tuple[str, int] | None = None, *, judging: bool = True
    ) -> None:
        self.beside, self.tally, self.judging = beside, tally, judging
        self.at = at or ("127.0.0.1", beside.port)
        self.test = ""
        self.deadline = 0.0  # of the test; what comes later is answered with an error
        self.relays: set[Relay] = set()
        self.serving: list[threading.Thread] = []
        self.ended: list[tuple[str, str]] = []  # what was wrong, and with which statement
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.port: int = self.listener.getsockname()[1]
        self.accepting = threading.Thread(target=self._accept, name="tap", daemon=True)
        self.accepting.start()

    def begin(self, test: str, seconds: float) -> None:
        self.test, self.deadline = test, time.monotonic() + seconds
        self.tally.history.clear()

    @property
    def waits_for(self) -> str:
        """The statements that have no answer yet."""
        return "; ".join(relay.waits_for for relay in list(self.relays) if relay.waits_for)

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()
        self.end_sessions()

    def end_sessions(self) -> None:
        """Whatever the script has left open ends. Returns when it has ended."""
        for relay in list(self.relays):
            relay.cut()
        while self.serving:
            self.serving.pop().join(PATIENCE)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.serving = [thread for thread in self.serving if thread.is_alive()]
            self.serving.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
            self.serving[-1].start()

    def _serve(self, client: socket.socket) -> None:
        relay = None
        try:
            relay = Relay(self, client)
            self.relays.add(relay)
            relay.run()
        except Gone as gone:
            if relay is not None and relay.waits_for and not relay.closed:
                self.ended.append((str(gone), relay.waits_for))
        except TimeoutError:
            self.ended.append(("the change stream does not catch up", relay.waits_for if relay is not None else ""))
        except (Ended, OSError):
            pass  # the script has ended its session
        except Exception:  # noqa: BLE001 - a fault of the tap's own is told, too
            self.tally.found(Finding(self.test, "fault of the tap", "", "", traceback.format_exc()))
        finally:
            if relay is not None:
                self.relays.discard(relay)
                relay.close()
            client.close()


class Relay:
    """One session. `waits_for`: the statement that the other side has not answered yet."""

    def __init__(self, tap: Tap, client: socket.socket) -> None:
        self.tap, self.client = tap, client
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = client.makefile("rb", buffering=1 << 16)
        self.server = Upstream(*tap.at, self._hand_file)
        self.recent: list[Read] = []
        self.prepared: dict[int, tuple[bytes, int, int]] = {}  # text, parameters, and the same past all caches
        self.waits_for = ""
        self.closed = False
        self.judge: Judge | None = None

    def cut(self) -> None:
        """Ends both connections, from another thread."""
        self.closed = True
        for end in (self.client, self.server.socket):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.server.close()
        self.stream.close()
        if self.judge is not None:
            self.judge.close()

    # -- packets -------------------------------------------------------------------------------------------------------

    def read(self) -> bytes:
        header = self.stream.read(4)
        if header is None or len(header) < 4:
            raise Ended(header)
        return bytes(header + self.stream.read(int.from_bytes(header[:3], "little")))

    def command(self) -> bytes:
        """The next command with its header; large ones in pieces, joined as they came."""
        self.waits_for = ""
        found = piece = self.read()
        while len(piece) == LARGEST + 4:
            piece = self.read()
            found += piece
        return found

    def _hand_file(self, request: bytes) -> None:
        """MySQL asks for a file of the client's."""
        self.client.sendall(request)
        while True:
            piece = self.read()
            self.server.write(piece)
            if len(piece) == 4:
                return

    def _converse(self) -> bool:
        """Until the login or the change of user is decided: whether it was granted."""
        while True:
            found = self.server.packet()
            self.client.sendall(found)
            if found[4] in (OK, ERR):
                return found[4] == OK
            if found[4:6] != b"\x01\x03":  # the fast way: nothing is to be said to it
                self.server.write(self.read())

    def _login(self) -> bool:
        greeting = self.server.packet()
        self.client.sendall(greeting)
        if greeting[4] == ERR:
            return False
        number = parse_greeting(greeting[4:]).connection_id
        response = self.read()
        self.server.write(response)
        server = self.server
        server.capabilities = int.from_bytes(response[4:8], "little")
        server.eof = not server.capabilities & CLIENT_DEPRECATE_EOF
        server.attributes = bool(server.capabilities & CLIENT_QUERY_ATTRIBUTES)
        tap = self.tap
        self.judge = Judge(tap.beside, tap.tally, tap.test, self.ask, number)
        return self._converse()

    def run(self) -> None:
        if not self._login():
            return
        while True:
            command = self.command()
            code = command[4]
            if code == COM_QUIT:
                self.server.write(command)
                return
            self.waits_for = f"command {code}"
            if code == COM_QUERY:
                self.client.sendall(self.query(command))
            elif code == COM_STMT_PREPARE:
                self.client.sendall(self.prepare(command))
            elif code == COM_STMT_EXECUTE:
                self.client.sendall(self.execute(command))
            elif code == COM_STMT_CLOSE:
                self.close_statement(command)
            else:
                self.server.write(command)
                self._others(code)

    def _others(self, code: int) -> None:
        if code == COM_STMT_SEND_LONG_DATA:
            return
        if code == COM_CHANGE_USER:
            self.recent = []
            self._converse()
        elif code in (COM_STMT_FETCH, COM_FIELD_LIST):
            self.client.sendall(self.server.rows())
        else:
            if code == COM_INIT_DB:
                self.recent = []
            self.client.sendall(self.server.one())

    # -- texts ---------------------------------------------------------------------------------------------------------

    def ask(self, text: bytes) -> bytes:
        self.waits_for = text[:LETTERS].decode("utf-8", "replace")
        self.server.write(packet(self.server.text(text), 0))
        return self.server.result()

    def query(self, command: bytes) -> bytes:
        """The answer to a text."""
        attributes = b"\0\1" if self.server.attributes else b""
        if len(command) > LARGEST or not command.startswith(attributes, 5):  # not ours to look at
            return self.relayed(command)
        body = statements.on_innodb(command[5 + len(attributes) :])
        text = body.decode("utf-8", "replace")
        what = treatment(text)
        tap = self.tap
        if time.monotonic() > tap.deadline:
            return error(1317, "the test's time is over")
        if what is Treatment.ANSWER_OK:
            tap.tally.counts["answered OK"] += 1
            return OK_PACKET
        if what is Treatment.REFUSE:
            return error(1227, "not here")
        tap.tally.history.append(" ".join(text.split())[:LETTERS])
        if what is Treatment.COMPARE and self.comparable():
            return self.compared(Read(body, lambda: self.ask(SKIP + body), lambda: self.ask(body)))
        answer = self.ask(body)
        tap.tally.counts["forwarded"] += 1
        self.after(text, answer)
        return answer

    def comparable(self) -> bool:
        return self.tap.judging and self.judge is not None and not self.server.eof

    def compared(self, read: Read) -> bytes:
        """The answer to a read, and it is judged."""
        tap, judge = self.tap, self.judge
        assert judge is not None
        if not judge.cached(read.text, f"tap{next(NUMBERS)}"):
            return read.through()
        tap.tally.counts["cached"] += 1
        answer, again = judge.judge(read)
        if again and all(other.text != read.text or other.binary != read.binary for other in self.recent):
            self.recent = [*self.recent[1 - RECENT :], read]
        return answer

    def after(self, text: str, answer: bytes) -> None:
        """What was read before is asked again, if this may have changed it."""
        if statements.changes_names(text):
            self.recent = []
        if answer[4] == ERR or not self.recent or not self.comparable() or not statements.changes_rows(text):
            return
        assert self.judge is not None
        shown = " ".join(text.split())[:LETTERS]
        for read in list(self.recent):
            self.tap.tally.counts["asked after a change"] += 1
            _, again = self.judge.judge(read, shown)
            if not again:
                self.recent.remove(read)

    def relayed(self, command: bytes) -> bytes:
        self.server.write(command)
        return self.server.result()

    # -- statements ----------------------------------------------------------------------------------------------------

    def prepare(self, command: bytes) -> bytes:
        body = statements.on_innodb(command[5:])
        text = body.decode("utf-8", "replace")
        self.waits_for = text[:LETTERS]
        what = treatment(text)
        if time.monotonic() > self.tap.deadline:
            return error(1317, "the test's time is over")
        if what in (Treatment.ANSWER_OK, Treatment.REFUSE):
            return error(1295, "not here")  # mysqltest sends it as a text then
        number, parameters, answer = self._prepared(body)
        if number:
            self.prepared[number] = (body, parameters, 0)
        return answer

    def _prepared(self, text: bytes) -> tuple[int, int, bytes]:
        """Number, parameters, and the whole answer; number 0 where MySQL refused it."""
        self.server.write(packet(bytes((COM_STMT_PREPARE,)) + text, 0))
        head = self.server.packet()
        if head[4] == ERR:
            return 0, 0, head
        number, columns, parameters = struct.unpack_from("<IHH", head, 5)
        ends = ((columns > 0) + (parameters > 0)) * self.server.eof
        rest = [self.server.packet() for _ in range(columns + parameters + ends)]
        return number, parameters, b"".join((head, *rest))

    def execute(self, command: bytes) -> bytes:
        number, flags = struct.unpack_from("<IB", command, 5)
        plain = not flags & CURSORS and command[14:] in (b"", b"\0")  # neither parameters nor attributes
        text, parameters, past = self.prepared.get(number, (b"", 1, 0))
        shown = text.decode("utf-8", "replace")
        self.waits_for = shown[:LETTERS]
        self.tap.tally.history.append(" ".join(shown.split())[:LETTERS])
        if parameters or not plain or not self.comparable() or treatment(shown) is not Treatment.COMPARE:
            answer = self.relayed(command)
            self.after(shown, answer)
            return answer
        if not past:
            past, _, _ = self._prepared(SKIP + text)
            if not past:
                return self.relayed(command)
            self.prepared[number] = (text, parameters, past)
        return self.compared(self._execution(text, number, past))

    def _execution(self, text: bytes, number: int, past: int) -> Read:
        def of(statement: int) -> bytes:
            attributes = b"\0" * self.server.attributes
            return (
                bytes((COM_STMT_EXECUTE,))
                + struct.pack("<IBI", statement, ATTRIBUTES * len(attributes), 1)
                + attributes
            )

        def anew() -> Read:
            return self._execution(text, self._prepared(text)[0] or number, self._prepared(SKIP + text)[0] or past)

        through, direct = (packet(of(statement), 0) for statement in (number, past))
        return Read(text, lambda: self.relayed(direct), lambda: self.relayed(through), number, anew)

    def close_statement(self, command: bytes) -> None:
        """But not one that may be asked again."""
        (number,) = struct.unpack_from("<I", command, 5)
        self.prepared.pop(number, None)
        if all(read.statement != number for read in self.recent):
            self.server.write(command)
