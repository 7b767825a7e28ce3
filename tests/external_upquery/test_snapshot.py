"""What is sent for an upquery, and what its answers tell about its bracket."""

from __future__ import annotations

from pymysql.constants import FIELD_TYPE

from dataflow.messages import Statement, UpqueryRequest
from external_upquery.protocol import Answer, Answers, ResultSet, query
from external_upquery.snapshot import BracketReader, plan, refused
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceDown, SourceError
from sqltypes.expression import Row
from tests.support import mysql_packets as server

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
TEXT = server.column("t", FIELD_TYPE.VAR_STRING, charset=server.UTF8MB4)


def request(*sql: str, slow: bool = False) -> UpqueryRequest:
    return UpqueryRequest(1, tuple(map(Statement, sql)), ("`d`.`t`", "`d`.`u`"), slow=slow)


def texts(*values: str) -> bytes:
    return server.result_set([TEXT] * len(values), [[value.encode() for value in values]])


def decoded(count: int, *answers: bytes) -> list[Answer]:
    decoder = Answers(deprecate_eof=True)
    decoder.expect(count)
    return decoder.feed(b"".join(answers))


def rows_of(answer: Answer) -> list[Row]:
    assert isinstance(answer, ResultSet)
    return answer.rows


def test_one_short_statement_is_enclosed_by_two_readings() -> None:
    sending = plan(request("SELECT 1"))
    assert sending.packets == b"".join(
        map(
            query,
            (
                "SELECT @@global.gtid_executed",
                "SELECT 1",
                "SELECT @@server_uuid, @@global.gtid_owned, @@global.gtid_executed",
            ),
        )
    )


def test_several_statements_share_a_snapshot_whose_bracket_is_read_before_them() -> None:
    expected = (
        "SELECT @@global.gtid_executed",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "DO (SELECT 1 FROM `d`.`t` LIMIT 0), (SELECT 1 FROM `d`.`u` LIMIT 0)",
        "SELECT @@server_uuid, @@global.gtid_owned, @@global.gtid_executed",
        "SELECT 1",
        "SELECT 2",
        "COMMIT",
    )
    assert plan(request("SELECT 1", "SELECT 2")).packets == b"".join(map(query, expected))
    assert plan(request("SELECT 1", slow=True)).packets == b"".join(map(query, (*expected[:5], "COMMIT")))


def test_bracket_is_read_from_the_answers() -> None:
    sending = plan(request("SELECT x"))
    answers = decoded(
        3, texts(f"{UUID}:1-5"), texts("x"), texts(UUID, f"{UUID}:7#12{OTHER}:1#13", f"{UUID}:1-6,\n{OTHER}:9")
    )
    read = BracketReader().read(sending, answers)
    assert not isinstance(read, Exception)
    bracket, results = read
    assert bracket.history == UUID
    assert bracket.lower == GtidSet.parse(f"{UUID}:1-5")
    assert bracket.owned == GtidSet.parse(f"{UUID}:7,{OTHER}:1")
    assert bracket.executed == GtidSet.parse(f"{UUID}:1-6,{OTHER}:9")
    assert [result.rows for result in results] == [[("x",)]]


def test_what_stands_before_and_behind_a_statement_gives_no_rows_of_its_own() -> None:
    asked = request("SELECT x")
    asked.statements = (
        Statement("EXECUTE p USING @a", ("SET @a = 5", "PREPARE p FROM 'x'"), ("DEALLOCATE PREPARE p",)),
    )
    sending = plan(asked)
    done = server.packet(server.ok())
    answers = decoded(6, texts(f"{UUID}:1-5"), done, done, texts("x"), done, texts(UUID, "", f"{UUID}:1-5"))
    read = BracketReader().read(sending, answers)
    assert not isinstance(read, Exception)
    assert [result.rows for result in read[1]] == [[("x",)]]
    asked.slow = True
    assert plan(asked).rows == (6,)  # behind L, the snapshot, the locks and X


def test_a_text_that_tells_a_collation_is_run_in_it_and_no_other_is() -> None:
    told = "SELECT /*+ QB_NAME(upwell_collation_utf8mb4_bin) */ 'a' AS a FROM t"
    bound = Statement("EXECUTE upwell USING @a", ("SET @a = 1", f"PREPARE upwell FROM '{told}'"))
    first, second = Statement(told), Statement("SELECT 2")
    sending = plan(UpqueryRequest(1, (first, second, bound), (), checks=(first,)))
    on, off = "SET collation_connection=utf8mb4_bin", "SET collation_connection='utf8mb4_0900_ai_ci'"
    around = (
        "SELECT @@global.gtid_executed",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "SELECT @@server_uuid, @@global.gtid_owned, @@global.gtid_executed",
    )
    commands = [*around, on, told, off, "SELECT 2", on, *bound.before, bound.sql, off, on, told, off, "COMMIT"]
    assert sending.packets == b"".join(map(query, commands)) and sending.count == len(commands)
    assert [commands[at] for at in (*sending.rows, *sending.checks)] == [told, "SELECT 2", bound.sql, told]


def test_source_at_rest_gives_one_set_for_both_readings() -> None:
    reader = BracketReader()
    sending = plan(request("SELECT x"))
    answers = decoded(3, texts(f"{UUID}:1-5"), texts("x"), texts(UUID, "", f"{UUID}:1-5"))
    read = reader.read(sending, answers)
    assert not isinstance(read, Exception)
    assert read[0].lower is read[0].executed
    assert not read[0].owned


