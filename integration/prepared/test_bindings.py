"""Sequences of executions of prepared statements, through the proxy as at MySQL: by the types of those before, also of
hits, MySQL goes on comparing (`integration/prepared/bindings.py`)."""

from __future__ import annotations

import pytest

from integration.oracle.asker import Asker
from integration.oracle.trees import BLOB, DATE, NULL, Spelled, blob, decimal, double, integer, moment, string
from integration.prepared.bindings import Script, Step, Tally, World, campaign

SEED, WORLDS = 1, 6
PLAYS = 3  # at first MySQL answers


def executed(*values: Spelled, what: str = "execute") -> Step:
    return Step(what, 0, values)


def untyped(*values: Spelled) -> Step:
    """The types are those of the execution before."""
    return Step("execute", 0, values, types=False)


DAY = moment("2024-02-29", DATE)
LATER = moment("2024-02-29 12:34:56")
ALTER = "write ALTER TABLE t ALGORITHM=INPLACE, ALTER COLUMN v SET DEFAULT NULL"
CASES = {
    "strings were hits before a number": (
        ("v TIME", "w INT", "('00:00:00', 1), ('12:34:56', 2), ('838:59:59', 3)"),
        "SELECT id, w FROM t WHERE v IN (?, ?)",
        (
            executed(string("00:00:00"), string("12:34:56")),
            executed(string("00:00:00"), decimal("9007199254740993")),
        ),
    ),
    "a date was a hit before bytes": (
        ("v YEAR", "w DATE", "(1901, '2024-02-29'), (0, '2024-03-01')"),
        "SELECT id FROM t WHERE v = ? AND w = ?",
        (
            executed(string("2024-02-29"), LATER),
            executed(integer(1901), LATER),
            executed(integer(1901), blob(b"\1")),
        ),
    ),
    "a number beside NULL, then beside a date, were hits": (
        ("v BIT(1)", "w DATETIME", "(0, '2024-02-29'), (1, '2024-03-01'), (0, '2024-03-01')"),
        "SELECT id FROM t WHERE v <= ? AND w <> ?",
        (
            executed(integer(0), string("")),
            executed(NULL, LATER),
            executed(integer(0), LATER),
            executed(integer(0), string("")),
        ),
    ),
    "NULL, then a number, beside a date were hits": (
        ("v BIGINT", "w DATETIME", "(0, '2024-02-29'), (1, '2024-03-01'), (9007199254740993, '2024-03-01')"),
        "SELECT id FROM t WHERE v <= ? AND w <> ?",
        (executed(NULL, LATER), executed(integer(2**53), LATER), executed(integer(2**53), string(""))),
    ),
    "bytes beside a DOUBLE": (
        ("v VARCHAR(12) CHARACTER SET latin1", "w DECIMAL(10,2)", "('ä', 1), ('A', 0), ('Ä', 2)"),
        "SELECT id FROM t WHERE v = ? OR w = ?",
        (executed(blob(b"\xc3\xbf"), double(-1.1)), executed(string("Ä"), integer(0))),
    ),
    "hits before what is sent in pieces": (
        ("v TIME", "w INT", "('00:00:00', 1), ('12:34:56', 2), ('838:59:59', 3)"),
        "SELECT id, w FROM t WHERE v IN (?, ?)",
        (
            executed(string("00:00:00"), string("12:34:56")),
            executed(string("12:34:56", BLOB), decimal("0"), what="pieces"),
        ),
    ),
    "a string that the column's character set lacks": (
        ("v VARCHAR(12) CHARACTER SET latin1", "w INT", "('ab', 1), ('ä', 2)"),
        "SELECT id FROM t WHERE v = ? AND w = ?",
        (
            executed(string("ab"), integer(1)),
            executed(string("😀"), integer(1)),
            executed(string("ab"), integer(1)),
            executed(string("ab"), integer(1)),
        ),
    ),
    "the session's character set changed behind a hit": (
        ("v DECIMAL(65,30)", "w VARCHAR(12)", "(2, 'b'), (9007199254740993, 'b'), (1, 'z')"),
        "SELECT id FROM t WHERE v = ? AND w BETWEEN ? AND ?",
        (
            executed(integer(2), string("b"), string("ÿ")),
            Step("SET NAMES latin1"),
            untyped(integer(2**53 + 1), string("a_"), string("ÿ")),
        ),
    ),
    "types that were bound in another character set": (
        ("v VARCHAR(12)", "w INT", "('ä', 1), ('Ã¤', 1), ('b', 1)"),
        "SELECT id FROM t WHERE v = ? AND w = ?",
        (
            executed(string("ä"), integer(1)),
            Step("SET NAMES latin1"),
            executed(string("ä"), integer(1)),
            Step("SET NAMES utf8mb4"),
            *[untyped(string("ä"), integer(1))] * 3,
            executed(string("ä"), integer(1)),
            untyped(string("ä"), integer(1)),
        ),
    ),
    "types bound by a hit, after another character set": (
        ("v VARCHAR(12)", "w INT", "('ä', 1), ('Ã¤', 1), ('b', 1)"),
        "SELECT id FROM t WHERE v = ? AND w = ?",
        (
            Step("SET NAMES latin1"),
            executed(string("ä"), integer(1)),
            Step("SET NAMES utf8mb4"),
            executed(string("ä"), integer(1)),
            Step("SET NAMES latin1"),
            untyped(string("ä"), integer(1)),
        ),
    ),
    "a DDL statement between a hit and other types": (
        ("v DATE", "w VARCHAR(12)", "('2024-02-29', 'ab'), ('2024-03-01', 'z')"),
        "SELECT id FROM t WHERE v = ? AND w BETWEEN ? AND ?",
        (
            executed(LATER, string("é"), string("b")),
            executed(LATER, string(""), string("b")),
            Step(ALTER),
            executed(blob(b"\1"), string("a_"), string("B")),
            executed(LATER, string("a"), string("b")),
        ),
    ),
    "a DDL statement between two counts of a LIMIT": (
        ("v VARCHAR(12)", "w INT", "('a', 1), ('b', 1), ('B', 2), ('ab', 3)"),
        "SELECT id FROM t WHERE v = ? ORDER BY id LIMIT ?",
        (
            *(executed(string("B"), integer(count)) for count in (100, 2)),
            Step(ALTER),
            executed(string("ab"), double(1.0)),
            executed(string("b"), integer(2)),
        ),
    ),
    "hits of more kinds than MySQL is shown at once": (
        ("v DECIMAL(20,2)", "w BIGINT", "(1, 1), (2, 2), (9007199254740993, 9007199254740993)"),
        "SELECT id FROM t WHERE v = ? AND w = ?",
        (
            *(executed(one, other) for one in (integer(1), decimal("1"), NULL) for other in (integer(1), NULL)),
            executed(double(1.0), integer(1)),
            executed(integer(2**53 + 1), integer(2**53 + 1)),
            executed(string("1a"), integer(1)),
        ),
    ),
}
ALWAYS_PASSED = {
    "a number beside NULL, then beside a date, were hits",
    "bytes beside a DOUBLE",
    "a date was a hit before bytes",
}


@pytest.mark.parametrize("case", CASES)
def test_what_hits_have_bound_counts(asker: Asker, case: str) -> None:
    (v, w, rows), text, steps = CASES[case]
    world = World(asker, SEED, Tally())
    asker.new_database()
    asker.run([f"CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, {v}, {w})", f"INSERT INTO t (v, w) VALUES {rows}"])
    asker.wait()
    script = Script([text], list(steps), attributes=False)
    world.cache(script)
    plays = 0
    while plays < PLAYS or not (world.tally.counts["hit"] or case in ALWAYS_PASSED):
        world.once(script, [])  # raises where an answer differs
        plays += 1
        assert plays < 100, world.tally
    asker.drop_caches()


def test_random_sequences(asker: Asker) -> None:
    findings, tally = campaign(asker, SEED, worlds=WORLDS)
    assert not findings, "\n".join(map(str, findings))
    assert tally.counts["hit"] > 3 * WORLDS and tally.counts["passed"], tally
