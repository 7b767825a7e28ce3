"""The states of what hits have shown a transaction: the tables of `proxy/mysql/reads/shown.py`, and what is shown
again."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.mysql.reads.gate import OPEN, said_again, transaction_rule
from proxy.mysql.reads.shown import (
    MOST_GIVEN,
    SHOWN_BYTES,
    SHOWN_KEYS,
    QuickHit,
    Said,
    Shown,
    ShownKind,
    Stage,
    command_of,
)
from proxy.mysql.state.session_variables import PINNED_VALUES, switched_on
from proxy.settings.quantities import Transactions
from tests.support.session_states import hold, session_state

EMPTY, FOLLOWS, PINNED, SETTLED = Stage.EMPTY, Stage.FOLLOWS, Stage.PINNED, Stage.SETTLED
EVENTS = ("hit", "looks", "opens", "differs", "end")
TABLE = {
    EMPTY: (FOLLOWS, EMPTY, EMPTY, EMPTY, EMPTY),
    FOLLOWS: (FOLLOWS, FOLLOWS, SETTLED, SETTLED, EMPTY),
    PINNED: (PINNED, PINNED, PINNED, PINNED, EMPTY),
    SETTLED: (SETTLED, SETTLED, SETTLED, SETTLED, EMPTY),
}
COMMAND = command_of(b"SELECT * FROM t WHERE id = 7", None, "d", ())
RELATION = ("d", "t")
SAID = Said(b"head", b"rows", "c", frozenset(), frozenset({RELATION}), ("rights",))


class Held:
    """A cache whose only answer is `body`."""

    def __init__(self) -> None:
        self.name = "c"
        self.generation = 1
        self.needs: frozenset[str] = frozenset({"time_zone"})
        self.relations = frozenset({RELATION})
        self.body: bytes | None = b"rows"

    def peek(self, parameters: object) -> bytes | None:
        return self.body


def shown_in(stage: Stage) -> Shown:
    shown = Shown()
    if stage is not EMPTY:
        happens(shown, "hit")
    if stage is PINNED:
        assert not shown.pin(brought=True)
    if stage is SETTLED:
        happens(shown, "opens")
    assert shown.stage is stage
    return shown


def happens(shown: Shown, event: str) -> bool:
    """Whether it shows that MySQL's state is another one. The session tells of MySQL in FOLLOWS alone."""
    cache: Any = Held()
    match event:
        case "hit":
            assert shown.holds(1, "") or shown.settled
            shown.note(cache, (7,), b"rows")
        case "end":
            shown.clear()
        case _ if shown.stage is FOLLOWS:
            ((held, *_),) = shown.answers
            changing: Any = held
            changing.body = b"others" if event == "differs" else b"rows"
            return shown.at_mysql(2, "later", opens_snapshot=event == "opens")
    return False


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("stage", TABLE)
def test_each_state_goes_on_as_the_table_says(stage: Stage, event: str) -> None:
    shown = shown_in(stage)
    assert happens(shown, event) == (stage is FOLLOWS and event == "differs")
    assert shown.stage is TABLE[stage][EVENTS.index(event)]


@pytest.mark.parametrize(("body", "brought"), [(b"others", True), (None, True), (b"rows", False)])
def test_a_snapshot_that_may_be_of_another_state_is_not_the_one_that_was_shown(
    body: bytes | None, brought: bool
) -> None:
    shown = shown_in(FOLLOWS)
    ((held, *_),) = shown.answers
    changing: Any = held
    changing.body = body
    assert shown.pin(brought=brought) and shown.stage is SETTLED


def test_a_pinned_transaction_stays_where_it_was_shown_something() -> None:
    shown = shown_in(PINNED)
    assert shown.holds(1, "here") and not shown.holds(2, "later") and shown.sequence == 1
    shown.clear()
    assert shown.holds(3, "later still") and shown.sequence == 3


def test_the_first_hit_and_the_end_of_a_transaction_are_told_once() -> None:
    told: list[tuple[object, ...]] = []
    shown = Shown(on_first=lambda cache: told.append((cache,)), on_end=lambda *end: told.append(end))
    cache: Any = Held()
    for _ in range(2):
        shown.note(cache, (7,), b"rows")
        shown.note(cache, (8,), b"rows")
        shown.clear()
        shown.clear()
    shown.looked = True
    shown.clear()
    assert told == [("c",), ("c", False)] * 2


def test_a_transaction_that_follows_stands_where_mysql_found_the_same() -> None:
    shown = shown_in(FOLLOWS)
    happens(shown, "looks")
    assert (shown.sequence, shown.position) == (2, "later")


def test_once_mysql_has_its_snapshot_only_what_was_shown_is_a_hit() -> None:
    state = session_state(values={"transaction_isolation": "REPEATABLE-READ"}, in_transaction=True, touched=True)
    shown = shown_in(SETTLED)
    for again, rule in ((False, OPEN), (True, "")):
        assert transaction_rule(state, Transactions.ON, shown, (7,), again=again) == rule


