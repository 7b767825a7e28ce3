"""Shows how fast the change stream turns a server's bytes into messages, from memory: no socket, no engine.

Six columns (bigint, int, bigint unsigned, varchar, decimal, datetime(6)), all wanted; then the same bytes when the
table is not wanted. Single-row transactions are what applications write, multi-row ones what bulk loads do. Rates are
per second of CPU, so that a busy machine does not blur them; the best of three.
Run: python -m benchmarks.stream_bytes [transactions]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from dataflow.messages import StreamEvent
from gtid_tracker.gtid import MutableGtidSet
from tests.support.binlog_bytes import COLLATIONS, BinlogTable, packets, transaction
from vstream.binlog.assemble import Assembler
from vstream.binlog.decode import TableDecoders
from vstream.binlog.dump import take
from vstream.binlog.packets import PacketBuffer

KINDS = ("bigint", "int", "unsigned", "varchar", "decimal", "datetime")
ROWS_PER_EVENT = 100
REPEATS = 3


def row(number: int) -> tuple[object, ...]:
    return (
        number,
        number % 1000,
        number * 7,
        f"name {number % 5000}",
        f"{number % 900}.25",
        f"2024-03-04 05:06:07.{number:06d}",
    )


def drain(data: bytes, wanted: Sequence[BinlogTable]) -> tuple[float, int]:
    """(CPU seconds, messages) for decoding the bytes, in pieces as a socket would give them."""
    messages: list[StreamEvent] = []
    tables = TableDecoders()
    tables.charsets = COLLATIONS
    assembler = Assembler(tables, MutableGtidSet(), messages.append)
    for table in wanted:
        assembler.want(table.table, frozenset(column.name for column in table.table.columns))
    buffer = PacketBuffer()
    started = time.process_time()
    for at in range(0, len(data), 262_144):
        buffer.feed(data[at : at + 262_144])
        while take(buffer, assembler):
            pass
        messages.clear()
    return time.process_time() - started, len(messages)


def report(name: str, data: bytes, wanted: Sequence[BinlogTable], count: int, unit: str) -> None:
    seconds = min(drain(data, wanted)[0] for _ in range(REPEATS))
    print(f"{name:<44} {count / seconds:>12,.0f} {unit}/s {len(data) / seconds / 1e6:>8.0f} MB/s")


def main(count: int) -> None:
    table = BinlogTable("t", KINDS)
    rows = [row(number) for number in range(count)]
    changed = [(number, *rest) for (number, *_), (_, *rest) in zip(rows, reversed(rows), strict=True)]
    single = {
        "insert": [e for n in range(count) for e in transaction(n + 1, table.map(), table.inserts(rows[n]))],
        "update": [
            e for n in range(count) for e in transaction(n + 1, table.map(), table.updates((rows[n], changed[n])))
        ],
    }
    many: dict[str, list[bytes]] = {"insert": [], "update": []}
    for number, at in enumerate(range(0, count, ROWS_PER_EVENT), 1):
        part = rows[at : at + ROWS_PER_EVENT]
        pairs = list(zip(part, changed[at : at + ROWS_PER_EVENT], strict=True))
        many["insert"] += transaction(number, table.map(), table.inserts(*part))
        many["update"] += transaction(number, table.map(), table.updates(*pairs))
    for name, events in single.items():
        report(f"{name}, single-row transactions", packets(events), (table,), count, "tx ")
        report(f"{name}, single-row, table not wanted", packets(events), (), count, "tx ")
    for name, events in many.items():
        report(f"{name}, {ROWS_PER_EVENT} rows a transaction", packets(events), (table,), count, "row")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
