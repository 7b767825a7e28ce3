"""Many clients of MySQL's protocol in one process of its own: what they do, they are told on the command line as JSON.

`python -m benchmarks.many_clients '{"port": 3307, "database": "d", "idle": 10000}'` opens so many sessions, prints a
line of JSON, and keeps them until its standard input ends. `"active": 500, "seconds": 5, "statement": "SELECT ...
WHERE id = ?", "keys": 100` has that many sessions execute a prepared statement, each as soon as it has its answer, and
prints how often each did. `"flood": 2000, "seconds": 5` logs in and leaves that many times a second.

Accounts have no password here: MySQL's challenge needs no answer then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import IO, Any, cast

import uvloop

from proxy.mysql.wire.packets import (
    CLIENT_CONNECT_WITH_DB,
    CLIENT_DEPRECATE_EOF,
    CLIENT_PLUGIN_AUTH,
    CLIENT_PROTOCOL_41,
    CLIENT_SECURE_CONNECTION,
    COM_STMT_EXECUTE,
    COM_STMT_PREPARE,
    ERR,
    OK,
    packet,
    parse_error,
)
from proxy.mysql.wire.responses import packet_end

ROOT = Path(__file__).parent.parent
CAPABILITIES = (
    CLIENT_PROTOCOL_41 | CLIENT_SECURE_CONNECTION | CLIENT_PLUGIN_AUTH | CLIENT_CONNECT_WITH_DB | CLIENT_DEPRECATE_EOF
)
PLUGIN = b"caching_sha2_password"
AT_ONCE = 64  # logins under way while many sessions are opened
PATIENCE = 15.0  # seconds for one of them
UTF8MB4 = 255
BIGINT = b"\x08\0"
NO_CURSOR_ONCE, NO_NULLS = b"\0\1\0\0\0", b"\0"
END_OF_ROWS = b"\xfe"  # seven bytes before the end


class Refused(Exception):
    """A session did not come about. The message is the server's, or what happened."""


@dataclass(frozen=True, slots=True)
class Task:
    """One of `idle`, `active`, `flood` is not 0: sessions, sessions, or logins a second."""

    port: int
    database: str
    user: str = "root"
    idle: int = 0
    active: int = 0
    flood: int = 0
    seconds: float = 0.0
    statement: str = ""
    keys: int = 1


class Client(asyncio.Protocol):
    """A session. `answered` gets what comes once it is logged in."""

    transport: asyncio.Transport

    def __init__(self, task: Task) -> None:
        self.task = task
        self.logged_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.greeted = False
        self.answered: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.answered is not None:
            self.answered(data)
        elif data[4] == ERR:
            self.fail(parse_error(data[4:]).message)
        elif not self.greeted:
            self.greeted = True
            user, database = self.task.user.encode(), self.task.database.encode()
            fixed = CAPABILITIES.to_bytes(4, "little") + (1 << 24).to_bytes(4, "little") + bytes((UTF8MB4,)) + bytes(23)
            self.transport.write(packet(fixed + user + b"\0\0" + database + b"\0" + PLUGIN + b"\0", 1))
        elif data[4] == OK:
            self.logged_in.set_result(None)
        elif data[4] != 1:  # no more than "you are in": the OK follows
            self.fail("another way to log in is asked for")

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail("the connection was closed")

    def fail(self, why: str) -> None:
        if not self.logged_in.done():
            self.logged_in.set_exception(Refused(why))


