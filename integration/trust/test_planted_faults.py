"""Faults of the planner and of the operators, planted one at a time: the first answer that is wrong is found, and no
client gets it; the cache then holds MySQL's own answers. The judge is MySQL, asked the same text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from sqlglot import exp

import dataflow.graph.build
import dataflow.graph.graph
import dataflow.operators.aggregate
import planner.evict.evict
import planner.tree.resolve
import sqltypes.collation
from dataflow.graph.answers import Layout, answer_node
from dataflow.held.arrangement import Memory
from dataflow.operators.aggregate import AggregateNode
from dataflow.operators.answer import AnswerNode
from dataflow.operators.rows import RowsNode
from dataflow.operators.topk import TopKNode
from integration.oracle.answers import parse
from integration.oracle.trees import integer, payload
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.mysql_clients import connected
from integration.support.raw_client import RawClient
from planner.tree.expressions import _HANDLERS, Expressions
from planner.tree.plan import AnswerArrangement
from sqltypes.compile import compile_sort_key
from sqltypes.schema import Table
from tests.simulation.mutant import Patch, attribute, edit

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, grp INT, other INT, word VARCHAR(20), code VARCHAR(20) COLLATE utf8mb4_bin,"
    " n DECIMAL(30, 2), m INT, KEY (grp))",
    "CREATE TABLE owner (id INT PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO item VALUES (1, 7, 1, 'apple', 'x', 12345678901234567.89, 3), (2, 7, 2, 'Apple', 'y', 0.01, 1),"
    " (3, 7, 9, 'pear', 'x', 2.50, 2), (4, 8, 1, 'plum', 'x', 3.50, 5), (5, 7, 1, 'fig', 'x', 4.25, NULL)",
    "INSERT INTO owner VALUES (1, 'Ann'), (2, 'Bob')",
)
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Fault:
    """`change`: what shows it, if the first fill does not. `ordered`: the order counts."""

    name: str
    plant: Patch
    sql: str
    change: str = ""
    ordered: bool = False
    mode: str = "maintain"
    parameter: int = 7


@pytest.fixture(autouse=True)
def kept_keys_are_forgotten() -> Iterator[None]:
    """What earlier tests have used knows no fault, and what has one is not for later tests."""
    sqltypes.collation.key_function.cache_clear()
    sqltypes.collation.sort_key.cache_clear()
    yield
    sqltypes.collation.key_function.cache_clear()
    sqltypes.collation.sort_key.cache_clear()


def ascending_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        dataflow.graph.build,
        "compile_sort_key",
        lambda terms, layout: compile_sort_key([(expr, False) for expr, _ in terms], layout),
    )


def null_in_a_list_is_nothing(patch: pytest.MonkeyPatch) -> None:
    edit(Expressions, "_in", ("in node.expressions)", "in node.expressions if item.key != 'null')"))(patch)
    patch.setitem(_HANDLERS, exp.In, Expressions._in)


FAULTS = (
    Fault(
        "NOT LIKE is LIKE",
        edit(Expressions, "_binary", ('if node.args.get("negate") else found', "if False else found")),
        "SELECT id, word FROM item WHERE grp = ? AND word NOT LIKE 'a%'",
    ),
    Fault(
        "a NULL in NOT IN is nothing",
        null_in_a_list_is_nothing,
        "SELECT id FROM item WHERE grp = ? AND m NOT IN (1, NULL)",
    ),
    Fault(
        "a filter is inverted on changes",
        edit(dataflow.graph.build, "_locate", ("{code.truth(filter_, ref)}", "not ({code.truth(filter_, ref)})")),
        "SELECT id, m FROM item WHERE grp = ? AND m > 1",
        "INSERT INTO item VALUES (10, 7, 1, 'new', 'x', 1, 9)",
    ),
    Fault(
        "PAD SPACE is missed",
        attribute(sqltypes.collation, "EXACT_NO_PAD", frozenset({*sqltypes.collation.EXACT_NO_PAD, "utf8mb4_bin"})),
        "SELECT id, code FROM item WHERE grp = ? AND code = 'x'",
        "INSERT INTO item VALUES (10, 7, 1, 'new', 'x  ', 1, 9)",
    ),
    Fault(
        "a sum is kept as a float",
        edit(
            dataflow.graph.build,
            "_fold",
            (
                '{code.bind(exact)}({code.bind(Decimal)}(s[{slot}]), {value})"',
                '{code.bind(Decimal)}(float(s[{slot}]) {sign} float({value}))"',
            ),
        ),
        "SELECT SUM(n) FROM item WHERE grp = ?",
        "INSERT INTO item VALUES (10, 7, 1, 'new', 'x', 0.02, 9)",
    ),
    Fault(
        "an update into the filter is lost",
        edit(
            RowsNode, "change", ("and after is not None:\n        self._put", "and before is None:\n        self._put")
        ),
        "SELECT id, m FROM item WHERE grp = ? AND m > 2",
        "UPDATE item SET m = 8 WHERE id = 2",
    ),
    Fault(
        "an update out of the filter is lost",
        edit(
            RowsNode,
            "change",
            ("and before is not None:\n        self._put", "and after is None:\n        self._put"),
        ),
        "SELECT id, m FROM item WHERE grp = ? AND m > 2",
        "UPDATE item SET m = 0 WHERE id = 1",
    ),
    Fault(
        "a LEFT JOIN is an inner one",
        edit(dataflow.graph.build, "_level", ("outer=lookup.outer", "outer=False")),
        "SELECT item.id, owner.name FROM item LEFT JOIN owner ON owner.id = item.other WHERE item.grp = ?",
    ),
    Fault(
        "an inner join is an outer one",
        edit(dataflow.graph.build, "_level", ("outer=lookup.outer", "outer=True")),
        "SELECT item.id, owner.name FROM item JOIN owner ON owner.id = item.other WHERE item.grp = ?",
    ),
    Fault(
        "a join looks at the wrong side",
        edit(
            dataflow.graph.build._LevelKey,
            "__init__",
            ("(lookup.key, layout)", "(lookup.key, {name: at ^ 1 for name, at in layout.items()})"),
        ),
        "SELECT item.id, item.other, owner.name FROM item JOIN owner ON owner.id = item.other WHERE item.grp = ?",
    ),
    Fault(
        "DESC is ASC",
        ascending_only,
        "SELECT id, m FROM item WHERE grp = ? AND m IS NOT NULL ORDER BY m DESC",
        ordered=True,
    ),
    Fault(
        "a term of the ORDER BY is lost",
        edit(planner.tree.resolve._SelectResolver, "_order", ("in terms if not", "in terms[:1] if not")),
        "SELECT id, other, m FROM item WHERE grp = ? ORDER BY other, m",
        ordered=True,
    ),
    Fault(
        "the digits of AVG are others",
        edit(dataflow.operators.aggregate, "result", ("item.type.scale or 0)", "(item.type.scale or 0) - 1)")),
        "SELECT AVG(m) FROM item WHERE grp = ?",
    ),
    Fault(
        "a changed row is sought under another key",
        edit(dataflow.graph.graph, "arrangement_node", ("= column.position if", "= column.position + 1 if")),
        "SELECT other, COUNT(*) FROM item WHERE grp = ? GROUP BY other",
        "INSERT INTO item VALUES (10, 7, 1, 'new', 'x', 1, 9)",
    ),
    Fault(
        "a tie in the first rows is lost",
        edit(TopKNode, "_add", ("insort(", "if at and top.keys[at - 1][0] == sort_key[0]: return\n    insort(")),
        "SELECT id, other FROM item WHERE grp = ? ORDER BY other LIMIT 9",
        "INSERT INTO item VALUES (10, 7, 1, 'new', 'x', 1, 9)",
        ordered=True,
    ),
    Fault(
        "the extreme that goes stays",
        edit(dataflow.operators.aggregate, "_ties", ("return bool(value == held)", "return False")),
        "SELECT MIN(m), COUNT(*) FROM item WHERE grp = ?",
        "DELETE FROM item WHERE id = 2",
    ),
    Fault(
        "COUNT counts NULL",
        edit(dataflow.graph.build, "_fold", ('if {value} is not None: s[{slot}] {sign}= 1"', 's[{slot}] {sign}= 1"')),
        "SELECT COUNT(m) FROM item WHERE grp = ?",
        "INSERT INTO item VALUES (10, 7, 1, 'new', 'x', 1, NULL)",
    ),
    Fault(
        "groups tell letters apart",
        attribute(dataflow.graph.build, "_key_of_columns", lambda columns, positions: itemgetter(*positions)),
        "SELECT COUNT(*) FROM item WHERE grp = ? GROUP BY word",
        "INSERT INTO item VALUES (10, 7, 1, 'APPLE', 'x', 1, 9)",
    ),
    Fault(
        "HAVING is passed over",
        edit(dataflow.graph.graph, "reader_node", ("filter=_predicate(reader.filter, layout)", "filter=None")),
        "SELECT other, COUNT(*) FROM item WHERE grp = ? GROUP BY other HAVING COUNT(*) > 1",
    ),
    Fault(
        "a deleted group's rows stay counted",
        edit(AggregateNode, "_subtract", ("state[COUNT_STAR] -= 1", "state[COUNT_STAR] -= 0")),
        "SELECT COUNT(*) FROM item WHERE grp = ?",
        "DELETE FROM item WHERE id = 2",
    ),
)


def as_shown(rows: Sequence[Sequence[Any]], ordered: bool) -> list[str]:
    texts = [repr(tuple(row)) for row in rows]
    return texts if ordered else sorted(texts)


class Executions:
    """Of the fault's query as a prepared statement; the rows are as the protocol has them."""

    def __init__(self, mysql: Server, database: str, port: int, fault: Fault) -> None:
        self._session = RawClient(mysql.host, port, user=mysql.user, password=mysql.password, database=database)
        self._statement = self._session.prepare(fault.sql)
        self._values = payload([integer(fault.parameter)] * fault.sql.count("?"))

    def run(self) -> list[Any]:
        answer = parse(self._session.execute(self._statement.id, self._values), binary=True)
        assert not answer.errno, answer.message
        return list(answer.rows)

    def close(self) -> None:
        self._session.close()


