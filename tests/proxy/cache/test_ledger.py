"""The ledger of a cache's checks: every answer at first, then fewer and fewer."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from proxy.cache.ledger import FULL, LONGEST_REST, SELDOM, TIRED, Ledger


def test_each_answer_is_due_until_enough_keys_have_agreed() -> None:
    ledger = Ledger(8)
    for key in range(8):
        assert ledger.due and not ledger.earned
        ledger.agree(key, rows=True)
        ledger.check_invariants()
    assert ledger.earned


@pytest.mark.parametrize(("same", "rows"), [(True, True), (False, False)])
def test_one_key_again_and_again_proves_less_and_so_do_answers_without_rows(same: bool, rows: bool) -> None:
    ledger = Ledger(8)
    checks = 0
    while not ledger.earned:
        ledger.agree(0 if same else checks, rows=rows)
        checks += 1
    assert 8 * FULL - FULL <= checks <= 8 * FULL


def test_once_trust_is_earned_checks_become_rare_and_then_end() -> None:
    ledger = Ledger(4)
    checked = []
    answers = 0
    while not ledger.over:
        if ledger.due:
            ledger.agree(answers, rows=True)
            checked.append(answers)
        else:
            ledger.let_through()
        answers += 1
    pauses = [after - before for before, after in pairwise(checked)]
    assert pauses == sorted(pauses) and pauses[0] == 1 and SELDOM / 2 < pauses[-1] <= SELDOM
    assert len(checked) < 60 and not ledger.due


def test_checks_in_vain_do_not_hold_everything_up_for_ever() -> None:
    ledger = Ledger(4)
    for _ in range(TIRED):
        assert ledger.due
        ledger.in_vain(ledger.ended)
    through = []
    for _ in range(12):
        count = 0
        while not ledger.due:
            ledger.let_through()
            count += 1
        through.append(count)
        ledger.in_vain(ledger.ended)
    assert through[:4] == [1, 2, 4, 8] and max(through) == LONGEST_REST
    while not ledger.due:
        ledger.let_through()
    ledger.agree("a", rows=True)
    assert ledger.due, "the next one is due again: trust is not earned yet"


def test_of_checks_that_run_at_once_and_are_in_vain_one_counts() -> None:
    ledger = Ledger(4)
    for _ in range(TIRED - 1):
        began = ledger.ended
        for _ in range(20):
            ledger.in_vain(began)
        assert ledger.due and not ledger.tired
    began = ledger.ended
    ledger.agree("a", rows=True)
    ledger.in_vain(began)
    for _ in range(TIRED - 1):
        ledger.in_vain(ledger.ended)
    assert ledger.due and not ledger.tired, "one has agreed in between"
    ledger.in_vain(ledger.ended)
    assert ledger.tired and not ledger.due


def test_whatever_comes_the_ledger_keeps_its_invariants() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        ledger = Ledger(rng.randrange(1, 6))
        for _ in range(200):
            if not ledger.due:
                ledger.let_through()
            elif rng.random() < 0.3:
                ledger.in_vain(ledger.ended)
            else:
                ledger.agree(rng.randrange(8), rows=rng.random() < 0.7)
            ledger.check_invariants()
