"""SQLAlchemy's Core: engines, tables, types, transactions, reflection, errors."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable

import sqlalchemy
from sqlalchemy import JSON, Column, MetaData, Table, func, inspect, select, text
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import DBAPIError

from integration.clients.canonical import Step
from integration.clients.sqlalchemy.models import ADDRESS, engine
from integration.clients.statements import DEFAULTS, ERRORS, EVERY_TYPE

STEPS: list[Step] = []


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


def shown(action: Callable[[], object]) -> object:
    """What SQLAlchemy and the driver below show of an error."""
    try:
        action()
    except DBAPIError as error:
        cause = error.orig
        assert cause is not None
        lost = error.connection_invalidated
        return {"class": type(error).__name__, "number": cause.args[0], "text": str(cause.args[1]), "lost": lost}
    return "no error"


@step
def settings_of_a_new_session() -> object:
    with engine().connect() as connection:
        return dict(connection.execute(text(DEFAULTS)).tuples().all())


@step
def settings_with_each_isolation_level() -> object:
    outcome: dict[str, object] = {}
    for level in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"):
        with engine(isolation_level=level).connect() as connection:
            row = connection.execute(text("SELECT @@transaction_isolation, @@autocommit")).one()
            outcome[level] = [
                *row,
                connection.execute(text("SELECT COUNT(*) FROM " + ADDRESS.data + ".author")).scalar(),
            ]
    return outcome


@step
def every_type_as_text() -> object:
    with engine().connect() as connection:
        return connection.execute(text(EVERY_TYPE.format(data=ADDRESS.data))).all()


@step
def tables_reflected() -> object:
    found = inspect(engine(ADDRESS.data))
    return {
        "tables": sorted(found.get_table_names()),
        "views": sorted(found.get_view_names()),
        "columns": [
            [column["name"], str(column["type"]), column["nullable"]] for column in found.get_columns("article")
        ],
        "keys": [found.get_pk_constraint("article"), found.get_foreign_keys("article"), found.get_indexes("article")],
        "types": [str(column["type"]) for column in found.get_columns("every_type")],
    }


METADATA = MetaData()
ITEM = Table(
    "item",
    METADATA,
    Column("id", sqlalchemy.Integer, primary_key=True),
    Column("name", sqlalchemy.String(50), unique=True),
    Column("price", sqlalchemy.Numeric(12, 4)),
    Column("made", mysql.DATETIME(fsp=6)),
    Column("document", JSON),
    Column("kind", sqlalchemy.Enum("small", "größer")),
    Column("flag", sqlalchemy.Boolean),
    Column("data", sqlalchemy.LargeBinary),
)


@step
def rows_written_and_read() -> object:
    base = engine()
    METADATA.create_all(base)
    made = datetime.datetime(2024, 2, 29, 1, 2, 3, 456)
    with base.begin() as connection:
        first = connection.execute(
            ITEM.insert().values(
                name="🐬", price=decimal.Decimal("1.5000"), made=made, document={"ü": [1, None]}, data=b"\0\xff"
            )
        )
        many = connection.execute(ITEM.insert(), [{"name": f"item {n}", "flag": n % 2 == 0} for n in range(300)])
        upsert = mysql.insert(ITEM).values(id=1, name="again").on_duplicate_key_update(kind="größer")
        counts = [first.inserted_primary_key, many.rowcount, connection.execute(upsert).rowcount]
        counts.append(connection.execute(ITEM.update().where(ITEM.c.id > 290).values(flag=None)).rowcount)
    with base.connect() as connection:
        rows = connection.execute(select(ITEM).where(ITEM.c.id.in_([1, 2, 3, 301])).order_by(ITEM.c.id)).all()
        groups = connection.execute(select(ITEM.c.flag, func.count()).group_by(ITEM.c.flag).order_by(ITEM.c.flag)).all()
    METADATA.drop_all(base)
    return {"counts": counts, "rows": rows, "groups": groups}


@step
def transactions_and_savepoints() -> object:
    base = engine()
    METADATA.create_all(base)
    names = select(ITEM.c.name).order_by(ITEM.c.name)
    outcome: list[object] = []
    with base.connect() as connection, base.connect() as watcher:
        for ending in (connection.rollback, connection.commit):
            connection.execute(ITEM.insert().values(name="outer"))
            with connection.begin_nested() as savepoint:
                connection.execute(ITEM.insert().values(name="inner"))
                savepoint.rollback()
            with connection.begin_nested():
                connection.execute(ITEM.insert().values(name="kept"))
            outcome.append([connection.scalars(names).all(), watcher.scalars(names).all()])
            ending()
            watcher.rollback()
            outcome.append([connection.scalars(names).all(), watcher.scalars(names).all()])
            connection.rollback()
            watcher.rollback()
    METADATA.drop_all(base)
    return outcome


@step
def a_hundred_thousand_rows_streamed() -> object:
    with engine().connect() as connection:
        streaming = connection.execution_options(stream_results=True, yield_per=5000)
        rows = total = 0
        for part in streaming.execute(text(f"SELECT n, label FROM {ADDRESS.data}.number ORDER BY n")).partitions():
            rows += len(part)
            total += sum(row.n for row in part)
        return {"rows": rows, "sum": total}


@step
def errors() -> object:
    base = engine()
    with base.begin() as connection:
        connection.execute(text("CREATE TABLE taken (id INT PRIMARY KEY)"))
        connection.execute(text("INSERT INTO taken VALUES (1)"))
    with base.connect() as connection:
        outcome = {sql: shown(lambda sql=sql: connection.execute(text(sql))) for sql in ERRORS}  # type: ignore[misc]
        after = connection.execute(text("SELECT 1")).all()
        connection.rollback()
        connection.execute(text("DROP TABLE taken"))
    return outcome | {"after them": after}


@step
def session_killed_under_a_pool() -> object:
    pooled = engine(pool_size=1, max_overflow=0)
    pinging = engine(pool_size=1, max_overflow=0, pool_pre_ping=True)
    outcome: list[object] = []
    for base in (pooled, pinging):
        with base.connect() as connection:
            session_id = connection.execute(text("SELECT CONNECTION_ID()")).scalar_one()
        with engine().connect() as killer:
            there = text(f"SELECT id FROM performance_schema.processlist WHERE id = {session_id}")
            killer.execute(text(f"KILL {session_id}"))
            while killer.execute(there).all():
                pass  # each try is a round trip
        with base.connect() as connection:
            error = shown(lambda now=connection: now.execute(text("SELECT 1")))  # type: ignore[misc]
        outcome.append("no error" if error == "no error" else "lost")
        with base.connect() as connection:
            outcome.append(connection.execute(text("SELECT 2")).all())
    return outcome
