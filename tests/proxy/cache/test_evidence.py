"""What checks have shown of one plan counts for others that are made of the same parts, and after a restart."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from time import thread_time

import pytest

from planner.api import plan_query
from planner.tree.plan import QueryPlan
from proxy.cache.evidence import MOST_COLUMNS, NOTHING, Claim, EarnedFile, Evidence, claims_of, parts_of
from tests.support.schema_text import snapshot_of

ROOT = Path(__file__).parents[3]
DDL = """
CREATE TABLE users (
    id bigint NOT NULL, name varchar(40) NOT NULL, age int NOT NULL, born date, PRIMARY KEY (id), KEY a (age)
);
CREATE TABLE roles (
    id bigint NOT NULL, title varchar(99) NOT NULL, position int NOT NULL, since date, rank_ int NOT NULL,
    PRIMARY KEY (id), KEY p (position)
);
CREATE TABLE sums (
    id bigint NOT NULL, total decimal(10,2) NOT NULL, PRIMARY KEY (id)
);
"""
VERSIONS = ("1.0", "9.7.4")
BY_ID = "SELECT id, name, age FROM users WHERE id = ?"


def plan(sql: str, ddl: str = DDL) -> QueryPlan:
    return plan_query(sql, "lobsters", snapshot_of(ddl))


@pytest.mark.parametrize(
    ("other", "like"),
    [
        ("SELECT id, title, position FROM roles WHERE id = ?", True),
        ("SELECT id, title, position, rank_ FROM roles WHERE id = ?", True),
        ("SELECT name, id, age FROM users WHERE id = ?", True),
        ("SELECT id, name, born FROM users WHERE id = ?", False),  # a type that was not shown
        ("SELECT id, name, age FROM users WHERE age = ?", False),  # a key of another type
        ("SELECT id, name, age FROM users WHERE id IN (?)", False),
        ("SELECT id, name, age FROM users WHERE id = ? AND age > 3", False),
        ("SELECT id, name, age FROM users WHERE id = ? ORDER BY name", False),
        ("SELECT u.id, u.name, u.age FROM users u JOIN roles r ON r.id = u.id WHERE u.id = ?", False),
        ("SELECT COUNT(*) FROM users WHERE id = ?", False),
        ("SELECT id, total FROM sums WHERE id = ?", False),
    ],
)
def test_a_plan_is_like_another_if_that_has_all_its_parts(other: str, like: bool) -> None:
    evidence = Evidence()
    for claim in claims_of(plan(BY_ID), frozenset(), VERSIONS):
        evidence.prove(claim)
    assert [evidence.knows(claim) for claim in claims_of(plan(other), frozenset(), VERSIONS)] == [like, like]


ORDERED = "SELECT id, name, age FROM users WHERE id = ? ORDER BY age"
JOINED = "SELECT u.id, r.rank_ FROM users u JOIN roles r ON r.rank_ = u.age WHERE u.id = ?"


@pytest.mark.parametrize(
    ("shown", "other", "like"),
    [
        (ORDERED, "SELECT id, title, position FROM roles WHERE id = ? ORDER BY rank_", True),
        (ORDERED, "SELECT id, name, age FROM users WHERE id = ? ORDER BY age DESC", False),
        (ORDERED, "SELECT id, name, age FROM users WHERE id = ? ORDER BY name", False),
        (JOINED, "SELECT u.id, r.rank_ FROM users u JOIN roles r ON r.position = u.age WHERE u.id = ?", True),
        (JOINED, "SELECT u.id, r.rank_ FROM users u JOIN roles r ON r.title = u.name WHERE u.id = ?", False),
        ("SELECT age, COUNT(*) FROM users WHERE id = ? GROUP BY age",
         "SELECT name, COUNT(*) FROM users WHERE id = ? GROUP BY name", False),
    ],
)  # fmt: skip
def test_by_what_type_rows_are_ordered_joined_and_grouped_counts(shown: str, other: str, like: bool) -> None:
    evidence = Evidence()
    for sql in (shown, BY_ID):
        evidence.prove(claims_of(plan(sql), frozenset(), VERSIONS)[0])
    assert evidence.knows(claims_of(plan(other), frozenset(), VERSIONS)[0]) is like


def test_several_plans_prove_together_what_none_has_alone() -> None:
    evidence = Evidence()
    wanted, _ = claims_of(plan("SELECT id, title, since FROM roles WHERE id = ?"), frozenset(), VERSIONS)
    for sql in (BY_ID, "SELECT id, born FROM users WHERE id = ?"):
        assert not evidence.knows(wanted)
        evidence.prove(claims_of(plan(sql), frozenset(), VERSIONS)[0])
    assert evidence.knows(wanted)


def test_fills_prove_nothing_of_changes() -> None:
    evidence = Evidence()
    fills, changes = claims_of(plan(BY_ID), frozenset(), VERSIONS)
    evidence.prove(fills)
    assert evidence.knows(fills) and not evidence.knows(changes)


def test_the_same_plan_is_known_after_a_restart_and_another_version_or_table_is_not(tmp_path: Path) -> None:
    file = EarnedFile(tmp_path, "mysql")
    file.loaded()
    given = plan(BY_ID)
    for claim in claims_of(given, frozenset({"time_zone"}), VERSIONS):
        file.evidence.prove(claim)
    file.close()
    again = EarnedFile(tmp_path, "mysql")
    again.loaded()

    def known(of: QueryPlan, needs: frozenset[str], versions: tuple[str, ...]) -> bool:
        return all(map(again.evidence.knows, claims_of(of, needs, versions)))

    assert known(plan(BY_ID), frozenset({"time_zone"}), VERSIONS)
    assert not known(given, frozenset(), VERSIONS)
    assert not known(given, frozenset({"time_zone"}), ("1.1", "9.7.4"))
    assert not known(given, frozenset({"time_zone"}), ("1.0", "9.7.5"))
    assert not known(plan(BY_ID, DDL.replace("varchar(40)", "varchar(41)")), frozenset({"time_zone"}), VERSIONS)
    assert not known(plan("SELECT id, age, name FROM users WHERE id = ?"), frozenset({"time_zone"}), VERSIONS)


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    ask = (
        "from tests.proxy.cache.test_evidence import *;"
        "print(claims_of(plan(BY_ID), frozenset({'a', 'b'}), VERSIONS)[0].print_)"
    )
    found = {
        subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True, cwd=ROOT).stdout
        for _ in range(2)
    }
    assert found == {claims_of(plan(BY_ID), frozenset({"a", "b"}), VERSIONS)[0].print_ + "\n"}


def test_a_difference_takes_away_what_was_shown_of_its_parts_and_all_of_before_the_start() -> None:
    evidence = Evidence(["of before"])
    by_id, _ = claims_of(plan(BY_ID), frozenset(), VERSIONS)
    apart = Claim("apart", frozenset({"something else"}))
    for claim in (by_id, apart):
        evidence.prove(claim)
    differs, _ = claims_of(plan("SELECT id, title FROM roles WHERE id = ?"), frozenset(), VERSIONS)
    evidence.refute(differs)
    assert not evidence.knows(by_id) and evidence.knows(apart) and evidence.earned == ["apart"]
    evidence.check_invariants()


def test_random_claims_leave_nothing_behind() -> None:
    rng = random.Random(5)
    evidence = Evidence()
    for _ in range(2000):
        claim = Claim(str(rng.randrange(30)), frozenset())
        claim = Claim(claim.print_, frozenset(random.Random(claim.print_).sample("abcdefgh", 3)))
        (evidence.prove if rng.random() < 0.8 else evidence.refute)(claim)
        evidence.check_invariants()


@pytest.mark.parametrize("text", ["{", '{"version": 99, "earned": ["a"]}', '{"version": 1}'])
def test_a_file_that_cannot_be_read_proves_nothing(tmp_path: Path, text: str) -> None:
    file = EarnedFile(tmp_path, "mysql")
    file.path.write_text(text)
    file.loaded()
    assert file.evidence.earned == []
    file.evidence.prove(Claim("b", frozenset()))
    file.close()
    again = EarnedFile(tmp_path, "mysql")
    again.loaded()
    assert again.evidence.earned == ["b"]


def test_what_many_columns_have_is_not_told_and_what_is_takes_no_long_step() -> None:
    columns = ", ".join(f"c{number} int NOT NULL" for number in range(MOST_COLUMNS - 10))
    wide = f"CREATE TABLE wide (id bigint NOT NULL, {columns}, PRIMARY KEY (id)\n);"
    given = plan("SELECT * FROM wide WHERE id = ?", wide)
    claims_of(given, frozenset(), VERSIONS)
    times = []
    for _ in range(9):
        started = thread_time()
        claims_of(given, frozenset(), VERSIONS)
        times.append(thread_time() - started)
    assert min(times) < 0.01 and parts_of(given)
    wider = wide.replace("PRIMARY", ", ".join(f"d{number} int" for number in range(10)) + ", PRIMARY")
    assert claims_of(plan("SELECT id FROM wide WHERE id = ?", wider), frozenset(), VERSIONS) == (NOTHING, NOTHING)
