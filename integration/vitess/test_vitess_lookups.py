"""Tables that have lookup vindexes: vtgate finds rows by other tables, whose changes no stream tells."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from external_upquery.vitess.dialect import VtgateDialect
from external_upquery.vitess.snapshot import Plan
from integration.support.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import PLAIN, SHARDED, TABLES, VSCHEMA
from tests.support.waiting import until
from upwell.errors import UpwellError

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it
KEYS = range(24)
OWNED = {
    "by_ref": ("lookup_unique", "ref", "bill_by_ref"),
    "by_place": ("lookup", "place", "bill_by_place"),
    "by_code": ("consistent_lookup_unique", "code", "bill_by_code"),
    "by_label": ("lookup_unicodeloosemd5_hash", "label", "bill_by_label"),
}
UNOWNED = {"by_mark": ("lookup_unique", "mark", "bill_by_mark")}
BILL = (
    "CREATE TABLE bill (id BIGINT PRIMARY KEY, ref BIGINT, place INT, code INT, label VARCHAR(20), mark BIGINT, n INT,"
    " KEY (ref), KEY (place), KEY (code), KEY (label), KEY (mark), KEY (n))"
)
COLUMNS = "(id, ref, place, code, label, mark, n)"
OF_MARK = {"by_mark", "whole"}  # vtgate finds nothing by it
QUERIES = {
    "by_id": ("SELECT id, ref, n FROM bill WHERE id = ?", KEYS),
    "by_ref": ("SELECT id, ref, n FROM bill WHERE ref = ?", range(100, 124)),
    "by_place": ("SELECT id, place FROM bill AS b WHERE b.place = ?", range(5)),
    "by_code": ("SELECT id, code FROM `bill` `b` WHERE code = ?", range(200, 224)),
    "by_label": ("SELECT id, label FROM bill WHERE label = ?", [f"L{key}" for key in KEYS]),
    "by_mark": ("SELECT id, mark FROM bill WHERE mark = ?", range(300, 324)),
    "of_refs": ("SELECT id, ref FROM bill WHERE ref IN (100, 101) AND n = ?", range(3)),
    "counted": ("SELECT place, COUNT(*), SUM(n) FROM bill WHERE place = ? GROUP BY place", range(5)),
    "first": ("SELECT id, n FROM bill WHERE place = ? ORDER BY n DESC, id LIMIT 2", range(5)),
    "joined": ("SELECT i.id, b.id, b.ref FROM item i JOIN bill b ON b.ref = i.n WHERE i.id = ?", KEYS),
    "twice": ("SELECT a.id, b.id FROM bill a JOIN bill b ON b.place = a.place WHERE a.id = ?", KEYS),
    "whole": ("SELECT id, n FROM bill WHERE ref = ? UNION ALL SELECT id, n FROM bill b WHERE b.mark = 300", (100, 117)),
    "within": ("SELECT i.id FROM item i WHERE i.id = ? AND i.n IN (SELECT ref FROM bill WHERE place < 3)", KEYS),
}  # fmt: skip
"""Each with its keys. Maintained, by text, and in evict mode; with tables that stand in FROM in all ways."""


def vschema() -> dict[str, Any]:
    vindexes: dict[str, Any] = {**VSCHEMA["vindexes"], "numbered": {"type": "hash"}}  # type: ignore[dict-item]
    columns = [{"column": "id", "name": "numbered"}]
    for name, (kind, column, table) in (OWNED | UNOWNED).items():
        params = {"table": f"{PLAIN}.{table}", "from": column, "to": "keyspace_id"}
        vindexes[name] = {"type": kind, "params": params}
        if name in OWNED:
            vindexes[name]["owner"] = "bill"
        else:
            params["no_verify"] = "true"
        columns.append({"column": column, "name": name})
    return {**VSCHEMA, "vindexes": vindexes, "tables": {**TABLES, "bill": {"column_vindexes": columns}}}


def lookup_table(kind: str, column: str, table: str) -> str:
    from_ = "VARBINARY(128)" if "unicode" in kind else "BIGINT"
    to = "BIGINT UNSIGNED" if kind.endswith("_hash") else "VARBINARY(128)"
    key = column if kind.endswith("unique") else f"{column}, keyspace_id"
    return f"CREATE TABLE {table} ({column} {from_}, keyspace_id {to}, PRIMARY KEY ({key}))"


def bill(key: int) -> str:
    return f"({key}, {100 + key}, {key % 5}, {200 + key}, 'L{key}', {300 + key}, {key % 3})"


@contextmanager
def bills(vitess: Cluster) -> Iterator[None]:
    """A table with a row of each key. Nobody has put rows into the lookup table that it does not own."""
    vitess.execute(PLAIN, *(lookup_table(*each) for each in (OWNED | UNOWNED).values()))
    vitess.execute(SHARDED, BILL, "DELETE FROM item")
    vitess.apply_vschema(SHARDED, vschema())
    try:
        vitess.execute(SHARDED, f"INSERT INTO item (id, n) VALUES {', '.join(f'({key}, {100 + key})' for key in KEYS)}")
        vitess.execute(SHARDED, f"INSERT INTO bill {COLUMNS} VALUES {', '.join(map(bill, KEYS))}")
        yield
    finally:
        vitess.apply_vschema(SHARDED, VSCHEMA)
        vitess.execute(SHARDED, "DROP TABLE bill", "DELETE FROM item")
        vitess.execute(PLAIN, *(f"DROP TABLE {table}" for _, _, table in (OWNED | UNOWNED).values()))


@asynccontextmanager
async def bills_cached(vitess: Cluster, tmp_path: Path, **options: str) -> AsyncIterator[VitessProxy]:
    with bills(vitess):
        async with proxy_before(vitess, SHARDED, tmp_path, **options) as proxy:
            for name, (sql, _) in QUERIES.items():
                await proxy.client.create_cache(sql, name=name)
            yield proxy


async def read(proxy: VitessProxy, name: str, key: Any) -> list[tuple[Any, ...]]:
    """A hit."""
    async with asyncio.timeout(60):
        while (answer := await proxy.client.cache(name).get(key)).served != "hit":
            pass
    return sorted(map(tuple, answer))


def of_shards(vitess: Cluster, sql: str) -> list[tuple[Any, ...]]:
    """The rows that the shards' servers have."""
    found = []
    for (keyspace, _), mysql in vitess.mysqls.items():
        if keyspace == SHARDED:
            with closing(mysql.connect(database=vitess.database(SHARDED))) as connection:
                cursor = connection.cursor()
                cursor.execute(sql)
                found += cursor.fetchall()
    return sorted(found)


