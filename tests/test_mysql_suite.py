"""What the campaign with MySQL's own tests decides by itself: which statement is compared, when two answers agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.mysql_suite import package, statements
from integration.mysql_suite.choice import Ranked, choice, is_one_of, other_ways, with_ties
from integration.mysql_suite.statements import Treatment, treatment
from integration.oracle.answers import Answer
from integration.servers.debian_mysql import PrivateApt
from integration.servers.mysql_server import CannotStart
from proxy.mysql.wire.packets import lenenc


def answer(*rows: tuple[str, ...]) -> Answer:
    """Rows of texts, in columns whose definitions say nothing."""
    definition = b"\3def" + b"\0" * 5 + b"\x0c\xff\0\0\4\0\0\xfd\0\0\0\0\0"
    packets = tuple(b"".join(lenenc(cell.encode()) for cell in row) for row in rows)
    return Answer(False, definitions=(definition,) * len(rows[0]), rows=packets)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT a FROM t", Treatment.COMPARE),
        ("/* why */ -- more\n (select a from t) union (select b from u);", Treatment.COMPARE),
        ("WITH x AS (SELECT 1) SELECT * FROM x", Treatment.COMPARE),
        ("SELECT a INTO @b FROM t", Treatment.FORWARD),
        ("SELECT a FROM t; SELECT b FROM t", Treatment.FORWARD),
        ("SELECT RAND() FROM t", Treatment.FORWARD),
        ("SELECT user FROM mysql.user", Treatment.FORWARD),
        ("SELECT a FROM t FOR UPDATE", Treatment.FORWARD),
        ("INSERT INTO t VALUES (1)", Treatment.FORWARD),
        ("SET sql_mode = ''", Treatment.FORWARD),
        ("SET GLOBAL sql_mode = ''", Treatment.ANSWER_OK),
        ("SET a = 1, @@GLOBAL.b = 2", Treatment.ANSWER_OK),
        ("SET SESSION debug = 'd,x'", Treatment.ANSWER_OK),
        ("INSERT INTO mysql.user VALUES (1)", Treatment.ANSWER_OK),
        ("DROP DATABASE IF EXISTS `mysql`", Treatment.ANSWER_OK),
        ("DROP DATABASE mysqltest", Treatment.FORWARD),
        ("SHUTDOWN", Treatment.ANSWER_OK),
        ("SELECT @@GLOBAL.pid_file", Treatment.REFUSE),
    ],
)
def test_what_is_done_with_a_statement(text: str, wanted: Treatment) -> None:
    assert treatment(text) is wanted


def test_what_a_statement_changes() -> None:
    assert statements.changes_rows("/* x */ insert into t values (1)")
    assert not statements.changes_rows("CREATE TABLE t (a INT)")
    assert statements.changes_names("USE other") and statements.changes_names("drop schema if exists a")
    assert not statements.changes_names("DROP TABLE t")
    assert statements.on_innodb(b"CREATE TABLE t (a INT) ENGINE=MyISAM") == b"CREATE TABLE t (a INT) ENGINE=InnoDB"
    assert statements.without_end(b" SELECT 1 ;\n ") == b"SELECT 1"
    assert statements.names_session_variable("sql_mode is '' in this session") == "sql_mode"
    assert statements.names_session_variable("a_b was another when the statement was prepared") == "a_b"
    assert not statements.names_session_variable("no cache for this query")


def test_scripts_expect_no_errors_and_wait_shortly(tmp_path: Path) -> None:
    script = tmp_path / "a.test"
    script.write_bytes(
        b"--error 1064, ER_X\nSELECT;\n  -- error ER_Y\nerror 1;\nSELECT 'error 1';\n--echo error\n"
        b"let $wait_counter= 600;\n  let $wait_counter= 0;\n--let $wait_timeout= `SELECT 9`\n\xff\n"
        b"connect (a, localhost,root,,);\n"
    )
    package.prepare(tmp_path)
    assert script.read_bytes().split(b"\n") == [
        *(b"", b"SELECT;", b"", b"", b"SELECT 'error 1';", b"--echo error"),
        *(b"let $wait_counter= 15;", b"  let $wait_counter= 0;", b"--let $wait_timeout= 15", b"\xff"),
        *(b"connect (a, 127.0.0.1,root,,);", b""),
    ]


class Apt(PrivateApt):
    """The mirror has one version of the suite."""

    def __init__(self, version: str) -> None:
        self.version, self.suites = version, ("sid",)

    def run(self, *command: str, cwd: Path | None = None) -> str:
        if command[1] == "search":
            return "mysql-testsuite - MySQL's tests\n" if self.version else ""
        return f"mysql-testsuite:\n  Installed: (none)\n  Candidate: 1:{self.version}\n"


def test_the_suite_is_of_the_servers_version() -> None:
    root = Path("/cache/mysql-9.7.4-2-sid")
    assert package.package_for(Apt("9.7.4-2"), root) == "mysql-testsuite"
    with pytest.raises(CannotStart, match=r"in version 9\.7\.5-1, not that of mysql-9\.7\.4-2-sid"):
        package.package_for(Apt("9.7.5-1"), root)
    with pytest.raises(CannotStart, match="no package"):
        package.package_for(Apt(""), root)


def test_ties_are_numbered_by_mysql() -> None:
    (plain,) = (
        ranked.text
        for ranked in with_ties("SELECT a AS x, b FROM t ORDER BY x DESC, 2 LIMIT 3, 2", 2)
        if "t.*" not in ranked.text
    )
    assert plain == "SELECT a AS x, b, DENSE_RANK() OVER (ORDER BY a DESC, b) AS upwell_tie FROM t"
    (union,) = with_ties("SELECT a FROM t UNION SELECT b FROM u ORDER BY a LIMIT 2", 1)
    assert union.text.startswith(
        "SELECT t.*, DENSE_RANK() OVER (ORDER BY c1) AS upwell_tie FROM (SELECT a FROM t UNION"
    )
    assert (union.offset, union.limit) == (0, 2)
    (unordered,) = with_ties("SELECT a FROM t LIMIT 1", 1)
    assert unordered.text == "SELECT t.*, 1 AS upwell_tie FROM (SELECT a FROM t) AS t (c1)"
    assert not list(with_ties("SELECT a FROM t ORDER BY", 1))


def test_tied_rows_may_stand_in_any_order() -> None:
    rows = answer(("a", "1"), ("b", "1"), ("c", "2"))
    assert is_one_of(answer(("b",), ("a",), ("c",)), rows, Ranked("", 0, None))
    assert not is_one_of(answer(("b",), ("c",), ("a",)), rows, Ranked("", 0, None))
    assert is_one_of(answer(("b",)), rows, Ranked("", 0, 1))
    assert not is_one_of(answer(("c",)), rows, Ranked("", 0, 1))
    assert not is_one_of(answer(("a",), ("a",), ("c",)), rows, Ranked("", 0, None))
    assert not is_one_of(answer(("a",), ("b",)), rows, Ranked("", 0, None))
    assert is_one_of(answer(("c",)), rows, Ranked("", 2, 5))


def test_a_choice_is_one_that_mysql_makes_by_another_plan() -> None:
    text = "SELECT MAX(a) FROM t AS x GROUP BY b"
    ways = dict((way, name) for name, way in other_ways(text))
    assert "SELECT /*+ JOIN_PREFIX(x) */ MAX(a) FROM t AS x GROUP BY b" in ways
    mysql, ours = answer(("a",)), answer(("A",))
    assert choice(text, mysql, ours, lambda way: ours if "SQL_BIG_RESULT" in way else mysql)
    assert not choice(text, mysql, ours, lambda way: mysql)
    assert not choice(text, mysql, Answer(False, 1054, "no"), lambda way: mysql)