VALUES = {**PINNED_VALUES, **switched_on({}), "transaction_isolation": "REPEATABLE-READ"}


def said_to(mode: Transactions = Transactions.ON, rights: str = "rights", **changed: Any) -> Said | None:
    """What a transaction that was shown `SAID` is shown again, where this of the session is another."""
    state = session_state(known=True, in_transaction=True, values=dict(VALUES))
    hold(state, **changed)
    shown = shown_in(FOLLOWS)
    shown.say(COMMAND, SAID)
    return said_again(state, mode, shown, COMMAND, (rights,))


def test_the_same_command_is_shown_the_same() -> None:
    assert said_to() is SAID
    assert said_to(touched=True) is SAID, "whatever MySQL's snapshot would be of"
    assert said_to(in_transaction=False, autocommit=False, begun=1) is SAID, "MySQL knows nothing of the transaction"
    assert said_to(hiding=True, not_hidden={RELATION}) is SAID


@pytest.mark.parametrize(
    "changed",
    [
        {"in_transaction": False},
        {"in_transaction": False, "autocommit": False},  # the next transaction
        {"narrow": "ascii"},
        {"hiding": True},
        {"rights": "others"},
        {"locked": True},
        {"wrote": True},
        {"values": {**VALUES, "sql_mode": "MAXDB"}},
        {"mode": Transactions.STRICT},
        {"mode": Transactions.OFF},
    ],
    ids=str,
)
def test_a_session_that_is_another_is_not(changed: dict[str, Any]) -> None:
    assert said_to(**changed) is None


def test_a_command_is_its_text_values_database_and_columns() -> None:
    text = b"SELECT 1"
    commands = [
        command_of(text, None, "d", ()),
        command_of(text + b" ", None, "d", ()),
        command_of(text, ("a statement", (8,), "(1,)"), "d", ()),
        command_of(text, ("a statement", (5,), "(1.0,)"), "d", ()),
        command_of(text, None, "e", ()),
        command_of(text, None, "d", ("latin1",)),
    ]
    assert len(set(commands)) == len(commands) and command_of(text, None, "d", ()) == commands[0]


def test_of_many_ways_to_ask_the_same_not_all_are_remembered() -> None:
    shown = shown_in(FOLLOWS)
    for number in range(SHOWN_KEYS + 10):
        shown.say(command_of(b"%d" % number, None, "d", ()), SAID)
    assert len(shown.said) == SHOWN_KEYS
    shown.clear()
    assert not shown.said


# -- quick hits --------------------------------------------------------------------------------------------------------


def given(cache: Any, number: int = 7, text: bytes = b"SELECT * FROM t WHERE id = 7") -> QuickHit:
    kind = ShownKind(cache, cache.generation, cache.needs, cache.relations, b"head", None, "d", (), ("rights",), False)
    return kind, (number,), b"rows", text, None


def test_a_quick_hit_is_filed_as_it_was_when_it_was_given() -> None:
    shown, cache = Shown(), Held()
    assert shown.give(given(cache), 1, lambda: "here")
    assert shown.began and shown.stage is FOLLOWS and (shown.sequence, shown.position) == (1, "here")
    cache.generation, cache.needs, cache.relations = 2, frozenset(), frozenset()  # it was dropped, or planned again
    other = Shown()
    cache.generation = 1
    assert other.holds(1, "here")
    other.note(cache, (7,), b"rows")  # type: ignore[arg-type]
    assert shown.answers == other.answers
    assert shown.said[COMMAND] == Said(
        b"head", b"rows", "c", frozenset({"time_zone"}), frozenset({RELATION}), ("rights",)
    )
    shown.check_invariants()
    shown.clear()
    assert not shown.began and not shown.said


@pytest.mark.parametrize(
    "what", ["another event", "a snapshot of MySQL's", "many not filed", "many keys", "many bytes"]
)
def test_a_quick_hit_is_not_given(what: str) -> None:
    shown, cache = Shown(), Held()
    for number in range(MOST_GIVEN - 1):
        assert shown.give(given(cache, number), 1, lambda: "here")
    sequence = 1
    match what:
        case "another event":
            sequence = 2
        case "a snapshot of MySQL's":
            shown.at_mysql(1, "here", opens_snapshot=True)
        case "many not filed":
            assert shown.give(given(cache), 1, lambda: "here")
        case "many keys":
            for number in range(SHOWN_KEYS):
                shown.note(cache, (number,), b"")  # type: ignore[arg-type]
        case _:
            shown.note(cache, (1,), bytes(SHOWN_BYTES))  # type: ignore[arg-type]
    assert not shown.give(given(cache, 1_000_000), sequence, lambda: "there")
    assert shown.position == "here"
    assert (1_000_000,) not in [parameters for _, _, parameters, _ in shown.answers]
    shown.check_invariants()
