"""Random scripts of sessions, through the proxy as at MySQL (`integration/sessions/session_scripts.py`); a rule that is
switched off is found by them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.sessions.session_pairs import World
from integration.sessions.session_scripts import differs, drawn, world_beside
from proxy.mysql.reads import gate
from proxy.mysql.reads.last_hit import LastHit
from proxy.mysql.reads.shown import Shown
from proxy.mysql.state.variable_values import VariableValues
from tests.simulation.mutant import Patch, all_of, always, attribute, edit

SEEDS = (1, 2, 3, 4, 5, 6, 7, 8)
PLAYS = 30  # of a script: a read that is not a hit shows nothing


@pytest.fixture(scope="module")
def world(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_beside(mysql, f"t{os.getpid()}_s", Path(tmp_path_factory.mktemp("state"))) as found:
        yield found


def test_each_answer_is_one_that_mysql_could_have_given(world: World) -> None:
    for seed in SEEDS:
        script = drawn(seed)
        wrong = differs(world, script)
        assert not wrong, f"{script}\n{wrong}"
    assert world.counts["hit"] > 20 * len(SEEDS) and world.counts["passed"] > 2 * len(SEEDS), world.counts


def never(*arguments: object) -> bool:
    return False


def none(*arguments: object, **named: object) -> str:
    return ""


# A seed whose script shows it, and what is switched off. Last, by what columns are announced is learned wrong there.
RULES: dict[str, tuple[int, Patch]] = {
    "what a transaction was shown is kept": (
        76,
        all_of(attribute(Shown, "again", lambda *_: None), attribute(Shown, "holds", always)),
    ),
    "a transaction that has written is MySQL's": (
        1,
        edit(gate, "transaction_rule", ("if state.transaction.wrote:", "if False:")),
    ),
    "temporary tables hide others": (7, attribute(gate, "hides", never)),
    "FOUND_ROWS() tells of hits": (16, attribute(LastHit, "asked_by", never)),
    "the session's variables count": (52, attribute(VariableValues, "differing", none)),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_switched_off_is_found(world: World, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    seed, switch_off = RULES[rule]
    switch_off(monkeypatch)
    assert any(differs(world, drawn(seed)) for _ in range(PLAYS))
