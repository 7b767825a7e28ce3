"""Answers of several keys that are sorted together: kept while none of them has changed, and not longer."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, cast
from weakref import ref

import pytest

from proxy.read.together import LONGEST, MOST_ANSWERS, MOST_ASKED, MOST_TOGETHER, Several, Together
from tests.proxy.test_long_lists import Lists
from tests.simulation.desk import packed, unpacked

SORTED = "SELECT id, v FROM t WHERE k IN (?) ORDER BY id DESC"


@pytest.fixture
def lists() -> Lists:
    made = Lists(SORTED)
    for key in (1, 2, 3):
        made.fill([key], 4)
    return made


def together(lists: Lists) -> Together:
    return lists.opened.plan.held.several


def read(lists: Lists, *keys: int) -> list[Any]:
    body = lists.opened.hit((keys,))
    assert body is not None
    together(lists).check_invariants(lists.reader)
    return unpacked(body)


def derived(lists: Lists, *keys: int) -> int:
    """Rows that were looked up for one read of them."""
    memory = lists.reader.memory
    before = memory.derived
    assert lists.opened.hit((keys,)) is not None
    return memory.derived - before


def test_what_is_asked_for_again_is_derived_no_more(lists: Lists) -> None:
    first = read(lists, 1, 2)
    assert [row[0] for row in first] == sorted((row[0] for row in first), reverse=True) and len(first) == 8
    assert read(lists, 1, 2) == first  # this one is kept
    hits = lists.opened.named.hits
    assert derived(lists, 1, 2) == 0 and read(lists, 1, 2) == first
    assert lists.opened.named.hits == hits + 2
    assert derived(lists, 1, 3) > 0, "other keys"


def test_a_change_of_one_key_is_seen_at_once(lists: Lists) -> None:
    for _ in range(3):
        before = read(lists, 1, 2)
    lists.rig.change(2, (None, (77, 2, 5)))
    found = read(lists, 1, 2)
    assert len(found) == len(before) + 1 and (77, 5) in found
    assert read(lists, 1, 2) == found and derived(lists, 1, 2) == 0, "kept again"
    lists.rig.change(3, (None, (78, 3, 5)))
    assert derived(lists, 1, 2) == 0, "a change of another key"


def test_a_key_that_is_gone_takes_the_answer_along(lists: Lists) -> None:
    for _ in range(3):
        read(lists, 1, 2)
    lists.reader.drop(lists.reader.entries[2])
    assert lists.opened.hit(((1, 2),)) is None
    lists.fill([2], 4)
    assert len(read(lists, 1, 2)) == 8


def test_another_encoder_gives_other_bytes(lists: Lists) -> None:
    for _ in range(3):
        before = read(lists, 1, 2)
    lists.reader.encodings.encoders[0] = lambda rows: packed([(*row, "more") for row in rows])
    assert read(lists, 1, 2) == [(*row, "more") for row in before]


def test_what_is_kept_is_visited(lists: Lists) -> None:
    for _ in range(3):
        read(lists, 1, 2)
    for held in lists.reader.entries.values():
        held.visited = False
    read(lists, 1, 2)
    assert [lists.reader.entries[key].visited for key in (1, 2, 3)] == [True, True, False]


def test_no_more_is_kept_than_is_said(lists: Lists) -> None:
    kept, reader = Together(0), lists.reader
    for number in range(3 * MOST_ASKED):
        kept.keep(reader, [(number, (number,))], b"")
        kept.check_invariants(reader)
    pairs = [lists.binder.bind(((1, 2, *range(1000, 1000 + more)),)).keys for more in range(MOST_ANSWERS + 3)]
    first = None
    for keys in pairs:
        for (key,) in [params for _, params in keys]:
            if key not in reader.entries:
                lists.fill([cast(int, key)], 1)
        for _ in range(2):
            kept.keep(reader, keys, b"")
        first = first or kept.of(keys)
    assert kept.of(pairs[0]) is None and first is not None and first.find(reader, 0) is None, "the oldest has gone"
    assert kept.of(pairs[-1]) is not None
    kept.clear()
    assert kept.of(pairs[-1]) is None
    long: list[tuple[Sequence[tuple[Any, Any]], bytes]] = [
        (pairs[0], bytes(LONGEST + 1)),
        ([(1, ("x" * LONGEST,)), (2, (2,))], b""),
    ]
    for some, body in long:
        for _ in range(2):
            kept.keep(reader, some, body)
        assert kept.of(some) is None, "too long"
    many = [(1, (1,))] * (MOST_TOGETHER + 1)
    for _ in range(2):
        kept.keep(reader, many, b"")
    assert kept.of(many) is None


def test_a_session_finds_it_in_the_place_of_a_key(lists: Lists) -> None:
    assert lists.opened.bound(((1, 2),)) is None
    wanted = [read(lists, 1, 2) for _ in range(3)][-1]
    found = lists.opened.bound(((1, 2),))
    assert isinstance(found, Several) and (body := lists.opened.stored(found)) is not None
    assert unpacked(body) == wanted
    lists.rig.change(2, (None, (77, 2, 5)))
    assert lists.opened.stored(found) is None
    read(lists, 1, 2)
    assert (body := lists.opened.stored(found)) is not None and (77, 5) in unpacked(body), "the same stands again"


def test_one_key_of_a_list_is_found_as_any_other(lists: Lists) -> None:
    read(lists, 1)
    assert lists.opened.bound(((1,),)) == 1 and lists.opened.stored(1) is not None
    assert not lists.opened.lists, "no list of rows that stand one by one"


def test_what_only_looks_keeps_nothing(lists: Lists) -> None:
    for _ in range(3):
        assert lists.opened.peek(((1, 2),)) is not None
    assert lists.opened.bound(((1, 2),)) is None


def test_another_plan_begins_with_nothing(lists: Lists) -> None:
    for _ in range(3):
        read(lists, 1, 2)
    found = lists.opened.bound(((1, 2),))
    assert isinstance(found, Several)
    lists.opened.named.generation += 1
    lists.opened.renew()
    assert found.keys == () and lists.opened.bound(((1, 2),)) is None


def test_a_plan_that_was_replaced_is_freed_at_once(lists: Lists) -> None:
    """Nobody looks for cycles in what has lived long."""
    for _ in range(3):
        read(lists, 1, 2)
    old = ref(lists.opened.plan.held)
    gc.disable()
    try:
        lists.opened.named.generation += 1
        lists.opened.renew()
        assert old() is None
    finally:
        gc.enable()


def test_keys_that_are_let_go_at_once_take_the_answer_along(lists: Lists) -> None:
    """Those that come in their places have versions of their own."""
    for _ in range(3):
        before = read(lists, 1, 2)
    lists.reader.nodes[0].let_go()
    for key in (1, 2):
        lists.fill([key], 2)
    assert len(read(lists, 1, 2)) == 4 < len(before)


def test_while_answers_are_compared_first_none_is_kept(lists: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        read(lists, 1, 2)
    found = lists.opened.bound(((1, 2),))
    assert found is not None and lists.opened.stored(found) is not None
    monkeypatch.setattr(lists.opened.named, "trust", object())
    assert lists.opened.stored(found) is None
