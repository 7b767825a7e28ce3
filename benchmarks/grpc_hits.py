"""What a hit costs over gRPC: server CPU per call against a bare echo of the same bytes, and keys per CPU second.

Shows: how much of a call is gRPC's own. Each server is a process of its own on one event loop; a client process makes
the calls; the servers' CPU time is read from /proc before and after, and the servers take turns, so that a machine's
mood meets all alike. Rounds are printed and the median of the ratios counts. The system behind the service holds its
answers in a dictionary: what the engine costs is not in these figures (`benchmarks/` has that elsewhere), the whole
path from the socket is.

    python benchmarks/grpc_hits.py [--calls 20000] [--rounds 5] [--loop uvloop|asyncio] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from proxy.grpc.server import GrpcListener, GrpcOptions, channel_options
from sqltypes.expression import Row
from tests.support.fake_system import FakeSystem
from upwell.token_file import Metadata
from upwell.v1 import upwell_pb2 as pb

KEYS = 1000
IN_FLIGHT = 16
EXECUTE = "/upwell.v1.Upwell/Execute"
BATCH = "/upwell.v1.Upwell/ExecuteBatch"


async def start_upwell() -> int:
    system = FakeSystem()
    listener = GrpcListener(system, GrpcOptions(port=0))
    rows: dict[int, list[Row]] = {key: [(key, f"the title of story {key}")] for key in range(KEYS)}
    cache = system.caches.add("story", rows)
    for key in rows:
        await cache.read((key,))
    _KEEP.append(listener)
    return await listener.start()


async def start_echo(answers: dict[str, bytes]) -> int:
    """A server whose handlers return the bytes that Upwell answered."""

    def handler(answer: bytes) -> grpc.RpcMethodHandler[bytes, bytes]:
        async def echo(request: bytes, context: object) -> bytes:
            return answer

        return grpc.unary_unary_rpc_method_handler(echo)

    server = grpc.aio.server(options=channel_options(16 << 20))
    handlers = {path.rsplit("/")[-1]: handler(answer) for path, answer in answers.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("upwell.v1.Upwell", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    _KEEP.append(server)
    return port


_KEEP: list[object] = []


def serve(pipe: Connection, loop: str, answers: dict[str, bytes] | None) -> None:
    """A server process: sends its port, ends when the pipe closes."""

    async def main() -> None:
        pipe.send(await (start_upwell() if answers is None else start_echo(answers)))
        closed = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), closed.set)
        await closed.wait()
        os._exit(0)

    runner = uvloop.run if loop == "uvloop" else asyncio.run
    runner(main())


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server process and a channel to it."""

    def __init__(self, loop: str, answers: dict[str, bytes] | None) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, loop, answers))
        self.process.start()
        theirs.close()
        self.port: int = self._pipe.recv()

    def stop(self) -> None:
        self._pipe.close()
        self.process.join()


async def drive(port: int, path: str, requests: list[bytes], calls: int, metadata: Metadata = ()) -> float:
    """That many calls, IN_FLIGHT at a time; wall seconds."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=channel_options(16 << 20)) as channel:
        call = channel.unary_unary(path, bytes, bytes)

        async def worker(share: int, offset: int) -> None:
            for number in range(share):
                await call(requests[(offset + number) % len(requests)], metadata=metadata)

        await worker(50, 0)
        started = time.perf_counter()
        await asyncio.gather(*(worker(calls // IN_FLIGHT, 61 * index) for index in range(IN_FLIGHT)))
        return time.perf_counter() - started


def measure(server: Server, path: str, requests: list[bytes], calls: int) -> float:
    """Server CPU in microseconds per call."""
    assert server.process.pid is not None
    before = cpu_seconds(server.process.pid)
    asyncio.run(drive(server.port, path, requests, calls))
    return (cpu_seconds(server.process.pid) - before) / calls * 1e6


async def answers_of(port: int, requests: dict[str, bytes], metadata: Metadata = ()) -> dict[str, bytes]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        return {
            path: await channel.unary_unary(path, bytes, bytes)(request, metadata=metadata)
            for path, request in requests.items()
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    upwell = Server(options.loop, None)
    singles, batches = requests(upwell.port)
    echo = Server(options.loop, asyncio.run(answers_of(upwell.port, {EXECUTE: singles[0], BATCH: batches[0]})))
    rounds = [one_round(upwell, echo, singles, batches, options.calls) for _ in range(options.rounds)]
    upwell.stop()
    echo.stop()
    ratio = statistics.median(figures["hit_us"] / figures["echo_us"] for figures in rounds)
    keys = statistics.median(figures["batch_keys_per_cpu_second"] for figures in rounds)
    print(f"{options.loop}: a hit costs {ratio:.3f} of an echo; {keys:,.0f} keys per CPU second in batches of 100")
    if options.json:
        result = {"loop": options.loop, "hit_to_echo": ratio, "batch_keys_per_cpu_second": keys, "rounds": rounds}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def requests(port: int) -> tuple[list[bytes], list[bytes]]:
    """Execute for each key and ExecuteBatch for each hundred, from a client that has the columns."""
    keys = [pb.Key(parameters=[pb.Value(int=number)]) for number in range(KEYS)]
    first = pb.ExecuteRequest(cache="story", key=keys[0]).SerializeToString()
    known = pb.Answer.FromString(asyncio.run(answers_of(port, {EXECUTE: first}))[EXECUTE]).columns_id
    singles = [pb.ExecuteRequest(cache="story", key=key, columns_id=known).SerializeToString() for key in keys]
    batches = [
        pb.ExecuteBatchRequest(cache="story", keys=keys[start : start + 100], columns_id=known).SerializeToString()
        for start in range(0, KEYS, 100)
    ]
    return singles, batches


def one_round(upwell: Server, echo: Server, singles: list[bytes], batches: list[bytes], calls: int) -> dict[str, float]:
    """The four figures, Upwell and the echo by turns."""
    batch_calls = max(calls // 10, IN_FLIGHT)
    figures = {
        "hit_us": measure(upwell, EXECUTE, singles, calls),
        "echo_us": measure(echo, EXECUTE, singles, calls),
        "batch_us": measure(upwell, BATCH, batches, batch_calls),
        "batch_echo_us": measure(echo, BATCH, batches, batch_calls),
    }
    figures["batch_keys_per_cpu_second"] = 100 / figures["batch_us"] * 1e6
    print("  ".join(f"{name} {figure:,.0f}" for name, figure in figures.items()))
    return figures


if __name__ == "__main__":
    sys.exit(main())
