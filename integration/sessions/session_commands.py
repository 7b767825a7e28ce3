"""The commands of `integration/sessions/session_steps.py` as packets, and answers without what only a run at MySQL can
say.

 a step                 | the command
------------------------+---------------------------------------------------------------------------------------------
 SELECT 1               | COM_QUERY, `{db}` in it being the session's database
 !attributes SELECT 1   | the same, with an attribute of the query, where the session may send one
 !execute 3 9           | COM_STMT_EXECUTE of the third prepared statement, 9 bound to its parameters as a number
 !word 3 9              | the same, bound as a string
 !cursor 3 9            | the same as `!execute`, with a cursor
 !fetch 3 2             | COM_STMT_FETCH of two rows
 !long 3 9              | COM_STMT_SEND_LONG_DATA: 9 for the first parameter; nobody answers
 !close 3               | COM_STMT_CLOSE; nobody answers, and the statement is still executed
 !free 3                | COM_STMT_RESET
 !option 1              | COM_SET_OPTION: 1 texts hold one statement only, 0 several
 !fields t              | COM_FIELD_LIST
 !use 2                 | COM_INIT_DB of the database whose name ends so
 !change root           | COM_CHANGE_USER
 !ping, !reset          | COM_PING, COM_RESET_CONNECTION
 !ahead !ping | SELECT 1 | these, written before the first answer is read
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from integration.protocol.test_hits_same_bytes import given
from integration.support.raw_client import Ended, Prepared, RawClient
from proxy.mysql.login.login_packets import ChangeUser, encode_change_user
from proxy.mysql.wire.packets import (
    CLIENT_SESSION_TRACK,
    COM_FIELD_LIST,
    COM_INIT_DB,
    COM_PING,
    COM_RESET_CONNECTION,
    COM_SET_OPTION,
    COM_STMT_CLOSE,
    COM_STMT_FETCH,
    COM_STMT_RESET,
    COM_STMT_SEND_LONG_DATA,
    EOF,
    ERR,
    OK,
    STATUS_CURSOR_EXISTS,
    packet,
    parse_error,
    parse_ok,
    read_lenenc_int,
)

HOW_IT_RAN = 0x4430  # no index used, no good index used, prepared anew, the session's state has changed
OF_PREPARED = ("!execute", "!word", "!cursor", "!fetch", "!long", "!close", "!free")
UNANSWERED = ("!long", "!close")
HEADLESS = ("!fetch", "!fields")
ONE_PACKET = ("!free", "!option")
READ_ONLY_CURSOR = 1
ATTRIBUTE = b"\1\1\0\1\xfd\0\1a\1b"  # one, in one set: no NULLs, that types follow, a string named a, which is b
NUMBER = re.compile(r"\(\d+\)")  # of a statement


def commands(step: str) -> list[str]:
    """Those of a step that are written at once."""
    return step[7:].split(" | ") if step.startswith("!ahead") else [step]


class NoAnswer(Exception):
    """It has not come in time."""


@dataclass(frozen=True)
class Result:
    """One of an answer: `kind` OK, ERR or rows. `told`: what is the same whatever state the rows are of."""

    kind: str
    told: tuple[object, ...]
    rows: tuple[bytes, ...] = ()


def payload(client: RawClient, name: str, step: str, statement: Callable[[], Prepared]) -> bytes:
    """The command of a step. `name`: the session's database. `statement`: that of a step which is about one."""
    word, _, rest = step.partition(" ")
    if word in OF_PREPARED:
        return _of_prepared(client, word, rest.partition(" ")[2], statement())
    if word == "!attributes" and client.attributes:
        return client.text(rest.replace("{db}", name), ATTRIBUTE)
    if word == "!attributes":
        return client.text(rest.replace("{db}", name))
    if word == "!ping":
        return bytes((COM_PING,))
    if word == "!reset":
        return bytes((COM_RESET_CONNECTION,))
    if word == "!use":
        return bytes((COM_INIT_DB,)) + name.encode() + rest.encode()
    if word == "!option":
        return bytes((COM_SET_OPTION,)) + struct.pack("<H", int(rest))
    if word == "!fields":
        return bytes((COM_FIELD_LIST,)) + rest.encode() + b"\0"
    if word == "!change":
        account = ChangeUser(rest.format(db=name).encode(), b"", name.encode(), 255, b"caching_sha2_password", b"")
        return encode_change_user(account, client.capabilities)
    return client.text(step.replace("{db}", name))


