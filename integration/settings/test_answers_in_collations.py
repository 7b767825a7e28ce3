"""Sessions whose collation_connection counts for a query, or the character set that goes with it, are answered from a
cache of the text that tells it. MySQL is asked the same text in a session of that collation: random expressions, while
rows change."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from integration.oracle.trees import Spelled, payload, string
from integration.servers.mysql_server import Server
from integration.settings.session_queries import (
    CREATE,
    FILLED,
    INSERT,
    OTHER_KINDS,
    STRINGS,
    VIEW,
    Writer,
    quoted,
    rows,
)
from integration.settings.test_answers_in_modes import cached, differs, executed
from integration.settings.test_answers_in_modes import rows as shown_rows
from integration.settings.test_settings_that_change_answers import KINDS, both, do
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.served import last_served, read_until_hit
from planner.text.hints import hint_of, with_hint
from planner.text.scan import scan

DATABASE = "answers_in_collations"
NAMES = "SET NAMES utf8mb4 COLLATE {}"
SETTINGS = {
    "utf8mb4_general_ci": NAMES,
    "utf8mb4_unicode_ci": NAMES,
    "utf8mb4_unicode_520_ci": NAMES,
    "utf8mb4_bin": "SET collation_connection = {}",
    "utf8mb4_0900_as_cs": "SET collation_connection = {}",
    "utf8mb4_tr_0900_ai_ci": NAMES,
    # Of other character sets: their literals, and the strings that MySQL makes, are of these.
    "utf8mb3_general_ci": "SET NAMES utf8mb3",
    "utf8mb3_bin": "SET collation_connection = {}",
    "latin1_swedish_ci": "SET NAMES latin1",
    "latin1_bin": "SET collation_connection = {}",
    "ascii_general_ci": "SET collation_connection = {}",
    "cp1257_general_ci": NAMES.replace("utf8mb4", "cp1257"),
    "gbk_chinese_ci": "SET collation_connection = {}",
    "binary": "SET NAMES {}",
}
SEED = int(os.environ.get("UPWELL_COLLATIONS_SEED", "1"))
ROUNDS = int(os.environ.get("UPWELL_COLLATIONS_ROUNDS", "1"))
CHANGES = (
    "UPDATE w SET s = t, t = COALESCE(s, 'none') WHERE id % 3 = {}",
    "UPDATE w SET l = 'May', u = UPPER(u), n = n + 1 WHERE id % 4 = {}",
    "UPDATE w SET s = 'İ', x = CONCAT(x, ' '), d = d + INTERVAL 31 DAY WHERE id % 3 = {}",
    "DELETE FROM w WHERE id % 11 = {}",
)
PLAIN = (
    "CREATE TABLE item (id INT PRIMARY KEY, grp INT, name VARCHAR(40), plain VARCHAR(20) CHARACTER SET latin1,"
    " made DATETIME)",
    "INSERT INTO item VALUES (1, 1, 'one', 'Eins', '2024-01-02'), (2, 1, 'Two', 'zwei', '2024-02-03'),"
    " (3, 2, 'STRASSE', 'straße', '2024-02-04')",
)
OFTEN = (
    "SELECT DATE_FORMAT(made, '%Y-%m') AS m, COUNT(*) FROM item WHERE grp = 1 GROUP BY m ORDER BY m",
    "SELECT id FROM item WHERE DATE_FORMAT(made, '%Y-%m') = '2024-01'",
    "SELECT id FROM item WHERE LOWER(name) = LOWER('Two')",
    "SELECT id FROM item WHERE CONCAT(name, plain) LIKE '%oz%' ORDER BY id",
    "SELECT CASE WHEN grp = 1 THEN 'first' ELSE 'later' END AS c, COUNT(*) FROM item WHERE id > 0 GROUP BY c",
    "SELECT id, 'item' AS t FROM item WHERE grp = 1 UNION SELECT id, 'ITEM' FROM item WHERE grp = 2 ORDER BY id, t",
    "SELECT REPLACE(name, 'o', '0') FROM item WHERE id = 1",
    "SELECT id FROM item WHERE CAST(id AS CHAR) = '1'",
    "SELECT id FROM item WHERE ('x' = '' OR name = 'one')",
    "(SELECT id, 'item' AS t FROM item WHERE grp = 1) UNION (SELECT id, 'ITEM' FROM item WHERE grp = 2) ORDER BY id, t",
    "WITH a AS (SELECT id, LOWER(name) AS low FROM item WHERE grp = 1), b AS (SELECT 'two' AS it)"
    " SELECT id, low = 'TWO' AS same FROM a ORDER BY id",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    made = (CREATE, VIEW, OTHER_KINDS, *PLAIN)
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *made)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def fill(mysql: Server, seed: int) -> None:
    mysql.execute(f"USE {DATABASE}", "DELETE FROM w", "DELETE FROM y")
    with closing(mysql.connect(database=DATABASE, charset="utf8mb4")) as connection, connection.cursor() as cursor:
        cursor.executemany(INSERT, rows(random.Random(seed), 40))
        cursor.execute(FILLED)
        connection.commit()


def named(sql: str, collation: str) -> str | None:
    found = with_hint(sql.encode(), hint_of(None, collation).encode())
    return None if found is None else found.decode()


def parted(sql: str, rng: random.Random) -> tuple[str, list[Spelled]]:
    """Some of its literals as parameters, and what is bound for them."""
    given: list[Spelled] = []
    texts = {quoted(text): text for text in STRINGS}
    for token in reversed(scan(sql)):
        if token.kind == "string" and token.text in texts and rng.random() < 0.7:
            sql = f"{sql[: token.start]}?{sql[token.end :]}"
            given.insert(0, string(texts[token.text]))
    return sql, given


@pytest.mark.timeout(900)
@pytest.mark.parametrize("collation", list(SETTINGS))
def test_random_expressions(beside: Beside, mysql: Server, collation: str) -> None:
    wrong: list[str] = []
    served: Counter[str] = Counter()
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(f"{seed} {collation}")
        fill(mysql, seed)
        for _ in range(2):
            queries = [Writer(rng).query() for _ in range(16)]
            statements = [parted(sql, rng) for sql in queries[:8]]
            texts = [*queries, *(sql for sql, given in statements if given)]
            with (
                cached(beside, *(each for sql in texts for each in (sql, named(sql, collation)))),
                both(beside, "OK at the end") as pair,
                both(beside, "OK at the end") as others,
            ):
                do(pair, SETTINGS[collation].format(collation))
                for change in ("", *rng.sample(CHANGES, 2)):
                    if change:
                        mysql.execute(f"USE {DATABASE}", change.format(rng.randrange(3)))
                        beside.caught_up()
                    for sql in [*queries, *queries, *queries, *queries]:
                        wrong += filter(None, [differs(pair, sql, collation, shown_rows)])
                        served[last_served(beside, pair[1]).split(" ")[0]] += 1
                        wrong += filter(None, [differs(others, sql, "the caches' own", shown_rows)])
                    for sql, given in statements:
                        ids = [client.prepare(sql).id for client in pair]
                        if not all(ids):
                            continue
                        for _ in range(3):
                            told = [executed(client, id_, given) for client, id_ in zip(pair, ids, strict=True)]
                            how = last_served(beside, pair[1])
                            served[f"prepared: {how.split(' ')[0]}"] += 1
                            if told[0] != told[1]:
                                wrong.append(f"{sql} {[each.text for each in given]} {how}\n  {told[0]}\n  {told[1]}")
                        for client, id_ in zip(pair, ids, strict=True):
                            client.close_statement(id_)
    print(served)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:5])
    assert served["hit"] > 0.15 * served.total() and served["prepared: hit"], served


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("sql", OFTEN)
def test_what_is_often_asked_is_a_hit_in_each_collation(beside: Beside, mysql: Server, sql: str, kind: str) -> None:
    """One session changes from each to the next; others have the caches' own, or a mode besides."""
    mode = "SET sql_mode = 'NO_ENGINE_SUBSTITUTION'"
    both_told = [hint_of(modes, name).encode() for name in (*SETTINGS, "") for modes in (None, frozenset[str]())]
    texts = [sql, *(found.decode() for hint in both_told if (found := with_hint(sql.encode(), hint)) is not None)]
    with cached(beside, *texts), both(beside, kind) as pair, both(beside, kind) as moded:
        do(moded, mode)
        for collation, setting in (*SETTINGS.items(), ("utf8mb4_0900_ai_ci", NAMES)):
            do(pair, setting.format(collation))
            do(moded, setting.format(collation))
            for change in ("", "UPDATE item SET name = CONCAT(name, ' '), plain = UPPER(plain) WHERE id = 1"):
                if change:
                    mysql.execute(f"USE {DATABASE}", change)
                    beside.caught_up()
                for two in (pair, moded):
                    for _ in range(3):
                        assert not differs(two, sql, collation)
                    read_until_hit(beside, two[1], two[1].query, sql)
                    assert not differs(two, sql, collation)


