"""The bytes of our result sets are MySQL's own: for every column type and its edge values, in both protocols, for
clients with and without CLIENT_DEPRECATE_EOF.

What a real MySQL sends is taken from the socket; the canonical values come by the project's own way, through a cache
or through an upquery.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from external_upquery.executor import Executor
from integration.servers.mysql_server import Server
from integration.support import upqueries
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.raw_answers import RawAnswer, RawSession, raw_session
from proxy.mysql.wire.packets import LARGEST, STATUS_AUTOCOMMIT
from proxy.mysql.wire.rows import FORMATS, head, join
from proxy.port.api import Served
from sqltypes.expression import Row
from sqltypes.schema import DOUBLE, ResultColumn
from sqltypes.values import sql_literal
from tests.support.type_cases import SQL_MODE, TYPE_CASES, TypeCase

# Types that are going out of use, whose text form is not that of their canonical value.
OLD_CASES = (
    TypeCase("INT(8) ZEROFILL", ("0", "42", "4294967295")),
    TypeCase("TINYINT ZEROFILL", ("0", "7", "255")),
    TypeCase("SMALLINT(3) ZEROFILL", ("0", "65535")),
    TypeCase("MEDIUMINT ZEROFILL", ("0", "1")),
    TypeCase("BIGINT ZEROFILL", ("0", "18446744073709551615")),
    TypeCase("DECIMAL(10,2) ZEROFILL", ("0", "1.5", "12345678.99")),
    TypeCase("DECIMAL(6,0) ZEROFILL", ("0", "42")),
    TypeCase("FLOAT ZEROFILL", ("0", "-0e0", "1.5", "3.4e38", "1e-30")),
    TypeCase("DOUBLE ZEROFILL", ("0", "-0e0", "1.5", "1e300")),
    TypeCase("DOUBLE(12,3) ZEROFILL", ("0", "-0e0", "3.5", "123456789.125")),
    TypeCase("FLOAT(8,2) ZEROFILL", ("0", "-0e0", "3.5")),
    TypeCase("FLOAT(7,3)", ("0", "-1.5", "9999.999", "0.001", "-0.0004")),
    TypeCase("FLOAT(5,0)", ("0", "12345", "0.5", "1.5")),
    TypeCase("DOUBLE(20,4)", ("0", "2.25", "-999999999999.9999", "0.00005", "-0.00004")),
    TypeCase("DOUBLE(255,2)", ("1e200", "-1e22", "1.005", "123456789012345678901")),
    TypeCase("DOUBLE(50,25)", ("0.1", "1e-7", "-123456.7", "1e20", "0.30000000000000004")),
    TypeCase("FLOAT(40,20)", ("0.1", "1e-7", "-123456.7", "1e15")),
    TypeCase("BOOL", ("TRUE", "FALSE", "-128")),
)
CASES = {f"v{number}": case for number, case in enumerate((*TYPE_CASES, *OLD_CASES))}
# Columns whose form is not that of a table's column.
EXPRESSIONS = (
    "SELECT MAX(y), MIN(y), MAX(z), MIN(b), MAX(d), SUM(d), AVG(d), SUM(g), AVG(z), MIN(i), MAX(e), COUNT(*) FROM t",
    "SELECT z + 0, COALESCE(z, 0), IFNULL(y, 1), y + 0, CASE WHEN id THEN z END, b + 0 FROM t ORDER BY id",
    "SELECT z, y, b FROM (SELECT DISTINCT z, y, b, id FROM t) derived ORDER BY id",
    "SELECT z FROM t UNION ALL SELECT z FROM t",
    "SELECT y, COUNT(*) FROM t GROUP BY y ORDER BY y",
    "SELECT (SELECT MAX(z) FROM t), (SELECT y FROM t WHERE id = 1), EXISTS (SELECT 1 FROM t)",
    "SELECT 1e22, 1e15 / 3, 1e0, 0.1e0, 1 / 3, -0e0, NULL, TRUE, 18446744073709551615, -1, 'é', x'ff', b'101'",
    "SELECT TIMEDIFF('10:00', '11:00'), ADDTIME('10:00:00', '1:00:00.5'), TIME'100:00:00.25', DATE'2024-02-29',"
    " TIMESTAMP'2024-02-29 12:34:56.5', TIMESTAMP'2024-02-29 00:00:00', SEC_TO_TIME(0.5), MAKETIME(-1, 2, 3)",
    "SELECT JSON_OBJECT('a', g), JSON_ARRAYAGG(i), GROUP_CONCAT(e), CAST(SUM(d) AS CHAR) FROM t GROUP BY id",
    "SELECT t.id, u.id, u.y, u.d, u.m FROM t LEFT JOIN t u ON u.id = t.id + 2 ORDER BY t.id",
    "SELECT CAST(z AS DECIMAL(20,5)), CAST(y AS CHAR), CAST(e AS BINARY), CAST(m AS DATE), CAST(i AS SIGNED) FROM t",
    "SELECT BIT_OR(b), BIT_AND(z), STDDEV(z), d * d, d / 3, z DIV 5, z % 5, ROUND(d, 1), FLOOR(g), -z FROM t"
    " GROUP BY id",
    "SELECT * FROM t WHERE FALSE",
)
COLUMNS_OF_T = (
    "id INT PRIMARY KEY, z INT(8) UNSIGNED ZEROFILL, y YEAR, b BIT(9), d DECIMAL(12,3), g DOUBLE(10,2),"
    " i TIME(2), e ENUM('a','b'), m DATETIME(3)"
)
ROWS_OF_T = (
    "(1, 42, 0, 5, -1.5, 0.25, '-25:00:00.5', 'a', '2024-02-29 00:00:00')",
    "(2, 0, 2155, 511, 123456789.125, -0.0e0, '838:59:59', 'b', '2024-02-29 12:34:56.789')",
    "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
)
Executed = tuple[tuple[ResultColumn, ...], list[Row]]


@pytest.fixture
def sessions(mysql: Server, database: str) -> Iterator[dict[str, RawSession]]:
    """One for each format, by its name."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(raw_session(mysql, database, eof=name.endswith("-eof"))) for name in FORMATS}


