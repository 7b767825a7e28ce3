"""Events -> messages, with events written by the tests: the odd transactions, and what must never be skipped."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
import structlog
import zstandard

from dataflow.messages import Ddl, Gap, Pair, Progress, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from tests.support import binlog_bytes as binlog
from tests.support.binlog_bytes import (
    COLLATIONS,
    COMMITTED_AT,
    SERVER,
    BinlogTable,
    event,
    gtid,
    query,
    transaction,
    unended,
    xid,
)
from vstream.binlog import decode
from vstream.binlog.assemble import IDLE, Assembler
from vstream.binlog.decode import TableDecoders
from vstream.binlog.events import FORMAT, ROTATE
from vstream.binlog.open_transaction import Partly
from vstream.binlog.open_xa import ENDED, OpenXa
from vstream.errors import HistoryLost, StreamBroken

T = BinlogTable("t", ("bigint", "varchar"))
U = BinlogTable("u", ("bigint", "int"), number=101)
ALL = frozenset({"c0", "c1"})


class Stream:
    """An assembler with t wanted, and what it gave."""

    def __init__(self, position: str = "", max_weight: int = 1 << 20, partly: Partly | None = None) -> None:
        self.given: list[StreamEvent] = []
        tables = TableDecoders()
        tables.charsets = COLLATIONS
        self.position = MutableGtidSet(GtidSet.parse(position))
        self.assembler = Assembler(
            tables,
            self.position,
            self.given.append,
            max_weight,
            partly=partly,
        )
        self.assembler.want(T.table, ALL)

    def feed(self, events: Sequence[bytes]) -> list[StreamEvent]:
        """What the events gave."""
        before = len(self.given)
        for data in events:
            self.assembler.feed(b"before" + data + b"behind", 6, 6 + len(data))
            while self.assembler.inflating:
                self.assembler.inflate(2)
            self.assembler.check_invariants()
        return self.given[before:]


def id_of(number: int) -> Gtid:
    return Gtid(SERVER, number)


def inserted(number: int, *rows: tuple[object, ...]) -> Transaction:
    return Transaction(id_of(number), [TableChanges("d.t", [(None, row) for row in rows])], COMMITTED_AT)


def test_a_transaction_is_given_at_its_end_with_its_commit_time() -> None:
    stream = Stream()
    *begun, end = transaction(1, T.map(), T.inserts((1, "a")), T.updates(((1, "a"), (1, None))), T.deletes((1, None)))
    assert stream.feed(begun) == []
    assert id_of(1) not in stream.position
    pairs: list[Pair] = [(None, (1, "a")), ((1, "a"), (1, None)), ((1, None), None)]
    assert stream.feed([end]) == [Transaction(id_of(1), [TableChanges("d.t", pairs)], COMMITTED_AT)]
    assert id_of(1) in stream.position


def test_a_transaction_that_came_before_is_passed_over() -> None:
    stream = Stream(f"{SERVER}:1-5")
    assert stream.feed(transaction(3, T.map(), T.inserts((1, "a")))) == []
    assert stream.feed([gtid(4), query("DROP TABLE t")]) == []
    assert stream.feed(transaction(6, T.map(), T.inserts((1, "a")))) == [inserted(6, (1, "a"))]


def test_a_transaction_cut_off_by_a_disconnect_is_dropped_and_comes_again_whole() -> None:
    stream = Stream()
    stream.feed([gtid(1), query("BEGIN"), T.map(), T.inserts((1, "half"))])
    stream.assembler.reset()
    assert stream.feed(transaction(1, T.map(), T.inserts((1, "half"), (2, "b")))) == [
        inserted(1, (1, "half"), (2, "b"))
    ]


def test_a_new_binlog_file_in_the_middle_drops_what_the_server_never_finished() -> None:
    stream = Stream()
    stream.feed([gtid(1), query("BEGIN"), T.map(), T.inserts((1, "a")), event(4, b"\0" * 8 + b"binlog.2")])
    assert stream.feed(transaction(1, T.map(), T.inserts((2, "b")))) == [inserted(1, (2, "b"))]


def test_checksums_are_cut_off_when_the_format_says_that_they_are_there() -> None:
    stream = Stream()
    stream.feed([event(15, b"\0" * 80 + b"\1" + b"sums")])
    events = [
        data[:9] + struct.pack("<I", len(data) + 4) + data[13:] + b"sums"
        for data in transaction(1, T.map(), T.inserts((1, "a")))
    ]
    assert stream.feed(events) == [inserted(1, (1, "a"))]


@pytest.mark.parametrize("compress", [True, False])
def test_the_events_of_a_payload_are_read(compress: bool) -> None:
    stream = Stream()
    first, *rest = transaction(1, T.map(), *(T.inserts((n, "v" * 50)) for n in range(3000)))
    packed = zstandard.compress(b"".join(rest)) if compress else None
    (given,) = stream.feed([first, binlog.payload(rest, packed)])
    assert given == inserted(1, *((n, "v" * 50) for n in range(3000)))


def test_a_payload_that_was_read_before_is_passed_over() -> None:
    stream = Stream(f"{SERVER}:1")
    first, *rest = transaction(1, T.map(), T.inserts((1, "a")))
    assert stream.feed([first, binlog.payload(rest, zstandard.compress(b"".join(rest)))]) == []
    assert stream.feed(transaction(2)) == [Progress(id_of(2))]


def test_an_unknown_compression_is_not_skipped() -> None:
    stream = Stream()
    with pytest.raises(ValueError, match="compressed in an unknown way"):
        stream.feed([gtid(1), binlog.payload([], b"abc", kind=7)])


def test_an_event_of_an_unknown_type_breaks_the_stream_with_its_transaction() -> None:
    stream = Stream()
    with pytest.raises(StreamBroken, match="unknown type 99") as broken:
        stream.feed([gtid(1), query("BEGIN"), event(99, b"?")])
    assert (broken.value.gtid, broken.value.kind) == (id_of(1), 99)


def test_a_tolerated_unknown_type_is_a_gap_each_time() -> None:
    stream = Stream()
    stream.assembler.tolerated.add(99)
    reason = "a binlog event of unknown type 99"
    assert stream.feed([event(99, b"?")]) == [Gap(reason, GtidSet.empty())]
    events = transaction(1, event(99, b"?"), T.map(), T.inserts((1, "a")))
    assert stream.feed(events) == [Gap(reason, GtidSet.parse(f"{SERVER}:1"))]


def test_anonymous_transactions_are_refused() -> None:
    with pytest.raises(StreamBroken, match="gtid_mode must be ON"):
        Stream().feed([event(34, b"\0" * 60)])


def test_a_transaction_inside_another_is_refused() -> None:
    with pytest.raises(StreamBroken, match="begins before"):
        Stream().feed([gtid(1), gtid(2)])


def test_rows_of_an_unannounced_table_are_refused() -> None:
    with pytest.raises(StreamBroken, match="not announced"):
        Stream().feed([gtid(1), query("BEGIN"), T.inserts((1, "a"))])


def test_the_end_marker_without_a_table_is_nothing() -> None:
    marker = event(30, b"\xff\xff\xff\0\0\0\1\0\2\0\0")
    assert Stream().feed(transaction(1, marker)) == [Progress(id_of(1))]


def test_a_row_that_cannot_be_decoded_empties_its_table_and_the_stream_goes_on() -> None:
    stream = Stream()
    broken = T.inserts((1, "a"))[:-1] + b"\xff"
    (given,) = stream.feed(transaction(1, T.map(), broken))
    assert isinstance(given, Ddl)
    assert (given.gtid, given.tables) == (id_of(1), frozenset({"d.t"}))
    assert stream.feed(transaction(2, T.map(), T.inserts((2, "b")))) == [inserted(2, (2, "b"))]


def test_rows_that_do_not_fill_their_event_empty_their_table() -> None:
    (given,) = Stream().feed(transaction(1, T.map(), T.inserts((1, "a"))[:-1]))
    assert isinstance(given, Ddl)
    assert "a value ends behind its event" in given.statement


def test_a_transaction_over_the_size_limit_empties_its_tables() -> None:
    stream = Stream(max_weight=100)
    rows = T.inserts(*((n, "v" * 30) for n in range(10)))
    assert stream.feed(transaction(1, T.map(), rows, T.map(), rows)) == [
        Ddl(id_of(1), "rows not kept: the transaction is too large", frozenset({"d.t"}), schema=False)
    ]
    assert stream.feed(transaction(2, T.map(), T.inserts((1, "a")))) == [inserted(2, (1, "a"))]


@pytest.mark.parametrize(
    ("text", "tables"),
    [("DROP DATABASE d", {"d.*", "d.t"}), ("DROP DATABASE D", {"D.*", "d.t"}), ("DROP DATABASE other", {"other.*"})],
)
def test_a_database_that_is_dropped_takes_its_wanted_tables_along(text: str, tables: set[str]) -> None:
    assert Stream().feed([gtid(1), query(text)]) == [Ddl(id_of(1), text, frozenset(tables))]


def test_a_table_wanted_in_the_middle_of_its_transaction_is_emptied() -> None:
    stream = Stream()
    events = transaction(1, T.map(), T.inserts((1, "a")), U.map(), U.inserts((1, 2)))
    stream.feed(events[:-1])
    stream.assembler.want(U.table, ALL)
    (given,) = stream.feed(events[-1:])
    assert isinstance(given, Ddl)
    assert given.tables is not None and "d.u" in given.tables
    (after,) = stream.feed(transaction(2, U.map(), U.inserts((3, 4))))
    assert after == Transaction(id_of(2), [TableChanges("d.u", [(None, (3, 4))])], COMMITTED_AT)


def test_a_table_wanted_in_the_middle_of_another_tables_transaction_changes_nothing() -> None:
    stream = Stream()
    events = transaction(1, T.map(), T.inserts((1, "a")))
    stream.feed(events[:-1])
    stream.assembler.want(U.table, ALL)
    assert stream.feed(events[-1:]) == [inserted(1, (1, "a"))]


def test_wanting_the_same_again_in_the_middle_changes_nothing() -> None:
    stream = Stream()
    events = transaction(1, T.map(), T.inserts((1, "a")))
    stream.feed(events[:-1])
    stream.assembler.want(T.table, ALL)
    assert stream.feed(events[-1:]) == [inserted(1, (1, "a"))]


def test_a_table_that_is_not_wanted_any_more_is_progress() -> None:
    stream = Stream()
    stream.assembler.unwant("d.t")
    assert stream.feed(transaction(1, T.map(), T.inserts((1, "a")))) == [Progress(id_of(1))]


def test_a_table_unlike_the_wanted_one_is_never_decoded() -> None:
    stream = Stream()
    other = BinlogTable("t", ("bigint", "int"), number=200)
    (given,) = stream.feed(transaction(1, other.map(), other.inserts((1, 2))))
    assert isinstance(given, Ddl)
    assert "'c1' is int in the binlog, varchar in the schema" in given.statement


def xa_prepare(number: int, one_phase: bool = False) -> bytes:
    return event(38, struct.pack("<BIII", one_phase, 1, 1, 0) + str(number).encode())


def xa(number: int, xid_number: int, *inner: bytes, one_phase: bool = False) -> list[bytes]:
    return [gtid(number), query(f"XA START X'3{xid_number}',X'',1"), *inner, xa_prepare(xid_number, one_phase)]


def test_rows_outside_of_any_transaction_are_not_kept_for_the_next_one() -> None:
    stream = Stream()
    with pytest.raises(StreamBroken, match="outside of any transaction"):
        stream.feed([T.map()])
    stream.assembler.reset()
    with pytest.raises(StreamBroken, match="a statement outside of any transaction"):
        stream.feed([query("BEGIN")])
    stream.assembler.check_invariants()


def test_prepared_rows_wait_for_their_commit_even_over_a_reconnect() -> None:
    stream = Stream()
    assert stream.feed(xa(1, 7, T.map(), T.inserts((1, "a")))) == [Progress(id_of(1))]
    stream.assembler.reset()
    assert stream.feed(transaction(2, T.map(), T.inserts((2, "b")))) == [inserted(2, (2, "b"))]
    assert stream.feed([gtid(3), query("XA COMMIT X'37', X'', 1")]) == [inserted(3, (1, "a"))]
    assert isinstance(stream.feed([gtid(4), query("XA COMMIT X'37',X'',1")])[0], Gap)


def test_prepared_rows_of_a_table_wanted_otherwise_since_are_not_trusted() -> None:
    stream = Stream()
    stream.feed(xa(1, 7, U.map(), U.inserts((1, 2))))
    stream.assembler.want(U.table, ALL)
    (given,) = stream.feed([gtid(2), query("XA COMMIT X'37',X'',1")])
    assert isinstance(given, Ddl)
    assert given.tables == frozenset({"d.u"})


def test_one_phase_and_rolled_back_xa_transactions() -> None:
    stream = Stream()
    assert stream.feed(xa(1, 7, T.map(), T.inserts((1, "a")), one_phase=True)) == [inserted(1, (1, "a"))]
    stream.feed(xa(2, 8, T.map(), T.inserts((2, "b"))))
    assert stream.feed([gtid(3), query("XA ROLLBACK X'38',X'',1")]) == [Progress(id_of(3))]


def test_it_is_told_which_transactions_have_prepared_what_is_not_committed() -> None:
    stream = Stream()
    stream.feed([*xa(1, 7, T.map(), T.inserts((1, "a"))), *xa(2, 8), *xa(3, 9), *xa(4, 6, one_phase=True)])
    assert [prepared.gtid for prepared in stream.assembler.prepared.values()] == [id_of(1), id_of(2), id_of(3)]
    stream.feed([gtid(5), query("XA COMMIT X'38',X'',1"), gtid(6), query("XA ROLLBACK X'39',X'',1")])
    assert [prepared.gtid for prepared in stream.assembler.prepared.values()] == [id_of(1)]


def test_one_that_may_have_ended_unseen_makes_holes_of_its_tables() -> None:
    stream = Stream()
    stream.feed([*xa(1, 7, T.map(), T.inserts((1, "a"))), *xa(2, 8, U.map(), U.inserts((1, 2)))])
    open_xa = OpenXa(stream.assembler.prepared, stream.given.append)
    (of_t,) = [xid for xid in open_xa.xids if b"37" in xid]
    open_xa.untold(frozenset({of_t, b"another"}), over=False)
    open_xa.untold(frozenset({of_t}), over=True)
    assert stream.given[-2:] == [Ddl(None, ENDED, frozenset({"d.t"}), schema=False)] * 2
    assert of_t not in open_xa.xids and len(open_xa.xids) == 1
    open_xa.unseen()
    assert stream.given[-1] == Ddl(None, ENDED, None, schema=False)


def test_who_wants_no_whole_transactions_is_given_large_ones_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vstream.binlog.open_transaction.HANDED_ON", 1)
    parts: list[tuple[Gtid, list[Pair]]] = []
    stream = Stream(max_weight=100, partly=lambda gtid, at, changes: parts.extend((gtid, c.pairs) for c in changes))
    rows = [T.inserts((number, "x" * 60)) for number in range(3)]
    assert stream.feed(transaction(1, T.map(), *rows)) == [Progress(id_of(1))]
    assert parts == [(id_of(1), [(None, (number, "x" * 60))]) for number in range(3)]
    parts.clear()
    stream.feed(xa(2, 7, T.map(), T.inserts((1, "a"))))
    assert stream.feed([gtid(3), query("XA COMMIT X'37',X'',1")]) == [inserted(3, (1, "a"))]
    assert not parts, "whose GTID they are of is not known before"


def test_a_definition_ends_its_own_transaction() -> None:
    stream = Stream()
    assert stream.feed([gtid(1), query("ALTER TABLE t ADD x INT")]) == [
        Ddl(id_of(1), "ALTER TABLE t ADD x INT", frozenset({"d.t"}))
    ]
    assert stream.feed([gtid(2), query("GRANT SELECT ON d.t TO u")]) == [Progress(id_of(2), accounts=True)]


def test_create_select_ends_with_its_rows() -> None:
    stream = Stream()
    text = "CREATE TABLE t (c0 BIGINT, c1 VARCHAR(50)) START TRANSACTION"
    assert stream.feed([gtid(1), query(text), T.map(), T.inserts((1, "a"))]) == []
    assert stream.feed([xid()]) == [Ddl(id_of(1), text, frozenset({"d.t"}))]


def test_a_statement_in_a_character_set_that_is_not_read_counts_as_a_definition_of_all() -> None:
    (given,) = Stream().feed([gtid(1), query("DROP TABLE `tä`", client_collation=8)])
    assert isinstance(given, Ddl)
    assert given.tables is None


@pytest.mark.parametrize(
    "text", ["INSERT INTO t VALUES (1)", "/* x */ update t set a = 1", "LOAD DATA INFILE 'x' INTO TABLE t"]
)
def test_rows_by_statement_may_be_of_any_table_and_leave_the_schema_as_it_is(text: str) -> None:
    stream = Stream()
    (given,) = stream.feed(transaction(1, query(text), T.map(), T.inserts((1, "a"))))
    assert isinstance(given, Ddl)
    assert (given.tables, given.schema) == (None, False)
    assert text in given.statement


def test_loads_and_incidents_are_gaps() -> None:
    stream = Stream()
    assert isinstance(stream.feed(transaction(1, event(17, b"\0" * 8), event(18, b"\0" * 30)))[0], Gap)
    assert isinstance(stream.feed([gtid(2), event(26, b"\1\0\0")])[0], Gap)
    assert stream.feed(transaction(3)) == [Progress(id_of(3))]


def test_rows_of_a_rolled_back_transaction_are_not_trusted() -> None:
    (given,) = Stream().feed([gtid(1), query("BEGIN"), T.map(), T.inserts((1, "a")), query("ROLLBACK")])
    assert isinstance(given, Ddl)
    assert given.tables == frozenset({"d.t"})


def test_heartbeats_say_that_there_is_nothing_else() -> None:
    stream = Stream()
    stream.feed(transaction(1))
    assert stream.assembler.committed_at == COMMITTED_AT
    assert stream.feed([event(27, b"binlog.000001"), event(41, b"")]) == []
    assert stream.assembler.committed_at == IDLE
    stream.feed(transaction(2))
    assert stream.assembler.committed_at == COMMITTED_AT


A, B, C = T.inserts((1, "a")), unended(T.inserts((1, "a"))), U.inserts((1, 2))
LOST = "rows not decoded: d.t: rows that MySQL has announced are not in its binlog"


@pytest.mark.parametrize(
    "inner",
    [
        [T.map()],
        [T.map(), U.map(), T.map()],
        [T.map(), B],
        [T.map(), A, T.map()],
        [T.map(), A, U.map(), T.map()],
        [T.map(), B, U.map(), C],
        [T.map(), U.map(), T.map(), U.map(), C],
        [T.map(), T.map(), A],
        [T.map(), U.map(), B, T.map(), U.map(), B, C],
        [T.map(), query("SAVEPOINT a"), U.map(), C],
    ],
)
@pytest.mark.parametrize("compress", [True, False])
def test_rows_that_were_announced_and_do_not_come_empty_their_table(inner: list[bytes], compress: bool) -> None:
    stream = Stream()
    stream.feed(transaction(1, T.map(), A))  # the table is known
    first, *rest = transaction(2, *inner)
    assert stream.feed([first, binlog.payload(rest, None)] if compress else [first, *rest]) == [
        Ddl(id_of(2), LOST, frozenset({"d.t"}), schema=False)
    ]
    assert stream.feed(transaction(3, T.map(), A)) == [inserted(3, (1, "a"))]


@pytest.mark.parametrize(
    ("inner", "rows"),
    [
        ([T.map(), B, B, A], 3),
        ([U.map(), T.map(), T.map(), A], 1),  # foreign keys and triggers name a table twice
        ([T.map(), T.map(), U.map(), A], 1),
        ([U.map(), T.map(), U.map(), B, C, T.map(), A], 2),
        ([T.map(), A, query("SAVEPOINT a"), T.map(), B, A], 3),
        ([T.map(), A, U.map(), unended(C)], 1),  # of a table that is not wanted
        ([U.map(), U.map(), C, T.map(), A], 1),
        ([T.map(), B, event(31, b"\xff\xff\xff\0\0\0\1\0\2\0\0")], 1),
    ],
)
def test_statements_whose_rows_are_all_there(inner: list[bytes], rows: int) -> None:
    stream = Stream()
    assert stream.feed(transaction(1, *inner)) == [inserted(1, *[(1, "a")] * rows)]


def test_a_connection_that_ends_behind_what_was_announced_leaves_no_doubt() -> None:
    stream = Stream()
    stream.feed([gtid(1), query("BEGIN"), T.map()])
    stream.assembler.reset()
    assert stream.feed(transaction(1, T.map(), A)) == [inserted(1, (1, "a"))]


def test_a_prepared_transaction_of_which_rows_are_missing_empties_their_table_as_it_is_committed() -> None:
    stream = Stream()
    assert stream.feed(xa(1, 7, T.map())) == [Progress(id_of(1))]
    (given,) = stream.feed([gtid(2), query("XA COMMIT X'37',X'',1")])
    assert given == Ddl(id_of(2), LOST, frozenset({"d.t"}), schema=False)


def test_changes_are_counted_of_so_many_tables_and_not_of_all_that_ever_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MOST_COUNTED", 2)
    tables = decode.TableDecoders()
    for name in ("d.a", "d.b", "d.a", "d.c", "d.c"):
        tables.note_write(name)
    assert tables.writes == {"d.c": 2}


def file_begins(name: bytes, second: int) -> list[bytes]:
    """What a dump says of the file that it goes on with."""
    return [event(ROTATE, struct.pack("<Q", 4) + name), struct.pack("<I", second) + event(FORMAT, bytes(80))[4:]]


@pytest.mark.parametrize(("name", "second", "same"), [(b"b.2", 7, True), (b"b.3", 7, False), (b"b.2", 8, False)])
def test_without_a_transaction_to_compare_the_file_must_be_the_same_one(name: bytes, second: int, same: bool) -> None:
    stream = Stream()
    stream.feed(file_begins(b"b.1", 6))
    stream.feed(file_begins(b"b.2", 7))
    stream.assembler.reset()
    stream.assembler.resume.connect()
    stream.assembler.check_invariants()
    if same:
        stream.feed(file_begins(name, second))
        stream.feed(file_begins(b"b.9", 9))  # what is rotated later is no surprise
    else:
        with pytest.raises(HistoryLost, match="another file"):
            stream.feed(file_begins(name, second))


def test_a_transaction_of_before_the_start_can_be_compared_later() -> None:
    stream = Stream(f"{SERVER}:1-5")
    assert stream.assembler.resume.last is None
    assert stream.feed(transaction(5)) == []
    last = stream.assembler.resume.last
    assert last is not None and last[0] == id_of(5)
    stream.feed(transaction(4))
    assert stream.assembler.resume.last == last


def test_rows_that_do_not_fit_are_warned_of_once_and_the_schema_is_looked_at_once() -> None:
    stream = Stream()
    other = BinlogTable("t", ("bigint", "int"))
    with structlog.testing.capture_logs() as logged:
        for number in (1, 2, 3):
            (given,) = stream.feed(transaction(number, other.map(), other.inserts((number, 1))))
            assert isinstance(given, Ddl) and given.tables == frozenset({"d.t"})
            assert given.schema == (number == 1), number
            stream.assembler.unwant("d.t")  # as where it is planned anew
            stream.assembler.want(T.table, ALL)
    assert [line["log_level"] for line in logged] == ["warning"]
    (given,) = stream.feed(transaction(4, T.map(), T.inserts((4, "a"))))
    assert isinstance(given, Transaction)
    (given,) = stream.feed(transaction(5, other.map(), other.inserts((5, 1))))
    assert isinstance(given, Ddl) and given.schema, "it had fitted in between"
