"""In evict mode an answer by the clock is held until a row's moment comes, and no longer: MySQL is asked the same
meanwhile, with rows whose moments are in the next seconds, and with writes."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pymysql
import pytest

from dataflow.operators.standing import Reach, reach
from external_upquery.address import parse_upstream
from external_upquery.mysql.schema_source import SchemaSource
from integration.clock.clock_texts import TABLES, ClockTexts, inserted
from integration.clock.paced import breathe
from integration.oracle.answers import parse
from integration.oracle.trees import integer, payload
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.served import last_served
from planner.api import plan_evict
from planner.fill.upquery_sql import crossing_sqls
from planner.text.clock import finds
from planner.text.clock_literals import EPOCH, read
from planner.text.scan import scan
from planner.tree.plan import AnswerArrangement
from sqltypes.errors import NeedRelations, UnsupportedQuery
from sqltypes.expression import Row
from sqltypes.schema import SchemaSnapshot

DATABASE = "reaches"
QUERIES = (
    "SELECT COUNT(*) FROM p WHERE k = 1 AND at <= NOW() AND LENGTH(s) > 0",
    "SELECT id FROM p WHERE k = 1 AND at < NOW() AND YEAR(at) > 2000 ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND NOT (at >= NOW() OR LENGTH(s) = 0) ORDER BY id",
    "SELECT id FROM p WHERE k = 1 AND at <= NOW() AND till > NOW() AND YEAR(at) > 2000 ORDER BY id",
    "SELECT COUNT(*) FROM p WHERE k = 1 AND at BETWEEN NOW() - INTERVAL 1 SECOND AND NOW() AND YEAR(at) > 1",
    "SELECT id FROM p WHERE k = 1 AND ts >= NOW() AND YEAR(at) > 2000 ORDER BY id DESC LIMIT 3",
    "SELECT COUNT(*) FROM p WHERE k = 1 AND u > UNIX_TIMESTAMP() AND YEAR(at) > 2000",
    "SELECT p.id, q.id FROM p LEFT JOIN q ON q.p = p.id AND q.at > NOW() WHERE p.k = 1 AND YEAR(p.at) > 1 ORDER BY 1,2",
    "SELECT id FROM p WHERE k = 1 AND EXISTS (SELECT 1 FROM q WHERE q.p = p.id AND q.at <= NOW()) ORDER BY id",
    "SELECT COUNT(*) FROM p WHERE s IN (SELECT s FROM p WHERE at > NOW() AND k = 2) AND k = 1",
    "SELECT s, MAX(at) FROM p WHERE at < NOW() AND YEAR(at) > 2000 GROUP BY s ORDER BY s",
    "SELECT id FROM p WHERE k = 1 AND YEAR(at) > 2000 AND (at > NOW() OR k = 2) UNION SELECT id FROM q ORDER BY 1",
)
SEED = int(os.environ.get("UPWELL_REACH_SEED", "1"))
TEXTS = int(os.environ.get("UPWELL_REACH_TEXTS", "250"))
BEGIN = 1_700_000_000  # seconds since 1970
SECONDS = 25


@pytest.fixture
def beside(mysql: Server, tmp_path: Path) -> Iterator[Beside]:
    with beside_database(mysql, DATABASE, tmp_path, *TABLES) as found:
        yield found


class StoppedClock:
    """MySQL, in a session whose clock stands at a second that is set; `at`: behind BEGIN."""

    def __init__(self, mysql: Server, database: str) -> None:
        self._source = SchemaSource(parse_upstream(mysql.url))
        self._database = database
        self._snapshot = SchemaSnapshot()
        self._connection = mysql.connect(database=database)
        self._cursor = self._connection.cursor()
        self.run("SET time_zone = '+00:00'", *TABLES)

    def run(self, *statements: str, at: int = 0) -> None:
        for statement in (f"SET timestamp = {BEGIN + at}", *statements):
            self._cursor.execute(statement)
        self._connection.commit()

    def answer(self, sql: str, at: int) -> object:
        try:
            self.run(sql, at=at)
        except pymysql.MySQLError as error:
            return str(error)
        return self._cursor.fetchall()

    def root(self, sql: str) -> AnswerArrangement | None:
        """What is held of the query in evict mode; None where it cannot be cached."""
        while True:
            try:
                root = plan_evict(sql, self._database, self._snapshot).reader.root
                assert isinstance(root, AnswerArrangement)
                return root
            except NeedRelations as need:
                self._snapshot = self._source.snapshot_now({*self._snapshot.relations, *need.names})
            except UnsupportedQuery:
                return None

    def reach(self, root: AnswerArrangement, values: Row) -> Reach:
        told = []
        for sql in crossing_sqls(root, values):
            self.run(sql.replace("SELECT MIN(", "SELECT CONCAT(MIN(").replace(") FROM", ")) FROM", 1))
            ((end,),) = self._cursor.fetchall()
            told.append(int(end) if end is not None and end.isdigit() else end)
        return reach(root.crossings, values, told)

    def close(self) -> None:
        self._connection.close()
        self._source.close()


def values_at(sql: str, at: int) -> Row:
    """What the text's functions of the clock are."""
    tokens, moment = scan(sql), EPOCH + timedelta(seconds=BEGIN + at)
    found: list[object] = []
    for function in finds(tokens) or ():
        literal = read(function, [tokens[place].text for place in function.texts], moment, moment)
        assert literal is not None
        found.append(int(literal) if literal.isdigit() else literal.removeprefix("TIMESTAMP ").strip("'"))
    return tuple(found)


