"""What a hit over MySQL's protocol costs Upwell itself: microseconds of Python from a packet's bytes to the answer's,
without the sockets, which cost several times as much.

In this process: a proxy on a loop in a thread, a session of a real client, and packets handed to where its socket's
bytes arrive. The keys are asked for at random, so that finding them costs what it costs in a large cache.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, cast

from benchmarks.bench import SCRATCH, Bench
from benchmarks.points import QUERY, ROWS, load_points
from benchmarks.result import Result, Sheet
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound, bound_before
from proxy.mysql.session.relay import Relay
from proxy.mysql.wire.packets import packet

PACKETS = 5000
ROUNDS = 15  # the least of them counts: whatever else runs here only adds
LONGLONG = 8
ASKED = 3  # times: the first read of a kind is MySQL's, the first answers of a cache are compared
IN_TRANSACTION = 500  # a REPEATABLE READ transaction is shown 1,000 answers at most


@dataclass(frozen=True, slots=True)
class Kind:
    """`before`: what the session is told first."""

    name: str
    packets: Callable[[RawClient, Sequence[int]], list[bytes]]
    before: tuple[str, ...] = ()
    count: int = PACKETS


def prepared(client: RawClient, keys: Sequence[int]) -> list[bytes]:
    statement = client.prepare(QUERY).id
    client.execute(statement, bound((LONGLONG,), (struct.pack("<q", keys[0]),)))
    return [packet(client.execution(statement, bound_before((struct.pack("<q", key),))), 0) for key in keys]


def two_in_turns(client: RawClient, keys: Sequence[int]) -> list[bytes]:
    first, second = prepared(client, keys), prepared(client, keys)
    return [second[at] if at % 2 else first[at] for at in range(len(keys))]


def text(client: RawClient, keys: Sequence[int]) -> list[bytes]:
    return [packet(client.text(QUERY.replace("?", str(key))), 0) for key in keys]


KINDS = (
    Kind("prepared", prepared),
    Kind("two prepared statements in turns", two_in_turns),
    Kind("text", text),
    Kind("text, READ COMMITTED", text, ("SET SESSION transaction_isolation = 'READ-COMMITTED'", "SET autocommit = 0")),
    Kind("text, REPEATABLE READ", text, ("SET autocommit = 0",), IN_TRANSACTION),
)


def run(bench: Bench) -> Result:
    load_points(bench)
    sheet = Sheet(f"hits, {ROWS:,} keys at random, without the sockets", ("way", "us a hit"))
    result = Result("mysql_hit_path", sheets=[sheet])
    with proxy_in_thread(bench.server, SCRATCH, bench.folder / "hit_path", check="false") as beside:
        for kind in KINDS:
            sheet.rows.append((kind.name, measure(beside, kind)))
            beside.at_rest()
    return result


def measure(beside: Beside, kind: Kind) -> float:
    """Microseconds a hit. Raises AssertionError where one of them was none."""
    with beside.client() as client:
        client.query("CREATE CACHE points FROM " + QUERY)
        for sql in kind.before:
            client.query(sql)
        for first in range(1, ROWS + 1, kind.count):  # fills each key by this kind of read
            fill(client, kind, range(first, first + kind.count))
        packets = fill(client, kind, [random.randrange(1, ROWS + 1) for _ in range(kind.count)])
        (session,) = beside.shared.sessions
        least = min(beside.call(lambda: of_one(session.relay, packets)) for _ in range(ROUNDS))
        client.query("DROP CACHE points")
    return least


def fill(client: RawClient, kind: Kind, keys: Sequence[int]) -> list[bytes]:
    """Reads these keys, as often as it takes until each is a hit; the packets."""
    packets = kind.packets(client, keys)
    for _ in range(ASKED):
        for one in packets:
            client.write(one)
            client.result()
        if kind.before:
            client.query("COMMIT")
    return packets


def of_one(relay: Relay, packets: Sequence[bytes]) -> float:
    answers: list[bytes] = []
    write, relay.client.write = relay.client.write, cast(Any, answers.append)
    received = relay.receiver(answers.append)
    try:
        started = perf_counter_ns()
        for one in packets:
            received(one)
        used = perf_counter_ns() - started
    finally:
        relay.client.write = write
    if len(answers) != len(packets):
        raise AssertionError(f"{len(answers)} answers of {len(packets)} hits at once")
    return used / len(packets) / 1000