def _of_prepared(client: RawClient, word: str, rest: str, one: Prepared) -> bytes:
    number = struct.pack("<I", one.id)
    if word == "!fetch":
        return bytes((COM_STMT_FETCH,)) + number + struct.pack("<I", int(rest))
    if word == "!long":
        return bytes((COM_STMT_SEND_LONG_DATA,)) + number + b"\0\0" + rest.encode()
    if word == "!close":
        return bytes((COM_STMT_CLOSE,)) + number
    if word == "!free":
        return bytes((COM_STMT_RESET,)) + number
    value = rest if word == "!word" else int(rest)
    flags = READ_ONLY_CURSOR if word == "!cursor" else 0
    return client.execution(one.id, given(client, [value] * one.parameters), flags)


def answer(client: RawClient, step: str) -> bytes | None:
    """None: the connection has ended. Raises NoAnswer."""
    try:
        if step.startswith(UNANSWERED):
            return b""
        if step.startswith(HEADLESS):
            return client.rows()
        if step.startswith(ONE_PACKET):
            return client.one()
        if not step.startswith("!change"):
            return client.result()
        found = client.authenticated()
        while found[4] == EOF:  # another plugin's turn: no password
            client.write(packet(b"", found[3] + 1))
            found = client.authenticated()
        return found
    except (Ended, BrokenPipeError, ConnectionResetError):
        return None
    except TimeoutError as error:
        raise NoAnswer(f"port {client.socket.getpeername()[1]}") from error


def results(client: RawClient, data: bytes, step: str = "") -> list[Result]:
    """The parts of an answer, without what only a run at MySQL can say."""
    pieces = []
    while data:
        size = 4 + int.from_bytes(data[:3], "little")
        pieces.append(data[4:size])
        data = data[size:]
    found, at = list[Result](), 0
    if step.startswith(HEADLESS):
        one, at = _rows(client, pieces, 0, ())
        found.append(one)
    elif step.startswith(ONE_PACKET) and pieces[0][0] == EOF:
        found.append(Result("end", ()))
        at = 1
    while at < len(pieces):
        first = pieces[at]
        at += 1
        if first[0] == ERR:
            error = parse_error(first)
            found.append(Result("error", (error.errno, NUMBER.sub("", error.message))))
            continue
        if first[0] == OK:
            ok = parse_ok(first, session_track=bool(client.capabilities & CLIENT_SESSION_TRACK))
            told = (ok.affected, ok.insert_id, ok.status & ~HOW_IT_RAN, ok.warnings, ok.info)
            found.append(Result("ok", told))
            continue
        columns, _ = read_lenenc_int(first, 0)
        head = tuple(pieces[at : at + columns])
        at += columns
        if client.eof:
            at += 1
            status = int.from_bytes(pieces[at - 1][3:5], "little")
            if status & STATUS_CURSOR_EXISTS:  # the rows are fetched
                found.append(Result("rows", (head, status & ~HOW_IT_RAN)))
                continue
        one, at = _rows(client, pieces, at, head)
        found.append(one)
    return found


def _rows(client: RawClient, pieces: list[bytes], at: int, head: tuple[bytes, ...]) -> tuple[Result, int]:
    """(the rows that begin there, where they have ended)."""
    start = at
    while not (pieces[at][0] == EOF and len(pieces[at]) < 9 + 1000 * (not client.eof)) and pieces[at][0] != ERR:
        at += 1
    end = pieces[at]
    if end[0] == ERR and not head:
        error = parse_error(end)
        return Result("error", (error.errno, NUMBER.sub("", error.message))), at + 1
    if end[0] == ERR:
        last: object = parse_error(end).errno
    elif client.eof:
        last = int.from_bytes(end[3:5], "little") & ~HOW_IT_RAN
    else:
        last = parse_ok(end, session_track=False).status & ~HOW_IT_RAN
    return Result("rows", (head, last), tuple(pieces[start:at])), at + 1
