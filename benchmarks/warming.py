"""Warms caches as they are measured: each key is asked for by the client, the protocol and the form of the measurement.

A key that another way has filled would hide what this way leaves cold for good.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any

from benchmarks.bench import SCRATCH
from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient, bound
from proxy.mysql.wire.packets import packet
from upwell.client import Client

CLIENTS = 8
LONGLONG = 8
MOST_ROUNDS = 20  # the first read of a kind is MySQL's, the first answers of a cache are compared with MySQL's own


def ask_each(
    proxy: ProxyProcess, client: Client, server: Server, query: str, keys: Sequence[Sequence[int]], *, prepared: bool
) -> None:
    """Eight clients ask for each of these keys in turns, until all are hits. A key has as many whole numbers as the
    query has placeholders. Raises AssertionError where some never are."""
    account: dict[str, Any] = {"user": server.user, "password": server.password, "database": SCRATCH}
    with ExitStack() as stack:
        askers = [stack.enter_context(RawClient("127.0.0.1", proxy.mysql_port, **account)) for _ in range(CLIENTS)]
        statements = [asker.prepare(query).id if prepared else None for asker in askers]
        hits = 0
        for _ in range(MOST_ROUNDS):
            before, upcoming = client.status().hits, iter(keys)
            while some := list(islice(upcoming, CLIENTS)):
                asked = list(zip(askers, statements, some, strict=False))
                for asker, statement, key in asked:
                    asker.write(command(asker, statement, query, key))
                for asker, _, _ in asked:
                    asker.result()
            hits = client.status().hits - before
            if hits >= len(keys):
                return
        raise AssertionError(f"{hits} hits of {len(keys)} keys that were asked for {MOST_ROUNDS} times")


def command(client: RawClient, statement: int | None, query: str, key: Iterable[int]) -> bytes:
    """The packet of an execution, or of the text with the key's numbers in it where there is no statement."""
    numbers = list(key)
    if statement is None:
        return packet(client.text(query.replace("?", "{}").format(*numbers)), 0)
    values = [struct.pack("<q", number) for number in numbers]
    return packet(client.execution(statement, bound((LONGLONG,) * len(numbers), values)), 0)
