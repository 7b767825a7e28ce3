"""A sweep of types over types, compared in every way in which MySQL may look one up: where it finds other rows by an
index, by a table that it makes of a subquery's rows, or by hashes, no answer is cached.

MySQL is the judge. A part of the cases is tried, `UPWELL_WHOLE=1` tries all.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

from integration.planner_truth.index_sweep import TYPES, WHOLE, answer, fill, held, listed
from integration.servers.mysql_server import Server

# What is computed from the second table's column, by that column's type.
COMPUTED = {
    "v": "CONCAT(y.a) | y.a+0 | DATE(y.a) | COALESCE(y.a,'q') | CAST(y.a AS DATETIME(3)) | CAST(y.a AS TIME(3))"
    " | CAST(y.a AS DECIMAL(8,2)) | CAST(y.a AS SIGNED) | CAST(y.a AS CHAR) | SUBSTRING_INDEX(y.a,'-',1)"
    " | UNIX_TIMESTAMP(y.a)",
    "i": "y.a+0 | CONCAT(y.a) | CAST(y.a AS DOUBLE) | CAST(y.a AS CHAR) | CAST(y.a AS JSON) | y.a/2 | NULLIF(y.a,0)"
    " | COALESCE(y.a,1.5) | GREATEST(y.a,1) | IF(y.k,y.a,'a') | -y.a | ROUND(y.a) | CAST(y.a AS DECIMAL(8,2))",
    "f": "y.a+0 | ROUND(y.a) | ROUND(y.a,1)",
    "de": "y.a*1.5 | y.a/3 | FLOOR(y.a) | COALESCE(y.a,1)",
    "u8": "CAST(y.a AS YEAR) | y.a+0",
    "y": "y.a+0 | COALESCE(y.a,1) | CONCAT(y.a)",
    "b": "y.a+0 | COALESCE(y.a,1)",
    "dt": "DATE(y.a) | y.a+0 | CONCAT(y.a) | CAST(y.a AS DATETIME(3)) | y.a + INTERVAL 1 SECOND | COALESCE(y.a,'a')"
    " | y.a + INTERVAL 0.5 SECOND | CAST(y.a AS JSON) | YEAR(y.a)"
    " | UNIX_TIMESTAMP(y.a)",
    "dt3": "UNIX_TIMESTAMP(y.a)"
    " | CAST(y.a AS DATETIME) | COALESCE(y.a) | TIME(y.a) | DATE(y.a) | IF(y.k,y.a,NULL) | y.a - INTERVAL 1 DAY",
    "d": "CAST(y.a AS DATETIME) | y.a + INTERVAL 1 DAY | YEAR(y.a) | y.a+0 | COALESCE(y.a,'a') | COALESCE(y.a,1)",
    "tm": "y.a+0 | COALESCE(y.a) | CONCAT(y.a) | TIME_TO_SEC(y.a)",
    "tm3": "COALESCE(y.a)",
    "e": "y.a+0 | CONCAT(y.a) | COALESCE(y.a)",
    "s": "y.a+0 | UPPER(y.a)",
    "bin": "CONCAT(y.a)",
    "j": "y.a->'$' | y.a->>'$' | JSON_UNQUOTE(y.a) | CAST(y.a AS CHAR)",
    "vb": "UPPER(y.a)",
}
JOIN = "SELECT t.id, y.id FROM {y} y {h2} STRAIGHT_JOIN {x} t {h1} ON "
WHERE = "SELECT t.id FROM {x} t {h1} WHERE "
QUERIES = {
    "join": "SELECT t.id, y.id FROM {x} t {h1} JOIN {y} y {h2} ON t.a = {e}",
    "=": JOIN + "t.a = {e}",
    "<=>": JOIN + "t.a <=> {e}",
    ">": JOIN + "t.a > {e}",
    "<=": JOIN + "t.a <= {e}",
    "between": JOIN + "t.a BETWEEN {e} AND {e}",
    "within": JOIN + "{e} BETWEEN t.a AND t.a",
    "list": JOIN + "t.a IN ({e}, NULL)",
    "row": JOIN + "(t.a, t.k) = ({e}, y.k)",
    "left": "SELECT y.id, t.id FROM {y} y {h2} LEFT JOIN {x} t {h1} ON t.a = {e}",
    "left of one": "SELECT y.id, t.id FROM {y} y {h2} LEFT JOIN {x} t {h1} ON t.a = {e} WHERE y.id = 1",
    "in": WHERE + "t.a IN (SELECT {e} FROM {y} y {h2})",
    "not in": WHERE + "t.a NOT IN (SELECT {e} FROM {y} y {h2} WHERE y.k = 1)",
    "exists": WHERE + "EXISTS (SELECT 1 FROM {y} y {h2} WHERE {e} = t.a)",
    "not exists": WHERE + "NOT EXISTS (SELECT 1 FROM {y} y {h2} WHERE {e} = t.a)",
    "rows in": WHERE + "(t.a, t.k) IN (SELECT {e}, y.k FROM {y} y {h2})",
    "all": WHERE + "t.a > ALL (SELECT {e} FROM {y} y {h2} WHERE y.k = 1 AND y.id < 4)",
    "scalar": WHERE + "t.a = (SELECT {e} FROM {y} y {h2} WHERE y.id = 1)",
    "another scalar": WHERE + "t.a = (SELECT {e} FROM {y} y {h2} WHERE y.id = 5)",
    "scalar <=": WHERE + "t.a <= (SELECT {e} FROM {y} y {h2} WHERE y.id = 1)",
    "greatest": WHERE + "t.a = (SELECT MAX({e}) FROM {y} y {h2})",
    "up to the greatest": WHERE + "t.a <= (SELECT MAX({e}) FROM {y} y {h2} WHERE y.id < 6)",
    "one": "SELECT t.id FROM {x} t {h1} JOIN {y} y {h2} ON t.a = {e} WHERE y.id = 1",
    "another": "SELECT t.id FROM {x} t {h1} JOIN {y} y {h2} ON t.a = {e} WHERE y.id = 5",
    "one >=": "SELECT t.id FROM {x} t {h1} JOIN {y} y {h2} ON t.a >= {e} WHERE y.id = 1",
    "one <=": "SELECT t.id FROM {x} t {h1} JOIN {y} y {h2} ON t.a <= {e} WHERE y.id = 1",
    "derived": "SELECT t.id, q.id FROM {x} t {h1} STRAIGHT_JOIN (SELECT {e} AS c, y.id FROM {y} y {h2}) q ON q.c = t.a",
    "distinct": "SELECT t.id FROM {x} t {h1} JOIN (SELECT DISTINCT {e} AS c FROM {y} y {h2}) q ON q.c = t.a",
    "united": "SELECT t.id FROM {x} t {h1} JOIN (SELECT NULL AS c UNION ALL SELECT {e} FROM {y} y {h2}) q ON q.c = t.a",
}
USE, PASS = "FORCE INDEX (ka)", "IGNORE INDEX (ka)"
SWITCHES = ("block_nested_loop=off", "materialization=off", "semijoin=off", "derived_merge=off")


def pairs() -> list[tuple[str, str, str]]:
    """(type, the other's type, what is computed from its column)."""
    plain = [(x, y, "y.a") for x, y in product(TYPES, TYPES)]
    computed = [(x, y, each) for y, texts in COMPUTED.items() for each in listed(texts) for x in TYPES]
    return [*plain, *computed] if WHOLE else [*plain, *Random(6).sample(computed, 340)]


def texts(x: str, y: str, computed: str, query: str) -> tuple[str, list[str]]:
    """The query as a client asks it, and so that MySQL uses an index or does not."""
    hinted = [("", ""), (USE, PASS), (PASS, USE), (PASS, PASS)]
    hints = [tuple(PASS if name == "j" else hint for name, hint in zip((x, y), pair, strict=True)) for pair in hinted]
    hints = [tuple("" if name == "j" else hint for name, hint in zip((x, y), pair, strict=True)) for pair in hints]
    made = [QUERIES[query].format(x=f"t_{x}", y=f"t_{y}", e=computed, h1=h1, h2=h2) for h1, h2 in dict.fromkeys(hints)]
    return made[0], made


def test_columns(mysql: Server, database: str) -> None:
    random = Random(7)
    wrong: list[str] = []
    differ: Counter[str] = Counter()
    with mysql.connect(database=database, autocommit=True) as connection, connection.cursor() as cursor:
        fill(cursor)
        for x, y, computed in pairs():
            queries = list(QUERIES) if WHOLE else random.sample(list(QUERIES), 5)
            found = {query: {answer(cursor, text) for text in texts(x, y, computed, query)[1]} for query in queries}
            for switch in SWITCHES:
                cursor.execute(f"SET optimizer_switch = '{switch}'")
                for query in queries:
                    found[query].add(answer(cursor, texts(x, y, computed, query)[0]))
                cursor.execute("SET optimizer_switch = DEFAULT")
            for query, ways in found.items():
                if len(ways) == 1:
                    continue
                differ[query] += 1
                text = texts(x, y, computed, query)[0]
                if mode := held(text, [x, y]):
                    wrong.append(f"{mode}: {text}")
    print(differ)
    assert not wrong, f"{len(wrong)} are cached\n" + "\n".join(wrong[:60])
    assert len(differ) > 20 and sum(differ.values()) > 150, f"the sweep reaches what it is for: {differ}"
