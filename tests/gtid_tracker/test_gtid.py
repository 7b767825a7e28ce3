"""GTID sets against a model of plain Python sets, and MySQL's own texts and bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtid_tracker.gtid import CachedParser, Gtid, GtidSet, MutableGtidSet, parse_owned

A = "11111111-1111-1111-1111-111111111111"
B = "22222222-2222-2222-2222-22222222222a"

SOURCES = st.sampled_from([A, B, f"{A}:tag_1", f"{B}:x"])
GTIDS = st.builds(Gtid, SOURCES, st.integers(1, 30))
MODELS = st.frozensets(GTIDS, max_size=40)


@given(MODELS, MODELS)
def test_sets_agree_with_a_model_of_python_sets(left: frozenset[Gtid], right: frozenset[Gtid]) -> None:
    a, b = GtidSet.of(left), GtidSet.of(right)
    assert frozenset(a) == left and a.count() == len(left) and bool(a) == bool(left)
    assert frozenset(a.union(b)) == left | right
    assert frozenset(a.difference(b)) == left - right
    assert frozenset(a.intersection(b)) == left & right
    assert a.issubset(b) == (left <= right)
    assert (a == b) == (left == right)
    assert a.union(b).difference(a) == b.difference(a)
    for gtid in left | right:
        assert (gtid in a) == (gtid in left)
        assert frozenset(a.add(gtid)) == left | {gtid}
    if left == right:
        assert hash(a) == hash(b)


@given(MODELS)
def test_text_and_bytes_lead_back_to_the_same_set(model: frozenset[Gtid]) -> None:
    value = GtidSet.of(model)
    assert GtidSet.parse(str(value)) == value
    assert GtidSet.parse(str(value).upper()) == value
    assert GtidSet.decode(value.encode()) == value
    assert CachedParser().parse(str(value)) == value


@given(st.lists(GTIDS, max_size=60), MODELS)
def test_a_growing_position_is_the_set_of_what_was_added(added: list[Gtid], other: frozenset[Gtid]) -> None:
    position, seen = MutableGtidSet(), set[Gtid]()
    for gtid in added:
        position.add(gtid)
        seen.add(gtid)
        assert gtid in position
        assert position.freeze() == GtidSet.of(seen)
    assert position.covers(GtidSet.of(other)) == (other <= seen)
    position.update(GtidSet.of(other))
    assert frozenset(position.freeze()) == seen | other


def test_frozen_values_do_not_change_with_the_position() -> None:
    position = MutableGtidSet(GtidSet.parse(f"{A}:1-3"))
    before = position.freeze()
    position.add(Gtid(A, 4))
    assert str(before) == f"{A}:1-3"
    assert str(position) == f"{A}:1-4"
    assert position.freeze() is position.freeze()
    position.replace(before)
    position.add(Gtid(A, 9))
    assert str(position) == f"{A}:1-3:9" and str(before) == f"{A}:1-3"


def test_neighbouring_and_overlapping_intervals_are_merged() -> None:
    assert str(GtidSet.parse(f"{A}:6-10:1-5:20-22:21-30")) == f"{A}:1-10:20-30"
    assert GtidSet.parse(f"{A}:1-3").issubset(GtidSet.parse(f"{A}:1-5"))


def test_tags_are_printed_after_the_untagged_intervals_of_their_server() -> None:
    text = f"{A}:1-3:5:tag_a:1:tag_b:1-7,\n{B}:only:2"
    assert str(GtidSet.parse(text)) == text
    assert Gtid(f"{A}:tag_b", 7) in GtidSet.parse(text)
    assert Gtid(A, 7) not in GtidSet.parse(text)


def test_vitess_prefix_spaces_and_empty_intervals_are_read() -> None:
    assert str(GtidSet.parse(f" MySQL56/{A.upper()} : 1 - 3 : 9-8 ,\n\n{B}:4 ,")) == f"{A}:1-3,\n{B}:4"
    assert GtidSet.parse("") == GtidSet.empty()
    assert str(GtidSet.empty()) == ""


@pytest.mark.parametrize(
    "text", ["nonsense", f"{A}", f"{A}:", f"{A}:0-3", f"{A}:a-b-c", f"{A}:1-x", f"{A}:9223372036854775808"]
)
def test_broken_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="GTID set"):
        GtidSet.parse(text)


def test_untagged_encoding_is_the_classic_one() -> None:
    data = GtidSet.parse(f"{A}:1-5").encode()
    assert data == (1).to_bytes(8, "little") + b"\x11" * 16 + (1).to_bytes(8, "little") + (1).to_bytes(8, "little") + (
        6
    ).to_bytes(8, "little")


def test_tag_aware_encoding_carries_the_count_between_two_format_bytes() -> None:
    data = GtidSet.parse(f"{A}:1:tag:2").encode()
    assert data[:8] == b"\x01\x02\x00\x00\x00\x00\x00\x01"
    assert data[8:25] == b"\x11" * 16 + b"\x00"
    assert data[49:69] == b"\x11" * 16 + b"\x06tag"


def test_truncated_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="encoded GTID set"):
        GtidSet.decode(GtidSet.parse(f"{A}:1-5").encode()[:-3])


def test_owned_gtids_of_several_servers_come_without_a_separator() -> None:
    owned = parse_owned(f"{B}:8#276{A}:3#7:5#9")
    assert owned == GtidSet.of([Gtid(B, 8), Gtid(A, 3), Gtid(A, 5)])
    assert parse_owned(f"{A}:tag:3#17{A}:2#4,\n{B}:1#2") == GtidSet.of([Gtid(f"{A}:tag", 3), Gtid(A, 2), Gtid(B, 1)])
    assert parse_owned("") == GtidSet.empty()
    with pytest.raises(ValueError, match="owned"):
        parse_owned("what")


def test_the_cached_parser_gives_the_same_object_for_the_same_text() -> None:
    parser = CachedParser()
    first = parser.parse(f"{A}:1-5,\n{B}:1")
    assert parser.parse(f"{A}:1-5,\n{B}:1") is first
    assert parser.parse(f"{A}:1-6,\n{B}:1") == GtidSet.parse(f"{A}:1-6,{B}:1")
    assert parser.parse(f"{A}:1-6,{A}:9,\n{B}:1") == GtidSet.parse(f"{A}:1-6:9,{B}:1")


@pytest.mark.parametrize("interval", ["1-5", "7-7", "9-3", "0-5", "1-9223372036854775807", "1-9223372036854775808"])
def test_one_interval_is_read_as_among_others(interval: str) -> None:
    def read(text: str) -> GtidSet | str:
        try:
            return GtidSet.parse(text)
        except ValueError as error:
            return str(error)

    assert read(f"{A}:{interval}") == read(f" {A.upper()} : {interval}")


def test_one_gtid_reads_and_prints_itself() -> None:
    assert Gtid.parse(f"{A}:tag:7") == Gtid(f"{A}:tag", 7)
    assert Gtid.parse(f"{A}:7") == Gtid.parse(f" {A.upper()}: 7") == Gtid(A, 7)
    assert str(Gtid(A, 3)) == f"{A}:3"
    assert Gtid.parse(f"{A}:{2**63 - 1}").number == 2**63 - 1
    with pytest.raises(ValueError, match="not one GTID"):
        Gtid.parse(f"{A}:1-2")
    for wrong in ("0", str(2**63), "1234567890123456789012", "x", ""):
        with pytest.raises(ValueError, match=r"interval|not"):
            Gtid.parse(f"{A}:{wrong}")
