"""Which answers of a new cache are due to be compared before anybody is given them."""

from __future__ import annotations

from collections import Counter

import pytest

from dataflow.entries import Held
from planner.tree.plan import Mode
from proxy.cache.key_binder import Bound
from proxy.cache.ledger import TIRED
from proxy.cache.trust import IN_VAIN, LONGEST_LIST, MOST_LISTED, MOST_LISTS, SLOW_SECONDS, Compared, Trust, unproved
from tests.support.engine_rig import ROWS, Rig


@pytest.fixture
def rig() -> Rig:
    """Key 7 is held at the position, and nobody has been given it."""
    made = Rig(ROWS)
    made.fill_from({1: (1, 7, 10)}, 7)
    return made


def held(rig: Rig) -> Held:
    return rig.readers[0].entries[7]


def held_keys(*keys: int) -> Bound:
    return [(key, (key,)) for key in keys]


def earn(trust: Trust, ledger_name: str) -> None:
    """Until the next answer is not due."""
    ledger = getattr(trust, ledger_name)
    key = 0
    while ledger.due:
        ledger.agree(key, rows=True)
        key += 1


def test_what_was_filled_without_its_check_is_held_back_though_changes_are_not_due(rig: Rig) -> None:
    trust = Trust(2, Mode.MAINTAIN, Counter())
    earn(trust, "changes")
    held(rig).stale()
    assert held(rig).unseen and trust.of_held(held(rig), 0.0) is Compared.FIRST, (
        "in the place of its fill, which is due"
    )
    assert trust.ledger(unseen=True) is trust.fills and trust.ledger(unseen=False) is trust.changes


def test_what_was_given_before_is_held_back_by_what_changes_have_earned(rig: Rig) -> None:
    trust = Trust(2, Mode.MAINTAIN, Counter())
    earn(trust, "changes")
    assert rig.hit(7) is not None
    held(rig).stale()
    assert not held(rig).unseen and trust.of_held(held(rig), 0.0) is Compared.NOT


def test_several_keys_together_are_held_back_if_one_was_filled_without_its_check(rig: Rig) -> None:
    trust = Trust(2, Mode.MAINTAIN, Counter())
    earn(trust, "changes")
    reader, keys = rig.readers[0], held_keys(7)
    held(rig).renew()
    assert trust.of_several(reader, keys, 0.0, given=False) is Compared.NOT
    held(rig).stale()
    assert trust.of_several(reader, keys, 0.0, given=False) is Compared.FIRST


def test_a_list_that_was_found_equal_is_compared_again_once_a_key_has_changed(rig: Rig) -> None:
    rig.fill_from({2: (2, 8, 20)}, 8)
    trust, reader, keys = Trust(2, Mode.MAINTAIN, Counter()), rig.readers[0], held_keys(7, 8)
    for key, params in keys:
        assert reader.link(reader.entries[key], params)
    versions = [reader.entries[key].version or 0 for key, _ in keys]
    assert trust.of_several(reader, keys, 0.0) is Compared.FIRST, "that each key is as it was says nothing of the list"
    trust.agreed(keys, trust.watch(), versions)
    assert trust.of_several(reader, keys, 0.0) is Compared.NOT
    assert trust.of_several(reader, keys[::-1], 0.0) is Compared.FIRST, "another list"
    held(rig).stale()
    assert trust.of_several(reader, keys, 0.0) is Compared.FIRST
    held(rig).renew()
    assert trust.of_several(reader, keys, 0.0) is Compared.FIRST, "it has another version"
    reader.drop(held(rig))
    trust.agreed(keys, trust.watch(), versions)
    assert trust.of_several(reader, keys, 0.0) is Compared.FIRST, "the key is not held"


def test_a_list_that_was_found_equal_is_held_back_while_anything_of_it_is_in_doubt(rig: Rig) -> None:
    trust, reader, keys = Trust(2, Mode.MAINTAIN, Counter()), rig.readers[0], held_keys(7)
    assert reader.link(held(rig), (7,))
    trust.agreed(keys, trust.watch(), [held(rig).version or 0])
    trust.suspect()
    assert trust.of_several(reader, keys, 0.0) is Compared.FIRST
    trust.explain()
    trust.unproved[held(rig)] = "it is being compared"
    assert trust.of_several(reader, keys, 0.0) is Compared.FIRST
    trust.unproved.clear()
    assert trust.of_several(reader, keys, 0.0) is Compared.NOT


