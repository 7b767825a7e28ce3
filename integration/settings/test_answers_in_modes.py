"""Sessions whose sql_mode counts for a query are answered from a cache of the text that sets this mode. MySQL is asked
the same text in a session of that mode: random queries over random tables, while rows change."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.oracle.answers import parse
from integration.oracle.trees import Spelled, integer, payload, spelled
from integration.servers.mysql_server import Server
from integration.settings.test_settings_that_change_answers import KINDS, both, do, shown
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.random_queries import RandomQuery, random_query
from integration.support.random_tables import RandomTable, first_rows, one_write, random_tables
from integration.support.raw_client import RawClient
from integration.support.served import last_served, read_until_hit
from planner.text.hints import SETTABLE, hint_of, with_hint
from planner.text.scan import scan
from proxy.read.literals import substituted

DATABASE = "answers_in_modes"
Answer = Callable[[RawClient, str], object]
MODES = {
    "none": "",
    "as WordPress leaves them": "NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
    "as Laravel's strict => false": "NO_ENGINE_SUBSTITUTION",
    "strict for all, any date": "STRICT_ALL_TABLES,ALLOW_INVALID_DATES",
    "signed": "ONLY_FULL_GROUP_BY,NO_UNSIGNED_SUBTRACTION,TIME_TRUNCATE_FRACTIONAL",
    "zeros are none": "STRICT_TRANS_TABLES,NO_ZERO_DATE",
    "backslashes are letters": "STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES",
}
SEED = int(os.environ.get("UPWELL_MODES_SEED", "1"))
ROUNDS = int(os.environ.get("UPWELL_MODES_ROUNDS", "2"))
TABLES = (
    "CREATE TABLE z (id INT PRIMARY KEY, k INT, d DATE, n INT UNSIGNED, s VARCHAR(9), t DATETIME(3), UNIQUE (k, n))",
    "CREATE TABLE y (id INT PRIMARY KEY, z INT NOT NULL, name VARCHAR(9), KEY (z))",
    "SET sql_mode = 'ALLOW_INVALID_DATES'",
    "INSERT INTO z VALUES (1, 1, '2024-00-10', 0, 'a', '2024-01-01 10:00:00.999'), (2, 1, '2024-02-31', 1, 'b', NULL),"
    " (3, 1, '0000-00-00', 2, 'c', '0000-00-00'), (4, 2, '2024-01-01', 3, 'd', '2024-00-00 00:00:00.5')",
    "INSERT INTO y VALUES (1, 1, 'x'), (2, 1, 'w'), (3, 2, 'v'), (4, 3, 'u')",
)
BY_K = "SELECT d, COUNT(*) FROM z WHERE k = 1 GROUP BY d ORDER BY d"
WITH = "WITH a AS (SELECT d, DATE(t) AS t FROM z WHERE k = 1), b AS (SELECT 1) SELECT d, t FROM a ORDER BY d"
OUT_OF_RANGE = b"#22003"  # MySQL's SQLSTATE: 0 - 1 is no unsigned number
DISTINCT = "SELECT DISTINCT z.id, z.k FROM z JOIN y ON y.z = z.id WHERE z.k = 1 ORDER BY z.s"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    other = f"{DATABASE}_2"
    mysql.execute(f"DROP DATABASE IF EXISTS {other}", f"CREATE DATABASE {other}", f"USE {other}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}", f"DROP DATABASE {other}")


def hinted(sql: str, mode: str) -> str | None:
    found = with_hint(sql.encode(), hint_of(frozenset(mode.split(","))).encode())
    return None if found is None else found.decode()


@contextmanager
def cached(beside: Beside, *texts: str | None) -> Iterator[None]:
    """While there are caches of these, as far as they can be cached."""
    with beside.client() as client:
        made = [
            name for name, sql in enumerate(texts) if sql and client.query(f"CREATE CACHE m{name} FROM {sql}")[4] == 0
        ]
        yield
        for name in made:
            client.query(f"DROP CACHE m{name}")


def rows(client: RawClient, sql: str) -> object:
    """An answer's columns and rows, in any order; what MySQL tells of a column by its plan alone left out, of an empty
    answer most of it."""
    found = parse(client.query(sql), binary=False)
    columns = found.columns if found.rows else [(column.name, column.type) for column in found.columns]
    return found.errno or (columns, sorted(map(repr, found.rows)))


def whole(client: RawClient, sql: str) -> object:
    return shown(client, client.query(sql))


def differs(pair: Sequence[RawClient], sql: str, mode: str, answer: Answer = whole) -> str:
    direct, through = (answer(client, sql) for client in pair)
    return "" if direct == through else f"{mode!r}: {sql}\n  MySQL  {direct}\n  Upwell {through}"


LOOSE = "SET sql_mode = 'ALLOW_INVALID_DATES'"


def made_anew(mysql: Server, rng: random.Random) -> list[RandomTable]:
    """Random tables with rows, in the place of those before."""
    tables = random_tables(rng)
    mysql.execute(f"USE {DATABASE}", LOOSE, *(f"DROP TABLE IF EXISTS {table.name}" for table in tables))
    mysql.execute(f"USE {DATABASE}", LOOSE, *(table.ddl() for table in tables), *first_rows(rng, tables))
    return tables


def test_random_queries(beside: Beside, mysql: Server) -> None:
    wrong: list[str] = []
    served: Counter[str] = Counter()
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(seed)
        tables = made_anew(mysql, rng)
        for mode in MODES.values():
            queries = [random_query(rng, tables) for _ in range(12)]
            texts = [each for query in queries for each in (query.sql, hinted(query.sql, mode))]
            with cached(beside, *texts), both(beside, "OK at the end") as pair:
                do(pair, f"SET sql_mode = '{mode}'")
                for _ in range(2):
                    asked = [substituted(query.sql, values(query, rng)) for query in queries]
                    for sql in [*asked, *asked, *asked]:
                        wrong += filter(None, [differs(pair, sql, mode, rows)])
                        served[last_served(beside, pair[1]).split(" ")[0]] += 1
                    changes = [one_write(rng, rng.choice(tables)) for _ in range(4)]
                    for change in changes:
                        mysql.execute(f"USE {DATABASE}", LOOSE, change)
                    beside.caught_up()
                    for sql in asked:
                        wrong += filter(None, [differs(pair, sql, mode, rows)])
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:5])
    print(served)
    assert served["hit"] > 0.3 * served.total(), served


def test_random_queries_prepared(beside: Beside, mysql: Server) -> None:
    """Each statement is prepared in a session of its mode, kept or closed behind its execution."""
    wrong: list[str] = []
    served: Counter[str] = Counter()
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(seed)
        tables = made_anew(mysql, rng)
        for mode in MODES.values():
            queries = [random_query(rng, tables) for _ in range(12)]
            texts = [each for query in queries for each in (query.sql, hinted(query.sql, mode))]
            with cached(beside, *texts), both(beside, "OK at the end") as pair:
                do(pair, f"SET sql_mode = '{mode}'")
                kept: dict[str, list[int]] = {}
                for _ in range(2):
                    for query in queries:
                        sql, given = as_bound(query.sql, values(query, rng))
                        if sql not in kept or rng.random() < 0.3:
                            kept[sql] = [client.prepare(sql).id for client in pair]
                        for _ in range(3):
                            told = [executed(client, id_, given) for client, id_ in zip(pair, kept[sql], strict=True)]
                            how = last_served(beside, pair[1])
                            served[how.split(" ")[0]] += 1
                            if told[0] != told[1]:
                                texts_of = [each.text for each in given]
                                wrong.append(f"{mode!r}: {sql} {texts_of} {how}\n  {told[0]}\n  {told[1]}")
                    for change in [one_write(rng, rng.choice(tables)) for _ in range(4)]:
                        mysql.execute(f"USE {DATABASE}", LOOSE, change)
                    beside.caught_up()
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:5])
    print(served)
    assert served["hit"] > 0.2 * served.total(), served


def as_bound(sql: str, given: Sequence[object]) -> tuple[str, list[Spelled]]:
    """The text with a mark for each value, and the values as they are bound."""
    marks = [token for token in scan(sql) if token.kind == "param"]
    bound: list[Spelled] = []
    for token, value in reversed(list(zip(marks, given, strict=True))):
        items = value if isinstance(value, tuple) else (value,)
        bound = [*map(spelled, items), *bound]
        sql = sql[: token.start] + ", ".join("?" * len(items)) + sql[token.end :]
    return sql, bound


def executed(client: RawClient, statement: int, given: Sequence[Spelled]) -> object:
    """As `rows`, of an execution."""
    parameters = payload(list(given)) if given else b""
    found = parse(client.execute(statement, parameters), binary=True)
    columns = found.columns if found.rows else [(column.name, column.type) for column in found.columns]
    return found.errno or (columns, sorted(map(repr, found.rows)))


def test_a_statement_is_resolved_by_the_mode_in_which_it_was_prepared(beside: Beside, mysql: Server) -> None:
    """And by that of each execution at MySQL. Behind another mode it is MySQL's."""
    sql = "SELECT id, DATE(t) AS d FROM z WHERE k = ? ORDER BY id"
    given = [integer(1)]
    loose, strict = "NO_ENGINE_SUBSTITUTION", "NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,NO_ZERO_IN_DATE"
    with cached(beside, sql, hinted(sql, loose), hinted(sql, strict)), both(beside, "OK at the end") as pair:
        for mode in (loose, strict, "DEFAULT", loose):
            do(pair, f"SET sql_mode = {mode if mode == 'DEFAULT' else repr(mode)}")
            ids = [client.prepare(sql).id for client in pair]
            pair[0].execute(ids[0], payload(given))
            read_until_hit(beside, pair[1], pair[1].execute, ids[1], payload(given))
            for other in (loose, strict, "DEFAULT", mode):
                do(pair, f"SET sql_mode = {other if other == 'DEFAULT' else repr(other)}")
                for _ in range(3):
                    told = [executed(client, id_, given) for client, id_ in zip(pair, ids, strict=True)]
                    assert told[0] == told[1], (mode, other, last_served(beside, pair[1]))
                if other != mode:
                    assert last_served(beside, pair[1]).startswith("passed")


