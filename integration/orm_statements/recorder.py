"""Between a framework's program and MySQL: a server that relays each session, and notes what it sends."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from integration.mysql_suite.upstream import Gone, Upstream
from integration.orm_statements.script import Bound, Step, parsed
from integration.support.raw_client import Ended
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_QUERY_ATTRIBUTES,
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
)

ATTRIBUTES_OF_EXECUTION = 0x08
_FULL_AUTHENTICATION = b"\x01\x03"  # the fast way: nothing is to be said to it
_SSL_BYTE, _SSL_BIT = 1, 0x08  # in the greeting's capabilities


class Recorder:
    """Listens at `port`, relays to the address `to`. `steps`: what came, of all sessions in turn. `collation`, `flags`,
    `closes`: of the login, and whether prepared statements were closed."""

    def __init__(self, to: tuple[str, int]) -> None:
        self.to = to
        self.steps: list[Step] = []
        self.collation, self.flags, self.closes = 255, 0, False
        self.sessions = 0
        self.faults: list[str] = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=50)
        self.port: int = self.listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client, self.sessions), daemon=True).start()
            self.sessions += 1

    def _serve(self, client: socket.socket, number: int) -> None:
        relay = _Relay(self, client, number)
        try:
            relay.run()
        except (Ended, Gone, OSError):
            pass  # the program has ended its session
        except Exception as fault:  # noqa: BLE001 - whoever records is told
            self.faults.append(repr(fault))
        finally:
            relay.server.close()
            client.close()


class NotRecorded(Exception):
    """A client has sent what scripts have no form for: its framework is not recorded."""


class _Relay:
    def __init__(self, recorder: Recorder, client: socket.socket, number: int) -> None:
        self.recorder, self.client, self.number = recorder, client, number
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = client.makefile("rb")
        self.server = Upstream(*recorder.to, lambda request: None)
        self.prepared: dict[int, tuple[str, int, list[int]]] = {}  # text, parameters, their types

    def run(self) -> None:
        self._login()
        while True:
            command = self._read()
            code = command[4]
            if code != COM_QUERY and code != COM_STMT_PREPARE:
                self.server.write(command)
            if code == COM_QUIT:
                return
            if code == COM_QUERY:
                self._query(command)
            elif code == COM_STMT_PREPARE:
                self._prepare(command)
            elif code == COM_STMT_EXECUTE:
                self._execute(command)
            elif code == COM_STMT_CLOSE:
                self.recorder.closes = True
            elif code == COM_STMT_FETCH:
                self.client.sendall(self.server.rows())
            elif code == COM_STMT_SEND_LONG_DATA:
                raise NotRecorded("a parameter in pieces")
            else:
                if code == COM_INIT_DB:
                    self._note(f"USE `{command[5:].decode()}`", None)
                self.client.sendall(self.server.one())

    def _read(self) -> bytes:
        header = self.stream.read(4)
        if len(header) < 4:
            raise Ended(header)
        size = int.from_bytes(header[:3], "little")
        if size == LARGEST:
            raise NotRecorded("a command of several packets")
        return header + self.stream.read(size)

    def _note(self, sql: str, bound: tuple[Bound, ...] | None) -> None:
        self.recorder.steps.append(Step(sql, bound, self.number))

    def _login(self) -> None:
        greeting = bytearray(self.server.packet())
        capabilities = greeting.index(0, 5) + 1 + 4 + 8 + 1
        greeting[capabilities + _SSL_BYTE] &= ~_SSL_BIT & 0xFF  # what is encrypted cannot be noted
        self.client.sendall(greeting)
        response = self._read()
        self.server.write(response)
        server, recorder = self.server, self.recorder
        server.capabilities = int.from_bytes(response[4:8], "little")
        server.eof = not server.capabilities & CLIENT_DEPRECATE_EOF
        server.attributes = bool(server.capabilities & CLIENT_QUERY_ATTRIBUTES)
        recorder.flags, recorder.collation = server.capabilities, response[12]
        while (found := self.server.packet())[4] not in (OK, ERR):
            self.client.sendall(found)
            if found[4:6] != _FULL_AUTHENTICATION:
                self.server.write(self._read())
        self.client.sendall(found)

    def _query(self, command: bytes) -> None:
        attributes = b"\0\1" if self.server.attributes else b""
        if not command.startswith(attributes, 5):
            raise NotRecorded("attributes of a query")
        self._note(_decoded(command[5 + len(attributes) :]), None)
        self.server.write(command)
        self.client.sendall(self.server.result())

    def _prepare(self, command: bytes) -> None:
        self.server.write(command)
        head = self.server.packet()
        if head[4] == ERR:
            self.client.sendall(head)
            return
        number, columns, parameters = struct.unpack_from("<IHH", head, 5)
        ends = ((columns > 0) + (parameters > 0)) * self.server.eof
        rest = [self.server.packet() for _ in range(columns + parameters + ends)]
        self.prepared[number] = (_decoded(command[5:]), parameters, [])
        self.client.sendall(b"".join((head, *rest)))

    def _execute(self, command: bytes) -> None:
        number, flags = struct.unpack_from("<IB", command, 5)
        sql, count, types = self.prepared[number]
        data = command[14:]
        if self.server.attributes and flags & ATTRIBUTES_OF_EXECUTION:
            if data[0] != count:
                raise NotRecorded("attributes of an execution")
            data = _without_names(data[1:], count)
        types, bound = parsed(data, count, types)
        self.prepared[number] = (sql, count, types)
        self._note(sql, bound)
        self.client.sendall(self.server.result())


def _decoded(raw: bytes) -> str:
    """Bytes that are no text are kept as lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def _without_names(data: bytes, count: int) -> bytes:
    """Parameters as they stand where no attributes may: each type without the empty name behind it."""
    at = (count + 7) // 8
    if not count or not data[at]:
        return data
    types = data[at + 1 : at + 1 + 3 * count]
    if any(types[2::3]):
        raise NotRecorded("a parameter with a name")
    plain = b"".join(types[3 * number : 3 * number + 2] for number in range(count))
    return data[: at + 1] + plain + data[at + 1 + 3 * count :]
