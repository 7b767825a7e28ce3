"""Loads that are not reads of a session that lasts: logins, and calls over gRPC."""

from __future__ import annotations

import asyncio
import random

import grpc

from benchmarks.compare.load import Load, NotWhatItIsCalled, Run, all_hits
from benchmarks.compare.side import Counts, Side
from benchmarks.grpc_hits import EXECUTE, IN_FLIGHT
from proxy.mysql.wire.packets import COM_QUIT, ERR, packet
from upwell.token_file import Credentials
from upwell.v1 import upwell_pb2 as pb

USER, PASSWORD = "upwell_compare", "a password"


class Logins(Load):
    """One after the other: a login in the open, a first statement that is a hit, COM_QUIT. MySQL knows the password
    from the login before (caching_sha2_password), as a pool's."""

    def __init__(self, side: Side, first_statement: str, operations: int) -> None:
        self.operations = operations
        self._side = side
        self._sql = first_statement
        for _ in range(3):  # a cache's first answers are compared with MySQL's own
            self._login()

    def _login(self) -> None:
        client = self._side.connect(user=USER, password=PASSWORD)
        answer = client.query(self._sql)
        if answer[4] == ERR:
            raise NotWhatItIsCalled(f"{self._sql}: {answer[5:200]!r}")
        client.write(packet(bytes((COM_QUIT,)), 0))
        client.close()

    def round(self, number: int) -> Run:
        def run() -> None:
            for _ in range(self.operations):
                self._login()

        return run

    def check(self, counted: Counts, rounds: int) -> None:
        all_hits(counted, rounds * self.operations)

    def close(self) -> None:
        """Nothing is open between two rounds."""


class GrpcHits(Load):
    """Calls of Execute by a client that has the columns, IN_FLIGHT at a time on one connection."""

    def __init__(self, side: Side, cache: str, keys: range, operations: int) -> None:
        self.operations = operations
        self._token = Credentials(side.proxy.target, None).metadata()
        opened = side.client.cache(cache)
        for _ in range(2):
            for first in range(keys.start, keys.stop, 1000):
                opened.get_many(range(first, min(first + 1000, keys.stop)))
        self._runner = asyncio.Runner()
        self._channel = self._runner.run(self._open(side.proxy.target))
        self._call = self._channel.unary_unary(EXECUTE, bytes, bytes)
        asked = [pb.Key(parameters=[pb.Value(int=key)]) for key in keys]
        first_request = pb.ExecuteRequest(cache=cache, key=asked[0]).SerializeToString()
        known = pb.Answer.FromString(self._runner.run(self._ask(first_request))).columns_id
        self._requests = [
            pb.ExecuteRequest(cache=cache, key=key, columns_id=known).SerializeToString() for key in asked
        ]

    async def _open(self, target: str) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(target)

    async def _ask(self, request: bytes) -> bytes:
        answer: bytes = await self._call(request, metadata=self._token)
        return answer

    def round(self, number: int) -> Run:
        requests = random.Random(number).choices(self._requests, k=self.operations)

        async def worker(share: list[bytes]) -> None:
            for request in share:
                await self._ask(request)

        async def all_workers() -> None:
            await asyncio.gather(*(worker(requests[at::IN_FLIGHT]) for at in range(IN_FLIGHT)))

        return lambda: self._runner.run(all_workers())

    def check(self, counted: Counts, rounds: int) -> None:
        all_hits(counted, rounds * self.operations)

    def close(self) -> None:
        self._runner.run(self._channel.close(None))
        self._runner.close()
