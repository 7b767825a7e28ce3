"""What may happen to a session, made at random: what its client sends, what its MySQL is like, and when either goes.

A strict client keeps to the protocol and knows what it must see (`strict_client.py`); the others send nonsense too.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from proxy.mysql.wire.packets import (
    CLIENT_CONNECT_ATTRS,
    CLIENT_DEPRECATE_EOF,
    CLIENT_PLUGIN_AUTH,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
    LARGEST,
    lenenc,
    packet,
)
from tests.fuzz.payloads import mutated
from tests.fuzz.play import LIMIT, play
from tests.fuzz.shrinking import Step, listed, smaller_steps
from tests.fuzz.system import CHANGING_KEY, LARGE_KEY, Counts

HELD = (1, 3, 5, 7, 9)
KEYS = (0, 1, 2, 3, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 10, 11)  # `tests/fuzz/system.py` says what each is


@dataclass(frozen=True, slots=True)
class Client:
    """What one session's client sends. `attributes`: its queries have some."""

    attributes: bool
    texts: Sequence[str]

    @property
    def prefix(self) -> bytes:
        """What stands before the text of a query without attributes."""
        return b"\0\1" if self.attributes else b""


Make = Callable[[random.Random, Client], bytes]


@dataclass(frozen=True, slots=True)
class SessionCase:
    """What happens, in order. `seed`: of the upstream's choices, of how bytes are cut, and of the listener's options.
    `wild`: the upstream's share of nonsense."""

    seed: int
    capabilities: int
    wild: float
    strict: bool
    steps: tuple[Step, ...]

    @property
    def kind(self) -> str:
        return "strict sessions" if self.strict else "wild sessions" if self.wild else "sessions"

    def run(self, counts: Counts) -> None:
        play(self.seed, self.capabilities, self.wild, self.steps, counts, strict=self.strict)

    def script(self) -> str:
        return (
            f"from tests.fuzz.sessions import SessionCase\nSessionCase({self.seed}, {self.capabilities}, {self.wild}, "
            f"{self.strict}, {listed(self.steps)}).run(Counter())"
        )

    def smaller(self) -> Iterator[SessionCase]:
        for steps in smaller_steps(self.steps, whole=self.strict):
            yield replace(self, steps=steps)
        if self.wild:
            yield replace(self, wild=0.0)


def session_case(rng: random.Random) -> SessionCase:
    capabilities = CLIENT_PLUGIN_AUTH | sum(
        flag
        for flag in (CLIENT_DEPRECATE_EOF, CLIENT_SESSION_TRACK, CLIENT_QUERY_ATTRIBUTES, CLIENT_CONNECT_ATTRS)
        if rng.random() < 0.5
    )
    strict = rng.random() < 0.5
    wild = 0.0 if strict else rng.choice((0.0, 0.05, 0.3))
    nonsense = 0.0 if strict else rng.choice((0.0, 0.05, 0.3))
    texts = rng.sample(TEXTS, rng.choice((1, 2, 4, len(TEXTS))))
    client = Client(bool(capabilities & CLIENT_QUERY_ATTRIBUTES), texts)
    steps: list[Step] = [("client", packet(b"\x16SELECT id, name FROM item WHERE id = ?", 0))] * rng.choice((0, 1, 2))
    if steps and rng.random() < 0.4:
        steps += prepared_hits(rng, client)
    events = rng.choice((0.0, 0.15, 0.3))
    for _ in range(rng.choice((3, 10, 40))):
        if rng.random() < events:
            steps.append((rng.choice(EVENTS), b""))
        elif rng.random() < 0.4:
            steps += same_read(rng, client)
        elif rng.random() < 0.15:
            steps += rng.choice(
                (left_alone, kept_alive, one_transaction, many, slow_client, slow_server, prepared_hits)
            )(rng, client)
        else:
            steps += some_commands(rng, client, nonsense, strict=strict)
    return SessionCase(rng.randrange(1 << 30), capabilities, wild, strict, tuple(steps))


def some_commands(rng: random.Random, client: Client, nonsense: float, *, strict: bool) -> Iterator[Step]:
    known: Sequence[Make] = STRICT if strict else (*STRICT, *LOOSE)
    for _ in range(rng.choice((1, 1, 1, 3, 20))):
        data = rng.choice(known)(rng, client)
        if rng.random() < nonsense:
            data = rng.choice((mutated(rng, data), rng.randbytes(rng.choice((1, 5, 40)))))
        yield "client", data
    if rng.random() < 0.4:
        yield "settle", b""