def test_a_name_that_a_client_gives_counts_for_nothing(beside: Beside) -> None:
    """MySQL compares the literals of such a text as the session does."""
    sql = "SELECT id FROM item WHERE ('x' = 'X' OR id = 1) ORDER BY id"
    text = named(sql, "utf8mb4_bin")
    assert text is not None
    with cached(beside, text), both(beside, "OK at the end") as pair:
        for _ in range(2):
            assert not differs(pair, text, "the caches' own")
            assert last_served(beside, pair[1]).startswith("passed")
            ids = [client.prepare(text).id for client in pair]
            assert executed(pair[0], ids[0], []) == executed(pair[1], ids[1], [])
        do(pair, SETTINGS["utf8mb4_bin"].format("utf8mb4_bin"))
        read_until_hit(beside, pair[1], pair[1].query, sql)
        for _ in range(2):
            assert not differs(pair, text, "utf8mb4_bin")
            assert not differs(pair, sql, "utf8mb4_bin")


def test_a_statement_is_resolved_by_the_collation_in_which_it_was_prepared(beside: Beside) -> None:
    sql = "SELECT id FROM item WHERE ('x' = 'X' OR id = ?) ORDER BY id"
    given = [Spelled("1", 8, (1).to_bytes(8, "little"))]
    names = ("utf8mb4_bin", "utf8mb4_general_ci")
    with cached(beside, sql, *(named(sql, name) for name in names)), both(beside, "OK at the end") as pair:
        for name in (*names, "utf8mb4_0900_ai_ci", names[0]):
            do(pair, f"SET collation_connection = {name}")
            ids = [client.prepare(sql).id for client in pair]
            judge = pair[0].execute(ids[0], payload(given))
            answers = read_until_hit(beside, pair[1], pair[1].execute, ids[1], payload(given))
            assert answers == [judge] * len(answers), (name, last_served(beside, pair[1]))
            for other in (*names, "utf8mb4_0900_ai_ci", name):
                do(pair, f"SET collation_connection = {other}")
                for _ in range(3):
                    told = [executed(client, id_, given) for client, id_ in zip(pair, ids, strict=True)]
                    assert told[0] == told[1], (name, other, last_served(beside, pair[1]))


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb3_general_ci", "latin1_swedish_ci", "binary"])
def test_automatic_caching_makes_what_the_sessions_need(
    mysql: Server, tmp_path: Path, database: str, collation: str
) -> None:
    """One cache for sessions of all collations where they do not matter; else one for each."""
    mysql.execute(f"USE `{database}`", *PLAIN)
    steady = "SELECT id, name FROM item WHERE grp = 1 ORDER BY id"
    options = {"auto_cache": "on", "auto_cache_reads": "5", "auto_cache_time": "0ms"}
    with proxy_in_thread(mysql, database, tmp_path, **options) as found, both(found, "OK at the end") as pair:
        found.call(found.proxy.unhurried)
        do(pair, SETTINGS[collation].format(collation))
        for sql in (steady, *OFTEN[:3]):
            read_until_hit(found, pair[1], pair[1].query, sql)
            assert not differs(pair, sql, collation)
        made = {cache.sql for cache in found.call(lambda: list(found.proxy.app.catalog.caches.values()))}
        assert sum("QB_NAME" in sql and "'%Y-%m') AS" in sql for sql in made) == 1, made
        assert not any("QB_NAME" in sql and "ORDER BY id" in sql for sql in made), made