async def opened(task: Task) -> Client:
    """A session that is logged in. Raises Refused."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(PATIENCE):
            _, client = await loop.create_connection(lambda: Client(task), "127.0.0.1", task.port)
            await client.logged_in
    except TimeoutError:
        raise Refused(f"no session after {PATIENCE:g} s") from None
    except OSError as error:
        raise Refused(error.strerror or str(error)) from error
    return client


async def open_many(task: Task, number: int) -> tuple[list[Client], list[str]]:
    """The sessions, and why others were refused."""
    clients: list[Client] = []
    refused: list[str] = []
    left = iter(range(number))

    async def some() -> None:
        for _ in left:
            try:
                clients.append(await opened(task))
            except Refused as error:
                refused.append(str(error))

    await asyncio.gather(*(some() for _ in range(AT_ONCE)))
    return clients, refused


def tell(**found: object) -> None:
    print(json.dumps(found), flush=True)


async def idle(task: Task) -> None:
    started = time.perf_counter()
    clients, refused = await open_many(task, task.idle)
    tell(opened=len(clients), refused=refused[:3], seconds=time.perf_counter() - started)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    tell(alive=sum(not client.transport.is_closing() for client in clients))


class Asking:
    """A session that executes the statement again and again. `answers`: within the time that is measured."""

    def __init__(self, client: Client, random: Random) -> None:
        self.client = client
        self.random = random
        self.answers = 0
        self.slowest = 0.0
        self.sent = 0.0
        self.counting = False
        self.failed = ""
        self.execution = b""
        self.prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.held = b""
        client.answered = self.on_prepared
        client.transport.write(packet(bytes((COM_STMT_PREPARE,)) + client.task.statement.encode(), 0))

    def on_prepared(self, data: bytes) -> None:
        self.held += data
        payloads = whole_payloads(self.held)
        if not payloads:
            return
        head = payloads[0]
        if head[0] == ERR:
            self.prepared.set_exception(Refused(parse_error(head).message))
            return
        definitions = int.from_bytes(head[5:7], "little") + int.from_bytes(head[7:9], "little")
        if len(payloads) == 1 + definitions:
            self.execution = bytes((COM_STMT_EXECUTE,)) + head[1:5] + NO_CURSOR_ONCE + NO_NULLS
            self.client.answered = self.on_answer
            self.prepared.set_result(None)

    def begin(self) -> None:
        """Executes for the first time; MySQL remembers the type."""
        self.client.transport.write(packet(self.execution + b"\1" + BIGINT + bytes((1,)) + bytes(7), 0))

    def on_answer(self, data: bytes) -> None:
        if data[-7:-6] != END_OF_ROWS:  # small answers come in one piece, unless the system is out of breath
            if data[4] == ERR:
                self.failed = parse_error(data[4:]).message
            return
        if self.counting:
            self.answers += 1
            self.slowest = max(self.slowest, time.perf_counter() - self.sent)
        key = self.random.randint(1, self.client.task.keys)
        self.sent = time.perf_counter()
        self.client.transport.write(packet(self.execution + b"\0" + key.to_bytes(8, "little"), 0))


def whole_payloads(data: bytes) -> list[bytes]:
    payloads, at = [], 0
    while after := packet_end(data, at, len(data)):
        payloads.append(data[at + 4 : after])
        at = after
    return payloads


async def active(task: Task) -> None:
    clients, refused = await open_many(task, task.active)
    asking = [Asking(client, Random(number)) for number, client in enumerate(clients)]
    await asyncio.gather(*(one.prepared for one in asking))
    for one in asking:
        one.begin()
    await asyncio.sleep(min(1.0, task.seconds))
    for one in asking:
        one.counting = True
    await asyncio.sleep(task.seconds)
    for one in asking:
        one.counting = False
    failed = [one.failed for one in asking if one.failed]
    tell(
        answers=[one.answers for one in asking],
        slowest=[one.slowest for one in asking],
        refused=refused[:3],
        failed=failed[:3],
    )


async def flood(task: Task) -> None:
    """Logins on a schedule, whether those before have ended or not."""
    done, refused = 0, []
    running: set[asyncio.Task[None]] = set()

    async def one() -> None:
        nonlocal done
        try:
            client = await opened(task)
        except Refused as error:
            refused.append(str(error))
            return
        client.transport.close()
        done += 1

    started = time.perf_counter()
    made = 0
    while (passed := time.perf_counter() - started) < task.seconds:
        while made < passed * task.flood:
            made += 1
            task_ = asyncio.create_task(one())
            running.add(task_)
            task_.add_done_callback(running.discard)
        await asyncio.sleep(0.001)
    in_time = done
    if running:
        await asyncio.wait(running)
    tell(tried=made, in_time=in_time, done=done, refused=len(refused), why=refused[:3])


async def work(task: Task) -> None:
    await (idle if task.idle else active if task.active else flood)(task)


class ManyClients:
    """The process. `told` waits for its next line."""

    def __init__(self, task: Task) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.many_clients", json.dumps(asdict(task))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def told(self) -> dict[str, Any]:
        line = cast(IO[str], self.process.stdout).readline()
        if not line:
            raise AssertionError(f"the clients' process ended with {self.process.wait()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def leave(self) -> dict[str, Any]:
        """Ends idle sessions; what it told then."""
        cast(IO[str], self.process.stdin).close()
        return self.told()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            cast(IO[str], stream).close()


@contextlib.contextmanager
def many_clients(task: Task) -> Iterator[ManyClients]:
    clients = ManyClients(task)
    try:
        yield clients
    finally:
        clients.close()


if __name__ == "__main__":
    uvloop.run(work(Task(**json.loads(sys.argv[1]))))
