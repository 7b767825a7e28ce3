"""MySQL's protocol of a scripted vtgate: sessions in threads, each with a connection of its own to each shard's server.

It knows its keyspace's tables by nothing but a function that tells on which shard a key is. There is no planner:

 statement                          | what is done
------------------------------------+---------------------------------------------------------------------------------
 USE keyspace, keyspace:shard       | what follows goes to all shards as below, or to that one as it is
 BEGIN, COMMIT, ROLLBACK            | kept here: a shard's transaction begins with the first statement that goes there
 SET                                | done on each shard's connection, those of later ones, too
 VEXPLAIN, SHOW VSCHEMA, a vindex,  | answered here
 SHOW VITESS_SHARDS, the release    |
 reads no table                     | of the first shard
 `id = 1`, `id IN (1, 2)`, VALUES   | of the shards that these keys are on, rows appended
 any other                          | of all shards, rows appended
 that by the column of a lookup     | of no row: the lookup's table has none. With IGNORE VINDEX as any other

A test says what goes wrong, and where (`vtgate_faults.py`).
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from integration.support.raw_client import Ended, RawClient, payloads_of
from proxy.mysql.login.login_packets import HandshakeResponse, parse_handshake_response
from proxy.mysql.wire.packets import (
    CLIENT_CONNECT_ATTRS,
    CLIENT_CONNECT_WITH_DB,
    CLIENT_DEPRECATE_EOF,
    CLIENT_PROTOCOL_41,
    CLIENT_SECURE_CONNECTION,
    CLIENT_TRANSACTIONS,
    COM_INIT_DB,
    COM_PING,
    COM_QUERY,
    COM_QUIT,
    COM_RESET_CONNECTION,
    COM_STMT_CLOSE,
    COM_STMT_PREPARE,
    ERR,
    STATUS_AUTOCOMMIT,
    STATUS_IN_TRANS,
    error_payload,
    ok_payload,
    packet,
)
from tests.support.scripted_mysql import Wire, greeting
from tests.support.vitess_events import KEYSPACE
from tests.support.vtgate_faults import Asked, Cut, Faults, Lost, Place, Refused
from tests.support.vtgate_shards import Keyspace, Shard

VTGATE = (  # what a vtgate of v24 offers, without TLS
    0b1111  # LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, CONNECT_WITH_DB
    | CLIENT_PROTOCOL_41
    | CLIENT_TRANSACTIONS
    | CLIENT_SECURE_CONNECTION
    | 0b11 << 16  # MULTI_STATEMENTS, MULTI_RESULTS
    | 1 << 19  # PLUGIN_AUTH
    | 1 << 21  # PLUGIN_AUTH_LENENC_CLIENT_DATA
    | CLIENT_CONNECT_ATTRS
    | CLIENT_DEPRECATE_EOF
)
RELEASE = "'Version: 24.0.4 (Git revision 0 branch HEAD) built on now by a test' AS `@@version_comment`"
USE = re.compile(r"use\s+`?([^`]*?)`?\s*$", re.I)
TARGET = re.compile(rf"{KEYSPACE}(?:[:/]([^@]+))?(?:@primary)?")
VINDEX = re.compile(rf"select shard from `?{KEYSPACE}`?\.`?hash`? where id = (\d+)", re.I)
IGNORED = re.compile(r"\s+ignore\s+vindex\s*\([^)]*\)", re.I)
KEYS = re.compile(r"`?\bid`?\s*(?:=\s*(\d+)|in\s*\(\s*(\d+(?:\s*,\s*\d+)*)\s*\))", re.I)
VALUES = re.compile(r"\bvalues\s*(.*)", re.I | re.S)
FIRST_VALUES = re.compile(r"\(\s*(\d+)")
TABLE_OF_PLAN = re.compile(rf"from\s+(?:`?{KEYSPACE}`?\.)?`?(\w+)`?", re.I)
PLACES = [
    (place, re.compile(pattern))
    for place, pattern in (
        (Place.BEGIN, "begin|start"),
        (Place.COMMIT, "commit"),
        (Place.TO_SHARD, "use .*[:/]"),
        (Place.TO_KEYSPACE, "use "),
        (Place.UPPER, ".*gtid_owned"),
        (Place.LOWER, ".*gtid_executed"),
        (Place.PLAN, "vexplain"),
        (Place.VSCHEMA, "show vschema"),
        (Place.VINDEX, VINDEX.pattern),
        (Place.SETTING, "set "),
        (Place.WRITE, "insert|update|delete|replace"),
    )
]
WRITES = ("insert", "update", "delete", "replace")
NOT_SERVING = (
    "target: shop.{}.primary: vttablet: rpc error: code = FailedPrecondition desc ="
    " operation not allowed in state NOT_SERVING"
)
GONE = "target: shop.{}.primary: vttablet: rpc error: code = Aborted desc = transaction 1700000000: not found"


class SqlHalf(Faults):
    """Serves at 127.0.0.1:`port`. `errors`: what is wrong with it, not with who asks it."""

    def __init__(self, keyspace: Keyspace, place: Callable[[int], str]) -> None:
        """`place`: on which shard a key is."""
        super().__init__()
        self.keyspace, self.place = keyspace, place
        self.errors: list[BaseException] = []
        self.elsewhere = ""  # the keyspace that answers, where that is another one
        self.lookup = ""  # the column of a lookup vindex, whose table has no rows
        self.silent_failover = False
        self.port = 0
        self._listener: socket.socket | None = None
        self._sessions: dict[Session, threading.Thread] = {}
        self._numbers = itertools.count(1)

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Go does
            session = Session(self, sock, next(self._numbers))
            thread = threading.Thread(target=session.run, daemon=True)
            self._sessions[session] = thread
            thread.start()

    def stop(self) -> None:
        """All sessions are cut off."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        sessions = list(self._sessions.items())
        for session, _ in sessions:
            session.end()
        for _, thread in sessions:
            thread.join(60)

    def ended(self, session: Session) -> None:
        self._sessions.pop(session, None)

    def shards_of(self, sql: str) -> list[Shard]:
        """Those that a statement is sent to."""
        shards = self.keyspace.shards
        if (found := KEYS.search(sql)) is not None:
            keys = re.findall(r"\d+", found[1] or found[2])
        elif sql.lower().startswith(WRITES) and (values := VALUES.search(sql)) is not None:
            keys = FIRST_VALUES.findall(values[1])
        else:
            return list(shards.values())
        return [shards[name] for name in sorted({self.place(int(key)) for key in keys})]