def test_mysql_says_the_same_at_all_moments_that_an_answer_reaches(mysql: Server, database: str) -> None:
    """What is held for one moment is what MySQL gives for any other one that the crossings leave to it."""
    rng = random.Random(SEED)
    texts = ClockTexts(rng)
    crossed = reached = changed = 0
    with closing(StoppedClock(mysql, database)) as clock:
        for number in range(TEXTS):
            if number % 25 == 0:
                moments = [rng.randrange(-20, SECONDS) for _ in range(rng.choice((2, 5, 12)))]
                clock.run(*inserted([(rng.choice((1, 2)), moment, rng.choice("abc")) for moment in moments]))
                clock.run("UPDATE p SET at = NULL WHERE id % 7 = 0")
            sql = texts.query()
            root = clock.root(sql)
            if root is None or not root.crossings:
                continue
            crossed += 1
            first = rng.randrange(-5, 5)
            asked = values_at(sql, first)
            held, answer = clock.reach(root, asked), clock.answer(sql, first)
            others = [place for place in range(len(asked)) if place not in held.ends]
            for second in range(first + 1, first + SECONDS):
                values, own = values_at(sql, second), clock.answer(sql, second)
                if all(values[place] == asked[place] for place in others) and held.has(values):
                    assert own == answer, f"{sql}\n{asked}\n{held}\n{values}\n{answer}\n{own}"
                    reached += 1
                else:
                    changed += own != answer
    assert crossed > TEXTS // 4 and reached > TEXTS and changed > TEXTS, (crossed, reached, changed)


# ----------------------------------------------------------------------------------------------------------------------


def answer_of(client: RawClient, sql: str) -> object:
    found = parse(client.query(sql), binary=False)
    return (found.errno, found.message) if found.errno else (found.columns, found.rows)


def create(client: RawClient) -> None:
    for number, sql in enumerate(QUERIES):
        made = parse(client.query(f"CREATE CACHE reach{number} FROM {sql}"), binary=False)
        assert not made.errno, (sql, made.message)


