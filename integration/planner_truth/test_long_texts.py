"""Long and deep texts: MySQL's to answer, and refused as caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from integration.support.mysql_shop import BY_ID, shop
from upwell.errors import UpwellError

ORS = " OR ".join(f"id = {number}" for number in range(3000))
LONG = {
    "ors": f"SELECT id FROM item WHERE {ORS}",
    "items": f"SELECT {', '.join(f'n + {number}' for number in range(2000))} FROM item WHERE id = 1",
    "list": f"SELECT id FROM item WHERE n IN ({', '.join(map(str, range(9000)))})",
    "string": f"SELECT '{'x' * 60_000}', id FROM item WHERE id = 3",
    "unions": " UNION ALL ".join(f"SELECT id FROM item WHERE id = {number}" for number in range(50)),
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_have_mysqls_answer(mysql: Server, database: str, tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            with mysql.connect(database=database) as connection, connection.cursor() as cursor:
                cursor.execute(LONG[name])
                expected = tuple(cursor.fetchall())
            for _ in range(2):
                assert sorted(await asker.ask(LONG[name])) == sorted(expected)
            assert len(await proxy.client.query(LONG[name], database=database)) == len(expected)
            await asker.ask(BY_ID, 1)
            assert await asker.served(BY_ID, 1) == "hit"

    run(scenario)


def test_what_is_too_long_or_too_deep_is_no_cache(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, _):
            deep = f"SELECT id FROM item WHERE id = {'(' * 900}1{')' * 900}"
            for sql in (LONG["ors"], deep, f"SELECT id FROM item WHERE {'NOT ' * 900} id = 1"):
                with pytest.raises(UpwellError) as refused:
                    await proxy.client.create_cache(sql, database=database)
                assert "internal" not in str(refused.value)

    run(scenario)
