"""Plans mean what the text means: golden queries answered from their upqueries, and by MySQL, on random rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal

import pymysql
import pytest

from external_upquery.executor import Executor
from integration.servers.private_mysql import Server
from integration.support.upqueries import run
from planner.api import plan_evict, plan_query
from planner.fill.upquery_sql import answer_sql, fill_columns, semijoin_sql
from planner.tree.plan import AnswerArrangement, AnswerInput, Mode, QueryPlan
from proxy.planning.process import disagreement
from sqltypes.expression import Expr, Row, Value
from sqltypes.implementations import comparison_key
from sqltypes.interpreter import evaluate
from sqltypes.schema import ResultColumn, Table
from sqltypes.values import sql_literal
from tests.support.goldens import PLANS, ROOT, SHOP_VIEWS, Case, cases, snapshot
from tests.support.plan_oracle import PlanOracle

SEED = 20260
STATUSES = ("open", "paid", "Paid", "sent")
RunSql = Callable[[str], list[Row]]


@pytest.fixture(scope="module")
def shop(mysql: Server) -> Iterator[RunSql]:
    """A function that runs statements in the database `shop`, which has a few hundred random rows."""
    connection = pymysql.connect(
        host=mysql.host, port=mysql.port, user=mysql.user, password=mysql.password, autocommit=True
    )
    cursor = connection.cursor()
    cursor.execute("DROP DATABASE IF EXISTS shop")
    cursor.execute("CREATE DATABASE shop")
    cursor.execute("USE shop")
    for statement in (ROOT / "tests" / "fixtures" / "shop.sql").read_text().split(";"):
        if "CREATE" in statement:
            cursor.execute(statement)
    for name, definition in SHOP_VIEWS.items():
        cursor.execute(f"CREATE VIEW {name} AS {definition}")
    _fill(cursor, random.Random(SEED))

    def run_sql(sql: str) -> list[Row]:
        cursor.execute(sql)
        return [tuple(map(_canonical, row)) for row in cursor.fetchall()]

    yield run_sql
    cursor.execute("DROP DATABASE shop")
    connection.close()


def _canonical(value: object) -> Value:
    """All the shop's date-times have milliseconds; PyMySQL gives datetimes, plans hold text."""
    return value.isoformat(" ", "milliseconds") if isinstance(value, datetime) else value


def _fill(cursor: pymysql.cursors.Cursor, rng: random.Random) -> None:
    countries = ("NL", "nl", "DE", "FR")
    customers = [(id_, f"c{id_}@x", rng.choice(("Ida", "ida", None)), rng.choice(countries)) for id_ in range(1, 20)]
    cursor.executemany("INSERT INTO customers VALUES (%s,%s,%s,%s)", customers)
    orders = [
        (
            id_,
            rng.randint(1, 22),
            rng.choice(STATUSES),
            Decimal(rng.randint(0, 250_000)) / 100,
            rng.choice((None, 1.5, 0.1)),
            f"2024-01-{rng.randint(1, 28):02} 10:00:00.{rng.choice(('000', '250'))}",
            rng.choice((None, "note", "Fragile!")),
        )
        for id_ in range(1, 120)
    ]
    cursor.executemany("INSERT INTO orders VALUES (%s,%s,%s,%s,%s,%s,%s)", orders)
    lines = [
        (
            order,
            line,
            rng.choice((None, *range(1, 12))),
            rng.randint(1, 9),
            rng.choice((None, Decimal("9.99"), Decimal("450.00"))),
        )
        for order in range(1, 125)
        for line in range(rng.randint(0, 4))
    ]
    cursor.executemany(
        "INSERT INTO order_lines (order_id, line, product_id, quantity, price) VALUES (%s,%s,%s,%s,%s)", lines
    )
    products = [
        (id_, rng.choice((None, 1, 2, 3)), f"p{rng.randint(1, 9)}", Decimal(rng.randint(1, 30_000)) / 100)
        for id_ in range(1, 40)
    ]
    cursor.executemany("INSERT INTO products VALUES (%s,%s,%s,%s)", products)
    cursor.executemany("INSERT INTO settings VALUES (%s,%s)", [("home", "NL"), ("other", None), ("third", "DE")])


def queries(lists: bool) -> list[Case]:
    """Golden queries over the shop that are cached, with or without list parameters."""
    found = []
    for file in sorted(PLANS.glob("*.sql")):
        if file.stem in ("lobsters", "refused"):
            continue
        found += [case for case in cases(file) if (" IN (?" in case.sql) == lists]
    return found


