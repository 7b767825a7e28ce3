"""A simulation whose source has several shards, before which there is a vtgate.

The stream brings each shard's transactions in their order; in what order it brings those of several shards is the
schedule's choice, and one may stand still. An upquery is asked of the shards that have its keys, or of all. Of each it
reads gtid_executed before anything else, then a snapshot, then gtid_owned and gtid_executed: each at a moment of its
own, in the order of `external_upquery/vitess/snapshot.py`, where the first rows that are read open the snapshot. Its
bracket is the union.

In a reshard the old shards' binlogs end with a journal. vtgate goes on with the new shards once it has read all of
these; that is a Gap, and the position is from then on that of the shards which are followed. Until then upqueries may
be answered by the new shards. A shard that is no more refuses to be asked by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dataflow.fills.shards import Shards
from dataflow.messages import Gap, Restarted, UpqueryRequest
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from external_upquery.vitess import snapshot as vtgate_snapshot
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from sqltypes.expression import Key, Row
from sqltypes.schema import SqlType
from tests.simulation.flights import Flight
from tests.simulation.following import Feed
from tests.simulation.queries import name_of, types_of
from tests.simulation.script import Setup
from tests.simulation.shards import LOOKED_UP, Partition, Shard, ShardedSource, groups_asked, together, union
from tests.simulation.simulation import Results, Simulation
from tests.simulation.source import Commit
from tests.simulation.sql_side import DATABASE, Rows, State

Readings = dict[str, GtidSet]  # by the shard's name


class ShardFeed(Feed):
    """`position`: all of the shard that the stream has brought. `came`: its journal has come. `server`: whose the last
    transaction was. `stopped`: the server has lost some of that, and vtgate finds no place to go on from."""

    def __init__(self, shard: Shard, position: GtidSet, groups: int) -> None:
        super().__init__(shard.server.log)
        self._groups = groups
        self.shard = shard
        self.position = position
        self.came = self.stopped = False
        self.server = shard.server.server

    def next(self) -> Commit | None:
        commit = super().next()
        if commit is not None:
            self.position = self.position.add(commit.gtid)
        return commit

    def back(self, transactions: int) -> None:
        super().back(transactions)
        self.came = self.came and not self.left

    def beside(self, state: State, commit: Commit) -> Mapping[int, Row]:
        rows = state.rows[commit.replaces] if commit.replaces else {}
        return {number: row for number, row in rows.items() if number % self._groups not in self.shard.groups}


@dataclass(eq=False, slots=True)
class ShardedFlight(Flight):
    """`shards`: those that are asked, `moments` of each of them. `others`: of its bracket."""

    shards: list[Shard] = field(default_factory=list)
    moments: tuple[str, ...] = ()
    lowers: Readings = field(default_factory=dict)
    owneds: Readings = field(default_factory=dict)
    executeds: Readings = field(default_factory=dict)
    snapshots: dict[str, tuple[Rows, GtidSet]] = field(default_factory=dict)
    others: GtidSet | None = None

    def bracket(self) -> Bracket:
        lower, owned, executed = self.told(self.lowers), self.told(self.owneds), self.told(self.executeds)
        return Bracket(self.server, lower, owned, executed, self.others)

    def told(self, readings: Readings) -> GtidSet:
        return union(readings[shard.name] for shard in self.shards)

    @property
    def torn(self) -> bool:
        return any(not self.lowers[name].issubset(self.executeds[name]) for name in self.lowers)

    def lacks(self, past: Flight) -> bool:
        """An answer of all shards lacks what shards have told that are no more. One of some says nothing of others, nor
        of servers that its readings do not name: of one that was exchanged at once, with all that it had committed."""
        assert isinstance(past, ShardedFlight)
        if self.others is None:
            return not union(past.lowers.values()).issubset(union(self.lowers.values()))
        named = *self.lowers.values(), *self.owneds.values(), *self.executeds.values()
        of_shards = [(told, self.lowers[name]) for name, told in past.lowers.items() if name in self.lowers]
        return any(not told.of_servers(*named).issubset(lower) for told, lower in of_shards)


class Sharded(Simulation):
    """`known`: the shards that the proxy knows of. `refuses`: a shard that is no more is not asked. `hinted`: vtgate is
    told to ask no lookup (`planner/text/vindex_hints.py`)."""

    exact = False  # vtgate passes no locks on
    refuses = hinted = True
    source: ShardedSource
    feeds: list[ShardFeed]  # type: ignore[assignment]  # each is a feed

    def __init__(self, setup: Setup, alter: Callable[[Results], None] | None = None) -> None:
        super().__init__(setup, alter)
        self.known = list(self.source.shards)
        self.feeds = [ShardFeed(shard, shard.start, self.source.groups) for shard in self.source.shards]
        self.engine.fills.shards_of = self._shards_of
        self._incarnations: dict[frozenset[tuple[str, int]], int] = {}  # of those who are asked together
        self.exchanged: dict[str, float] = {}  # when a shard's server was, or came back
        self._asked = State()
        self._turn = 0

    def made_source(self, setup: Setup) -> ShardedSource:
        return ShardedSource(setup.rows, setup.ordered, setup.shards)

    def close(self) -> None:
        super().close()
        self._asked.close()

    # -- which shards are asked ----------------------------------------------------------------------------------------

    def _shards_of(self, reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> Shards:
        name = name_of(reader.plan)
        groups: set[int] = set()
        for _, params in keys:
            asked = groups_asked(name, params, self.source.groups) if name is not None else None
            if asked is None:
                return None
            groups |= asked
        if not groups:
            return None
        names = tuple(shard.name for shard in self.known if shard.groups & groups)
        return names if len(names) < len(self.known) else None

    def do_learn(self) -> None:
        """The proxy looks which shards there are."""
        self.known = list(self.source.shards)

    def _flight(self, request: UpqueryRequest) -> Flight:
        request.lower, request.exact = None, False
        return ShardedFlight(request, self.told.answers)

    def _moments(self, flight: Flight) -> tuple[str, ...]:
        """Each of `moments` at each shard."""
        assert isinstance(flight, ShardedFlight)
        if not flight.shards:
            wanted = flight.request.shards
            found = self.known if wanted is None else [shard for shard in self.source.made if shard.name in wanted]
            flight.shards = list(found)
            servers = frozenset((one.name, one.server.incarnation) for one in found)
            flight.incarnation = self._incarnations.setdefault(servers, len(self._incarnations))
            self.began[flight.incarnation] = max(self.exchanged.get(one.name, float("-inf")) for one in found)
            flight.moments = tuple(self.in_order(flight.request, flight.shards))
        return flight.moments

    def in_order(self, request: UpqueryRequest, shards: Sequence[Shard]) -> Iterable[str]:
        names = [shard.name for shard in shards]
        sent = vtgate_snapshot.plan(request.statements, DATABASE, names, request.checks)
        behind = sent.uppers[0]
        at = {"lower": sent.lowers[0], "snapshot": min(sent.rows + sent.checks), "owned": behind, "executed": behind}
        return [f"{moment} of {name}" for moment in sorted(self.moments, key=at.__getitem__) for name in names]

    def _reach(self, flight: Flight, moment: str) -> bool:
        assert isinstance(flight, ShardedFlight)
        what, name = moment.split(" of ")
        shard = next(shard for shard in flight.shards if shard.name == name)
        if self.refuses and shard not in self.source.shards:
            self.counts["shards that are no more"] += 1
            self.do_learn()
            self._fail(flight)
            return False
        match what:
            case "lower":
                flight.lowers[name] = shard.server.executed()
            case "owned":
                flight.owneds[name] = shard.server.owned()
            case "executed":
                flight.executeds[name] = shard.server.executed()
            case _:
                flight.snapshots[name] = self.source.snapshot(shard.groups)
                if len(flight.snapshots) == len(flight.shards):
                    self._run(flight)
        return True

    def _run(self, flight: Flight) -> bool:
        """What vtgate makes of one snapshot of each."""
        assert isinstance(flight, ShardedFlight)
        flight.seen = together(rows for rows, _ in flight.snapshots.values())
        flight.seen_gtids = union(gtids for _, gtids in flight.snapshots.values())
        fill = self.engine.fills.by_number.get(flight.request.id)
        if fill is not None:
            pairs = list(zip(types_of(fill), flight.request.statements, strict=True))
            flight.results = [self._found_by(flight.seen, statement.sql, types) for types, statement in pairs]
        return True

    def _found_by(self, rows: Rows, sql: str, types: Sequence[SqlType]) -> list[Row]:
        found = rows if self.hinted or not LOOKED_UP.search(sql) else self.source.looked_up(rows)
        self._asked.become(found)
        return self._asked.query(sql, types)

    def _enclose(self, flight: Flight) -> None:
        assert isinstance(flight, ShardedFlight)
        flight.others = self.others(flight)
        if flight.others is not None:
            self.counts["answers of some shards"] += 1
            asked = {group for shard in self.source.made if shard.name in flight.snapshots for group in shard.groups}
            rest = set(range(self.source.groups)) - asked
            flight.seen = together((flight.seen, self.source.rows_of(self.at_position.rows, rest)))
            flight.seen_gtids = flight.seen_gtids.union(flight.others)

    def others(self, flight: ShardedFlight) -> GtidSet | None:
        """What the stream has brought of the shards that were not asked. Where it does not follow yet who was asked,
        the rows were another shard's: nothing counts as seen."""
        if flight.request.shards is None:
            return None
        asked = set(flight.request.shards)
        if not asked <= {feed.shard.name for feed in self.feeds}:
            return GtidSet.empty()
        return union(feed.position for feed in self.feeds if feed.shard.name not in asked)

    # -- the stream ----------------------------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        return super().left + (not self.source.as_it_is())

    @property
    def lost(self) -> bool:
        stopped = any(feed.stopped for feed in self.feeds)
        return stopped or not self.source.purged_set().issubset(self.position)

    def do_deliver(self, transactions: int, at: int | None = None) -> None:
        """Of the shard in that place, or of one after the other."""
        for _ in range(transactions):
            self._turn += 1
            self._deliver(self.feeds[(self._turn if at is None else at) % len(self.feeds)])

    def _deliver(self, feed: Feed) -> None:
        assert isinstance(feed, ShardFeed)
        if feed.left or feed.shard in self.source.shards:
            if feed.left and feed.to_come()[0].gtid.source != feed.server:
                feed.server = feed.to_come()[0].gtid.source
                self.another_server()
            super()._deliver(feed)
        elif not feed.came:
            self._end_change()
            feed.came = True
            self.note(lambda: f"the stream brings the journal of {feed.shard.name}")
            if self.all_have_come():
                self._follow_new()

    def another_server(self) -> None:
        """A shard's transactions are another server's from here on. What the one before had shown, and the stream has
        not brought, may be lost."""
        self._end_change()
        self.told.forget()
        self._on_stream(Restarted(self.position))

    def all_have_come(self) -> bool:
        """Have all shards that are no more told so?"""
        return all(feed.came for feed in self.feeds if feed.shard not in self.source.shards)

    def _follow_new(self) -> None:
        source = self.source
        new = [
            ShardFeed(shard, shard.start, self.source.groups) for shard in source.shards if shard not in source.followed
        ]
        stay = [feed for feed in self.feeds if feed.shard in source.shards]
        old = [feed for feed in self.feeds if feed not in stay and feed.left]
        groups = [group for feed in new for group in feed.shard.groups]
        rest = set(range(source.groups)) - set(groups)
        begun = together(feed.shard.rows for feed in new)
        self.at_position.become(together((begun, source.rows_of(self.at_position.rows, rest))))
        source.followed, self.feeds = list(source.shards), [*stay, *new, *old]
        self.do_learn()
        self.counts["resharded"] += 1
        self.tell_of_new()

    def tell_of_new(self) -> None:
        self._expect_reset()
        self._on_stream(Gap("shards were split or merged", self.begins_at()))

    def begins_at(self) -> GtidSet:
        """The position when other shards are followed: theirs, and nothing of those that are no more."""
        return union(feed.position for feed in self.feeds if feed.shard in self.source.followed)

    def _apply(self, commit: Commit, feed: Feed) -> None:
        assert isinstance(feed, ShardFeed)
        if feed.shard in self.source.followed:
            super()._apply(commit, feed)

    def do_replay(self, back: int, at: int = 0) -> None:
        self._end_change()
        self.feeds[at % len(self.feeds)].back(back)

    def do_reconnect(self) -> None:
        self._end_change()
        if self.lost:
            self._lose_history("of a shard there is nothing to go on from")

    def _lose_history(self, reason: str) -> None:
        self.source.followed = list(self.source.shards)
        self.do_learn()
        super()._lose_history(reason)

    def feeds_behind(self, position: GtidSet) -> list[Feed]:
        made: list[Feed] = []
        for shard in self.source.shards:
            feed = ShardFeed(shard, shard.server.executed(), self.source.groups)
            feed.skip(position)
            made.append(feed)
        return made

    # -- the source ----------------------------------------------------------------------------------------------------

    def do_fail_over(self, lost: int, same: bool, at: int = 0) -> None:
        """One shard's server is exchanged for a replica, which may lack its last transactions, or comes back."""
        shard = self.source.shards[at % len(self.source.shards)]
        shard.server.fail_over(0 if same else lost, same)
        self.source.incarnation += 1
        self.exchanged[shard.name] = self.clock
        self._read_again(shard)
        for flight in self.under_way():
            assert isinstance(flight, ShardedFlight)
            if shard in flight.shards:
                self._fail(flight)
        self.counts["failovers"] += 1

    def _read_again(self, shard: Shard) -> None:
        """Its binlog is another list, which begins as the one before."""
        for feed in self.feeds:
            if feed.shard is shard:
                feed.cut()
                feed.stopped = feed.stopped or not feed.position.issubset(shard.server.executed())
                if not feed.stopped:
                    feed.log = shard.server.log

    def do_unseen(self, at: int = 0) -> None:
        self.source.shards[at % len(self.source.shards)].server.execute_unseen()

    def do_reshard(self, partition: Partition) -> None:
        """Not while the stream has still to bring the last one."""
        if self.source.as_it_is() and not self.lost:
            for shard in self.source.reshard(partition):
                self._read_again(shard)
                self.counts["shards gone"] += 1
