"""Every column type with its edge values: the binlog's value is the one that SELECT gives."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from integration.conftest import OwnMySQL
from integration.servers.private_mysql import Server
from integration.stream.stream_support import follow, selected
from sqltypes.expression import Row
from tests.support.type_cases import SQL_MODE, TYPE_CASES, TypeCase

_BATCH = 24


def _batches() -> list[list[tuple[int, TypeCase]]]:
    cases = list(enumerate(TYPE_CASES))
    return [cases[at : at + _BATCH] for at in range(0, len(cases), _BATCH)]


def _typed(rows: list[Row]) -> list[list[tuple[str, object]]]:
    """With the types, and decimals with their digits: 1 == 1.0 == Decimal("1.00") would hide a wrong form."""
    return [
        [(type(value).__name__, str(value) if isinstance(value, Decimal | float) else value) for value in row]
        for row in rows
    ]


# What stands around the type: texts whose character sets the binlog tells by their place among the others.
_AROUND = "word VARCHAR(9) CHARACTER SET utf8mb3, v {} NULL, said TEXT CHARACTER SET latin1, raw BLOB, tail INT"


async def _both_ways(mysql: Server, database: str, number: int, case: TypeCase) -> None:
    name = f"c{number}"
    values = [f"({literal})" for literal in case.literals]
    columns = _AROUND.format(case.ddl)
    mysql.execute(f"CREATE TABLE `{database}`.{name} (id INT AUTO_INCREMENT PRIMARY KEY, {columns})")
    async with follow(mysql) as stream:
        table = stream.want(database, name)
        await stream.settled()
        inserts = [f"INSERT INTO `{database}`.{name} (v, said, tail) VALUES ({value}, 'é', 7)" for value in values]
        await stream.execute(f"SET sql_mode = '{SQL_MODE}'", *inserts, f"INSERT INTO `{database}`.{name} () VALUES ()")
        await stream.caught_up()
        expected = selected(mysql, table)
        assert _typed([row for row in stream.events.inserted(table.qualified) if row]) == _typed(expected), case.ddl
        await stream.execute(f"SET sql_mode = '{SQL_MODE}'", f"UPDATE `{database}`.{name} SET tail = 8")
        await stream.caught_up()
        updates = stream.events.pairs(table.qualified)[len(expected) :]
        assert _typed([before for before, _ in updates if before]) == _typed(expected), case.ddl
        assert _typed([after for _, after in updates if after]) == _typed(selected(mysql, table)), case.ddl


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("batch", _batches(), ids=lambda batch: f"{batch[0][0]}-{batch[-1][0]}")
def test_values_of_the_binlog_are_those_of_select(
    own_mysql: OwnMySQL, batch: list[tuple[int, TypeCase]], metadata: str
) -> None:
    mysql = own_mysql(f"--binlog-row-metadata={metadata}")
    mysql.execute("CREATE DATABASE d")

    async def run() -> None:
        for number, case in batch:
            await _both_ways(mysql, "d", number, case)

    asyncio.run(run())