@dataclass(eq=False)
class Session:
    vtgate: SqlHalf
    sock: socket.socket
    number: int
    shard: str = ""  # its target
    begun: set[str] = field(default_factory=set)  # shards with a transaction
    begin: str = ""  # the statement that has begun one
    reached: Place = Place.BEGIN  # LOWER or UPPER, where the transaction has come that far
    settings: list[str] = field(default_factory=list)
    backends: dict[str, tuple[Shard, object, RawClient]] = field(default_factory=dict)
    own = False  # of Upwell's own

    def end(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        try:
            self._serve()
        except (Lost, EOFError, OSError):
            pass
        except BaseException as error:  # noqa: BLE001 - a thread's top level: a test looks at it
            self.vtgate.errors.append(error)
        finally:
            self.sock.close()
            for _, _, backend in self.backends.values():
                backend.close()
            self.vtgate.ended(self)

    def _serve(self) -> None:
        wire = Wire(self.sock)
        self.wire = wire
        wire.send(greeting(VTGATE, b"mysql_native_password", b"9.7.0-Vitess"))
        self.client: HandshakeResponse = parse_handshake_response(wire.receive(), VTGATE)
        self.eof = not self.client.capabilities & CLIENT_DEPRECATE_EOF
        try:
            self.vtgate.note(Asked(Place.LOGIN, "", "", own=False))
            if self.client.capabilities & CLIENT_CONNECT_WITH_DB and self.client.database:
                self._target(self.client.database.decode())
        except Refused as error:
            wire.send(error_payload(error.errno, error.sqlstate, error.message))
            return
        wire.send(ok_payload(STATUS_AUTOCOMMIT))
        while True:
            wire.sequence = 0
            payload = wire.receive()
            if payload[0] == COM_QUIT:
                return
            if payload[0] == COM_STMT_CLOSE:
                continue
            try:
                found = self._answer(payload[0], payload[1:])
            except Refused as error:
                found = _error(error)
            except Cut:
                found = self._whole(payload[1:].decode())
                self.sock.sendall(found[: len(found) * 2 // 3])
                return
            except Ended as error:  # the shard's server
                found = _error(Refused(2013, "HY000", f"Lost connection to MySQL server during query: {error}"))
                self.backends.clear()
            self.sock.sendall(found)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _answer(self, command: int, body: bytes) -> bytes:
        if command == COM_INIT_DB:
            return self._statement(f"USE `{body.decode()}`")
        if command == COM_QUERY:
            return self._statement(body.decode())
        if command == COM_STMT_PREPARE:
            return self._prepared(body.decode())
        if command == COM_RESET_CONNECTION:
            self._roll_back()
            self.settings.clear()
            for _, _, backend in self.backends.values():
                backend.begin_anew(KEYSPACE)
        elif command != COM_PING:
            raise Refused(1047, "08S01", f"command handling not implemented yet: {command}")
        return self._ok()

    def _ok(self) -> bytes:
        return packet(ok_payload(STATUS_AUTOCOMMIT | (STATUS_IN_TRANS if self.begin else 0)), 1)

    def _statement(self, sql: str) -> bytes:
        self.own = self.own or "transaction_read_only=1" in sql
        place = self._place(sql)
        if place in (Place.BEGIN, Place.LOWER, Place.UPPER):
            self.reached = place
        answer = self.vtgate.note(Asked(place, sql, self.shard, self.own, self.number))
        return self._whole(sql) if answer is None else answer

    def _place(self, sql: str) -> Place:
        text = sql.strip().lower()
        found = next((place for place, pattern in PLACES if pattern.match(text)), Place.STATEMENT)
        if found is Place.TO_KEYSPACE and self.reached is Place.UPPER:
            return Place.BACK
        if found is not Place.STATEMENT:
            return found
        if not self._reads_tables(text):
            return Place.OTHER
        return Place.STATEMENT if self.begin and self.reached is Place.LOWER else Place.ROWS

    def _reads_tables(self, text: str) -> bool:
        return any(re.search(rf"\b{table}\b", text) for table in self.vtgate.keyspace.tables)

    def _whole(self, sql: str) -> bytes:
        text = sql.strip().rstrip(";")
        head = text.split(None, 1)[0].lower()
        if head == "use" and (found := USE.match(text)) is not None:
            self._target(found[1])
            return self._ok()
        if head in ("begin", "start"):
            self._commit()
            self.begin = text
            return self._ok()
        if head in ("commit", "rollback"):
            if head == "rollback":
                self._roll_back()
            else:
                self._commit()
            return self._ok()
        if head == "set":
            return self._set(text)
        if (here := self._answered_here(text)) is not None:
            return self._ask(self._first, here)
        if self.shard:
            return self._ask(self._shard(self.shard), text)
        if head in WRITES:
            return self._write(text)
        if not self._reads_tables(text.lower()):
            return self._ask(self._first, text)
        text = self._by_lookup(text)
        return merged([self._ask(shard, text) for shard in self.vtgate.shards_of(text)], self.eof)

    def _by_lookup(self, text: str) -> str:
        """What is asked of the shards."""
        lookup = self.vtgate.lookup
        if lookup and IGNORED.search(text) is None and re.search(rf"\b{lookup}`?\s*(=|in\b)", text, re.I):
            return f"SELECT * FROM ({text}) AS looked_up WHERE FALSE"
        return IGNORED.sub("", text)

    def _answered_here(self, text: str) -> str | None:
        """A statement of MySQL's that gives what vtgate answers."""
        lower = text.lower()
        if lower.startswith("vexplain"):
            return f"SELECT '{self._plan(text)}' AS JSON"
        if (found := VINDEX.match(text)) is not None:
            return f"SELECT '{self.vtgate.place(int(found[1]))}' AS shard"
        if lower.startswith("show vschema keyspaces"):
            return f"SELECT '{KEYSPACE}' AS Keyspace, 'true' AS Sharded, 'unmanaged' AS `Foreign Key`, '' AS Comment"
        column = self.vtgate.lookup
        if lower == "show vschema vindexes":
            first = f"SELECT '{KEYSPACE}' AS Keyspace, 'hash' AS Name, 'xxhash' AS Type, '' AS Params, '' AS Owner"
            return f"{first} UNION ALL SELECT '{KEYSPACE}', 'by_{column}', 'lookup', '', 'item'" if column else first
        if lower.startswith("show vschema vindexes"):
            if not self._reads_tables(lower):
                raise Refused(1146, "42S02", f"VT05005: table 'it' does not exist in keyspace '{KEYSPACE}'")
            first = "SELECT 'id' AS Columns, 'hash' AS Name, 'xxhash' AS Type, '' AS Params, '' AS Owner"
            return f"{first} UNION ALL SELECT '{column}', 'by_{column}', 'lookup', '', 'item'" if column else first
        if lower.startswith("show vitess_shards"):
            return " UNION ALL ".join(f"SELECT '{KEYSPACE}/{name}' AS Shards" for name in self.vtgate.keyspace.shards)
        if lower.startswith("select @@workload"):
            return "SELECT 'OLTP' AS `@@workload`"
        if lower.startswith("select @@version_comment"):
            return f"SELECT {RELEASE}"
        return None

    def _plan(self, text: str) -> str:
        named: dict[str, object] = {"Name": self.vtgate.elsewhere or KEYSPACE, "Sharded": True}
        plan: dict[str, object] = {"OperatorType": "Route", "Variant": "Scatter", "Keyspace": named}
        if (table := TABLE_OF_PLAN.search(text)) is not None:
            if table[1] not in self.vtgate.keyspace.tables:
                raise Refused(1105, "HY000", f"table {table[1]} not found")
            plan["Query"] = f"select 1 from {table[1]}"
        return json.dumps(plan)

    def _target(self, name: str) -> None:
        found = TARGET.fullmatch(name)
        if found is None:
            raise Refused(1049, "42000", f"VT05003: unknown database '{name}' in vschema")
        self.shard = found[1] or ""

    def _set(self, text: str) -> bytes:
        answer = self._ask(self._first, text)
        if answer[4] != ERR:
            self.settings.append(text)
            for shard, _, backend in list(self.backends.values()):
                if shard is not self._first:
                    backend.query(text)
        return answer

    def _write(self, text: str) -> bytes:
        shards = self.vtgate.shards_of(text)
        assert not self.begin and len(shards) == 1, f"a write of one row, in autocommit, is all that is known: {text}"
        return shards[0].recorded(lambda: self._ask(shards[0], text))

    def _prepared(self, text: str) -> bytes:
        self.vtgate.note(Asked(Place.OTHER, text, self.shard, self.own, self.number))
        backend = self._backend(self._shard(self.shard) if self.shard else self._first)
        number = backend.prepare(text).id.to_bytes(4, "little")
        found = backend.transcript[-1][1]
        return found if found[4] == ERR else found[:5] + number + found[9:]

    # -- transactions and shards --------------------------------------------------------------------------------------

    def _commit(self, how: str = "COMMIT") -> None:
        self.begin = ""
        begun, self.begun = self.begun, set()
        for name in sorted(begun):
            if name in self.backends:
                self.backends[name][2].query(how)

    def _roll_back(self) -> None:
        self._commit("ROLLBACK")

    @property
    def _first(self) -> Shard:
        return next(iter(self.vtgate.keyspace.shards.values()))

    def _shard(self, name: str) -> Shard:
        shard = self.vtgate.keyspace.shards.get(name)
        if shard is None:  # those that were split or merged have tablets, which do not serve
            raise Refused(1105, "HY000", NOT_SERVING.format(name))
        return shard

    def _ask(self, shard: Shard, text: str) -> bytes:
        backend = self._backend(shard)
        if self.begin and shard.name not in self.begun:
            self.begun.add(shard.name)
            backend.query(self.begin)
        return backend.query(text)

    def _backend(self, shard: Shard) -> RawClient:
        known = self.backends.get(shard.name)
        server = shard.answering or shard.server
        if known is not None and known[1] is server:
            return known[2]
        if known is not None:
            known[2].close()
            del self.backends[shard.name]
            if shard.name in self.begun and not self.vtgate.silent_failover:
                self.begun.discard(shard.name)
                raise Refused(1317, "70100", GONE.format(shard.name))
            self.begun.discard(shard.name)
        capabilities = 0 if self.eof else CLIENT_DEPRECATE_EOF
        backend = RawClient(
            server.host, server.port, capabilities=capabilities, database=KEYSPACE, collation=self.client.collation
        )
        for text in self.settings:
            backend.query(text)
        self.backends[shard.name] = shard, server, backend
        return backend


# -- answers ----------------------------------------------------------------------------------------------------------


def _error(error: Refused) -> bytes:
    return packet(error_payload(error.errno, error.sqlstate, error.message), 1)


def merged(answers: Sequence[bytes], eof: bool) -> bytes:
    """The first's columns, the rows of all; or the first error."""
    for answer in answers:
        if answer[4] == ERR:
            return answer
    parts = [payloads_of(answer) for answer in answers]
    head = 1 + parts[0][0][0] + eof
    rows = [row for part in parts for row in part[head:-1]]
    return b"".join(
        packet(payload, number) for number, payload in enumerate([*parts[0][:head], *rows, parts[0][-1]], 1)
    )
