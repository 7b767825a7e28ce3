"""What a cache may have, the oracle asks: every function, operator and node of the grammar is in some query of its.

Needs no MySQL: the queries are looked at, not asked.
"""

from __future__ import annotations

import random

import pytest

from integration.oracle import expressions
from integration.oracle.coverage import functions_of, grammar, nodes_of
from integration.oracle.grammar import SHAPES, Focus, make_query
from integration.oracle.kinds import KINDS, RARE, SEARCHES
from integration.oracle.trees import cache_text
from integration.oracle.world import make_world
from integration.oracle.writer import EVERY
from planner.api import plan_query
from planner.text.built_in_functions import HARMLESS
from planner.tree.reasons import DETERMINISTIC
from sqltypes.errors import ParseError, UnsupportedQuery
from sqltypes.functions import FUNCTIONS
from tests.support.goldens import PLANS, snapshot

QUERIES_OF_A_SHAPE = 25
OPERATORS = {"is_null": "IS NULL", "is_true": "IS TRUE", "is_false": "IS FALSE", "neg": "-{n}", "case": "CASE"}
SYNONYMS = {"character_length"}  # maintained where a query that may be anything has it


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Each template once, and each shape some times."""
    world = make_world(random.Random(1), 5, rare=random.Random(1), unusual=random.Random(1))
    everything = Focus(everything=True)
    found = [
        cache_text(make_query(random.Random(at), world, everything, due).tree, "x") for at, due in enumerate(EVERY)
    ]
    for shape in SHAPES:
        for at in range(QUERIES_OF_A_SHAPE):
            query = make_query(random.Random(f"{shape} {at}"), world, Focus((shape,), plain=False))
            found.append(cache_text(query.tree, "x"))
    return found


def test_each_template_is_asked_in_its_turn(texts: list[str]) -> None:
    """The one that is due is in the query."""
    world = make_world(random.Random(2), 5)
    for at, due in enumerate(EVERY):
        assert due[1] in make_query(random.Random(at), world, Focus(everything=True), due).used


def test_every_function_that_a_cache_may_have_is_asked(texts: list[str]) -> None:
    database, schema = snapshot(PLANS / "rows.sql")
    asked, missed = functions_of(texts), []
    for name in sorted((HARMLESS | DETERMINISTIC) - set(asked)):
        for arguments in ("", "note", "note, note", "note, 1, note"):
            try:
                plan_query(f"SELECT {name}({arguments}) FROM orders WHERE id = ?", database, schema)
            except (UnsupportedQuery, ParseError):
                continue
            missed.append(f"{name}({arguments})")
    assert not missed


def test_every_node_of_the_grammar_is_asked(texts: list[str]) -> None:
    assert not grammar() - set(nodes_of(texts))


def test_every_operator_of_maintained_queries_is_asked() -> None:
    plain = " ".join(
        (
            *(expressions.PLAIN_NUMERIC, expressions.PLAIN_TEXTUAL, expressions.PLAIN_TEMPORAL),
            expressions.PLAIN_CONDITIONS,
        )
    )
    called = functions_of([plain])
    missed = [
        name
        for name in sorted(FUNCTIONS - SYNONYMS)
        if name not in called and OPERATORS.get(name, f" {name.upper()} ") not in plain
    ]
    assert not missed


def test_every_type_of_a_column_is_there() -> None:
    types = " ".join(kind.ddl.upper() for kind in (*KINDS, *RARE))
    for name in (
        *("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "BIT", "YEAR", "BOOLEAN"),
        *(
            "CHAR",
            "VARCHAR",
            "TINYTEXT",
            "TEXT",
            "MEDIUMTEXT",
            "LONGTEXT",
            "ENUM",
            "SET",
            "BINARY",
            "VARBINARY",
            "BLOB",
        ),
        *("JSON", "DATE", "DATETIME", "TIMESTAMP", "TIME", "POINT", "GEOMETRY", "VECTOR", "UNSIGNED", "ZEROFILL"),
    ):
        assert name in types, name
    assert any("BOOLEAN" in search for search in SEARCHES) and any("EXPANSION" in search for search in SEARCHES)
