"""Random histories of several shards, streamed by a vtgate that cuts them as it likes and is broken off all the time:
what is replayed is what the shards have. And streams that would not notice."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.support.scripted_vtgate import vtgate
from tests.support.vitess_events import LEFT, RIGHT
from tests.support.vitess_following import ALL, U, following, run
from tests.support.vtgate_model import ModelKeyspace, Replayed
from tests.support.waiting import until
from vstream import vitess_pb2 as pb
from vstream.vitess import stream
from vstream.vitess.assemble import VitessAssembler
from vstream.vitess.shard import REWANTED, ShardState

TRANSACTIONS = 120
PATIENCE = 10.0  # seconds; a stream that has lost something does not come to its end
NEW = ("-40", "40-80", "80-c0", "c0-")


def replay(
    seed: int, *, resharded: bool = False, purged: bool = False, rewanted: bool = False, patience: float = PATIENCE
) -> None:
    """Raises AssertionError where what was replayed is not what the shards have, or history was lost for nothing."""
    rng = random.Random(seed)

    async def scenario() -> None:
        model = ModelKeyspace(rng, breaks=25)
        replayed = Replayed(model, gaps=(2 if purged else 0) + resharded)
        for _ in range(5):
            model.write(rng.choice((LEFT, RIGHT)))
        async with vtgate(model.answer) as gate, following(gate, replayed) as stream:
            replayed.begin(stream.position)
            for number in range(TRANSACTIONS):
                if rewanted and rng.random() < 0.5:
                    for _ in range(rng.randrange(40)):  # some transaction may be half received then
                        await asyncio.sleep(0)
                    columns = rng.choice((ALL, frozenset({"id"}), frozenset({"id", "n"})))
                    stream.want(U, columns)
                    replayed.want("u", frozenset(U.column(name).position for name in columns))
                model.write(rng.choice(model.serving))
                if rng.random() < 0.2:  # else several are there at once
                    await until(lambda: replayed.is_up_to_date, patience)
                if rng.random() < 0.03:
                    stream.reconnect("a test")
                if number == TRANSACTIONS // 2:
                    if purged:
                        _purge(model, replayed)
                        stream.reconnect("a test")
                    if resharded:
                        model.reshard((LEFT, RIGHT), NEW)
            await until(lambda: replayed.is_up_to_date, patience)
            replayed.check()
            assert rewanted or not replayed.emptied, replayed.emptied
            for event in replayed.emptied:
                assert event.tables is not None and "shop.u" in event.tables, event
                assert not event.schema and event.statement.endswith(REWANTED), event
            assert replayed.given > 10

    run(scenario)


def _purge(model: ModelKeyspace, replayed: Replayed) -> None:
    """The next ones of a shard come and go while nobody reads."""
    for _ in range(3):
        model.write(LEFT)
    model.shards[LEFT].purged = model.shards[LEFT].latest
    model.cut_while_telling = 2


@pytest.mark.parametrize("seed", range(8))
def test_what_is_replayed_is_what_the_shards_have(seed: int) -> None:
    replay(seed)


@pytest.mark.parametrize("seed", range(4))
def test_also_where_shards_are_split(seed: int) -> None:
    replay(seed, resharded=True)


@pytest.mark.parametrize("seed", range(4))
def test_also_where_history_is_lost(seed: int) -> None:
    replay(seed, purged=True)


@pytest.mark.parametrize("seed", range(4))
def test_also_where_what_is_wanted_changes(seed: int) -> None:
    replay(seed, rewanted=True)


# -- streams that are wrong ------------------------------------------------------------------------------------------


class KeepsPartial(VitessAssembler):
    """A BEGIN that comes again does not drop what has come of the transaction."""

    def feed(self, event: pb.VEvent) -> None:
        if event.type == pb.BEGIN:
            self._state(event).open = True
        else:
            super().feed(event)


class EndsAtThePosition(VitessAssembler):
    """Goes on from a position as soon as it is told, though the transaction has not ended."""

    def _on_vgtid(self, state: ShardState, event: pb.VEvent) -> None:
        super()._on_vgtid(state, event)
        if self.complete:
            state.begin_at(state.received.told)
            self.position.add(state.executed.last())


class GivesAgain(VitessAssembler):
    """Does not know what it has given."""

    def _on_transaction(self, state: ShardState, *others: Any) -> None:
        self.position.replace(self.position.freeze().difference(state.executed))
        super()._on_transaction(state, *others)


class DropsAtHeartbeats(VitessAssembler):
    """Takes a heartbeat for the end of what came before."""

    def feed(self, event: pb.VEvent) -> None:
        if event.type == pb.HEARTBEAT:
            for state in self._shards.values():
                state.drop()
        super().feed(event)


class FollowsWhoHasTold(VitessAssembler):
    """Goes on with those shards that have told where they are, where the connection is lost before all have."""

    def reset(self) -> None:
        for state in self._shards.values():
            state.reset()


class EndsAtItsJournal(VitessAssembler):
    """Goes on from behind a shard's journal though others have not come to theirs."""

    def _on_journal(self, state: ShardState, journal: pb.Journal) -> None:
        super()._on_journal(state, journal)
        if state.journaled:
            state.begin_at(f"{state.position}:{state.executed.last()[1] + 1}")


class KeepsOldPositions(VitessAssembler):
    """The histories of shards that are no more stay in the position."""

    def _join(self) -> None:
        before = self.position.freeze()
        super()._join()
        self.position.update(before)


class DecodesAsItWasWanted(VitessAssembler):
    """What is half received when other columns are wanted is given as it is."""

    def _rewanted(self, qualified: str) -> None:
        for state in self._shards.values():
            state.decoders.pop(qualified, None)


MUTANTS: tuple[tuple[type[VitessAssembler], dict[str, bool]], ...] = (
    (KeepsPartial, {}),
    (EndsAtThePosition, {}),
    (GivesAgain, {}),
    (DropsAtHeartbeats, {}),
    (FollowsWhoHasTold, {"purged": True}),
    (EndsAtItsJournal, {"resharded": True}),
    (KeepsOldPositions, {"resharded": True}),
    (DecodesAsItWasWanted, {"rewanted": True}),
)


@pytest.mark.parametrize(("mutant", "what"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_a_stream_that_is_wrong_is_caught(
    monkeypatch: pytest.MonkeyPatch, mutant: type[VitessAssembler], what: dict[str, bool]
) -> None:
    monkeypatch.setattr(stream, "VitessAssembler", mutant)
    with pytest.raises((AssertionError, TimeoutError)):
        for seed in range(40):  # most are caught by the first
            replay(seed, **what, patience=2)
