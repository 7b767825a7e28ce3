"""Reads over MySQL's protocol, asked of both sides at the same cost to the client.

Each of some sessions is sent a command, then each answer is taken, unread, by its length. So the proxy is busy nearly
all of the time, and what falling asleep and waking up cost hardly counts.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.compare.load import Load, NotWhatItIsCalled, Run, all_hits, all_misses, all_passed
from benchmarks.compare.side import Counts, Side
from integration.support.raw_client import bound, bound_before
from proxy.mysql.wire.packets import ERR, packet

LONGLONG = 8
SESSIONS = 8
WARMING = 6  # times that every key is asked for, until all are hits
COMPARED = 64  # the first answers of a new cache are compared with MySQL's own, 32 by default

CHECKS: dict[str, Callable[[Counts, int], None]] = {"hit": all_hits, "miss": all_misses, "pass": all_passed}


@dataclass(frozen=True, slots=True)
class Reads:
    """A kind of reads by one SELECT, whose answers all have as many bytes.

    `serves`: "hit", "miss" or "pass". `keys`: the values of `?` that there are, for lists each a list; hits and passed
    reads draw from them, misses take one after the other. `prepared`: executions, else texts. `before`: what a session
    is told first. `in_transaction`: after so many reads of a session comes COMMIT; then that is an operation.
    """

    sql: str
    serves: str
    keys: Sequence[tuple[int, ...]]
    operations: int
    prepared: bool = False
    sessions: int = SESSIONS
    before: tuple[str, ...] = ()
    in_transaction: int = 0


class Lane:
    """A session that asks one SELECT."""

    def __init__(self, side: Side, reads: Reads, *, prepared: bool) -> None:
        self.client = side.connect()
        for statement in reads.before:
            self.client.query(statement)
        self._sql = reads.sql
        self._statement = self.client.prepare(reads.sql).id if prepared else None
        self._types_told = False

    def command(self, key: Sequence[int]) -> bytes:
        """The packet. The first one of a prepared statement tells its parameters' types, as drivers do."""
        if self._statement is None:
            text = self._sql
            for value in key:
                text = text.replace("?", str(value), 1)
            return packet(self.client.text(text), 0)
        values = [struct.pack("<q", value) for value in key]
        parameters = bound_before(values) if self._types_told else bound((LONGLONG,) * len(key), values)
        self._types_told = True
        return packet(self.client.execution(self._statement, parameters), 0)

    def ask(self, key: Sequence[int]) -> bytes:
        """The answer. Raises NotWhatItIsCalled where it is an error."""
        return self.send(self.command(key))

    def send(self, command: bytes) -> bytes:
        self.client.write(command)
        return self.answer()

    def answer(self) -> bytes:
        answer = self.client.result()
        if answer[4] == ERR:
            raise NotWhatItIsCalled(f"{self._sql}: {answer[5:200]!r}")
        return answer


class Asked(Load):
    """`Reads` on one side."""

    def __init__(self, reads: Reads, side: Side) -> None:
        self.reads = reads
        self.operations = reads.operations
        self._side = side
        self._lanes = self._open(prepared=reads.prepared)
        if reads.serves == "hit":
            self._warm()
        elif reads.serves == "miss":
            for key in reads.keys[-COMPARED:]:
                self._lanes[0].ask(key)
        self._length = len(self._lanes[0].ask(reads.keys[-1]))
        for lane in self._lanes:  # what a session does but once
            lane.ask(reads.keys[-1])
            self._commit([lane])

    def _open(self, *, prepared: bool) -> list[Lane]:
        return [Lane(self._side, self.reads, prepared=prepared) for _ in range(self.reads.sessions)]

    # -- warming -------------------------------------------------------------------------------------------------------

    def _warm(self) -> None:
        """Until each key is a hit in the way in which it will be asked. Raises NotWhatItIsCalled."""
        if self._all_hit(self._lanes):
            return
        if self.reads.prepared:
            texts = self._open(prepared=False)
            self._all_hit(texts)
            for lane in texts:
                lane.client.close()
            if self._all_hit(self._lanes):
                self.note = f"{self._side.tree.name} fills nothing for these prepared reads: warmed by texts"
                return
        raise NotWhatItIsCalled(f"{self.reads.sql}: {WARMING} times asked, and not every key is a hit")

    def _all_hit(self, lanes: Sequence[Lane]) -> bool:
        for _ in range(WARMING):
            before = self._side.counts()
            for first in range(0, len(self.reads.keys), len(lanes)):
                asked = list(zip(lanes, self.reads.keys[first : first + len(lanes)], strict=False))
                for lane, key in asked:
                    lane.client.write(lane.command(key))
                for lane, _ in asked:
                    lane.answer()
            self._commit(lanes)
            if (self._side.counts() - before).hits >= len(self.reads.keys):
                return True
        return False

    def _commit(self, lanes: Iterable[Lane]) -> None:
        if self.reads.in_transaction:
            for lane in lanes:
                lane.send(packet(lane.client.text("COMMIT"), 0))

    # -- rounds --------------------------------------------------------------------------------------------------------

    def round(self, number: int) -> Run:
        reads, lanes = self.reads, self._lanes
        count = reads.operations * max(reads.in_transaction, 1)
        if reads.serves == "miss":
            first = (number * count) % len(reads.keys)
            keys: Sequence[tuple[int, ...]] = reads.keys[first : first + count]
            if len(keys) < count or first + count > len(reads.keys) - COMPARED:
                raise NotWhatItIsCalled(f"{reads.sql}: there are not enough keys for so many rounds")
        else:
            keys = random.Random(number).choices(reads.keys, k=count)
        commands = [lanes[at % len(lanes)].command(key) for at, key in enumerate(keys)]
        before_commit = reads.in_transaction * len(lanes)

        def run() -> None:
            for first in range(0, len(commands), len(lanes)):
                batch = list(zip(lanes, commands[first : first + len(lanes)], strict=False))
                for lane, command in batch:
                    lane.client.socket.sendall(command)
                for lane, _ in batch:
                    take(lane.client.socket, self._length)
                if before_commit and (first + len(lanes)) % before_commit == 0:
                    self._commit(lanes)

        return run

    def check(self, counted: Counts, rounds: int) -> None:
        CHECKS[self.reads.serves](counted, rounds * self.operations * max(self.reads.in_transaction, 1))

    def close(self) -> None:
        for lane in self._lanes:
            lane.client.quit()


def take(connection: socket.socket, length: int) -> None:
    """An answer of so many bytes. Raises NotWhatItIsCalled for another one."""
    while length > 0:
        got = connection.recv(1 << 16)
        if not got:
            raise NotWhatItIsCalled("the proxy has closed the connection")
        length -= len(got)
    if length:
        raise NotWhatItIsCalled(f"an answer is {-length} bytes too long")
