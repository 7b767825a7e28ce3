"""Which texts ask about nothing but the session, and MySQL's answers to them as they are given again."""

from __future__ import annotations

import pytest

from proxy.mysql.reads.questions import (
    KEPT,
    KEPT_STATES,
    Question,
    Questions,
    Reply,
    may_be_question,
    question_of,
    reply_of,
)
from proxy.mysql.wire.packets import packet

FOUND, PLAIN = Question(found=True), Question()


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("SELECT @@sql_mode", PLAIN),
        ("select @@SESSION.Sql_Mode, @@local.time_zone tz, @@`wait_timeout` AS `w`;", PLAIN),
        ("/* jdbc */ SELECT @@version_comment LIMIT 1", PLAIN),
        ("SELECT @@global.version, VERSION( ), SCHEMA() 's' FROM DUAL", PLAIN),
        ("SELECT 1, 'a', NULL, TRUE", PLAIN),
        ("SELECT CURRENT_USER", PLAIN),
        ("SELECT CONNECTION_ID()", Question(own=True)),
        ("SELECT FOUND_ROWS()", FOUND),
        ("SELECT `FOUND_ROWS` ( ) AS n -- all", FOUND),
        ("SHOW VARIABLES LIKE 'lower_case_%'", Question(shows=True)),
        ("show local variables like 'SQL_MODE'", Question(shows=True)),
        *dict.fromkeys(
            (
                "SELECT FOUND_ROWS() LIMIT 1", "SELECT FOUND_ROWS(), 1", "SELECT FOUND_ROWS(1)",
                "SELECT @@global.sql_mode",
                "SELECT @@persist.version", "SELECT @@session.version", "SELECT @x", "SELECT @@", "SELECT @@sql_mode.x",
                "SELECT @@session . sql_mode", "SELECT @@session.`sql_mode`", "SELECT `VERSION`()", "SELECT NOW()",
                "SELECT 1, CURRENT_TIMESTAMP", "SELECT 1 + 1", "SELECT f()", "SELECT d.f()", "SELECT 1 FROM t",
                "SELECT version", "SELECT 1 FOR UPDATE", "SELECT 1 INTO @x", "SELECT 1; SELECT 2", "SELECT ?",
                "SELECT /*+ SET_VAR(sql_mode='') */ @@sql_mode", "SELECT /*!80000 @@x, */ 1", "SELECT (SELECT 1)",
                "SELECT USER()", "SELECT @@timestamp", "SELECT @@optimizer_switch", "SELECT @@session_track_gtids",
                "SELECT 1 WHERE FALSE", "SELECT 'unclosed", "SHOW VARIABLES", "SHOW VARIABLES LIKE '%'",
                "SHOW VARIABLES LIKE 'sql%'", "SHOW GLOBAL VARIABLES LIKE 'version'", "SHOW STATUS LIKE 'version'",
                "SHOW VARIABLES WHERE Variable_name = 'sql_mode'", "SHOW VARIABLES LIKE sql_mode", "SHOW",
            )
        ).items(),
    ],
)  # fmt: skip
def test_what_a_text_asks(text: str, question: Question | None) -> None:
    assert question_of(text.encode()) == question
    assert may_be_question(text.encode())


def test_what_need_not_be_looked_at() -> None:
    for text in (b"INSERT INTO t VALUES (1)", b"SELECT " + b"1," * 2000 + b"1", b"", b"SELECTED", b"/*! SELECT 1 */"):
        assert not may_be_question(text)
    assert question_of(b"SELECT '\xe4'") is None, "bytes that are no UTF-8"


COUNT, DEFINITION = b"\1", b"\3def\0\0\0\x011\0\x0c?\0\1\0\0\0\x08\x81\0\0\0\0"
EOF, OK = b"\xfe\2\0\x22\0", b"\xfe\0\0\x22\0\2\0"


def test_an_answer_is_given_with_the_flags_of_the_session() -> None:
    reply = reply_of([COUNT, DEFINITION, b"\x011", OK], eof=False)
    assert reply is not None and reply.warned
    before, behind = reply.packets(0x2001)
    assert before == packet(COUNT, 1) + packet(DEFINITION, 2)
    assert behind == packet(b"\x011", 3) + packet(b"\xfe\0\0\x21\x20\2\0", 4), "how it ran is MySQL's to say"
    reply = reply_of([COUNT, DEFINITION, EOF, b"\x011", EOF], eof=True)
    assert reply is not None and reply.warned
    before, behind = reply.of(123).packets(2)
    assert before == packet(COUNT, 1) + packet(DEFINITION, 2) + packet(EOF, 3)
    assert behind == packet(b"\x03123", 4) + packet(EOF, 5)


@pytest.mark.parametrize(
    "payloads",
    [
        [b"\0\0\0\2\0\0\0"],
        [b"\xff\0\0#HY000no"],
        [COUNT, DEFINITION, b"\x011", b"\xfe\0\0\x0a\0\0\0"],
        [COUNT, DEFINITION, b"\x011", OK + b"\0\1x"],
        [COUNT, DEFINITION, b"\xfa" + bytes(3000), OK],
        [COUNT, DEFINITION, b"\x011", b"\xff\0\0#HY000no"],
    ],
)
def test_what_is_no_plain_answer_is_not_kept(payloads: list[bytes]) -> None:
    assert reply_of(payloads, eof=False) is None


def test_so_many_are_kept() -> None:
    questions, reply = Questions(), Reply((COUNT, DEFINITION), (), (OK,))
    for number in range(3 * KEPT):
        questions.learn("state", b"%d" % number, reply)
        questions.asked_by(b"SELECT %d" % number)
    for number in range(3 * KEPT_STATES):
        questions.learn(number, b"text", reply)
    assert questions.find(3 * KEPT_STATES - 1, b"text") is reply
    assert questions.find("state", b"1") is None and questions.find("other", b"text") is None
    assert len(questions._asked) <= KEPT and len(questions._replies) <= KEPT_STATES
    assert all(len(replies) <= KEPT for replies in questions._replies.values())
