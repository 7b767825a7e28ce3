"""One session: relays every command, and has each read judged."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass

from integration.mysql_suite import statements
from integration.mysql_suite.judge import SKIP, Judge, Read
from integration.mysql_suite.statements import Treatment, treatment
from integration.mysql_suite.tally import Tally
from integration.mysql_suite.upstream import Upstream, error
from integration.support.proxy_thread import Beside
from integration.support.raw_client import Ended
from proxy.mysql.login.login_packets import parse_greeting
from proxy.mysql.wire.packets import (
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

CURSORS, ATTRIBUTES = 0x07, 0x08  # flags of an execution
RECENT = 5  # reads that are asked again after a change
OK_PACKET = packet(b"\0\0\0\2\0\0\0", 1)
NUMBERS = itertools.count(1)  # of caches: a name is never used again
LETTERS = 300  # of a statement, where it is shown


@dataclass(eq=False)
class Around:
    """What the sessions of a script share. `at`: where they go. `deadline`: of the test; what comes later is answered
    with an error."""

    beside: Beside
    tally: Tally
    at: tuple[str, int]
    judging: bool = True
    test: str = ""
    deadline: float = 0.0


class Relay:
    """One session. `waits_for`: the statement that the other side has not answered yet."""

    def __init__(self, tap: Around, client: socket.socket) -> None:
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
            self.recent = self.recent if code != COM_INIT_DB else []
            self.client.sendall(self.server.one())

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
            return self.compared(Read(body, lambda: self.ask(SKIP + body), lambda: self.ask(body), self.ask))
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
        if (head := self.server.packet())[4] == ERR:
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
        def anew() -> Read:
            return self._execution(text, self._prepared(text)[0] or number, self._prepared(SKIP + text)[0] or past)

        return Read(text, lambda: self._run(past), lambda: self._run(number), self._once, number, anew)

    def _run(self, number: int) -> bytes:
        """Executes a statement without parameters."""
        attributes = b"\0" * self.server.attributes
        execution = struct.pack("<IBI", number, ATTRIBUTES * len(attributes), 1) + attributes
        return self.relayed(packet(bytes((COM_STMT_EXECUTE,)) + execution, 0))

    def _once(self, text: bytes) -> bytes:
        """Prepares, executes and closes a statement."""
        number, _, refused = self._prepared(text)
        if not number:
            return refused
        answer = self._run(number)
        self.server.write(packet(bytes((COM_STMT_CLOSE,)) + struct.pack("<I", number), 0))
        return answer

    def close_statement(self, command: bytes) -> None:
        """But not one that may be asked again."""
        (number,) = struct.unpack_from("<I", command, 5)
        self.prepared.pop(number, None)
        if all(read.statement != number for read in self.recent):
            self.server.write(command)