def test_an_answer_is_held_until_a_moment_comes(beside: Beside, mysql: Server) -> None:
    """By MySQL's own clock, in ten seconds in which two moments come."""
    rows = [(k, s, "abc"[s % 3]) for k in (1, 2) for s in (-9, -5, -3, 4, 8, 300)]
    served: dict[str, Counter[str]] = {sql: Counter() for sql in QUERIES}
    seconds: dict[str, set[object]] = {sql: set() for sql in QUERIES}
    with beside.client() as through, beside.direct() as direct:
        create(through)  # which may take longer than a moment is away
        mysql.execute(f"USE {DATABASE}", *inserted(rows))
        beside.caught_up()
        end = monotonic() + 10
        while monotonic() < end:
            for sql in QUERIES:
                before, ours, after = answer_of(direct, sql), answer_of(through, sql), answer_of(direct, sql)
                assert ours in (before, after), f"{sql}\n{ours}\n{before}\n{after}"
                served[sql][last_served(beside, through).split(" ")[0]] += 1
                seconds[sql].add(str(after))
            breathe()
    for sql, kinds in served.items():
        assert kinds["hit"] > 0.6 * kinds.total(), (sql, kinds)
        assert kinds["miss"] < 8, f"one a second, as if nothing was held: {sql}, {kinds}"
    assert all(len(answers) > 1 for sql, answers in seconds.items() if "UNION" not in sql), seconds


def test_a_write_counts_whatever_was_held(beside: Beside, mysql: Server) -> None:
    """Rows come, go and move beside the clock; behind each write the answer is MySQL's, then and a second later."""
    rng = random.Random(SEED)
    mysql.execute(f"USE {DATABASE}", *inserted([(k, s, "a") for k in (1, 2) for s in (-5, 3, 300)]))
    hits = 0
    with beside.client() as through, beside.direct() as direct:
        create(through)
        end = monotonic() + 12
        while monotonic() < end:
            moment = f"NOW() + INTERVAL {rng.choice((-2, -1, 0, 1, 1, 2, 3, 200))} SECOND"
            key = rng.choice((1, 2))
            direct.query(
                rng.choice(
                    (
                        f"INSERT INTO p (k, at, till, ts, u, s) VALUES ({key}, {moment}, {moment}, {moment},"
                        f" UNIX_TIMESTAMP() + 1, '{rng.choice('abc')}')",
                        f"UPDATE p SET at = {moment}, ts = {moment} WHERE k = {key} ORDER BY RAND() LIMIT 1",
                        f"UPDATE p SET till = {moment}, u = u + 2, s = 'b' ORDER BY RAND() LIMIT 1",
                        "DELETE FROM p ORDER BY RAND() LIMIT 1",
                        f"INSERT INTO q (p, at) SELECT id, {moment} FROM p ORDER BY RAND() LIMIT 1",
                        f"UPDATE q SET at = {moment} ORDER BY RAND() LIMIT 1",
                    )
                )
            )
            beside.caught_up()
            pause = monotonic() + rng.choice((0.05, 0.3, 1.2))
            while monotonic() < min(pause, end):
                for sql in rng.sample(QUERIES, 4):
                    before, ours, after = answer_of(direct, sql), answer_of(through, sql), answer_of(direct, sql)
                    assert ours in (before, after), f"{sql}\n{ours}\n{before}\n{after}"
                    hits += last_served(beside, through).startswith("hit")
                breathe()
    assert hits > 200


def test_what_is_bound_is_held_likewise(beside: Beside, mysql: Server) -> None:
    sql = "SELECT id FROM p WHERE k = ? AND at <= NOW() AND YEAR(at) > 2000 ORDER BY id"
    mysql.execute(f"USE {DATABASE}", *inserted([(k, s, "a") for k in (1, 2) for s in (-5, 4, 300)]))
    beside.caught_up()
    kinds: Counter[str] = Counter()
    with beside.client() as through, beside.direct() as direct:
        made = parse(through.query(f"CREATE CACHE bound FROM {sql}"), binary=False)
        assert not made.errno, made.message
        statements = [(client, client.prepare(sql).id) for client in (direct, through, direct)]
        end = monotonic() + 7
        while monotonic() < end:
            answers = []
            for client, number in statements:
                client.transcript.clear()
                found = parse(client.execute(number, payload([integer(1)])), binary=True)
                answers.append((found.errno, found.columns, found.rows))
            assert answers[1] in (answers[0], answers[2])
            kinds[last_served(beside, through).split(" ")[0]] += 1
            breathe()
    assert kinds["hit"] > 0.6 * kinds.total() and kinds["miss"] < 5, kinds
