"""Parts of the scripts of object-relational mappers that need no MySQL: what is noted, and which SELECTs count."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from integration.orm_statements.data import TABLES, literal, rows
from integration.orm_statements.kinds import Written, is_select, why_not_deterministic
from integration.orm_statements.script import Bound, Header, Step, all_scripts, as_text, packed, parsed, read, write

EACH = (
    Bound("LONGLONG", -5),
    Bound("LONGLONG UNSIGNED", 1 << 63),
    Bound("TINY", 1),
    Bound("DOUBLE", 0.5),
    Bound("NULL", None),
    Bound("VAR_STRING", "größer"),
    Bound("VAR_STRING", None),
    Bound("BLOB", "0xff00"),
    Bound("DATETIME", "0x07ea07050a0c0000"),
)


def test_parameters_are_read_as_they_are_sent() -> None:
    data = packed(EACH)
    assert parsed(data, len(EACH), ())[1] == EACH
    assert packed(parsed(data, len(EACH), ())[1]) == data


def test_parameters_that_tell_no_types_have_those_of_before() -> None:
    types, _ = parsed(packed((Bound("LONG", 1), Bound("STRING", "a"))), 2, ())
    again = b"\0\0" + struct.pack("<i", 7) + b"\1b"
    assert parsed(again, 2, types)[1] == (Bound("LONG", 7), Bound("STRING", "b"))


def test_a_text_that_begins_as_bytes_do_is_kept_as_bytes() -> None:
    _, bound = parsed(packed((Bound("VAR_STRING", "0x3078"),)), 1, ())
    assert bound == (Bound("VAR_STRING", "0x3078"),)


def test_a_script_is_read_as_it_was_written(tmp_path: Path) -> None:
    header = Header("A framework 1", "by hand", 45, 2, kept=False)
    steps = (Step("SELECT '\udcff'"), Step("SELECT ?", (Bound("LONG", 1),), 2))
    write(tmp_path / "some.jsonl", header, steps)
    script = read(tmp_path / "some.jsonl")
    assert (script.name, script.header, script.steps, script.sessions) == ("some", header, steps, 3)


def test_values_are_written_where_they_are_bound() -> None:
    step = Step("SELECT '?', `?` /* ? */ FROM t WHERE a = ? AND b = ?", (Bound("LONG", 7), Bound("STRING", "it's\\")))
    assert as_text(step) == "SELECT '?', `?` /* ? */ FROM t WHERE a = 7 AND b = 'it''s\\\\'"
    assert as_text(Step("SELECT ?, ?", (Bound("NULL", None), Bound("BLOB", "0xff")))) == "SELECT NULL, x'ff'"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT id FROM t WHERE name = 'NOW()'", ""),
        ("SELECT `rand` FROM t", ""),
        ("SELECT id FROM t WHERE at > NOW()", "the clock, or chance"),
        ("select id from t where at > current_timestamp", "the clock, or chance"),
        ("SELECT id FROM t ORDER BY RAND()", "the clock, or chance"),
        ("SELECT id FROM t WHERE id = 1 FOR UPDATE", "locks"),
        ("SELECT id FROM t LOCK IN SHARE MODE", "locks"),
        ("SELECT @@sql_mode", "of the session"),
        ("SELECT DATABASE()", "of the session"),
        ("SELECT 1 FROM `information_schema`.`tables`", "of the session"),
        ("SELECT 1", "no table"),
    ],
)
def test_which_selects_say_the_same_each_time(sql: str, why: str) -> None:
    assert is_select(sql)
    assert why_not_deterministic(sql) == why


def test_a_transaction_reads_what_it_has_written() -> None:
    written = Written()
    for sql in ("INSERT INTO `t` VALUES (1)", "BEGIN", "update `d`.`u` set a = 't'", "INSERT INTO v SELECT 1 FROM w"):
        written.note(sql)
    assert not written.are_read_by("SELECT * FROM t")  # written before
    assert written.are_read_by("SELECT `u`.`a` FROM `u`") and written.are_read_by("select 1 from d.V")
    assert not written.are_read_by("SELECT 'u' FROM t, w")
    written.note("ROLLBACK TO s")
    assert written.are_read_by("SELECT a FROM u")
    written.note("COMMIT")
    assert not written.are_read_by("SELECT a FROM u")
    for sql in ("SET autocommit=0", "COMMIT", "DELETE FROM t"):
        written.note(sql)
    assert written.are_read_by("SELECT 1 FROM t")
    written.note("SET autocommit=1")
    assert not written.are_read_by("SELECT 1 FROM t")


def test_what_is_a_select() -> None:
    assert is_select("/* driver 9 */ (SELECT 1)") and is_select("with t as (select 1) select * from t")
    assert not is_select("SET NAMES utf8mb4") and not is_select("UPDATE t SET a = (SELECT 1)")


def test_the_rows_are_the_same_each_time_and_of_every_table() -> None:
    first = list(rows())
    assert first == list(rows())
    assert {table for table, _ in first} == set(TABLES)


def test_literals() -> None:
    written = [literal(value) for value in (None, b"\xff", 1, 0.5, "it's\\")]
    assert written == [
        "NULL",
        "x'ff'",
        "1",
        "0.5",
        "'it''s\\\\'",
    ]


def test_every_script_tells_where_it_comes_from() -> None:
    scripts = list(all_scripts())
    assert scripts
    for script in scripts:
        assert script.header.made_of and script.header.obtained and any(is_select(step.sql) for step in script.steps)
