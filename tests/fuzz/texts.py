"""Bytes of query texts against what reads them: the scanner of literals with its templates says what the matcher says,
and a text that is none of ours is no exception."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from planner.matcher import QueryMatcher
from proxy.mysql.text.own_sql_syntax import like, may_be_command, recognise
from proxy.mysql.text.statement_kind import classify
from proxy.mysql.text.text_cuts import cut
from proxy.mysql.text.text_matcher import TextMatcher, steering
from sqltypes.errors import ParseError
from tests.fuzz.payloads import mutated
from tests.fuzz.shrinking import smaller_bytes, spelled
from tests.fuzz.system import Counts
from tests.support.query_texts import COMMENTS, FRAGMENTS, NUMBERS, OTHERS, SPACES, STRINGS, client_text, fake_plan

CACHES = (
    "SELECT id, name FROM item WHERE id = ?",
    "SELECT id, name FROM item WHERE id IN (?)",
    "SELECT id FROM orders WHERE customer_id = ? AND status = 'paid' LIMIT 5",
    "SELECT id FROM orders WHERE customer_id = ? AND total > ?",
    "SELECT 1 + 2 FROM orders WHERE id = ?",
    "WITH a AS (SELECT 1) SELECT a + 1 FROM a WHERE b LIKE ?",
)
COMMANDS = (
    "CREATE CACHE IF NOT EXISTS `a b` FROM SELECT 1", "DROP CACHE IF EXISTS x", "SHOW CACHES LIKE 'a%\\_'",
    "SHOW PROXIED QUERIES LIKE \"%x\" LIMIT 5", "SHOW UPWELL STATUS", "EXPLAIN CREATE CACHE FROM SELECT 1",
    "EXPLAIN LAST STATEMENT;", "SET autocommit = 0", "SET NAMES latin1", "BEGIN", "CALL p(1)", "SELECT 1; DROP TABLE t",
    "SET SESSION session_track_gtids = OFF, @@sql_mode = ''", "LOCK TABLES t READ", "CREATE TEMPORARY TABLE t SELECT 1",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "SELECT FOUND_ROWS()", "SELECT GET_LOCK('a', 1)", "XA START 'x'",
    "START TRANSACTION READ ONLY, WITH CONSISTENT SNAPSHOT", "ROLLBACK WORK TO SAVEPOINT a", "RELEASE SAVEPOINT a",
    "COMMIT AND CHAIN NO RELEASE", "EXPLAIN ANALYZE SELECT 1", "DESC t", "DROP PREPARE a", "DROP TEMPORARY TABLE t",
    "SET CHARACTER SET utf8mb4", "SET DEFAULT ROLE ALL TO a", "SET PASSWORD = 'x'", "SET RESOURCE GROUP a",
    "INSERT INTO a.t (b, c) SELECT f(1), g.h(2)", "WITH c (a) AS (SELECT 1) SELECT a IN (SELECT 1) FROM c",
    "FLUSH TABLES", "HANDLER t OPEN",
    "SELECT SQL_CALC_FOUND_ROWS a FROM t ORDER BY LAST_INSERT_ID(3)", "SELECT nextval(a.b), `f`(1), NOW()",
    "UNLOCK TABLES", "SET GLOBAL a = 1, SESSION b = 2, @@LOCAL.c = @d", "PREPARE s FROM 'SELECT 1'",
    "EXECUTE s USING @a", "KILL QUERY 5",
    "/* upwell: skip */ SELECT 1", "INSERT INTO t VALUES (1) -- it's", "SELECT * FROM t INTO @a", "/*!50000 BEGIN */",
)  # fmt: skip


def a_matcher() -> QueryMatcher:
    matcher = QueryMatcher()
    for number, sql in enumerate(CACHES):
        matcher.add(fake_plan(sql, "d"), f"c{number}")
    return matcher


MATCHER = a_matcher()


@dataclass(frozen=True, slots=True)
class TextsCase:
    """Texts in the order in which they are seen."""

    texts: tuple[bytes, ...]

    @property
    def kind(self) -> str:
        return "texts"

    def run(self, counts: Counts) -> None:
        known: TextMatcher[Any] = TextMatcher(MATCHER)
        for text in (*self.texts, *self.texts):
            entry, values = known.find(text, "d")
            parts = cut(text)
            assert b"".join(parts) == text
            others(text)
            with suppress(UnicodeDecodeError):
                expected = MATCHER.match(text.decode(), "d", ())
                found = None if entry.cache is None else (entry.cache, values)
                counts["texts that a cache is for"] += expected is not None
                assert repr(found) == repr(expected), f"{found} is found, and the matcher says {expected}: {text!r}"

    def smaller(self) -> Iterator[TextsCase]:
        for number, text in enumerate(self.texts):
            yield replace(self, texts=self.texts[:number] + self.texts[number + 1 :])
            for shorter in smaller_bytes(text):
                yield replace(self, texts=(*self.texts[:number], shorter, *self.texts[number + 1 :]))

    def script(self) -> str:
        texts = "".join(f"    {spelled(text)},\n" for text in self.texts)
        return f"from tests.fuzz.texts import TextsCase\nTextsCase((\n{texts})).run(Counter())"


def others(text: bytes) -> None:
    """What else looks at a text."""
    steering(text)
    sql = text.decode("utf-8", "replace")
    classify(sql)
    with suppress(ParseError):
        if recognise(sql) is not None:
            assert may_be_command(text), "a command that is not looked at"
    like(sql[:30])(sql)


def texts_case(rng: random.Random) -> TextsCase:
    """Mostly alike, so that what was learned of one is tried with the next."""
    base = rng.choice((a_read, a_read, a_read, soup, lambda rng: rng.choice(COMMANDS)))(rng)
    texts = []
    for _ in range(rng.choice((1, 3, 6))):
        sql = base
        with suppress(ParseError):  # of a soup
            sql = client_text(rng, base) if rng.random() < 0.7 else base
        text = sql.encode()
        texts.append(mutated(rng, text) if rng.random() < 0.4 else text)
    return TextsCase(tuple(texts))


def a_read(rng: random.Random) -> str:
    return rng.choice(CACHES)


def soup(rng: random.Random) -> str:
    kinds = (STRINGS, NUMBERS, OTHERS, COMMENTS, FRAGMENTS, ("SELECT", "a", "FROM t", "=", "(", ")", ",", "*"))
    return "".join(rng.choice(rng.choice(kinds)) + rng.choice(("", *SPACES)) for _ in range(rng.randrange(12)))