def same_read(rng: random.Random, client: Client) -> list[Step]:
    """A read that a cache may answer, again and again."""
    read: Make = rng.choice((cached_text, cached_text, cached_execution, execution))
    steps: list[Step] = [("client", read(rng, client))]
    if rng.random() < 0.7:
        steps.append(("settle", b""))
    return steps * rng.choice((1, 2, 4))


def left_alone(rng: random.Random, client: Client) -> list[Step]:
    """MySQL goes, the hits stay; it may come back."""
    end: Step = (rng.choice(("server ends", "server breaks", "shutdown")), b"")
    sent = (cached_text, cached_text, cached_execution, a_ping, a_ping, other, another_account, prepare, command)
    reads: list[Step] = [("client", rng.choice(sent)(rng, client)) for _ in range(rng.randrange(5))]
    back: list[Step] = [("MySQL is back", b""), ("tick", b"")]
    return [("MySQL is away", b""), end, *reads, ("settle", b""), ("tick", b""), *rng.choice((back, []))]


def kept_alive(rng: random.Random, client: Client) -> list[Step]:
    """A session that lives by its hits."""
    read = cached_text(rng, client)
    return [("client", read), ("much time passes", b""), ("tick", b"")] * 5


def many(rng: random.Random, client: Client) -> list[Step]:
    """Hits, more than are answered in one turn."""
    reads = [query(f"SELECT id, name FROM item WHERE id = {key}", client.prefix) for key in (1, 3, 7)]
    return [("client", reads[0]), ("settle", b""), ("client", b"".join(rng.choices(reads, k=rng.choice((3, 150)))))]


def prepared_hits(rng: random.Random, client: Client) -> list[Step]:
    """The same statement again and again, its type sent once: the shortest way that a hit can take. In between may be
    what must keep a session from it: above all, bytes that look like such a command and are within another."""
    first = an_execution(client, rng.choice(HELD), bound=True)
    steps: list[Step] = [("client", first), ("settle", b"")]
    for _ in range(rng.choice((3, 6, 12))):
        again = an_execution(client, rng.choice(HELD))
        steps += [("client", again), ("settle", b"")]
        odd = rng.random()
        if odd < 0.05:
            begin = b"\x03" + client.prefix + b"SELECT '"
            size = len(begin) + len(again)
            steps += [("client", size.to_bytes(3, "little") + b"\0" + begin), ("settle", b""), ("client", again)]
        elif odd < 0.1:
            steps += [(rng.choice(EVENTS), b"")]
        elif odd < 0.2:
            steps += [("client", rng.choice((text, prepare, other, a_file, another_account))(rng, client))]
    return steps


def slow_client(rng: random.Random, client: Client) -> list[Step]:
    large = query(f"SELECT id, name FROM item WHERE id = {LARGE_KEY}", client.prefix)
    steps: list[Step] = [("client", large), ("settle", b""), ("client does not read", b"")]
    for _ in range(4):
        steps += [("client", rng.choice((large, large, text(rng, client), prepare(rng, client)))), ("settle", b"")]
    event = rng.choice(("client reads a little", "much time passes", "server ends", "client ends", "settle"))
    return [*steps, (event, b""), ("tick", b""), (rng.choice(("client reads", "much time passes")), b""), ("tick", b"")]


def slow_server(rng: random.Random, client: Client) -> list[Step]:
    event = rng.choice(("server ends", "client ends", "server breaks", "settle", "settle"))
    sent = ("client", rng.choice((a_file, text, cached_text))(rng, client))
    return [("server does not read", b""), sent, ("flood", b""), (event, b""), ("server reads", b"")]


def one_transaction(rng: random.Random, client: Client) -> list[Step]:
    """Reads, while what they show may change, and what ends them."""
    begin = rng.choice(("BEGIN", "SET autocommit = 0", "START TRANSACTION WITH CONSISTENT SNAPSHOT"))
    steps: list[Step] = [("client", query(begin, client.prefix)), ("settle", b"")]
    for _ in range(rng.randrange(6)):
        read = rng.choice((changing, changing, cached_text, cached_execution, text))(rng, client)
        steps += [("client", read), ("settle", b""), (rng.choice(("settle", "settle", "the stream moves")), b"")]
    return [*steps, ("client", query(rng.choice(("COMMIT", "ROLLBACK", "SELECT 1")), client.prefix))]


# -- what a client sends -----------------------------------------------------------------------------------------------


