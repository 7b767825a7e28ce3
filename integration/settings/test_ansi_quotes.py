"""Sessions of ANSI_QUOTES, as Drupal's: what they ask with names in double quotes is a hit, and MySQL's answer to the
same text in the same mode. Random queries over random tables, while rows change."""

from __future__ import annotations

import os
import random
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.settings.test_answers_in_modes import cached, differs, rows, values
from integration.settings.test_settings_that_change_answers import KINDS, both, do, shown
from integration.support.proxy_thread import Beside, beside_database, proxy_in_thread
from integration.support.random_queries import random_query
from integration.support.random_tables import RandomTable, first_rows, one_write, random_tables
from integration.support.raw_client import bound
from integration.support.served import last_served, read_until_hit
from planner.text.scan import scan
from proxy.mysql.state.ansi_quotes import with_backticks
from proxy.read.literals import substituted

DATABASE = "ansi_quotes"
DRUPAL = "SET SESSION sql_mode = 'ANSI,TRADITIONAL'"
LOOSE = "SET sql_mode = 'ALLOW_INVALID_DATES'"
SEED = int(os.environ.get("UPWELL_MODES_SEED", "1"))
ROUNDS = int(os.environ.get("UPWELL_MODES_ROUNDS", "3"))
FIRST = (
    "DELETE FROM node",
    "INSERT INTO node VALUES (1, 'one', 'page', 100, 7), (2, 'say \"hi\"', 'page', 200, 8)",
    "INSERT INTO node VALUES (3, '\\\\', 'blog', 300, 9)",
)
TABLES = (
    'CREATE TABLE node (nid INT PRIMARY KEY, title VARCHAR(40), type VARCHAR(20), created INT, `a"b` INT, KEY (type))',
    *FIRST,
    "CREATE TABLE tag (nid INT, tid INT, PRIMARY KEY (nid, tid))",
    "INSERT INTO tag VALUES (1, 1), (1, 2), (2, 2)",
)
HITS = (
    'SELECT "n"."nid" AS "nid", "n"."title" AS "title" FROM "node" "n" WHERE "n"."nid" = 1',
    'SELECT "base"."nid" AS "nid" FROM "node" "base" WHERE "base"."type" = \'page\' ORDER BY "base"."created" DESC'
    " LIMIT 5 OFFSET 0",
    'SELECT "n".* FROM "node" "n" INNER JOIN "tag" "t" ON "t"."nid" = "n"."nid" WHERE "t"."tid" IN (1, 2)'
    ' ORDER BY "n"."nid", "t"."tid"',
    'SELECT COUNT(*) AS "expression" FROM (SELECT 1 AS "expression" FROM "node" "n" WHERE "n"."type" = \'page\')'
    ' "subquery"',
    'SELECT 1 AS "expression" FROM "node" "n" WHERE "n"."type" = \'page\' AND "n"."created" > 100 LIMIT 1 OFFSET 0',
    'SELECT "nid" FROM "node" WHERE "title" = \'say "hi"\'',
    'SELECT "nid" FROM "node" WHERE "title" = \'\\\\\'',
    'SELECT "a""b" AS "c`d", "a""b" FROM "node" WHERE "nid" = 1 -- "x"',
    '/* "x" */ SELECT "nid" FROM "node" WHERE "title" LIKE \'s%"hi"\'',
    'SELECT MAX("created") AS "last" FROM "node" WHERE "type" = \'page\'',
)
PASSED = (
    'SELECT MAX("created") FROM "node" WHERE "type" = \'page\'',  # a name by its letters
    'SELECT "nid" FROM "node" WHERE "title" = "title" COLLATE utf8mb4_bin AND "type" = ""',
    'SELECT "nothing" FROM "node" WHERE "nid" = 1',
    'SELECT "nid FROM node WHERE nid = 1',
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), *TABLES) as found:
        yield found


def in_backticks(sql: str) -> str | None:
    found = with_backticks(sql.encode())
    return None if found is None else found.decode()


def quoted(sql: str, tables: list[RandomTable], rng: random.Random) -> str:
    """Some of the names in double quotes."""
    names = {name for table in tables for name in (table.name, *(column.name for column in table.columns))}
    for token in reversed(scan(sql)):
        name = token.text.strip("`")
        if token.kind in ("word", "quoted") and name in names and rng.random() < 0.7:
            sql = f'{sql[: token.start]}"{name}"{sql[token.end :]}'
    return sql