@contextmanager
def lookups_held_back(vitess: Cluster) -> Iterator[None]:
    """Nothing is committed meanwhile where the lookup tables are."""
    (mysql,) = [mysql for (keyspace, _), mysql in vitess.mysqls.items() if keyspace == PLAIN]
    with closing(mysql.connect()) as connection:
        connection.cursor().execute("FLUSH TABLES WITH READ LOCK")
        yield


def written(sql: str, key: Any) -> str:
    return sql.replace("?", repr(key))


CHANGES = {
    "by_ref": ("UPDATE bill SET ref = 5000 WHERE id = 1", 5000),
    "by_place": ("UPDATE bill SET place = 77 WHERE id = 2", 77),
    "by_label": ("UPDATE bill SET label = 'new' WHERE id = 3", "new"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_row_whose_lookup_is_not_committed_yet_is_found(vitess: Cluster, tmp_path: Path, name: str) -> None:
    """vtgate commits the shard of the row first. Until the lookup's is committed it finds no row, and no change of the
    keyspace comes when that is over."""
    change, key = CHANGES[name]
    sql = QUERIES[name][0]

    async def scenario() -> None:
        async with bills_cached(vitess, tmp_path, check_sample="off") as proxy:
            with closing(vitess.connect(SHARDED)) as connection:
                cursor = connection.cursor()
                cursor.execute("BEGIN")
                cursor.execute(change)
                commits = threading.Thread(target=connection.commit, daemon=True)
                with lookups_held_back(vitess):
                    commits.start()
                    await until(lambda: bool(of_shards(vitess, written(sql, key))))
                    assert not await proxy.asked(written(sql, key))
                    await proxy.caught_up()
                    held = await read(proxy, name, key)
                await asyncio.to_thread(commits.join)
            assert held == await read(proxy, name, key) == sorted(await proxy.asked(written(sql, key))) != []

    run(scenario)


def test_a_row_of_which_a_lookup_that_it_does_not_own_learns_later(vitess: Cluster, tmp_path: Path) -> None:
    sql, key = QUERIES["by_mark"][0], 300

    async def scenario() -> None:
        async with bills_cached(vitess, tmp_path, check_sample="off") as proxy:
            assert not await proxy.asked(written(sql, key))
            assert await read(proxy, "by_mark", key) == [(0, 300)]
            found = await proxy.asked("SELECT id, hex_keyspace_id FROM numbered WHERE id = 0")
            insert = f"INSERT INTO bill_by_mark (mark, keyspace_id) VALUES ({key}, x'{found[0][1].decode()}')"
            await asyncio.to_thread(vitess.execute, PLAIN, insert)
            assert await proxy.asked(written(sql, key)) == ((0, 300),)
            assert await read(proxy, "by_mark", key) == [(0, 300)]

    run(scenario)


def test_no_question_of_ours_looks_rows_up(vitess: Cluster, tmp_path: Path) -> None:
    """Of no query, nor where answers are compared; and all answers are those of the shards, through changes."""
    sent: set[str] = set()
    plan_of = VtgateDialect.upquery

    def noted(self: VtgateDialect, request: Any) -> Plan:
        sent.update(statement.sql for statement in (*request.statements, *request.checks) if "FROM" in statement.sql)
        return plan_of(self, request)

    async def scenario() -> None:
        with patch.object(VtgateDialect, "upquery", noted):
            async with bills_cached(vitess, tmp_path, verify_new_caches="8") as proxy:
                for change in ("", "UPDATE bill SET n = n + 1, place = 6 WHERE id = 9"):
                    if change:
                        await proxy.write(change)
                    await asyncio.gather(*(same(proxy, name) for name in QUERIES))
                looked = [sql for sql in sorted(sent) if "Lookup" in str(await proxy.asked(f"VEXPLAIN PLAN {sql}"))]
                assert not looked and len(sent) > 2 * len(QUERIES)
                assert not [cache for cache in (await proxy.client.caches()) if cache.mode == "refused"]

    async def same(proxy: VitessProxy, name: str) -> None:
        sql, keys = QUERIES[name]
        for key in keys:
            found = await read(proxy, name, key)
            assert name in OF_MARK or found == sorted(await proxy.asked(written(sql, key))), (name, key)

    run(scenario)


def test_a_table_gets_lookups_while_it_is_cached(vitess: Cluster, tmp_path: Path) -> None:
    """Their tables have no rows, so vtgate finds nothing by them from then on."""
    without = vschema()
    without["tables"]["bill"] = {"column_vindexes": [{"column": "id", "name": "numbered"}]}
    sql, keys = QUERIES["by_ref"]

    def known() -> bool:
        return len(vitess.shown("SHOW VSCHEMA VINDEXES ON bill", SHARDED)) == 1 + len(OWNED | UNOWNED)

    async def scenario() -> None:
        async with bills_cached(vitess, tmp_path, check_sample="off") as proxy:
            await proxy.write("DELETE FROM bill")
            await asyncio.to_thread(vitess.apply_vschema, SHARDED, without)
            await until(lambda: not known())
            await proxy.write(f"INSERT INTO bill {COLUMNS} VALUES {', '.join(map(bill, KEYS))}")
            for key in keys[:8]:
                assert await read(proxy, "by_ref", key) == of_shards(vitess, written(sql, key)) != []
            await asyncio.to_thread(vitess.apply_vschema, SHARDED, vschema())
            await until(known)
            for key in keys:
                assert await read(proxy, "by_ref", key) == of_shards(vitess, written(sql, key)) != []
            assert not await proxy.asked(written(sql, keys[0]))

    run(scenario)


def test_a_sequence_is_a_table_like_others(vitess: Cluster, tmp_path: Path) -> None:
    """What it gives is nobody's to hold; the row that it is kept in is."""
    vitess.execute(
        PLAIN, "CREATE TABLE seq (id BIGINT PRIMARY KEY, next_id BIGINT, cache BIGINT) COMMENT 'vitess_sequence'"
    )
    vitess.apply_vschema(PLAIN, {"tables": {"seq": {"type": "sequence"}}})
    vitess.execute(PLAIN, "INSERT INTO seq (id, next_id, cache) VALUES (0, 1, 3)")
    sql = "SELECT id, next_id FROM seq WHERE id = ?"

    async def scenario() -> None:
        async with proxy_before(vitess, PLAIN, tmp_path) as proxy:
            with pytest.raises(UpwellError):
                await proxy.client.create_cache("SELECT NEXT VALUE FROM seq")
            await proxy.client.create_cache(sql, name="seq")
            for _ in range(8):
                await proxy.write("SELECT NEXT VALUE FROM seq")
                assert await read(proxy, "seq", 0) == sorted(await proxy.asked(written(sql, 0)))

    try:
        run(scenario)
    finally:
        vitess.apply_vschema(PLAIN, {"tables": {}})
        vitess.execute(PLAIN, "DROP TABLE seq")