def raw(sessions: dict[str, RawSession], name: str, sql: str) -> RawAnswer:
    session = sessions[name]
    return session.binary(sql) if "binary" in name else session.text(sql)


def bytes_of(sessions: dict[str, RawSession], name: str, sql: str) -> bytes:
    """What MySQL sends behind the column definitions, but for what the status says of how it ran the statement."""
    return raw(sessions, name, sql).with_status(STATUS_AUTOCOMMIT, eof=sessions[name].eof)


def filled(mysql: Server, database: str, names: Iterator[str]) -> None:
    statements = [f"USE `{database}`", f"SET sql_mode = '{SQL_MODE}'"]
    for name in names:
        rows = ", ".join(f"({id_}, {literal})" for id_, literal in enumerate((*CASES[name].literals, "NULL")))
        statements.append(f"CREATE TABLE {name} (id INT PRIMARY KEY, v {CASES[name].ddl} NULL)")
        statements.append(f"INSERT INTO {name} VALUES {rows}")
    mysql.execute(*statements)


async def held_answer(proxy: Proxy, name: str, form: str, key: int) -> bytes:
    """What the cache's own encoding is. Where a fill could not be used in time, the answer is MySQL's text, in which a
    FLOAT has six digits: no session over MySQL's protocol is given that."""
    cache = proxy.app.router.caches.open(name, form)
    while (answer := await cache.read((key,))).served is Served.PASSED:
        await proxy.caught_up()
    return answer.body