async def judged(
    proxy: Proxy, fault: Fault, read: Callable[[], Awaitable[Rows]], truth: Callable[[], Rows] | None = None
) -> None:
    """Reads until the cache has been planned anew and answers: each answer is MySQL's, which `truth` gives."""
    sql = fault.sql.replace("?", str(fault.parameter))
    right = await asyncio.to_thread(truth or partial(proxy.mysql.execute, f"USE `{proxy.database}`", sql))
    for _ in range(3):
        assert as_shown(await read(), fault.ordered) == as_shown(right, fault.ordered)
        await proxy.settled()


@pytest.mark.parametrize("protocol", ["grpc", "mysql", "prepared"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_no_client_gets_what_a_fault_computes(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, protocol: str
) -> None:
    fault.plant(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8", check="false") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            made = await proxy.client.create_cache(fault.sql, name="c", database=database)
            assert made.mode == fault.mode
            asker = await connected(proxy)
            values = (fault.parameter,) * fault.sql.count("?")
            ports = (proxy.app.mysql_port, mysql.port)
            through, direct = [await asyncio.to_thread(Executions, mysql, database, port, fault) for port in ports]
            truth = direct.run if protocol == "prepared" else None

            async def read() -> Rows:
                if protocol == "prepared":
                    return await asyncio.to_thread(through.run)
                if protocol == "grpc":
                    return [tuple(row) for row in await proxy.client.cache("c").get(*values)]
                return list(await asker.ask(fault.sql.replace("?", str(fault.parameter))))

            await judged(proxy, fault, read, truth)
            if fault.change:
                assert proxy.app.router.status().counters["caches_distrusted"] == 0
                await proxy.write(fault.change)
                await proxy.caught_up()
                await judged(proxy, fault, read, truth)
            assert proxy.app.router.status().counters["caches_distrusted"] == 1
            (info,) = await proxy.app.router.caches.listed()
            assert (info.mode, info.state) == ("evict", "ready") and "MySQL's own" in info.why
            for session in (through, direct):
                session.close()
            await asker.close()

    run(scenario)


NUMBERED = "SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM item WHERE grp = ?"
COUNTED = "SELECT COUNT(DISTINCT id), MIN(word) FROM item WHERE grp = ?"
NEW_ROW = "INSERT INTO item VALUES (%d, 7, 1, 'new', 'x', 1, 9)"


def wrong_key(patch: pytest.MonkeyPatch) -> None:
    """The planner takes another column for the one that must equal the parameter."""
    edit(
        planner.evict.evict._Select, "_fact", ("setdefault(parameter, column.name)", 'setdefault(parameter, "other")')
    )(patch)


def no_row_concerns_an_answer(patch: pytest.MonkeyPatch) -> None:
    edit(dataflow.graph.graph, "arrangement_node", ("return answer_node(", "return without_watches("))(patch)
    patch.setattr(dataflow.graph.build, "without_watches", without_watches, raising=False)


def without_watches(
    plan: AnswerArrangement, number: int, memory: Memory, layout_of: Callable[[Table], Layout]
) -> AnswerNode:
    node = answer_node(plan, number, memory, layout_of)
    for watches in node._watches.values():
        watches[:] = [replace(watch, passes=lambda row: False) for watch in watches]
    return node


@pytest.mark.parametrize("sql", [NUMBERED, COUNTED])
@pytest.mark.parametrize("fault", ["keys", "watches"])
def test_in_evict_mode_what_a_change_should_have_emptied_is_found_and_less_is_believed_each_time(
    mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, sql: str
) -> None:
    monkeypatch.setattr("proxy.cache.trust.SLOW_SECONDS", 10.0)  # or a busy machine's answers are given first
    (wrong_key if fault == "keys" else no_row_concerns_an_answer)(monkeypatch)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="8") as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            made = await proxy.client.create_cache(sql, name="c", database=database)
            assert made.mode == "evict"
            cache = proxy.client.cache("c")

            async def read() -> list[str]:
                """Three answers, each of which is MySQL's; how they were served."""
                right = await asyncio.to_thread(mysql.execute, f"USE `{database}`", sql.replace("?", "7"))
                served = []
                for _ in range(3):
                    answer = await cache.get(7)
                    assert as_shown(list(answer), True) == as_shown(right, True)
                    served.append(answer.served)
                await proxy.settled()
                return served

            assert await read() == ["miss", "hit", "hit"]
            states = []
            for number in range(3):
                await proxy.write(NEW_ROW % (100 + number))
                await proxy.caught_up()
                await read()
                (info,) = await proxy.app.router.caches.listed()
                states.append((info.state, proxy.app.router.status().counters["caches_distrusted"]))
                assert (await read())[-1] == ("hit" if info.state == "ready" else "passed")
            if fault == "keys":
                assert states == [("ready", 1)] * 3 and "any change of their tables" in info.why
            else:
                assert states == [("ready", 1), ("refused", 2), ("refused", 2)] and "passed to MySQL" in info.why

    run(scenario)
