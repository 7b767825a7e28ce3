"""Schedules of a source of several shards: the stream brings now of this one and now of that one, one stands still for
a while, servers are exchanged, and now and then other shards take over."""

from __future__ import annotations

import random
from dataclasses import replace

from sqltypes.expression import Row
from tests.simulation.schedule import Schedule
from tests.simulation.script import Action
from tests.simulation.sharded import Sharded
from tests.simulation.shards import DECIDING, SHARDED_BY, Partition
from tests.simulation.simulation import Simulation

PARTITIONS: dict[int, tuple[Partition, ...]] = {
    2: (((0,), (1,)), ((0, 1),)),
    3: (((0,), (1,), (2,)), ((0, 2), (1,)), ((0,), (1, 2)), ((0, 1), (2,)), ((0, 1, 2),)),
}  # by the number of groups; the last is of one shard
STANDS_STILL = 0.03  # of the steps begin a time in which one does
RESHARDED = 0.02  # of the steps, in schedules that have reshards
EXCHANGED = 0.01  # likewise, in schedules in which servers are exchanged, one after it has shown what it then loses
MEANWHILE = 0.15  # of the steps begin a read between a reshard and its Gap


class ShardedSchedule(Schedule):
    """A schedule of which more is drawn by another seed."""

    def __init__(self, seed: int) -> None:
        self._sharding = rng = random.Random(13 * seed + 7)
        self._groups = rng.choice((2, 3))
        self._reshards = rng.random() < 0.5
        self._still, self._still_left = 0, 0  # which does, and for how many steps
        super().__init__(seed)
        partition = rng.choice(PARTITIONS[self._groups][:-1])
        some = tuple(rng.sample(sorted(DECIDING), rng.randint(1, 3)))
        caches = tuple(dict.fromkeys((*some, *self.setup.caches[: rng.randint(0, 4)])))
        self.setup = replace(self.setup, shards=partition, caches=caches)

    def _row(self, name: str, number: int) -> Row:
        """Of the group that its number is of."""
        row = list(super()._row(name, number))
        at = SHARDED_BY[name]
        value = row[at]
        if isinstance(value, int) and value % self._groups != number % self._groups:
            row[at] = number % self._groups
        return tuple(row)

    def action(self, simulation: Simulation) -> Action:
        rng = self._sharding
        assert isinstance(simulation, Sharded)
        if not simulation.desk.caches:
            return super().action(simulation)
        soon = self._reshards and not self._soon
        if soon and rng.random() < RESHARDED:
            return self._reshard(simulation)
        if self._failovers and not self._soon and not simulation.source.exclusive and rng.random() < EXCHANGED:
            return self._exchange(simulation)
        if soon and not simulation.source.as_it_is() and rng.random() < MEANWHILE:
            return self._asked_meanwhile(simulation)
        action = super().action(simulation)
        match action:
            case ("deliver", transactions):
                return "deliver", transactions, self._next(len(simulation.feeds))
            case ("replay", back):
                return "replay", back, rng.randrange(3)
            case ("fail_over", lost, same):
                return "fail_over", lost, same, rng.randrange(3)
            case ("unseen",):
                return "unseen", rng.randrange(3)
        return action

    def _next(self, feeds: int) -> int:
        """Of which shard the stream brings something: not of the one that stands still."""
        rng = self._sharding
        if self._still_left:
            self._still_left -= 1
            return (self._still + 1 + rng.randrange(max(1, feeds - 1))) % feeds
        if rng.random() < STANDS_STILL:
            self._still, self._still_left = rng.randrange(feeds), rng.randint(10, 60)
        return rng.randrange(feeds)

    def _reshard(self, simulation: Sharded) -> Action:
        """Often with a transaction right before it, and the stream comes to one shard's end long before another's."""
        rng = self._sharding
        reshard = "reshard", rng.choice(PARTITIONS[self._groups])
        if rng.random() < 0.5 or simulation.source.exclusive:
            return reshard
        name = rng.choice(sorted(simulation.desk.caches))
        read = name, self._parameters(name)
        self._commits += 1
        at = rng.randrange(len(simulation.feeds))
        self._soon += (("look", *read), ("deliver", 9), ("look", *read), ("upquery", -1, 14), ("flush",))
        self._soon += (("read", *read), ("learn",), ("deliver", 30, at), reshard, ("advance", self._commits, 4))
        return "begin", self._commits, "rows", self._changes(simulation)

    def _exchange(self, simulation: Sharded) -> Action:
        """A read sees what is lost then, and what its replica commits comes after that."""
        rng = self._sharding
        name = rng.choice(sorted(simulation.desk.caches))
        read = name, self._parameters(name)
        first, second = self._commits + 1, self._commits + 2
        self._commits = second
        at = rng.randrange(len(simulation.source.shards))
        self._soon += (("look", *read), ("deliver", 20), ("look", *read), ("deliver", 2, at), ("advance", second, 4))
        self._soon += (
            ("begin", second, "rows", self._changes(simulation)),
            ("fail_over", rng.randint(0, 2), False, at),
        )
        self._soon += (("upquery", -1, 14), ("flush",), ("read", *read), ("advance", first, rng.randint(2, 4)))
        return "begin", first, "rows", self._changes(simulation)

    def _asked_meanwhile(self, simulation: Simulation) -> Action:
        """Other shards have taken over, and the stream does not know yet."""
        rng = self._sharding
        name = rng.choice(sorted(simulation.desk.caches))
        parameters = self._parameters(name)
        self._soon += (("look", name, parameters), ("upquery", -1, rng.randint(3, 13)), ("flush",))
        if rng.random() < 0.3:
            self._soon.append(("read", name, parameters))
            return ("learn",)
        return "read", name, parameters