def values(query: RandomQuery, rng: random.Random) -> tuple[object, ...]:
    return tuple(tuple(each) if isinstance(each, list) else each for each in query.parameters(rng))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize(
    "sql",
    [
        BY_K,
        f"({BY_K})",
        WITH,
        DISTINCT,
        "SELECT n - 1 AS m FROM z WHERE k = 1",
        "SELECT DATE(t) AS d FROM z WHERE k = 1",
    ],
)
def test_each_mode_has_its_answers(beside: Beside, mysql: Server, sql: str, mode: str, kind: str) -> None:
    """Also those of a session whose mode was not known as it asked; other sessions have theirs."""
    set_ = f"SET sql_mode = '{MODES[mode]}'"
    refused = sql is DISTINCT and "FULL" in MODES[mode]
    with cached(beside, sql, hinted(sql, MODES[mode])), both(beside, kind) as pair, both(beside, kind) as others:
        do(pair, set_)
        for change in (
            "",
            "UPDATE z SET d = '2024-00-11', s = CONCAT('z', s) WHERE id = 1",
            "UPDATE z SET d = d + 0, s = 'a' WHERE id = 1",
        ):
            if change:
                mysql.execute(f"USE {DATABASE}", LOOSE, change)
                beside.caught_up()
            for _ in range(3):
                for two in (pair, others):
                    assert not differs(two, sql, mode)
        if not refused and OUT_OF_RANGE not in pair[0].query(sql):
            read_until_hit(beside, pair[1], pair[1].query, sql)
        with both(beside, kind) as fresh:
            do(fresh, set_, "CALL nothing()")
            for _ in range(3):
                assert not differs(fresh, sql, mode)
        do(pair, "SET sql_mode = DEFAULT")
        for _ in range(2):
            assert not differs(pair, sql, "the default again")