def draw(plan: QueryPlan, rng: random.Random) -> tuple[Value, ...]:
    """Values for the parameters, most of which find rows."""
    out: list[Value] = []
    for parameter in plan.parameters:
        match parameter.column.lower():
            case "status":
                out.append(rng.choice(STATUSES))
            case "placed_at":
                out.append("2024-01-10 10:00:00.000")
            case "note":
                out.append(rng.choice(("n%", "%E%")))
            case "email":
                out.append(f"C{rng.randint(1, 20)}@x")
            case "country":
                out.append(rng.choice(("NL", "de", "XX")))
            case "name":
                out.append(rng.choice(("home", "third")))
            case "parent_id":
                out.append(rng.choice((None, 1, 2)))
            case _:
                out.append(rng.randint(1, 25))
    return tuple(out)


def direct_sql(case: Case, plan: QueryPlan, params: tuple[Value, ...]) -> str:
    """The client's text with the values, as MySQL would be asked."""
    database, schema = snapshot(PLANS / "rows.sql")
    held = plan_evict(case.sql, database, schema).reader.root
    assert isinstance(held, AnswerArrangement)
    return answer_sql(held, params).sql


def same(plan: QueryPlan, ours: list[Row], theirs: list[Row]) -> bool:
    """As bags; where rows are cut MySQL may choose among ties, so only the number is compared."""
    if plan.reader.limit is not None:
        return len(ours) == len(theirs)
    return Counter(ours) == Counter(theirs)


@pytest.mark.parametrize("case", queries(lists=False), ids=lambda case: case.title)
def test_plan_gives_what_mysql_gives(shop: RunSql, case: Case) -> None:
    database, schema = snapshot(PLANS / "rows.sql")
    plan = plan_query(case.sql, database, schema)
    oracle = PlanOracle(plan, shop)
    rng = random.Random(SEED)
    for _ in range(1 if not plan.parameters else 12):
        params = draw(plan, rng)
        ours, theirs = oracle.answer(params), shop(direct_sql(case, plan, params))
        assert same(plan, ours, theirs), (params, ours, theirs)


@pytest.mark.parametrize("case", queries(lists=True), ids=lambda case: case.title)
def test_a_list_is_its_keys_together(shop: RunSql, case: Case) -> None:
    """Of each list two values: the answers of both keys together are MySQL's for the list."""
    database, schema = snapshot(PLANS / "rows.sql")
    plan = plan_query(case.sql, database, schema)
    if isinstance(plan.reader.root, AnswerArrangement):
        return
    oracle = PlanOracle(plan, shop)
    rng = random.Random(SEED)
    for _ in range(10):
        first, second = draw(plan, rng), draw(plan, rng)
        listed: list[Value] = []
        keys: list[list[Value]] = [[]]
        for parameter, a, b in zip(plan.parameters, first, second, strict=True):
            values = list(dict.fromkeys([a, str(b) + "x" if isinstance(b, str) else b])) if parameter.list else [a]
            listed.append(tuple(values) if parameter.list else a)
            keys = [[*key, value] for key in keys for value in values]
        ours = [row for key in keys for row in oracle.answer(key)]
        theirs = shop(direct_sql(case, plan, tuple(listed)))
        assert plan.reader.limit is not None or Counter(ours) == Counter(theirs), (listed, ours, theirs)


@pytest.mark.parametrize("case", queries(lists=False), ids=lambda case: case.title)
def test_semijoins_reach_what_the_plan_looks_up(shop: RunSql, case: Case) -> None:
    """Whatever the plan fetched for a lookup, key by key, comes by the semi-join for the same keys."""
    database, schema = snapshot(PLANS / "rows.sql")
    plan = plan_query(case.sql, database, schema)
    rng = random.Random(SEED)
    wanted = [draw(plan, rng) for _ in range(5)]
    oracle = PlanOracle(plan, shop)
    for params in wanted:
        oracle.answer(params)
    keys = [tuple(params[part.parameter] for part in plan.key) for params in wanted]
    for index, lookup in enumerate(plan.reader.lookups):
        reached = shop(semijoin_sql(plan, index, keys))
        assert all(len(row) == len(fill_columns(lookup.arrangement)) for row in reached)
        assert set(oracle.fetched[index]) <= set(reached)


def evicted(plan: QueryPlan, params: tuple[Value, ...], table: str, before: Row | None, after: Row | None) -> bool:
    """Whether a change of a row makes the key a hole, by the plan's inputs."""
    root = plan.reader.root
    assert isinstance(root, AnswerArrangement)
    return any(_concerns(input_, params, before, after) for input_ in root.inputs if input_.table.name == table)


def _concerns(input_: AnswerInput, params: tuple[Value, ...], before: Row | None, after: Row | None) -> bool:
    def value(row: Row, expr: Expr) -> Value:
        return evaluate(expr, lambda ref: row[input_.table.column(ref.name).position])

    images = [row for row in (before, after) if row is not None]
    images = [row for row in images if input_.filter is None or value(row, input_.filter) not in (None, 0)]
    if len(images) == 2 and all(value(images[0], expr) == value(images[1], expr) for expr in input_.used):
        return False
    return any(_key_agrees(input_, params, row) for row in images)


