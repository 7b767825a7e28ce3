"""Texts of sessions with ANSI_QUOTES, as others would be sent them."""

from __future__ import annotations

import pytest

from proxy.mysql.state.ansi_quotes import MOST_NAMES, named_by_quotes, with_backticks


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b'SELECT "id" FROM "t"', b"SELECT `id` FROM `t`"),
        (b'select "a"."b" AS "c d" from "a"', b"select `a`.`b` AS `c d` from `a`"),
        (b'SELECT "a""b", "c`d", "e\\" FROM t', b'SELECT `a"b`, `c``d`, `e\\` FROM t'),
        (b'SELECT \'a "b" \\\' "c"\', "d" FROM t', b'SELECT \'a "b" \\\' "c"\', `d` FROM t'),
        (b'SELECT \'it\'\'s "x"\', `a"b`, `c``"d` FROM "t"', b"SELECT 'it''s \"x\"', `a\"b`, `c``\"d` FROM `t`"),
        (b'SELECT id # "a"\n, "b" FROM t', b'SELECT id # "a"\n, `b` FROM t'),
        (b'SELECT id -- "a"\n, "b" FROM t --', b'SELECT id -- "a"\n, `b` FROM t --'),
        (b'SELECT 1--"b" FROM t', b"SELECT 1--`b` FROM t"),  # no comment: two minus signs
        (b'SELECT 4/"b", 4 - "b" FROM t', b"SELECT 4/`b`, 4 - `b` FROM t"),
        (b'/* "x" */ ( SELECT "id" FROM t /* "y" */)', b'/* "x" */ ( SELECT `id` FROM t /* "y" */)'),
        (b'INSERT INTO "t" ("a") VALUES (\'"\')', b"INSERT INTO `t` (`a`) VALUES ('\"')"),
        (b'DELETE FROM "t"', b"DELETE FROM `t`"),
        ('SELECT "größe" FROM t'.encode(), "SELECT `größe` FROM t".encode()),
    ],
)
def test_names_get_backticks(text: bytes, read: bytes) -> None:
    assert with_backticks(text) == read


@pytest.mark.parametrize(
    "text",
    [
        b'SELECT "" FROM t',
        b'SELECT "id FROM t',
        b'SELECT "id" FROM t WHERE s = \'a',
        b'SELECT "id" FROM t WHERE s = `a',
        b'SELECT "id" /* FROM t',
        b'SELECT /*!80000 "id", */ 1 FROM t',
        b'SELECT /*+ NO_ICP("t") */ "id" FROM t',
        b'SELECT $$"id"$$, "a" FROM t',
        b'SET sql_mode = "ANSI"',
        b'CALL "p"()',
        b'CREATE TABLE "t" (id INT)',
        b"SELECT " + b", ".join([b'"id"'] * (MOST_NAMES + 1)) + b" FROM t",
        b"SELECT \"id\" FROM t WHERE s = '%b'" % (b"x" * 70_000),
    ],
)
def test_what_is_not_surely_read_is_left_alone(text: bytes) -> None:
    assert with_backticks(text) is None


@pytest.mark.parametrize(
    ("sql", "by_letters"),
    [
        ("SELECT `n`.`id` AS `id`, `n`.*, `title` FROM `n` WHERE LOWER(`x`) = 'a'", False),
        ("SELECT COUNT(*) AS `expression`, COUNT(*), 'x' FROM `n`", False),
        ("SELECT COUNT(`id`) AS `n` FROM (SELECT 1 AS `one` FROM `n`) `s`", False),
        ("SELECT COUNT(`id`) FROM `n`", True),
        ("SELECT `id` + 1 `a` FROM `n`", True),  # it has a name; that is not looked for
        ("SELECT * FROM (SELECT MAX(`id`) FROM `n`) s", True),
        ("SELECT id FROM n UNION SELECT LOWER(`id`) FROM `n`", True),
        ("WITH q AS (SELECT LOWER(`id`) FROM n) SELECT * FROM q", True),
        ("SELECT `id` FROM n WHERE EXISTS (SELECT 1 FROM `m`)", False),
        ("SELECT `id", True),
    ],
)
def test_columns_named_by_their_letters(sql: str, by_letters: bool) -> None:
    assert named_by_quotes(sql) is by_letters