@pytest.mark.parametrize(
    ("sql", "cacheable"),
    [
        (DISTINCT, True),
        ("SELECT DISTINCT z.* FROM z WHERE k = 1 ORDER BY z.s", True),
        ("SELECT DISTINCT id FROM z WHERE k = 1 ORDER BY s, t DESC", True),
        ("SELECT DISTINCT k, n FROM z WHERE k = 1 ORDER BY s", False),  # both may be NULL: no unique key
        ("SELECT DISTINCT z.k FROM z JOIN y ON y.z = z.id WHERE z.k = 1 ORDER BY y.name", False),
        ("SELECT DISTINCT z.id FROM z JOIN y ON y.z = z.id WHERE z.k = 1 ORDER BY y.name", False),
        ("SELECT DISTINCT k AS s FROM z WHERE k = 1 ORDER BY s", True),  # of what is shown
        ("SELECT DISTINCT k AS s FROM z WHERE k = 1 ORDER BY s + 0", False),  # of the column
        ("SELECT DISTINCT n AS s FROM z WHERE k = 1 ORDER BY s IS NULL", False),
        (
            f"SELECT DISTINCT {DATABASE}.z.id FROM {DATABASE}.z JOIN {DATABASE}_2.z"
            f" ON {DATABASE}_2.z.k = {DATABASE}.z.k"
            f" WHERE {DATABASE}.z.k = 1 ORDER BY {DATABASE}_2.z.s",
            False,
        ),
        ("SELECT DISTINCT COUNT(*) FROM z WHERE k = 1 ORDER BY s", False),
        ("SELECT id, d FROM z WHERE k = 1 GROUP BY k", False),
        ("SELECT d, k FROM z WHERE k = 1 HAVING MAX(id) > 0", False),
        ("SELECT k FROM z WHERE id IN (SELECT DISTINCT z FROM y ORDER BY name) AND k = 1", False),
    ],
)
def test_which_row_is_shown_is_never_mysqls_choice(beside: Beside, sql: str, cacheable: bool) -> None:
    """Without ONLY_FULL_GROUP_BY."""
    with beside.client() as client:
        found = client.query(f"CREATE CACHE any_row FROM {hinted(sql, '')}")
        assert (found[4] == 0) == cacheable, found
        if cacheable:
            client.query("DROP CACHE any_row")
        else:
            assert b"ONLY_FULL_GROUP_BY" in found or b"only_full_group_by" in found, found