def test_an_answer_of_a_cache_is_mysqls_for_every_type(
    mysql: Server, database: str, sessions: dict[str, RawSession], tmp_path: Path
) -> None:
    names = [name for name, case in CASES.items() if mysql.version() >= "9" or "VECTOR" not in case.ddl]
    filled(mysql, database, iter(names))
    wanted = {
        (name, id_, form): bytes_of(sessions, form, f"SELECT v FROM {name} WHERE id = {id_}")
        for name in names
        for id_ in range(len(CASES[name].literals) + 2)  # one of them is not there
        for form in FORMATS
    }
    different: list[tuple[str, str, str, bytes, bytes]] = []

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            router = proxy.app.router
            for name in names:
                await router.caches.create(name, f"SELECT v FROM {name} WHERE id = ?", database)
            for (name, id_, form), theirs in wanted.items():
                ours = await held_answer(proxy, name, form, id_)
                if ours != theirs:
                    shown = (*CASES[name].literals, "NULL", "nothing")[id_]
                    different.append((CASES[name].ddl, shown, form, ours, theirs))

    run(scenario)
    assert not different
    assert len(wanted) > 2000


def executed(mysql: Server, database: str, statements: tuple[str, ...]) -> list[Executed]:
    """The columns and rows of each statement, as an upquery has them."""

    async def body(executor: Executor) -> list[Executed]:
        found = await upqueries.answer(executor, upqueries.request(*statements, database=database))
        columns = [(await executor.describe(sql, database))[0] for sql in statements]
        return list(zip(columns, found.results, strict=True))

    return upqueries.run(mysql, body)


def test_values_of_expressions_are_sent_as_mysql_sends_them(
    mysql: Server, database: str, sessions: dict[str, RawSession]
) -> None:
    mysql.execute(
        f"USE `{database}`",
        f"SET sql_mode = '{SQL_MODE}'",
        f"CREATE TABLE t ({COLUMNS_OF_T})",
        f"INSERT INTO t VALUES {', '.join(ROWS_OF_T)}",
    )
    for sql, (columns, rows) in zip(EXPRESSIONS, executed(mysql, database, EXPRESSIONS), strict=True):
        for name, form in FORMATS.items():
            assert form.encoder_for(columns)(rows) == bytes_of(sessions, name, sql), (sql, name)


def test_random_numbers_print_as_mysql_prints_them(
    mysql: Server, database: str, sessions: dict[str, RawSession]
) -> None:
    rng = random.Random(20)

    def bits(code: str, size: int) -> float:
        while True:
            value: float = struct.unpack(code, rng.randbytes(size))[0]
            if math.isfinite(value):
                return value

    def ordinary() -> float:
        return rng.choice((-1, 1)) * round(10 ** rng.uniform(-8, 18), rng.randrange(12)) * rng.choice((1, 1, 0.1, 0.5))

    numbers = [
        (at, bits("<f", 4), rng.uniform(-1e6, 1e6), bits("<d", 8), ordinary(), rng.uniform(-1e9, 1e9))
        for at in range(3000)
    ]
    rows_of_n = [(at, ", ".join(sql_literal(value, DOUBLE) for value in row)) for at, *row in numbers]
    mysql.execute(
        f"USE `{database}`",
        "CREATE TABLE n (id INT PRIMARY KEY, f FLOAT, h FLOAT(12,3), g DOUBLE, o DOUBLE, q DOUBLE(20,5))",
        f"INSERT INTO n VALUES {', '.join(f'({at}, {row})' for at, row in rows_of_n)}",
    )
    shown = "SELECT f, h, g, o, q FROM n ORDER BY id"
    exact = "SELECT CAST(f AS DOUBLE), CAST(h AS DOUBLE), g, o, q FROM n ORDER BY id"  # as upqueries ask
    (columns, _), (_, rows) = executed(mysql, database, (shown, exact))
    for name, form in FORMATS.items():
        assert form.encoder_for(columns)(rows) == bytes_of(sessions, name, shown), name