def test_first_error_is_the_outcome() -> None:
    sending = plan(request("SELECT a", "SELECT b"))
    done = server.packet(server.ok())
    answers = decoded(
        sending.count,
        texts(f"{UUID}:1-5"),
        done,
        done,
        texts(UUID, "", f"{UUID}:1-5"),
        server.packet(server.error(1146, "42S02", "no a")),
        server.packet(server.error(1146, "42S02", "no b")),
        done,
    )
    outcome = BracketReader().read(sending, answers)
    assert isinstance(outcome, SourceError) and outcome.message == "no a"


def test_position_that_cannot_be_read_fails_the_upquery() -> None:
    sending = plan(request("SELECT x"))
    answers = decoded(3, texts("no set"), texts("x"), texts(UUID, "", f"{UUID}:1-5"))
    assert isinstance(BracketReader().read(sending, answers), SourceDown)


def test_lower_bound_that_is_known_is_not_read_again() -> None:
    known = GtidSet.parse(f"{UUID}:1-5")
    asked = request("SELECT x")
    asked.lower = known
    sending = plan(asked)
    expected = ("SELECT x", "SELECT @@server_uuid, @@global.gtid_owned, @@global.gtid_executed")
    assert sending.packets == b"".join(map(query, expected))
    read = BracketReader().read(sending, decoded(2, texts("x"), texts(UUID, "", f"{UUID}:1-6")))
    assert not isinstance(read, Exception)
    assert read[0].lower is known
    assert read[0].uncertain == GtidSet.parse(f"{UUID}:6")


def test_last_answer_that_comes_again_byte_for_byte_is_the_same_answer() -> None:
    decoder = Answers(deprecate_eof=True)
    seen = []
    for executed in ("1-5", "1-5", "1-6", "1-6"):
        decoder.expect(2)
        seen.append(decoder.feed(texts("x") + texts(UUID, "", f"{UUID}:{executed}")))
    assert [rows_of(answers[1])[0][2] for answers in seen] == [f"{UUID}:{end}" for end in ("1-5", "1-5", "1-6", "1-6")]
    assert seen[0][1] is seen[1][1]


def test_last_answer_is_found_again_when_its_bytes_come_in_pieces() -> None:
    decoder = Answers(deprecate_eof=True)
    whole = texts("x") + texts(UUID, "", f"{UUID}:1-5")
    for cut in range(1, len(whole)):
        decoder.expect(2)
        answers = decoder.feed(whole[:cut]) + decoder.feed(whole[cut:])
        assert [rows_of(answer) for answer in answers] == [[("x",)], [(UUID, "", f"{UUID}:1-5")]]


def exactly(*sql: str) -> UpqueryRequest:
    asked = request(*sql)
    asked.exact = True
    return asked


def exact_answers(before: str, owned: str, executed: str) -> list[Answer]:
    done = server.packet(server.ok())
    return decoded(
        9, done, done, done, texts("x"), done, texts(before, "0"), texts(UUID, owned, executed), done, done
    )  # fmt: skip


def test_exact_form_locks_what_it_reads_until_the_position_is_read_and_puts_the_session_right() -> None:
    sending = plan(exactly("SELECT 1", "SELECT 2"))
    sent = sending.packets
    order = [
        sent.index(text)
        for text in (
            b"innodb_lock_wait_timeout=1", b"ISOLATION LEVEL SERIALIZABLE", b"START TRANSACTION READ ONLY",
            b"SELECT 1", b"SELECT 2", b"SET @upwell_owned", b"WAIT_FOR_EXECUTED_GTID_SET",
            b"@@global.gtid_executed", b"COMMIT", b"innodb_lock_wait_timeout=DEFAULT",
        )
    ]  # fmt: skip
    assert order == sorted(order)
    assert b"max_execution_time=0" in sent  # as the session had it
    assert sending.count == 3 + 2 + 5 and sending.rows == (3, 4) and sending.upper == 7


def test_exact_form_reads_its_own_position_though_another_is_known() -> None:
    asked = exactly("SELECT x")
    asked.lower = GtidSet.parse(f"{UUID}:1-5")
    sending = plan(asked)
    read = BracketReader().read(sending, exact_answers(f"{UUID}:6#12", "", f"{UUID}:1-6"))
    assert not isinstance(read, Exception)
    bracket, results = read
    assert bracket.lower == bracket.executed == GtidSet.parse(f"{UUID}:1-6")
    assert not bracket.uncertain
    assert [result.rows for result in results] == [[("x",)]]


def test_exact_form_leaves_in_doubt_what_was_owned_before_and_still_is() -> None:
    before, owned = f"{UUID}:6#12:7#13{OTHER}:4#14", f"{UUID}:7#13:8#15{OTHER}:4#14:5#16"
    read = BracketReader().read(plan(exactly("SELECT x")), exact_answers(before, owned, f"{UUID}:1-6"))
    assert not isinstance(read, Exception)
    assert read[0].uncertain == GtidSet.parse(f"{UUID}:7,{OTHER}:4")


def test_refusal_is_an_error_of_what_locks_not_of_a_statement_nor_of_a_lock_that_did_not_come() -> None:
    sending = plan(exactly("SELECT x"))
    fine = exact_answers("", "", f"{UUID}:1-6")
    denied = SourceError(1227, "42000", "denied")
    assert refused(sending, fine) is None
    assert refused(sending, [denied, *fine[1:]]) is denied
    assert refused(sending, [*fine[:3], SourceError(1054, "42S22", "no such column"), *fine[4:]]) is None
    assert refused(sending, [*fine[:3], SourceError(1205, "HY000", "lock wait timeout"), *fine[4:]]) is None
    assert refused(sending, [*fine[:5], SourceError(3024, "HY000", "too long"), *fine[6:]]) is None
