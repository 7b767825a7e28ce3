"""A hit over gRPC in a running proxy, with everything behind it: server CPU per call against a bare grpcio echo of the
same bytes, and keys per CPU second in batches of 100.

`grpc_hits.py` measures the service alone; here the engine, the stream and the memory guard run, too.
"""

from __future__ import annotations

import asyncio
from statistics import median

from benchmarks.bench import Bench
from benchmarks.grpc_hits import BATCH, EXECUTE, Server, answers_of, drive
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cpu import process_seconds
from examples.lobsters.load import DATABASE
from upwell.token_file import Credentials, Metadata
from upwell.v1 import upwell_pb2 as pb

KEYS, ROUNDS = 1000, 15
QUERY = "SELECT id, title FROM stories WHERE id = ?"


def run(bench: Bench) -> Result:
    bench.sample()
    calls = max(1_000, int(4_000 * bench.seconds))
    rows: list[tuple[float, float, float]] = []
    with bench.proxy() as (proxy, client):
        client.create_cache(QUERY, name="story", database=DATABASE)
        client.cache("story").get_many(range(1, KEYS + 1))
        token = Credentials(proxy.target, None).metadata()
        singles, batches = requests(proxy.grpc_port, token)
        answers = asyncio.run(answers_of(proxy.grpc_port, {EXECUTE: singles[0], BATCH: batches[0]}, token))
        echo = Server("uvloop", answers)
        try:
            assert echo.process.pid is not None
            for _ in range(ROUNDS):  # in turns, so that the machine's mood meets both alike
                hit = cpu_per_call(proxy.pid, proxy.grpc_port, EXECUTE, singles, calls, token)
                bare = cpu_per_call(echo.process.pid, echo.port, EXECUTE, singles, calls, token)
                batch = cpu_per_call(proxy.pid, proxy.grpc_port, BATCH, batches, calls // 4, token)
                rows.append((hit, bare, 100 / batch * 1e6))
        finally:
            echo.stop()
    result = Result("hits", sheets=[Sheet("server CPU", ("round", "hit us", "echo us", "batch keys per CPU second"))])
    result.sheets[0].rows += [(str(number), *row) for number, row in enumerate(rows, 1)]
    ratio, keys = median(hit / bare for hit, bare, _ in rows), median(row[2] for row in rows)
    result.figures.append(Figure("CPU of a hit against a bare echo of the same bytes", ratio, "x"))
    result.figures.append(Figure("keys per CPU second in batches of 100", keys, "keys/s"))
    return result


def cpu_per_call(pid: int, port: int, path: str, requests: list[bytes], calls: int, token: Metadata) -> float:
    """Microseconds of the server."""
    before = process_seconds(pid)
    asyncio.run(drive(port, path, requests, calls, token))
    return (process_seconds(pid) - before) / calls * 1e6


def requests(port: int, token: Metadata) -> tuple[list[bytes], list[bytes]]:
    """Execute for each key and ExecuteBatch for each hundred, from a client that has the columns."""
    keys = [pb.Key(parameters=[pb.Value(int=number)]) for number in range(1, KEYS + 1)]
    first = pb.ExecuteRequest(cache="story", key=keys[0]).SerializeToString()
    known = pb.Answer.FromString(asyncio.run(answers_of(port, {EXECUTE: first}, token))[EXECUTE]).columns_id
    singles = [pb.ExecuteRequest(cache="story", key=key, columns_id=known).SerializeToString() for key in keys]
    batches = [
        pb.ExecuteBatchRequest(cache="story", keys=keys[at : at + 100], columns_id=known).SerializeToString()
        for at in range(0, KEYS, 100)
    ]
    return singles, batches