def _key_agrees(input_: AnswerInput, params: tuple[Value, ...], row: Row) -> bool:
    for name, param in zip(input_.key_columns, params, strict=True):
        if name is None:
            continue
        column = input_.table.column(name)
        by = comparison_key(column.type) or (lambda item: item)
        values = param if isinstance(param, tuple) else (param,)
        held = row[column.position]
        if not any(item is held if held is None or item is None else by(item) == by(held) for item in values):
            return False
    return True


def test_no_answer_changes_without_being_evicted(shop: RunSql) -> None:
    """Every golden query held as it is, random changes of one row: an answer that differs afterwards was evicted."""
    database, schema = snapshot(PLANS / "rows.sql")
    rng = random.Random(SEED)
    held: list[tuple[QueryPlan, tuple[Value, ...]]] = []
    for case in (*queries(lists=False), *queries(lists=True)):
        plan = plan_evict(case.sql, database, schema)
        for _ in range(4):
            drawn = zip(plan.parameters, draw(plan, rng), draw(plan, rng), strict=True)
            held.append((plan, tuple((a, b) if parameter.list else a for parameter, a, b in drawn)))
    answers = [_answer(shop, plan, params) for plan, params in held]
    kept = 0
    for _ in range(60):
        table, before, after = _change(shop, rng)
        for at, (plan, params) in enumerate(held):
            now = _answer(shop, plan, params)
            gone = evicted(plan, params, table, before, after)
            assert gone or now == answers[at], (plan.sql, params, table, before, after, answers[at], now)
            kept += not gone and table in {other.name for other in plan.tables}
            answers[at] = now
    assert kept > 1000  # most keys survive most changes of their tables


def _answer(shop: RunSql, plan: QueryPlan, params: tuple[Value, ...]) -> Counter[Row]:
    root = plan.reader.root
    assert isinstance(root, AnswerArrangement)
    return Counter(shop(answer_sql(root, params).sql))


CHANGES = {
    "orders": (
        ("customer_id", (1, 2, 3, 4, 5)),
        ("status", STATUSES),
        ("total", (5, 900, 1500)),
        ("note", ("note", None)),
        ("placed_at", ("2024-01-02 10:00:00", "2024-02-02 10:00:00")),
    ),
    "customers": (("country", ("NL", "DE")), ("name", ("Ida", None))),
    "products": (("parent_id", (1, 2, None)), ("price", (1, 200)), ("title", ("a", "b"))),
    "order_lines": (("quantity", (1, 7)), ("product_id", (1, 2, 3)), ("price", (1, 500))),
    "settings": (("value", ("NL", "DE", None)),),
}


def _change(shop: RunSql, rng: random.Random) -> tuple[str, Row | None, Row | None]:
    """Updates, deletes or puts back one random row; returns its table and images."""
    _, schema = snapshot(PLANS / "rows.sql")
    name = rng.choice(list(CHANGES))
    table = schema.relations["shop", name]
    assert isinstance(table, Table)
    columns = ", ".join(column.name for column in table.columns)
    before = rng.choice(sorted(shop(f"SELECT {columns} FROM {name}"), key=str))
    keys = [(key, before[table.column(key).position]) for key in table.primary_key]
    where = " AND ".join(f"{key} = {sql_literal(value, table.column(key).type)}" for key, value in keys)
    if rng.random() < 0.2 and name != "settings":
        shop(f"DELETE FROM {name} WHERE {where}")
        return name, before, None
    column, values = rng.choice(CHANGES[name])
    shop(f"UPDATE {name} SET {column} = {sql_literal(rng.choice(values), table.column(column).type)} WHERE {where}")
    return name, before, shop(f"SELECT {columns} FROM {name} WHERE {where}")[0]


def test_columns_are_what_mysql_announces(mysql: Server, shop: RunSql) -> None:
    """Names, types, digits and signs of every maintained query; what differs would be held as it is instead."""
    database, schema = snapshot(PLANS / "rows.sql")
    plans = [plan_query(case.sql, database, schema) for case in (*queries(lists=False), *queries(lists=True))]
    maintained = [plan for plan in plans if plan.mode is Mode.MAINTAIN]

    async def describe(executor: Executor) -> list[tuple[ResultColumn, ...]]:
        return [(await executor.describe(plan.sql.replace("?...", "?"), database))[0] for plan in maintained]

    for plan, columns in zip(maintained, run(mysql, describe), strict=True):
        assert disagreement(plan, columns) == "", plan.sql
        assert [column.name for column in plan.reader.output] == [column.name for column in columns], plan.sql
