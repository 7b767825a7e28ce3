"""What is learned of how MySQL announces columns, answer by answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from planner.session.needs import SENT
from proxy.mysql.reads.announced import (
    KEPT_READS,
    OTHER_COLUMNS,
    SEVERAL,
    Announced,
    AnnouncedTexts,
    columns_of,
    same_names,
)
from proxy.mysql.state.announces import NOBODY
from proxy.mysql.wire.rows import end_size, head
from proxy.port.reasons import NO_REASON, Reason, Why
from sqltypes.schema import BIGINT, ResultColumn, SqlType
from tests.support.mysql_packets import column

TINY, LONG = column("n", 1), column("n", 3)
NO_ROWS, ROWS = b"e" * end_size(eof=False), b"r" * (end_size(eof=False) + 1)


def one() -> bytes:
    return b"one"


def another() -> bytes:
    return b"other"


@dataclass(eq=False)
class Cache:
    columns: tuple[ResultColumn, ...] = (ResultColumn("n", BIGINT, False, ""),)
    generation: int = 1
    refuses: Why = NO_REASON
    needs: frozenset[str] = frozenset()
    encoded: list[object] = field(default_factory=list)

    def encode_as(self, columns: tuple[ResultColumn, ...], forms: object) -> Why:
        self.encoded.append(forms)
        return self.refuses


def announced(cache: Cache | None = None) -> Announced:
    return Announced(cache or Cache(), (TINY,), binary=True, eof=False)  # type: ignore[arg-type]  # what is used of it


def test_an_answer_without_a_temporary_table_shows_how_all_are_announced() -> None:
    known = announced()
    assert not known.known
    assert not known.learn([TINY], one, rows=True)
    known.check_invariants()
    assert known.uniform
    assert known.head(ROWS, one) == known.head(NO_ROWS, one) == head([TINY], eof=False)


def test_what_vtgate_announces_behind_the_last_column_is_none_and_an_answer_with_it_is_refused() -> None:
    def prepared(*definitions: bytes) -> Announced:
        return Announced(Cache(), definitions, binary=True, eof=False, more_prepared=True)  # type: ignore[arg-type]

    known = prepared(TINY, column("count(*)", 8))
    assert not known.why and known.unknown(one)
    known.learn([LONG], one, rows=True)
    assert known.head(ROWS, one) == head([LONG], eof=False)
    known = prepared(TINY, column("added", 3))
    known.learn([TINY, column("added", 3)], one, rows=True)
    assert known.why == OTHER_COLUMNS
    assert prepared(column("other", 3), TINY).why == OTHER_COLUMNS == prepared().why


def test_of_an_answer_with_a_temporary_table_one_without_rows_is_not_known() -> None:
    known = announced()
    known.learn([LONG], one, rows=True)
    assert known.head(ROWS, one) == head([LONG], eof=False)
    assert known.head(NO_ROWS, one) is None
    known.learn([TINY], one, rows=False)
    assert known.head(NO_ROWS, one) == head([TINY], eof=False)
    assert known.head(ROWS, one) == head([LONG], eof=False)
    known.check_invariants()


def test_an_answer_without_rows_does_not_show_how_those_with_rows_are_announced() -> None:
    """It may be that MySQL did not begin to compute rows."""
    known = announced()
    known.learn([TINY], one, rows=False)
    assert known.known
    assert known.head(ROWS, one) is None
    known.learn([LONG], one, rows=True)
    assert known.head(ROWS, one) == head([LONG], eof=False)
    assert known.head(NO_ROWS, one) == head([TINY], eof=False)


def test_where_mysql_announces_in_two_ways_each_read_has_what_mysql_has_sent_for_it() -> None:
    known = announced()
    known.learn([LONG], one, rows=True)
    assert not known.learn([LONG], another, rows=True)
    assert not known.unknown(one)
    assert known.learn([TINY], another, rows=True), "what sessions have at hand is withdrawn"
    known.check_invariants()
    assert not known.uniform
    assert (known.unknown(another), known.unknown(one)) == ("", SEVERAL)
    assert known.head(ROWS, another) == head([TINY], eof=False)
    assert known.head(NO_ROWS, another) is known.head(ROWS, one) is None
    known.learn([LONG], one, rows=True)
    known.learn([TINY], one, rows=False)
    assert known.head(ROWS, one) == head([LONG], eof=False)
    assert known.head(NO_ROWS, one) == head([TINY], eof=False)
    known.learn([LONG], another, rows=True)
    assert known.head(ROWS, another) == head([LONG], eof=False), "what it has sent last"
    known.check_invariants()


def test_two_ways_of_which_the_rows_do_not_fit_one_end_its_hits() -> None:
    cache = Cache()
    known = announced(cache)
    known.learn([LONG], one, rows=True)
    cache.refuses = Reason.COLUMNS.why("other types")
    assert known.learn([TINY], another, rows=True)
    assert known.why == "other types"


def test_of_the_reads_of_one_kind_some_are_remembered() -> None:
    known = announced()
    known.learn([LONG], one, rows=True)
    for number in range(KEPT_READS + 1):
        known.learn([TINY], lambda number=number: b"%d" % number, rows=True)  # type: ignore[misc]
    assert known.unknown(lambda: b"0") == SEVERAL
    assert not known.unknown(lambda: b"%d" % KEPT_READS)


def test_columns_that_the_rows_do_not_fit_have_no_hits() -> None:
    cache = Cache(refuses=Reason.COLUMNS.why("other types"))
    known = announced(cache)
    assert not known.learn([LONG], one, rows=True)
    assert known.why == "other types"
    for definitions in ([column("m", 1)], [TINY, TINY], [b"\3def"]):
        other = announced()
        other.learn(definitions, one, rows=True)
        assert other.why == OTHER_COLUMNS
    assert announced(Cache(columns=())).why == OTHER_COLUMNS


def test_what_is_known_is_known_to_all_texts_that_are_prepared_alike() -> None:
    cache, texts = Cache(), AnnouncedTexts()

    def of(results: str, *prepared: bytes, resolved: object = None) -> Announced:
        told = NOBODY._replace(results=results)
        return texts.of(cache, prepared, binary=True, eof=False, told=told, resolved=resolved)  # type: ignore[arg-type]  # as above

    first = of("utf8mb4", TINY)
    assert of("utf8mb4", TINY) is first
    assert of("latin1", TINY) is not first
    assert of("utf8mb4", LONG) is not first
    assert of("utf8mb4", TINY, resolved=1) is not first
    cache.generation += 1
    assert of("utf8mb4", TINY) is not first


@pytest.mark.parametrize(
    ("collation", "needs", "type_", "foreign"),
    [
        ("binary", set(), "varchar", False),
        ("utf8mb3_general_ci", set(), "varchar", False),
        ("latin1_swedish_ci", set(), "varchar", True),
        ("binary", {SENT}, "varchar", True),
        ("binary", {SENT}, "varbinary", False),
    ],
)
def test_where_all_strings_are_announced_as_bytes_the_query_tells_which_they_are(
    collation: str, needs: set[str], type_: str, foreign: bool
) -> None:
    cache = Cache((ResultColumn("n", SqlType(type_), False, ""),), needs=frozenset(needs))
    told = NOBODY._replace(results="binary", collation=collation)
    found = Announced(cache, (TINY,), binary=False, eof=False, told=told)  # type: ignore[arg-type]  # as above
    assert found.foreign == foreign


@pytest.mark.parametrize("payload", [b"", b"\3def", b"\xfb" * 60, b"\3def" + b"\4shop" * 5 + b"\xff"])
def test_what_is_no_definition_of_a_column_announces_none(payload: bytes) -> None:
    columns = (ResultColumn("id", BIGINT, False, "item"),)
    assert same_names([column("id", 8)], columns)
    assert not same_names([payload], columns)
    assert columns_of([payload]) is None


def test_what_is_known_of_one_literal_that_is_shown_is_known_of_no_other() -> None:
    known = announced()
    assert known.of(None) is known
    two, three = known.of("2"), known.of("3")
    two.learn([TINY], one, rows=True)
    known.check_invariants()
    assert two is known.of("2") and two.known and not three.known and not known.known
    assert not two.at_hand(raw=False) and known.at_hand(raw=False)
    three.learn([LONG], another, rows=True)
    known.check_invariants()
    assert (two.filled, three.filled) == (head([TINY], eof=False), head([LONG], eof=False))
    for number in range(KEPT_READS):
        known.of(number)
    assert known.of("2") is not two, "as many are kept, and no more"