def query(sql: str, given: bytes) -> bytes:
    return packet(b"\x03" + given + sql.encode(), 0)


def cached_text(rng: random.Random, client: Client) -> bytes:
    sql = rng.choice((
        f"SELECT id, name FROM item WHERE id = {rng.choice(KEYS)}",
        f"SELECT COUNT(*) FROM item WHERE n = {rng.choice(KEYS)} AND name = 'x'",
    ))  # fmt: skip
    return query(sql, client.prefix)


def changing(rng: random.Random, client: Client) -> bytes:
    return query(f"SELECT id, name FROM item WHERE id = {CHANGING_KEY}", client.prefix)


def text(rng: random.Random, client: Client) -> bytes:
    given = rng.choice((b"\0\1", b"\0\1", b"\1\1\0\1\xfe\0\1a\1b", b"\xff")) if client.attributes else b""
    return query(rng.choice(client.texts).format(key=rng.choice(KEYS)), given)


def command(rng: random.Random, client: Client) -> bytes:
    """Upwell's own SQL, and comments that steer."""
    key = rng.choice(KEYS)
    sql = rng.choice((
        "EXPLAIN LAST STATEMENT", "EXPLAIN LAST STATEMENT", "SHOW CACHES", "SHOW CACHES LIKE '%0'", "DROP CACHE c0",
        "SHOW PROXIED QUERIES", "SHOW UPWELL STATUS", "SHOW UPWELL", "CREATE CACHE FROM SELECT 1",
        "EXPLAIN CREATE CACHE FROM SELECT id FROM item", "CREATE CACHE c0 FROM SELECT 1",
        "/* upwell: force */ SELECT 1", f"/* upwell: force */ SELECT id, name FROM item WHERE id = {key}",
        f"SELECT /* upwell: skip */ id, name FROM item WHERE id = {key}",
    ))  # fmt: skip
    return query(sql, client.prefix)


def execution(rng: random.Random, client: Client) -> bytes:
    count = (b"\1" if client.attributes else b"") if rng.random() < 0.9 else b""
    name = b"\0" if client.attributes else b""
    key = struct.pack("<q", rng.choice(KEYS))
    parameters = rng.choice((
        count + b"\0\1\x08\0" + name + key, count + b"\0\0" + key, count + b"\1\1\x08\0" + name,
        count + b"\0\1\xfd\0" + name + lenenc(b"text"), b"", count + b"\0\1\x0c\0" + name + b"\x0b" + b"\1" * 11,
        count + b"\0\1\xfc\0" + name + lenenc(b"bytes"),
    ))  # fmt: skip
    head = struct.pack("<BIBI", 0x17, rng.randrange(1, 4), rng.choice((0, 0, 0, 1, 8)), 1)
    return packet(head + parameters, 0)


def cached_execution(rng: random.Random, client: Client) -> bytes:
    """Of a statement of one integer, as drivers send it: its type is sent once."""
    return an_execution(client, rng.choice(KEYS), bound=rng.random() < 0.5)


def an_execution(client: Client, key: int, *, bound: bool = False) -> bytes:
    """Of the first statement. `bound`: with its parameter's type."""
    count, name = (b"\1", b"\0") if client.attributes else (b"", b"")
    head = struct.pack("<BIBI", 0x17, 1, 8 if client.attributes else 0, 1)
    types = b"\1\x08\0" + name if bound else b"\0"
    return packet(head + count + b"\0" + types + struct.pack("<q", key), 0)


def other(rng: random.Random, client: Client) -> bytes:
    number = struct.pack("<I", rng.randrange(1, 4))
    return packet(
        rng.choice((
            b"\x0e", b"\x0e", b"\x02other", b"\x04item\0", b"\x09", b"\x0d", b"\x1b\0\0", b"\x1f", b"\x19" + number,
            b"\x1a" + number, b"\x1c" + number + b"\5\0\0\0", b"\x18" + number + b"\0\0" + b"l" * 100,
            b"\x18" + number + b"\0\0" + b"l" * 100_000, b"\x0c" + number, b"",
        )), 0,
    )  # fmt: skip


def a_ping(rng: random.Random, client: Client) -> bytes:
    return packet(b"\x0e", 0)


def prepare(rng: random.Random, client: Client) -> bytes:
    cached = b"SELECT id, name FROM item WHERE id = ?"
    other = b"SELECT '" + b"z" * rng.choice((1, 70_000)) + b"'"
    return packet(b"\x16" + rng.choice((cached, cached, b"SELECT ?", b"DO 1", other)), 0)