@pytest.mark.parametrize(
    ("before", "after"),
    [("both", "plain"), ("both", "hinted"), ("both", ""), ("plain", ""), ("plain", "hinted"), ("hinted", "plain")],
)
@pytest.mark.parametrize("sql", [BY_K, "SELECT id, s FROM z WHERE k = 1 ORDER BY id"])
def test_a_transaction_is_shown_the_same_again(
    beside: Beside, mysql: Server, sql: str, before: str, after: str
) -> None:
    """Whichever caches of the text, as it is or with the session's mode, come and go meanwhile."""
    texts = {"plain": (sql,), "hinted": (hinted(sql, ""),), "both": (sql, hinted(sql, "")), "": ()}
    mysql.execute(f"USE {DATABASE}", "UPDATE z SET d = '2024-01-05', s = 'a' WHERE id = 1")
    with both(beside, "OK at the end") as pair:
        do(pair, "SET sql_mode = ''")
        with cached(beside, *texts[before]):
            beside.caught_up()
            for _ in range(2):
                if before != "plain" or sql is not BY_K:  # the mode counts for the other
                    read_until_hit(beside, pair[1], pair[1].query, sql)
            do(pair, "BEGIN")
            assert not differs(pair, sql, "")
        mysql.execute(f"USE {DATABASE}", "UPDATE z SET d = '2024-01-06', s = 'b' WHERE id = 1")
        beside.caught_up()
        with cached(beside, *texts[after]):
            for _ in range(2):
                assert not differs(pair, sql, "")
            do(pair, "COMMIT")
            assert not differs(pair, sql, "")


@pytest.mark.parametrize("mode", sorted(SETTABLE))
def test_a_text_may_set_its_mode_itself(beside: Beside, mode: str) -> None:
    """In sessions of every mode it has one answer."""
    sql = hinted(BY_K, mode)
    assert sql is not None
    with cached(beside, sql), both(beside, "OK at the end") as pair:
        for own in ("DEFAULT", "''", "'NO_ZERO_DATE,ANSI_QUOTES'", "'ALLOW_INVALID_DATES'"):
            do(pair, f"SET sql_mode = {own}")
            read_until_hit(beside, pair[1], pair[1].query, sql)
            assert not differs(pair, sql, own)


def test_automatic_caching_makes_what_the_sessions_need(mysql: Server, tmp_path: Path, database: str) -> None:
    """One cache for sessions of all modes where they do not matter; else one for each."""
    mysql.execute(f"USE `{database}`", *TABLES)
    steady = "SELECT z.id, y.name FROM z JOIN y ON y.z = z.id WHERE z.k = 1 ORDER BY y.id"
    options = {"auto_cache": "on", "auto_cache_reads": "5", "auto_cache_time": "0ms"}
    with proxy_in_thread(mysql, database, tmp_path, **options) as found, both(found, "OK at the end") as pair:
        found.call(found.proxy.unhurried)
        do(pair, "SET sql_mode = ''")
        for sql in (steady, BY_K):
            read_until_hit(found, pair[1], pair[1].query, sql)
            assert not differs(pair, sql, "")
        made = {cache.sql for cache in found.call(lambda: list(found.proxy.app.catalog.caches.values()))}
        assert len(made) == 2 and sum("SET_VAR" in sql for sql in made) == 1, made
