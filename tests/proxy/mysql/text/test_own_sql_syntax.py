"""Which texts are commands to the proxy, what they say, and what is said of those that are nearly one."""

from __future__ import annotations

import pytest

from proxy.mysql.text.own_sql_syntax import (
    Command,
    CreateCache,
    DropCache,
    ExplainCreateCache,
    ExplainLastStatement,
    FlushCache,
    SetBoost,
    SetSetting,
    ShowCaches,
    ShowProxiedQueries,
    ShowSettings,
    ShowStatus,
    like,
    may_be_command,
    recognise,
)
from sqltypes.errors import ParseError

SELECT = "SELECT id FROM t WHERE a = ?"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (f"CREATE CACHE FROM {SELECT}", CreateCache(SELECT)),
        (f"create cache story from {SELECT};", CreateCache(SELECT, "story")),
        (f"CREATE CACHE `a``b c` FROM {SELECT}", CreateCache(SELECT, "a`b c")),
        (f"CREATE CACHE `from` FROM {SELECT}", CreateCache(SELECT, "from")),
        (f"CREATE CACHE IF NOT EXISTS story FROM {SELECT}", CreateCache(SELECT, "story", True)),
        (f"CREATE CACHE FROM ({SELECT})", CreateCache(f"({SELECT})")),
        ("CREATE CACHE FROM SELECT /*+ NO_INDEX(t) */ 'a;b' /* c */ FROM t -- end\n ; ",
         CreateCache("SELECT /*+ NO_INDEX(t) */ 'a;b' /* c */ FROM t")),
        (f" /* a */ -- b\n# c\nCREATE /* d */ CACHE\n\tFROM {SELECT}", CreateCache(SELECT)),
        ("DROP CACHE story", DropCache("story")),
        ("drop cache if exists `if`;;", DropCache("if", True)),
        ("FLUSH CACHE `a b`", FlushCache("a b")),
        ("create cache from query 'q_1'", CreateCache("", query="q_1")),
        ("CREATE CACHE IF NOT EXISTS s FROM QUERY q_1;", CreateCache("", "s", True, "q_1")),
        ("EXPLAIN CREATE CACHE FROM QUERY 'q_1'", ExplainCreateCache("", "q_1")),
        ("SHOW UPWELL SETTINGS LIKE 'max%'", ShowSettings("max%")),
        ("SET UPWELL memory-limit = 2GiB", SetSetting("memory-limit", "2GiB")),
        ("set /* a */ upwell memory_limit := '2 GiB' ;", SetSetting("memory_limit", "2 GiB")),
        ("SET UPWELL `log-level`=debug -- now", SetSetting("log-level", "debug")),
        ("SET UPWELL admin-users = app, ops@10.0.0.%", SetSetting("admin-users", "app, ops@10.0.0.%")),
        ("SET UPWELL check-sample = 0.001", SetSetting("check-sample", "0.001")),
        ("SET UPWELL check-sample = default", SetSetting("check-sample", None)),
        ("SHOW CACHES", ShowCaches()),
        ("SHOW CACHES LIKE 'a\\_%'", ShowCaches("a\\_%")),
        ("show proxied queries", ShowProxiedQueries()),
        ('SHOW PROXIED QUERIES LIKE "%it\'s%" LIMIT 5', ShowProxiedQueries("%it's%", 5)),
        ("SHOW UPWELL STATUS", ShowStatus()),
        ("SET @@boost_cached_queries = true", SetBoost()),
        ("set /* a */ SESSION boost_cached_queries=1 ;", SetBoost()),
        ("SET @@session.boost_cached_queries := 'on'", SetBoost()),
        ("SHOW UPWELL STATUS LIKE 'mem%'", ShowStatus("mem%")),
        (f"EXPLAIN CREATE CACHE FROM {SELECT}", ExplainCreateCache(SELECT)),
        (f"EXPLAIN CREATE CACHE story FROM {SELECT}", ExplainCreateCache(SELECT)),
        ("EXPLAIN LAST STATEMENT", ExplainLastStatement()),
        ("explain last /* one */ statement ; -- now", ExplainLastStatement()),
    ],
)  # fmt: skip
def test_a_command_is_recognised_however_it_is_written(text: str, command: Command) -> None:
    assert recognise(text) == command
    assert may_be_command(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SELECT 1",
        "SELECT 'CREATE CACHE FROM SELECT 1'",
        "/* CREATE CACHE FROM SELECT 1 */ SELECT 1",
        "-- CREATE CACHE FROM SELECT 1\nSELECT 1",
        "/*!80000 CREATE CACHE FROM SELECT 1 */",  # MySQL runs what is in it
        "--CREATE CACHE",
        "CREATE",
        "CREATE TABLE cache (id INT)",
        "CREATE TABLE CACHES LIKE cache",
        "CREATE DATABASE cache",
        "CREATE /* CACHE */ TABLE t (id INT)",
        "CREATE CACHE_TABLE FROM",
        "CREATE cache.t FROM",
        "DROP TABLE cache",
        "DROP `cache`",
        "SHOW CREATE TABLE cache",
        "SHOW COLUMNS FROM caches",
        "SHOW TABLES LIKE 'CACHES'",
        "SHOW STATUS LIKE 'upwell'",
        "EXPLAIN SELECT * FROM last",
        "EXPLAIN last",  # the table of that name
        "EXPLAIN last id",
        "EXPLAIN last.statement",
        "EXPLAIN `last` statement",
        "EXPLAIN last statement_id",
        "DESCRIBE last statement",
        "CACHE INDEX t IN hot",
        "LOAD INDEX INTO CACHE t",
        "caches",
    ],
)
def test_no_statement_of_mysql_is_taken_for_one(text: str) -> None:
    assert recognise(text) is None
    assert not may_be_command(text.encode())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("CREATE CACHE", "FROM is expected at the end; accepted is: CREATE CACHE [IF NOT EXISTS] [name] FROM SELECT"),
        ("CREATE CACHE story", "FROM is expected at the end"),
        ("CREATE CACHE story FROM ;", "a SELECT is expected at the end"),
        ("CREATE CACHE a b FROM SELECT 1", "FROM is expected at line 1, column 16, near 'b FROM SELECT 1'"),
        ("CREATE CACHE SELECT 1", "FROM is expected at line 1, column 14, near 'SELECT 1'"),
        ("CREATE CACHE story WITH c AS (SELECT 1)", "FROM is expected at line 1, column 20, near 'WITH c AS"),
        ("CREATE CACHE AS SELECT 1", "FROM is expected at line 1, column 17, near 'SELECT 1'"),
        ("CREATE CACHE IF EXISTS a FROM SELECT 1", "FROM is expected at line 1, column 14"),
        ("DROP CACHE", "the name of a cache is expected at the end; accepted is: DROP CACHE [IF EXISTS] name"),
        ("DROP CACHE a, b", "the end of the statement is expected at line 1, column 13, near ', b'"),
        ("SHOW CACHES LIKE story", "a pattern in quotes of up to 1000 letters is expected"),
        (f"SHOW CACHES LIKE '{'%ab' * 400}'", "of up to 1000 letters is expected at line 1, column 18"),
        ("SHOW CACHES WHERE name = 'a'", "the end of the statement is expected"),
        ("SHOW CACHES; SELECT 1", "the end of the statement is expected at line 1, column 12, near '; SELECT 1'"),
        ("SHOW PROXIED", "QUERIES is expected at the end; accepted is: SHOW PROXIED QUERIES [LIKE 'pattern']"),
        ("SHOW UPWELL CACHES", "STATUS or SETTINGS is expected at line 1, column 13"),
        ("SHOW CACHE", "CACHES or PROXIED or UPWELL is expected at line 1, column 6, near 'CACHE'"),
        ("CREATE CACHES FROM SELECT 1", "CACHE is expected at line 1, column 8"),
        ("DROP CACHES", "CACHE is expected at line 1, column 6, near 'CACHES'; accepted is: DROP CACHE"),
        ("EXPLAIN CREATE CACHES FROM SELECT 1", "CACHE is expected at line 1, column 16"),
        ("SHOW PROXIED QUERIES LIMIT all", "a whole number is expected at line 1, column 28"),
        ("SHOW PROXIED QUERIES LIMIT 1.5", "a whole number is expected at line 1, column 28"),
        ("EXPLAIN CREATE CACHE SELECT 1", "FROM is expected at line 1, column 22, near 'SELECT 1'; accepted is: EXP"),
        ("CREATE CACHE FROM SELECT 'a", "cannot read the text"),
    ],
)  # fmt: skip
def test_what_is_nearly_a_command_is_told_what_would_be_accepted(text: str, line: str) -> None:
    assert may_be_command(text.encode())
    with pytest.raises(ParseError) as failed:
        recognise(text)
    assert line in failed.value.message
    assert (failed.value.errno, failed.value.sqlstate) == (1064, "42000")


def test_a_long_text_of_comments_and_space_is_read_once() -> None:
    """Read again and again from each of its parts, these would not come to an end."""
    for text in ("/*" * 100_000, " \n" * 100_000, "CREATE" + "-- \n" * 100_000, "EXPLAIN LAST" + "/**/ ;" * 100_000):
        assert recognise(text) is None


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("story", "STORY", True),
        ("story", "stories", False),
        ("stor%", "stories", True),
        ("%ies", "stories", True),
        ("%o%e%", "stories", True),
        ("%e%o%", "stories", False),
        ("s%s", "s", False),
        ("s%s%s", "sxs", False),
        ("s_ory", "story", True),
        ("_", "\n", True),
        ("a\\_b", "a_b", True),
        ("a\\_b", "axb", False),
        ("100\\%", "100%", True),
        ("100\\%", "1000", False),
        ("a.c", "abc", False),
        ("%", "", True),
        ("", "x", False),
        ("x\\", "x\\", True),
    ],
)
def test_like_is_mysqls(pattern: str, text: str, matches: bool) -> None:
    assert like(pattern)(text) is matches


def test_a_pattern_of_many_percent_signs_is_judged_at_once() -> None:
    assert not like("%a" * 50 + "b")("a" * 5_000)
