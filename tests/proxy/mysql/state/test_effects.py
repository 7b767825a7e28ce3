"""What a statement does to its session, told from its text: the table, and what the text adds.

That the effects are MySQL's, `integration/sessions/test_statement_effects.py` shows.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from proxy.mysql.state.effects import OF_KINDS, Effects, as_markdown, effects_of
from proxy.mysql.text.statement_kind import ANYTHING, Kind, classify

DOCS = Path(__file__).parents[4] / "docs" / "mysql_protocol.md"


def of(sql: str) -> Effects:
    return effects_of(classify(sql))


def told(sql: str) -> set[str]:
    """The names of the effects that are so."""
    found = dataclasses.asdict(of(sql))
    return {name for name, value in found.items() if value is True}


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT 1", {"single", "simple"}),
        ("SELECT id FROM t", {"touches", "opens_snapshot", "single", "simple"}),
        ("SELECT id FROM t FOR UPDATE", {"touches", "locks", "single", "simple"}),
        ("INSERT INTO t VALUES (1)", {"touches", "locks", "triggers", "single", "simple"}),
        ("BEGIN", {"bounds", "ends", "error_hides", "single", "simple"}),
        (
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            {"touches", "opens_snapshot", "bounds", "ends", "error_hides", "single", "simple"},
        ),
        ("COMMIT", {"locks", "bounds", "ends", "ends_only", "error_hides", "single", "simple"}),
        ("COMMIT AND CHAIN", {"locks", "bounds", "ends", "error_hides", "single", "simple"}),
        ("SAVEPOINT a", {"locks", "saves", "single", "simple"}),
        ("ROLLBACK TO a", {"locks", "single", "simple"}),
        ("SET @x = 1", {"error_hides", "explained", "single", "simple"}),
        ("SET autocommit = 0", {"error_hides", "explained", "single", "simple"}),
        ("SET NAMES latin1", {"error_hides", "explained", "resolves", "recodes", "single", "simple"}),
        (
            "SET ROLE NONE",
            {"error_hides", "explained", "resolves", "recodes", "unsettles", "single"},
        ),
        ("USE d", {"locks", "explained", "single", "simple"}),
        (
            "DROP TEMPORARY TABLE x",
            {"touches", "opens_snapshot", "locks", "hides_tables", "error_hides", "resolves", "single"},
        ),
    ],
)
def test_what_the_text_tells(sql: str, wanted: set[str]) -> None:
    assert told(sql) == wanted


def test_of_several_statements_each_counts() -> None:
    found = of("SET autocommit = 1; SELECT id FROM t; COMMIT; LOCK TABLES t READ; UNLOCK TABLES")
    assert found.several and found.ends_within and found.sets == {"autocommit"} and found.touches
    assert found.table_locks is False, "the last of them lets go"
    assert not (found.single or found.ends or found.bounds)


def test_an_xa_transaction_may_be_committed_in_one_phase() -> None:
    assert of("xa commit 'a', 'b', 7 /* */ one phase").one_phase and of("DO 1; XA COMMIT 'a' ONE PHASE").one_phase
    assert not any(of(sql).one_phase for sql in ("XA COMMIT 'ONE PHASE'", "XA PREPARE 'a'", "XA ROLLBACK 'a'"))


def test_the_variables_that_tell_of_the_session_are_named() -> None:
    assert of("SET session_track_gtids = OFF, @x = 1").sets == {"session_track_gtids"}


def test_what_is_not_known_may_do_anything() -> None:
    found = effects_of(ANYTHING)
    assert found.touches and found.locks and found.hides_tables and found.unsettles and found.recodes
    assert found.error_hides and found.calls_unknown and not found.simple
    unclear = effects_of(dataclasses.replace(ANYTHING, kind=Kind.SEVERAL))
    assert unclear.saves and not unclear.several


def test_each_kind_has_its_row_and_documentation_has_the_table() -> None:
    assert set(OF_KINDS) == set(Kind)
    assert as_markdown() in DOCS.read_text(), "python -m proxy.mysql.state.effects prints it"