def test_any_change_of_a_table_has_lists_compared_again(rig: Rig) -> None:
    """One that was sought in the wrong place is not seen at the keys."""
    stirred: list[object] = []
    trust = Trust(2, Mode.MAINTAIN, Counter(), stirred=lambda: stirred.append(None))
    reader, keys = rig.readers[0], held_keys(7)
    assert reader.link(held(rig), (7,))
    for times in (1, 2):
        trust.agreed(keys, trust.watch(), [held(rig).version or 0])
        trust.agreed(keys, trust.watch(), [held(rig).version or 0])
        assert len(stirred) == times, "the next change is to be told"
        assert not trust.on_change(), "and no other"
        assert trust.of_several(reader, keys, 0.0) is Compared.FIRST
    began = trust.watch()
    trust.on_change()
    trust.agreed(keys, began, [held(rig).version or 0])
    assert trust.of_several(reader, keys, 0.0) is Compared.FIRST, "a change came while MySQL was asked"
    earn(trust, "changes")
    trust.agreed(keys, trust.watch(), [held(rig).version or 0])
    assert not trust.changes.due and trust.lists
    trust.on_change()
    assert not trust.lists, "a check may be due by its next look"


def test_so_many_lists_are_known_and_no_longer_ones() -> None:
    trust = Trust(2, Mode.MAINTAIN, Counter())
    for number in range(MOST_LISTS + 2):
        trust.agreed(held_keys(number), 0, [number])
    assert len(trust.lists) == MOST_LISTS and next(iter(trust.lists.values())) == [2], "the oldest have gone"
    trust.agreed(held_keys(*range(MOST_LISTED + 1)), 0, [0] * (MOST_LISTED + 1))
    trust.agreed([(("a" * LONGEST_LIST,), ())], 0, [0])
    assert next(iter(trust.lists.values())) == [2]


def test_checks_that_cannot_be_made_end_in_answers_that_are_counted_and_told_of(rig: Rig) -> None:
    counters = Counter[str]()
    trust = Trust(2, Mode.MAINTAIN, counters)
    held(rig).stale()
    checks = 0
    while trust.of_held(held(rig), 0.0) is Compared.FIRST:
        ledger = trust.ledger(held(rig).unseen)
        assert counters["trust_given_unchecked"] == 0
        ledger.in_vain(ledger.ended)
        checks += 1
    assert checks == 2 * TIRED and trust.told == IN_VAIN
    assert counters["trust_given_unchecked"] == 1
    trust.fills.agree(7, rows=True)
    trust.changes.agree(7, rows=True)
    assert trust.told == ""


def test_a_look_at_a_slow_answer_of_evict_mode_that_is_due_does_not_store_it(rig: Rig) -> None:
    trust = Trust(2, Mode.EVICT, Counter())
    held(rig).stale()
    slow = 2 * SLOW_SECONDS
    assert trust.of_held(held(rig), slow, given=False) is Compared.FIRST
    assert trust.of_held(held(rig), slow) is Compared.BEHIND, "it is given, and compared behind"


def test_what_somebody_has_linked_to_compare_it_is_let_go_by_nobody_else(rig: Rig) -> None:
    trust = Trust(2, Mode.MAINTAIN, Counter())
    first: dict[Held, bool] = {}
    second: dict[Held, bool] = {}
    item = held(rig)
    trust.own(item, first)
    trust.own(item, second)
    assert item in first and not second
    rig.hit(7)
    trust.leave(second)
    assert item in trust.unproved and trust.of_held(item, 0.0) is Compared.FIRST, "it is still the first one's"
    trust.leave(first)
    assert item not in trust.unproved and item.version is None


def test_what_is_not_proved_any_more_is_not_listed_either(rig: Rig) -> None:
    assert rig.hit(7) is not None
    reader = rig.readers[0]
    held(rig).list(0)
    unproved(reader, [7])
    assert not any(held(rig).bodies or ()) and not held(rig).listed and 7 not in reader.listed[0]
    rig.engine.check_invariants()