def test_random_queries(beside: Beside, mysql: Server) -> None:
    wrong: list[str] = []
    served: Counter[str] = Counter()
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(seed)
        tables = random_tables(rng)
        names = [table.name for table in tables]
        mysql.execute(f"USE {DATABASE}", *(f"DROP TABLE IF EXISTS {name}" for name in names))
        mysql.execute(f"USE {DATABASE}", LOOSE, *(table.ddl() for table in tables), *first_rows(rng, tables))
        queries = [random_query(rng, tables) for _ in range(20)]
        with cached(beside, *(query.sql for query in queries)), both(beside, "OK at the end") as pair:
            do(pair, DRUPAL)
            for _ in range(2):
                asked = [substituted(query.sql, values(query, rng)) for query in queries]
                asked = [quoted(sql, tables, rng) for sql in asked if '"' not in sql]
                for sql in [*asked, *asked, *asked]:
                    wrong += filter(None, [differs(pair, sql, DRUPAL, rows)])
                    served[last_served(beside, pair[1]).split(" ")[0]] += 1
                for change in [one_write(rng, rng.choice(tables)) for _ in range(4)]:
                    mysql.execute(f"USE {DATABASE}", LOOSE, change)
                beside.caught_up()
                for sql in asked:
                    wrong += filter(None, [differs(pair, sql, DRUPAL, rows)])
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:5])
    print(served)
    assert served["hit"] > 0.2 * served.total(), served  # where columns are named by letters, none


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("sql", [*HITS, *PASSED])
def test_what_is_asked_in_double_quotes(beside: Beside, mysql: Server, sql: str, kind: str) -> None:
    """Beside sessions that read the quotes otherwise, with backticks, and behind changes of the mode."""
    read = in_backticks(sql)
    mysql.execute(f"USE {DATABASE}", *FIRST)
    with cached(beside, read), both(beside, kind) as pair, both(beside, kind) as others:
        do(pair, DRUPAL)
        for change in ("", "UPDATE node SET created = created + 1 WHERE nid = 1", "DELETE FROM node WHERE nid = 2"):
            if change:
                mysql.execute(f"USE {DATABASE}", change)
                beside.caught_up()
            for _ in range(3):
                for text in (sql, read or sql):
                    assert not differs(pair, text, DRUPAL)
                    assert not differs(others, text, "the default")
        if sql in HITS:
            read_until_hit(beside, pair[1], pair[1].query, sql)
        else:
            pair[1].query(sql)
            assert last_served(beside, pair[1]).startswith("passed"), last_served(beside, pair[1])
        for mode in ("DEFAULT", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "'ANSI_QUOTES'", "''"):
            do(pair, f"SET sql_mode = {mode}")
            for _ in range(3):
                assert not differs(pair, sql, mode)


