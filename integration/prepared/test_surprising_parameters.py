"""Parameters of every type beside columns of every type, as clients send them: '1' for 1, 1.0 for '1', trailing spaces,
'A' for 'ä', zero dates, numbers that fit nowhere. Whatever was asked for before, every answer is MySQL's own.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from integration.planner_truth.differential import true_rows
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.random_tables import KINDS, Kind
from upwell.errors import BadParameters, SourceError, UnsupportedQuery

MORE: tuple[Any, ...] = (
    0,
    1,
    -1,
    1.5,
    "",
    "a",
    "1",
    " 1",
    "1.0",
    "1e0",
    "1abc",
    b"a",
    2**63,
    2**64 - 1,
    -(2**63),
    None,
)
FINER: tuple[Any, ...] = (
    datetime(2024, 1, 2, 23, 0, 0, 400000),
    datetime(2024, 1, 2, 22, 59, 59, 600000),
    datetime(2024, 1, 2, 23),
    datetime(2024, 2, 29, 12, 34, 56, 789400),
    date(2024, 1, 2),
    time(23, 0, 0, 400000),
    time(23),
    timedelta(hours=23, microseconds=400000),
    "2024-01-02 23:00:00.4",
    "2024-01-02 23:00:00.000",
    "2024-01-02 23:00:00",
    "23:00:00.4",
    "23:00:00",
    Decimal("0.4"),
    Decimal("1.101"),
    Decimal("9007199254740993"),
    9007199254740993,
    9007199254740992.0,
    1.1,
    b"1",
    True,
)
MOMENTS = ("'2024-01-02 23:00:00'", "'2024-01-02 23:00:01'", "'2024-01-03'")
WHOLE_SECONDS = (
    Kind("k0", "DATETIME", "time", (*MOMENTS, "'0000-00-00'", "'2024-00-00'"), FINER),
    Kind("r0", "TIME", "clock", ("'23:00:00'", "'23:00:01'", "'-01:00:00'", "'00:00:00'", "'11:12:13'"), FINER),
)
SHAPES = {
    "equal": "SELECT id FROM {t} WHERE v = ?",
    "null_safe": "SELECT id FROM {t} WHERE v <=> ?",
    "listed": "SELECT id FROM {t} WHERE v IN (?)",
    "mixed": "SELECT id, k FROM {t} WHERE v IN (?)",
    "counted": "SELECT COUNT(*), MIN(id), SUM(id) FROM {t} WHERE v = ?",
    "held_whole": "SELECT COUNT(DISTINCT id), MIN(id), SUM(id) FROM {t} WHERE v = ?",
    "unequal": "SELECT id FROM {t} WHERE k = ? AND v <> ?",
    "greater": "SELECT id FROM {t} WHERE k = ? AND v >= ?",
    "like": "SELECT id FROM {t} WHERE k = ? AND v LIKE ?",
    "like_held_whole": "SELECT COUNT(DISTINCT id), SUM(id) FROM {t} WHERE k = ? AND v LIKE ?",
    "between": "SELECT id FROM {t} WHERE k = ? AND v BETWEEN ? AND ?",
    "either": "SELECT id FROM {t} WHERE k = ? AND (v = ? OR v <=> ?)",
    "added": "SELECT id FROM {t} WHERE k = ? AND v + ? > 1",
    "sum_shown": "SELECT id, v + ? FROM {t} WHERE k = 1",
    "sum_held_whole": "SELECT COUNT(DISTINCT id), MAX(v - ?) FROM {t} WHERE k = 1",
    "joined": "SELECT a.id, b.id FROM {t} a JOIN {t} b ON b.v = a.v WHERE a.v = ?",
}


def table(kind: Kind, indexed: bool) -> list[str]:
    index = f", KEY (v{'(4)' if kind.ddl.startswith('TEXT') else ''})" if indexed else ""
    rows = ", ".join(f"({number}, 1, {literal})" for number, literal in enumerate((*kind.literals, "NULL")))
    return [
        f"CREATE TABLE t_{kind.name} (id INT PRIMARY KEY, k INT, v {kind.ddl}{index})",
        f"INSERT INTO t_{kind.name} VALUES {rows}",
    ]


def parameters(shape: str, value: Any) -> tuple[Any, ...]:
    match shape:
        case "mixed":
            return ([value, 1, None],)
        case "listed":
            return ([value],)
        case "added" | "unequal" | "greater" | "like" | "like_held_whole":
            return (1, value)
        case "between" | "either":
            return (1, value, value)
    return (value,)


class Asked:
    """All parameters beside one column, asked for twice: one by one, then together."""

    def __init__(self, proxy: Proxy, kind: Kind) -> None:
        self.proxy = proxy
        self.values = list({repr(value): value for value in (*kind.parameters, *MORE)}.values())
        self.kind = kind
        self.wrong: list[str] = []
        self.served: Counter[str] = Counter()

    async def ask(self, shape: str) -> None:
        sql = SHAPES[shape].format(t=f"t_{self.kind.name}")
        name = f"{self.kind.name}_{shape}"
        try:
            await self.proxy.client.create_cache(sql, name=name, database=self.proxy.database)
        except UnsupportedQuery:
            self.served["not cached"] += 1
            return
        cache = self.proxy.client.cache(name)
        wanted: list[tuple[Any, Any]] = []
        for value in self.values:
            given = parameters(shape, value)
            rows = await self.truth(sql, given)
            try:
                self.compare(shape, sql, value, await cache.get(*given), rows)
                wanted.append((value, rows))
            except SourceError as error:
                self.compare(shape, sql, value, error, rows)
                wanted.append((value, rows))
            except BadParameters as error:  # perhaps of the client, which could not send them with others either
                self.compare(shape, sql, value, error, rows)
        again = await cache.try_many([parameters(shape, value) for value, _ in wanted])
        for (value, rows), got in zip(wanted, again, strict=True):
            self.compare(shape, sql, value, got, rows)

    async def truth(self, sql: str, given: tuple[Any, ...]) -> Any:
        try:
            return await true_rows(self.proxy, sql, given)
        except Exception as error:  # noqa: BLE001 - whatever MySQL says of it is compared
            return error

    def compare(self, shape: str, sql: str, value: Any, got: Any, wanted: Any) -> None:
        if isinstance(got, Exception) or isinstance(wanted, Exception):
            self.served["refused"] += 1
            if isinstance(got, list) and got.served != "passed":  # type: ignore[attr-defined]  # an Answer
                self.wrong.append(f"{shape} {sql} {value!r}: {got}, where MySQL says {wanted}")
            elif isinstance(got, SourceError) != isinstance(wanted, Exception) and not isinstance(got, BadParameters):
                self.wrong.append(f"{shape} {sql} {value!r}: {got!r}, MySQL {wanted!r}")
            return
        self.served[got.served] += 1
        mine, theirs = ([tuple(map(repr, row)) for row in rows] for rows in (got, wanted))
        if sorted(mine) != sorted(theirs):
            self.wrong.append(f"{shape} {sql} {value!r}: {got.served} {mine}, MySQL {theirs}")


@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
@pytest.mark.parametrize("part", range(4))
def test_every_parameter_beside_every_type(
    mysql: Server, database: str, tmp_path: Path, part: int, indexed: bool
) -> None:
    """Through an index MySQL may compare otherwise than without one."""
    kinds = (*KINDS, *WHOLE_SECONDS)[part::4]

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            statements = [statement for kind in kinds for statement in table(kind, indexed)]
            await proxy.write("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'", *statements)
            await proxy.caught_up()
            wrong: list[str] = []
            served: Counter[str] = Counter()
            for kind in kinds:
                asked = Asked(proxy, kind)
                for shape in SHAPES:
                    await asked.ask(shape)
                wrong += asked.wrong
                served += asked.served
            print(served)
            assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:60])
            assert served["not cached"] < 0.25 * len(SHAPES) * len(kinds), "too few are cached"
            assert served["hit"] > 0.25 * served.total(), served

    run(scenario)
