"""Whole logins on real sockets whose other ends say anything, in any order, and go at any moment: each login ends in
time, with two connections or with an error that the client was told, and no socket is left.
"""

from __future__ import annotations

import asyncio
import random
import socket
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from external_upquery.address import Upstream
from proxy.mysql.login.handshake import LoginSettings, log_in
from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.login.login_packets import tls_request
from proxy.mysql.wire.packets import packet
from sqltypes.errors import ClientLeft, UpwellError
from tests.fuzz.bench import JumpingLoop, none_unraised
from tests.fuzz.payloads import cut, mutated, numbered
from tests.fuzz.shrinking import Step, listed, smaller_steps
from tests.fuzz.system import Counts
from tests.support.mysql_packets import error, ok
from tests.support.scripted_mysql import NO_TLS, greeting, handshake_response
from tests.support.waiting import turns

SECONDS = 10.0
CAPABILITIES = NO_TLS & ~(1 << 3 | 1 << 5 | 1 << 11 | 1 << 20 | 1 << 21 | 1 << 26)
SWITCH = b"\xfecaching_sha2_password\0" + b"n" * 20 + b"\0"


@dataclass(frozen=True, slots=True)
class LoginCase:
    """What either side says, in order. `unix`: the connection to MySQL counts as safe, and its account is asked for."""

    seed: int
    unix: bool
    steps: tuple[Step, ...]

    @property
    def kind(self) -> str:
        return "logins"

    def run(self, counts: Counts) -> None:
        loop = JumpingLoop()
        unhandled: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: unhandled.append(context))
        with none_unraised(), warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                counts[f"login: {loop.run_until_complete(self._play())}"] += 1
                assert not asyncio.all_tasks(loop), "a task is left"
            finally:
                loop.close()
        for context in unhandled:
            raise AssertionError(context) from context.get("exception")

    def smaller(self) -> Iterator[LoginCase]:
        for steps in smaller_steps(self.steps, whole=False):
            yield replace(self, steps=steps)

    def script(self) -> str:
        return (
            f"from tests.fuzz.logins import LoginCase\n"
            f"LoginCase({self.seed}, {self.unix}, {listed(self.steps)}).run(Counter())"
        )

    async def _play(self) -> str:
        """How the login ended."""
        rng = random.Random(self.seed)
        client, client_end = socket.socketpair()
        server, server_end = socket.socketpair()
        server.setblocking(False)
        client_end.setblocking(False)
        server_end.setblocking(False)

        async def connect(_: Upstream) -> socket.socket:
            return server

        upstream = Upstream(host="mysql", port=3306, user="", password="", unix_socket="/x" if self.unix else "")
        with patch("proxy.mysql.login.handshake.connected", connect):
            settings = LoginSettings(upstream, None, False, None, SECONDS)
            login = asyncio.ensure_future(log_in(client, settings))
            for name, data in self.steps:
                end = client_end if name.startswith("client") else server_end
                with suppress(OSError):
                    if name.endswith("ends"):
                        end.shutdown(socket.SHUT_WR)
                    elif name.endswith("breaks"):
                        end.close()
                    else:
                        end.send(data)
                await turns(rng.choice((0, 1, 8)))
            try:
                ended = await self._ended(login, client_end)
                await asyncio.sleep(1)
                for sock in (client, server):
                    assert sock.fileno() < 0, "a socket is left"
            finally:
                client_end.close()
                server_end.close()
                await turns(8)  # a transport that is left sees the end, and lets go of its socket
                client.close()
                server.close()
        return ended

    async def _ended(self, login: asyncio.Future[LoggedIn], client_end: socket.socket) -> str:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            logged_in = await login
        except UpwellError as error:
            gone = {"client ends", "client breaks"} & {name for name, _ in self.steps}
            if not isinstance(error, ClientLeft) and not gone:
                await asyncio.sleep(1)
                received = b""
                with suppress(OSError):
                    while more := client_end.recv(1 << 16):
                        received += more
                told = [payload for _, payload in cut(received) if payload[:1] == b"\xff"]
                assert told, f"the client was not told: {error}"
            return type(error).__name__
        finally:
            assert loop.time() - began <= SECONDS + 2, "a login took longer than it may"
        logged_in.client.abort()
        logged_in.server.abort()
        return "accepted"


def login_case(rng: random.Random) -> LoginCase:
    steps = a_dialogue(rng)
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        at = rng.randrange(len(steps))
        name, data = steps[at]
        kind = rng.randrange(6)
        if kind < 2 and data:
            steps[at] = name, mutated(rng, data)
        elif kind == 2 and data:
            cut_at = rng.randrange(len(data))
            steps[at : at + 1] = [(name, data[:cut_at]), (name, data[cut_at:])]
        elif kind == 3:
            steps.insert(at, (rng.choice(("client ends", "server ends", "client breaks", "server breaks")), b""))
        elif kind == 4:
            steps.insert(at, (rng.choice(("client", "server")), rng.randbytes(rng.choice((3, 40)))))
        elif len(steps) > 1:
            del steps[at]
    return LoginCase(rng.randrange(1 << 30), rng.random() < 0.3, tuple(steps))


def a_dialogue(rng: random.Random) -> list[Step]:
    """As a client and MySQL have it."""
    plugin = rng.choice((b"caching_sha2_password", b"mysql_native_password", b"sha256_password"))
    capabilities = CAPABILITIES ^ (1 << 4 if rng.random() < 0.1 else 0)
    response = handshake_response(answer=b"a" * 20, plugin=plugin, capabilities=capabilities)
    if rng.random() < 0.05:
        response = tls_request(capabilities, 1 << 24, 255)
    steps: list[Step] = [
        ("server", packet(rng.choice((greeting(), greeting(plugin=plugin), error(1040, "08004", "Too many"))), 0)),
        ("client", packet(response, 1)),
    ]
    client_number = server_number = 2
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        asked = rng.choice((SWITCH, b"\1\4", b"\1\3", b"\1" + b"k" * 400, b"\2webauthn\0x", b"\xfe"))
        steps.append(("server", packet(asked, server_number)))
        server_number += 1
        client_number += 1
        if asked != b"\1\3":
            steps.append(("client", packet(rng.choice((b"", b"\2", b"\1", b"secret\0", b"s" * 256)), client_number)))
            server_number += 1
            client_number += 1
    steps.append(("server", packet(rng.choice((ok(), ok(), error(1045, "28000", "no"))), server_number)))
    steps.append(("server", numbered([b"\1", b"d" * 20, b"\4root", ok(0xFE)])))  # who the account is
    return steps