@pytest.mark.parametrize("row", [LARGEST - 1, LARGEST, LARGEST + 1, 2 * LARGEST])
def test_rows_of_16_megabytes_are_cut_as_mysql_cuts_them(
    mysql: Server, database: str, sessions: dict[str, RawSession], row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`row`: bytes of its text form. The proxy holds none so large; who fills with Spark's help may."""
    monkeypatch.setattr("external_upquery.executor.LARGEST_ROW", 0)
    length = row - (4 if row < (1 << 24) + 4 else 9)
    sql = f"SELECT REPEAT('x', {length}) AS v UNION ALL SELECT 'y' UNION ALL SELECT REPEAT('z', {length - 2})"
    ((columns, rows),) = executed(mysql, database, (sql,))
    for name, form in FORMATS.items():
        assert form.encoder_for(columns)(rows) == bytes_of(sessions, name, sql), name


@pytest.mark.parametrize("name", FORMATS)
def test_what_goes_before_the_rows_is_made_of_their_definitions(
    mysql: Server, database: str, sessions: dict[str, RawSession], name: str
) -> None:
    mysql.execute(f"USE `{database}`", f"CREATE TABLE t ({COLUMNS_OF_T})")
    many = ", ".join(f"{number} AS c{number}" for number in range(300))
    for sql in ("SELECT * FROM t", "SELECT 1", f"SELECT {many}"):
        answer = raw(sessions, name, sql)
        eof = sessions[name].eof
        status = int.from_bytes(answer.head[-2:], "little") if eof else STATUS_AUTOCOMMIT  # how it is run is told there
        assert head(answer.definitions, eof=eof, status=status) == answer.head


@pytest.mark.parametrize("name", FORMATS)
def test_answers_of_mysql_joined_are_its_answer_to_all(
    mysql: Server, database: str, sessions: dict[str, RawSession], name: str
) -> None:
    mysql.execute(
        "SET SESSION cte_max_recursion_depth = 2000",
        f"USE `{database}`",
        "CREATE TABLE r (id INT PRIMARY KEY, s VARCHAR(400), d DATETIME)",
        "INSERT INTO r WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 1500)"
        " SELECT id, IF(id % 7, REPEAT('x', id % 400), NULL), '2024-01-01' FROM n",
    )

    def between(first: int, last: int) -> bytes:
        return bytes_of(sessions, name, f"SELECT * FROM r WHERE id BETWEEN {first} AND {last} ORDER BY id")

    eof = sessions[name].eof
    whole = between(1, 1500)
    for cuts in ((256, 512), (1, 2, 300, 300, 301, 1499), (1500,), (0,), tuple(range(1, 1500, 100))):
        parts = [between(first + 1, last) for first, last in zip((0, *cuts), (*cuts, 1500), strict=True)]
        assert join(parts, eof=eof) == whole, cuts


@pytest.mark.parametrize("name", FORMATS)
def test_a_hit_on_a_list_of_keys_is_one_answer(
    mysql: Server, database: str, sessions: dict[str, RawSession], tmp_path: Path, name: str
) -> None:
    mysql.execute(
        "SET SESSION cte_max_recursion_depth = 2000",
        f"USE `{database}`",
        "CREATE TABLE r (id INT PRIMARY KEY, k INT, s VARCHAR(400), KEY (k))",
        "INSERT INTO r WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 900)"
        " SELECT id, IF(id < 300, id, 300 + id % 3), REPEAT('x', id % 400) FROM n",
    )
    lists = ((1, 2, 3), tuple(range(1, 290)), (300, 301), (7, 1000, 302, 8), (1000, 1001))

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            router = proxy.app.router
            await router.caches.create("by_k", "SELECT id, s FROM r WHERE k IN (?)", database)
            cache = router.caches.open("by_k", name)
            for keys in lists:
                missed = (await cache.read((keys,))).body
                hit = cache.hit((keys,))
                assert hit is not None
                for body in (missed, hit):
                    assert in_any_order(body, first) == in_any_order(wanted[keys], first)

    sql = "SELECT id, s FROM r WHERE k IN ({})"
    wanted = {keys: bytes_of(sessions, name, sql.format(", ".join(map(str, keys)))) for keys in lists}
    first = 5 if sessions[name].eof else 4
    run(scenario)


def in_any_order(body: bytes, first: int) -> list[bytes]:
    """The payloads of an answer whose rows are small, its end last. Asserts that its packets are numbered from `first`
    on."""
    found: list[bytes] = []
    at = 0
    while at < len(body):
        assert body[at + 3] == (first + len(found)) & 0xFF
        end = at + 4 + int.from_bytes(body[at : at + 3], "little")
        found.append(body[at + 4 : end])
        at = end
    return [*sorted(found[:-1]), found[-1]]
