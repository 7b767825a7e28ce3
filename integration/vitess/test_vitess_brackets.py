"""The bracket of an answer of several shards, on a real vtgate: while others write, each answer has of each shard all
that is below its bracket, nothing that is above it, and of what is in between whole transactions."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import closing, suppress
from typing import Any

import pymysql
import pytest

from dataflow.messages import Statement, StreamEvent, Transaction
from external_upquery.connection import Connection
from external_upquery.login import CLIENT_DEPRECATE_EOF, Login
from external_upquery.protocol import Answer
from external_upquery.vitess.snapshot import plan, read
from gtid_tracker.bracket import NOTHING, Bracket
from gtid_tracker.gtid import Gtid
from integration.vitess.cluster import Cluster
from integration.vitess.shop import ITEM, SHARDED, SHARDS, WRITES, executed, write
from integration.vitess.test_vitess_stream import Reading
from sqltypes.expression import Row, Value

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


WRITERS, ANSWERS = 3, 150
OF_A_ROW = WRITES[:3]
QUERY = Statement("SELECT id, n, name FROM item WHERE SLEEP(0.0002) = 0")  # others commit meanwhile
State = dict[Value, Row]


def log_in(cluster: Cluster) -> Login:
    connection: Any = cluster.connect(SHARDED, client_flag=CLIENT_DEPRECATE_EOF)
    sock, version = connection._sock, connection.server_version
    deprecate_eof = bool(connection.server_capabilities & CLIENT_DEPRECATE_EOF)
    connection._sock = None  # it is ours now
    sock.settimeout(0)
    return Login(sock, connection.server_thread_id[0], version, deprecate_eof)


async def answers_of(cluster: Cluster, stop: threading.Event) -> list[tuple[Bracket, list[Row]]]:
    loop, found = asyncio.get_running_loop(), []
    connection = Connection(log_in(cluster), loop)
    sending = plan((QUERY,), SHARDED, SHARDS)
    for _ in range(ANSWERS):
        told: asyncio.Future[list[Answer]] = loop.create_future()
        connection.run(sending.packets, sending.count, told.set_result)  # type: ignore[arg-type]  # no error is expected
        outcome = read(sending, await asyncio.wait_for(told, 30))
        assert not isinstance(outcome, Exception), outcome
        bracket, (result,) = outcome
        found.append((bracket, result.rows))
    connection.close()
    stop.set()
    return found


def write_on(cluster: Cluster, seed: int, stop: threading.Event) -> None:
    """One writes in transactions of several shards, the others a row at a time: none waits for the other's locks in
    two places."""
    rng, number = random.Random(seed), 0
    with closing(cluster.connect(SHARDED)) as connection, connection.cursor() as cursor:
        while not stop.is_set():
            number += 1
            if seed == 0:
                write(cursor, rng, number)
            else:
                with suppress(pymysql.err.MySQLError):  # it has waited for a lock
                    cursor.execute(rng.choice(OF_A_ROW).format(id=rng.randrange(60), n=number))


class History:
    """What the stream has told: each shard's transactions, and which ids are whose."""

    def __init__(self) -> None:
        self.transactions: dict[Gtid, Transaction] = {}
        self.source_of: dict[Value, str] = {}

    def sink(self, event: StreamEvent) -> None:
        if isinstance(event, Transaction):
            self.transactions[event.gtid] = event
            for change in event.changes:
                for before, after in change.pairs:
                    self.source_of[(before or after or ())[0]] = event.gtid.source

    def explains(self, source: str, bracket: Bracket, rows: State) -> bool:
        """Whether a shard had these rows when it had committed all that is below, and then, in the order in which it
        did, some of what is uncertain."""
        of_shard = sorted(gtid for gtid in self.transactions if gtid.source == source)
        held: State = {}
        for gtid in of_shard:
            if gtid in bracket.lower:
                self._apply(gtid, held)
        for gtid in of_shard:
            if held == rows:
                return True
            if gtid in bracket.uncertain:
                self._apply(gtid, held)
        return held == rows

    def _apply(self, gtid: Gtid, held: State) -> None:
        for change in self.transactions[gtid].changes:
            for before, after in change.pairs:
                if before is not None:
                    held.pop(before[0], None)
                if after is not None:
                    held[after[0]] = after


def test_answers_of_two_shards_are_within_their_brackets(vitess: Cluster) -> None:
    vitess.execute(SHARDED, "DELETE FROM item")
    history, stop = History(), threading.Event()
    reading = Reading(vitess, SHARDED, ["item"], history.sink)
    reading.assembler.want(ITEM, frozenset({"id", "n", "name"}))
    with reading.under_way():
        threads = [threading.Thread(target=write_on, args=(vitess, seed, stop)) for seed in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            found = asyncio.run(answers_of(vitess, stop))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        reading.until(executed(vitess, SHARDED))
    uuids = [
        mysql.execute("SELECT @@server_uuid")[0][0]
        for (keyspace, _), mysql in vitess.mysqls.items()
        if keyspace == SHARDED
    ]
    doubts = forgetful = 0
    for bracket, rows in found:
        doubts += bool(bracket.uncertain)
        for uuid in uuids:
            of_shard = {row[0]: row for row in rows if history.source_of[row[0]] == uuid}
            assert history.explains(uuid, bracket, of_shard), bracket
            without = Bracket(bracket.history, bracket.lower, NOTHING, bracket.lower)
            forgetful += not history.explains(uuid, without, of_shard)
    assert forgetful > ANSWERS / 20, "who forgot what is uncertain would be found"
    assert doubts > ANSWERS / 20 and len(history.transactions) > ANSWERS, "others wrote meanwhile"


def test_a_shard_that_is_not_there_is_an_error(vitess: Cluster) -> None:
    with pytest.raises(pymysql.err.MySQLError):
        vitess.execute(SHARDED, "USE `shop:-40`", "SELECT @@global.gtid_executed")
