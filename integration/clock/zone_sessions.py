"""Sessions at MySQL and through the proxy that are asked the same in the same time zone, byte by byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

from integration.oracle.answers import parse
from integration.support.proxy_thread import Beside
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served
from proxy.mysql.wire.packets import lenenc


def query_of(sql: str) -> str:
    return sql.replace("'{}'", "?").replace("{}", "?")


class Pair:
    """A session at MySQL and one through the proxy, of the same time zone."""

    def __init__(self, beside: Beside, zone: str) -> None:
        self.beside = beside
        self.through, self.direct = beside.client(), beside.direct()
        self.served: Counter[str] = Counter()
        self.prepared: dict[str, tuple[int, int]] = {}
        self.move(zone)

    def move(self, zone: str) -> None:
        """To another time zone."""
        self.zone = zone
        self.both(f"SET time_zone = '{zone}'")

    def both(self, sql: str) -> None:
        """Has both run a statement that gives no rows."""
        for client in (self.through, self.direct):
            assert not parse(client.query(sql), binary=False).errno

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.through.close()
        self.direct.close()

    def compare(self, sql: str) -> None:
        wanted = told(self.direct.query(sql), binary=False)
        assert told(self.through.query(sql), binary=False) == wanted, f"{self.zone}: {sql}"
        self._note(sql)

    def _note(self, sql: str) -> None:
        self.served[last_served(self.beside, self.through).split(" ")[0]] += 1

    def execute(self, client: RawClient, sql: str, values: Sequence[object]) -> bytes:
        known = self.prepared.get(sql)
        if known is None:
            known = self.prepared[sql] = (self.through.prepare(sql).id, self.direct.prepare(sql).id)
        types = [8 if isinstance(value, int) else 253 for value in values]
        sent = [
            value.to_bytes(8, "little") if isinstance(value, int) else lenenc(str(value).encode()) for value in values
        ]
        return client.execute(known[client is self.direct], bound(types, sent))

    def compare_bound(self, sql: str, *values: object) -> None:
        wanted = told(self.execute(self.direct, sql, values), binary=True)
        assert told(self.execute(self.through, sql, values), binary=True) == wanted, f"{self.zone}: {sql} {values}"
        self._note(sql)


def told(data: bytes, *, binary: bool) -> object:
    found = parse(data, binary=binary)
    return (found.errno, found.message) if found.errno else (found.definitions, found.rows)
