"""A value has one form, whichever way it came: from an upquery, from the binlog, or from a client as a key.

For every column type and its edge values on a real MySQL: a row read by a miss, then taken away and written back
through the binlog, is the same bytes; a key that a client names finds the entry that was filled, and the changes of
the binlog find it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from integration.planner_truth.differential import truth
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.grpc.rows import FORMAT
from tests.support.type_cases import SQL_MODE, TYPE_CASES
from upwell.errors import SourceError

NOT_KEYS = ("JSON", "GEOMETRY", "POINT", "VECTOR")
CASES = {f"v{number}": case for number, case in enumerate(TYPE_CASES)}


def statements(keyed: bool) -> Iterator[str]:
    """Each table, and a copy of it to write the same values from."""
    yield f"SET sql_mode = '{SQL_MODE}'"
    for name, case in CASES.items():
        if keyed and case.ddl.startswith(NOT_KEYS):
            continue
        yield f"CREATE TABLE {name} (id INT PRIMARY KEY, v {case.ddl} NULL)"
        rows = ", ".join(f"({id_}, {literal})" for id_, literal in enumerate((*case.literals, "NULL")))
        yield f"INSERT INTO {name} VALUES {rows}"
        yield f"CREATE TABLE {name}_copy LIKE {name}"
        yield f"INSERT INTO {name}_copy SELECT * FROM {name}"


def taken(names: list[str]) -> Iterator[str]:
    yield f"SET sql_mode = '{SQL_MODE}'"
    for name in names:
        yield f"UPDATE {name} SET v = NULL"


def given_back(names: list[str]) -> Iterator[str]:
    yield f"SET sql_mode = '{SQL_MODE}'"
    for name in names:
        yield f"UPDATE {name} JOIN {name}_copy USING (id) SET {name}.v = {name}_copy.v"


def test_values_of_a_miss_and_of_the_binlog_encode_alike(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*statements(keyed=False))
            await proxy.caught_up()
            router = proxy.app.router
            missed: dict[tuple[str, int], bytes] = {}
            for name, case in CASES.items():
                await router.caches.create(name, f"SELECT v FROM {name} WHERE id = ?", database)
                opened = router.caches.open(name, FORMAT)
                for id_ in range(len(case.literals) + 1):
                    missed[name, id_] = (await opened.read((id_,))).body
            await proxy.write(*taken(list(CASES)))
            await proxy.caught_up()
            nothing = router.caches.open("v0", FORMAT).hit((0,))
            assert nothing is not None
            for name, id_ in missed:
                assert router.caches.open(name, FORMAT).hit((id_,)) == nothing, "a change has not arrived"
            await proxy.write(*given_back(list(CASES)))
            await proxy.caught_up()
            different = [
                (CASES[name].ddl, (*CASES[name].literals, "NULL")[id_], body, now)
                for (name, id_), body in missed.items()
                if (now := router.caches.open(name, FORMAT).hit((id_,))) != body
            ]
            assert not different

    run(scenario)


def test_a_key_named_by_a_client_is_the_key_of_the_fill_and_of_the_binlog(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    names = [name for name, case in CASES.items() if not case.ddl.startswith(NOT_KEYS)]
    wrong: list[str] = []
    compared = 0

    async def compare(proxy: Proxy, name: str, value: Any, moment: str, served: str) -> None:
        nonlocal compared
        answer = await proxy.client.cache(name).get(value)
        _, wanted = await truth(proxy, f"SELECT id FROM {name} WHERE v = ?", (value,))
        # A change whose collation key is not proven (latin1 beyond Windows' table) makes its arrangement's keys holes.
        lost = answer.served != served and "latin1" not in CASES[name].ddl
        if sorted(answer) != sorted(wanted) or (lost and answer.served != "passed"):
            wrong.append(f"{moment}: {CASES[name].ddl} = {value!r}: {answer.served} {list(answer)}, MySQL {wanted}")
        compared += answer.served == "hit"

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*statements(keyed=True))
            await proxy.caught_up()
            values: dict[str, list[Any]] = {}
            for name in names:
                _, rows = await truth(proxy, f"SELECT v FROM {name} WHERE v IS NOT NULL", ())
                values[name] = list({repr(row[0]): row[0] for row in rows}.values())
                info = await proxy.app.router.caches.create(name, f"SELECT id FROM {name} WHERE v = ?", database)
                if info.mode != "maintain":
                    values.pop(name)  # a key of its answers needs no form in common with the binlog's
                    continue
                for value in list(values[name]):
                    try:
                        await proxy.client.cache(name).get(value)
                    except SourceError:  # MySQL takes no zero date as a literal
                        values[name].remove(value)
            assert len(values) > 0.8 * len(names), "too few types can be keys"
            for moment, changes in (("filled", ()), ("taken", taken(names)), ("given back", given_back(names))):
                if changes:
                    await proxy.write(*changes)
                await proxy.caught_up()
                for name, keys in values.items():
                    for value in keys:
                        await compare(proxy, name, value, moment, "hit")

    run(scenario)
    assert not wrong, "\n".join(wrong)
    assert compared > 800