def another_account(rng: random.Random, client: Client) -> bytes:
    return packet(b"\x11app\0\0d\0\xff\0caching_sha2_password\0", 0) + packet(b"s" * 32, 2)


def a_file(rng: random.Random, client: Client) -> bytes:
    pieces = [rng.choice((b"1\tone\n", b"x" * 100_000)) for _ in range(rng.randrange(3))]
    sent = b"".join(packet(piece, number) for number, piece in enumerate([*pieces, b""], 2))
    return query("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", client.prefix) + sent


def too_large(rng: random.Random, client: Client) -> bytes:
    if rng.random() < 0.03:  # in two packets
        return packet(b"\x03SELECT '" + b"z" * rng.choice((LARGEST, 20 << 20)) + b"'", 0)
    return query("SELECT '" + "z" * LIMIT + "'", b"")


def quit_(rng: random.Random, client: Client) -> bytes:
    return packet(b"\x01", 0)


# What follows, no client sends that keeps to the protocol.


def any_command(rng: random.Random, client: Client) -> bytes:
    number = struct.pack("<I", rng.randrange(1, 4))
    return packet(rng.choice((
        b"\x1e" + b"g" * 9, b"\x12", b"\x11app\0\0d\0\xff\0caching_sha2_password\0", b"\x11",
        bytes((rng.randrange(256),)), b"\x17",
        b"\x17" + number, b"\x18", b"\x19", bytes((rng.randrange(256),)) + b"a" * 70_000,
        b"\x11" + b"u" * 70_000 + b"\0\0d\0\xff\0caching_sha2_password\0",
    )), rng.choice((0, 0, 0, 0, 2)))  # fmt: skip


def account_piece(rng: random.Random, client: Client) -> bytes:
    asked = packet(b"\x11app\0\3abcd\0\xff\0" + rng.choice((b"caching_sha2_password", b"sha256_password")) + b"\0", 0)
    return asked + rng.choice((b"", packet(b"", 2), packet(b"\2", 4), packet(b"s", 3), packet(b"s" * 140_000, 2)))


def file_piece(rng: random.Random, client: Client) -> bytes:
    return packet(rng.choice((b"", b"1\tone\n", b"x" * 100_000)), rng.randrange(9))


def header_only(rng: random.Random, client: Client) -> bytes:
    size = rng.choice((5, 70_000, LIMIT + 1, LARGEST))
    return size.to_bytes(3, "little") + b"\0" + bytes((rng.choice((3, 0x17, 0x18, 0x11)),)) + b"y" * rng.choice((0, 9))


TEXTS = (
    "SELECT id, name FROM item WHERE id = {key}", "SELECT COUNT(*) FROM item WHERE n = {key} AND name = 'x'",
    "SELECT id, name FROM item WHERE id = '{key}'", "SELECT name FROM item WHERE id = {key}",
    "BEGIN", "COMMIT", "SET autocommit = 0", "SET autocommit = 1", "SET NAMES latin1", "SHOW WARNINGS", "CALL p()",
    "SET session_track_gtids = OFF", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "SELECT 1", "",
    "LOCK TABLES item READ", "UNLOCK TABLES", "UPDATE item SET n = 1", "SELECT 1; SELECT 2", "USE other",
    "CREATE TEMPORARY TABLE t SELECT 1", "SELECT * FROM item FOR UPDATE", "SELECT FOUND_ROWS()", "SELECT @a := 1",
    "SET TRANSACTION READ ONLY", "SELECT '" + "z" * 66_000 + "'", "SELECT '" + "z" * 100_000 + "'",
    "SELECT id, name FROM item WHERE id = '" + "z" * 60_000 + "'", "SELECT GET_LOCK('a', 1)", "XA START 'x'",
)  # fmt: skip
STRICT: Sequence[Make] = (
    *(text, text, text, text, text, command, execution, execution, cached_execution, cached_text, prepare, prepare),
    *(other, other, another_account, a_file),
)
LOOSE: Sequence[Make] = (any_command, account_piece, file_piece, header_only, too_large, quit_)
EVENTS = (
    "settle", "settle", "client does not read", "client reads", "client reads a little", "server does not read",
    "server reads", "caches change", "rights change", "the stream moves", "tick", "time passes", "much time passes",
    "MySQL is away", "MySQL is back", "server ends", "server breaks", "farewell", "shutdown", "server is quiet",
    "client ends", "client breaks", "flood",
)  # fmt: skip