BY_NID = (
    'SELECT "nid" AS "nid", \'x"y\' AS "x" FROM "node" WHERE "nid" = ?',
    'SELECT n."title" FROM "node" AS "n" WHERE "n"."nid" = ? AND n.type <> \'"\'',
    'SELECT nid, "type" AS t FROM node WHERE nid = ?',  # in each mode, something else
)
ONE = bound((8,), [struct.pack("<q", 1)])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("sql", BY_NID)
def test_prepared_statements_with_such_quotes(beside: Beside, mysql: Server, sql: str, kind: str) -> None:
    """By the mode in which they were prepared, as long as it is the session's: behind another one MySQL may read them
    anew. Also where the session is not known as they are executed."""
    mysql.execute(f"USE {DATABASE}", *FIRST)

    def executed() -> str:
        answers = [shown(client, client.execute(id_, ONE)) for client, id_ in zip(pair, ids, strict=True)]
        assert answers[0] == answers[1]
        return last_served(beside, pair[1])

    with cached(beside, sql, in_backticks(sql)), both(beside, kind) as pair:
        for mode in ("'ANSI'", "DEFAULT", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", "'ANSI_QUOTES'"):
            do(pair, f"SET sql_mode = {mode}")
            ids = [client.prepare(sql).id for client in pair]
            if not all(ids):
                assert mode == "DEFAULT" and not any(ids)
                continue
            pair[0].execute(ids[0], ONE)
            read_until_hit(beside, pair[1], pair[1].execute, ids[1], ONE)
            for change in ("UPDATE node SET title = CONCAT(title, '.') WHERE nid = 1", ""):
                mysql.execute(f"USE {DATABASE}", change or "ALTER TABLE node COMMENT = 'changed'")
                beside.caught_up()
                for _ in range(3):
                    executed()
            do(pair, "CALL nothing()")
            for _ in range(2):
                executed()
            read_until_hit(beside, pair[1], pair[1].execute, ids[1], ONE)
            for other in ("DEFAULT", "'ANSI'", mode):
                do(pair, f"SET sql_mode = {other}")
                for number in range(3):
                    how = executed()
                    if number and {other, mode} == {"'ANSI'", "DEFAULT"}:
                        assert how.startswith("passed"), how
                mysql.execute(f"USE {DATABASE}", f"ALTER TABLE node COMMENT = '{len(other)}'")
                beside.caught_up()
                executed()


def test_automatic_caching_makes_those_of_prepared_statements(mysql: Server, tmp_path: Path, database: str) -> None:
    mysql.execute(f"USE `{database}`", *TABLES)
    options = {"auto_cache": "on", "auto_cache_reads": "5", "auto_cache_time": "0ms"}
    with proxy_in_thread(mysql, database, tmp_path, **options) as found, both(found, "OK at the end") as pair:
        found.call(found.proxy.unhurried)
        do(pair, DRUPAL)
        ids = [client.prepare(BY_NID[0]).id for client in pair]
        read_until_hit(found, pair[1], pair[1].execute, ids[1], ONE)
        answers = [shown(client, client.execute(id_, ONE)) for client, id_ in zip(pair, ids, strict=True)]
        assert answers[0] == answers[1]


def test_a_transaction_is_shown_the_same_again_by_its_mode(beside: Beside, mysql: Server) -> None:
    """The same letters ask for something else once the mode is another."""
    sql = 'SELECT nid, "type" AS t FROM node WHERE nid = 1'
    mysql.execute(f"USE {DATABASE}", *FIRST)
    with cached(beside, sql, in_backticks(sql)), both(beside, "OK at the end") as pair:
        for mode in ("'ANSI'", "DEFAULT"):
            do(pair, f"SET sql_mode = {mode}")
            read_until_hit(beside, pair[1], pair[1].query, sql)
        do(pair, "BEGIN")
        for mode in ("'ANSI'", "DEFAULT", "'ANSI'"):
            do(pair, f"SET sql_mode = {mode}")
            for _ in range(2):
                assert not differs(pair, sql, mode)
        do(pair, "COMMIT")


def test_writes_with_such_quotes_are_known_for_what_they_are(beside: Beside, mysql: Server) -> None:
    """The session's next read contains them, and is a hit again."""
    sql = 'SELECT "title" AS "title" FROM "node" WHERE "nid" = 1'
    mysql.execute(f"USE {DATABASE}", *FIRST)
    with cached(beside, in_backticks(sql)), both(beside, "OK at the end") as pair:
        do(pair, DRUPAL)
        read_until_hit(beside, pair[1], pair[1].query, sql)
        for number in range(3):
            beside.caught_up()
            for client in reversed(pair):  # the session's own write; the other one changes nothing
                client.query(f'UPDATE "node" SET "title" = \'written {number}\' WHERE "nid" = 1')
            assert not differs(pair, sql, DRUPAL)
            read_until_hit(beside, pair[1], pair[1].query, sql)


def test_automatic_caching_makes_them(mysql: Server, tmp_path: Path, database: str) -> None:
    mysql.execute(f"USE `{database}`", *TABLES)
    options = {"auto_cache": "on", "auto_cache_reads": "5", "auto_cache_time": "0ms"}
    with proxy_in_thread(mysql, database, tmp_path, **options) as found, both(found, "OK at the end") as pair:
        found.call(found.proxy.unhurried)
        do(pair, DRUPAL)
        for sql in HITS:
            read_until_hit(found, pair[1], pair[1].query, sql)
            assert not differs(pair, sql, DRUPAL)
