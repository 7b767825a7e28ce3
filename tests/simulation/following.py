"""The change stream of the simulation, as far as it has read: what it brings takes effect at the position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dataflow.engine import Engine
from dataflow.fills.inserting import FILL_PATIENCE
from dataflow.fills.restoring import Restoring
from dataflow.messages import Ddl, Effect, Gap, Restarted, StreamEvent
from gtid_tracker.gtid import GtidSet
from proxy.app import stream_doubt
from sqltypes.expression import Row
from tests.simulation.flights import Told
from tests.simulation.source import Commit, Source
from tests.simulation.sql_side import DATABASE, State

if TYPE_CHECKING:
    from tests.simulation.checks import Checks


class Feed:
    """One server's binlog, and how much of it the stream has brought."""

    def __init__(self, log: Sequence[Commit]) -> None:
        self.log = log
        self.delivered = 0

    @property
    def left(self) -> int:
        return len(self.log) - self.delivered

    def next(self) -> Commit | None:
        if not self.left:
            return None
        self.delivered += 1
        return self.log[self.delivered - 1]

    def to_come(self) -> Sequence[Commit]:
        return self.log[self.delivered :]

    def back(self, transactions: int) -> None:
        self.delivered = max(0, self.delivered - transactions)

    def skip(self, position: GtidSet) -> None:
        """What is in the position is not brought."""
        while self.left and self.log[self.delivered].gtid in position:
            self.delivered += 1

    def beside(self, state: State, commit: Commit) -> Mapping[int, Row]:
        """The rows of the table that it replaces which are not of this server."""
        return {}

    def cut(self) -> None:
        """What was not read is no more."""
        self.log = self.log[: self.delivered]


class Following:
    """What a simulation knows of its stream. `at_position`: the tables as the position has them. `changing`: a large
    transaction under way."""

    engine: Engine
    source: Source
    at_position: State
    checks: Checks
    told: Told
    counts: Counter[str]
    clock: float
    note: Callable[[Callable[[], str]], None]
    handle: Callable[[list[Effect]], None]

    def __init__(self) -> None:
        self.feeds = [Feed(self.source.log)]
        self.followed = self.source.server
        self.changing: tuple[Commit, StreamEvent, Feed] | None = None
        self.noting: list[Restoring] = []  # of a snapshot of which not all is held again yet
        self._ready = False  # it only has to take effect
        self._beyond = 0
        self._touched = False

    @property
    def position(self) -> GtidSet:
        return self.engine.state.ring.position.freeze()

    @property
    def left(self) -> int:
        """Transactions that the stream has still to bring, as far as it knows."""
        return sum(feed.left for feed in self.feeds)

    @property
    def lost(self) -> bool:
        """Is it another binlog's, or are transactions purged which it has not brought?"""
        return self.feeds[0].log is not self.source.log or not self.source.purged_set().issubset(self.position)

    def feeds_behind(self, position: GtidSet) -> list[Feed]:
        """Of the source as it is now, from there on."""
        feed = Feed(self.source.log)
        feed.skip(position)
        return [feed]

    def do_deliver(self, transactions: int) -> None:
        for _ in range(transactions):
            self._deliver(self.feeds[0])

    def _deliver(self, feed: Feed) -> None:
        self._end_change()
        commit = feed.next()
        if commit is None:
            return
        known = commit.gtid in self.engine.state.ring.position
        if known and commit.kind == "load":
            return  # the stream itself passes over what it has given
        event = commit.event(self.engine.graph.wanted(), self.position)
        self.note(lambda: f"the stream brings {event}")
        self.counts["delivered"] += 1
        if self.engine.begin(event):
            self.changing, self._ready = (commit, event, feed), False
            self.counts["large"] += 1
            return
        if not known:
            self._apply(commit, feed)
        if isinstance(event, Gap):
            self._expect_reset()
        self._on_stream(event)

    def do_slice(self, steps: int) -> None:
        """A large transaction goes on; once it is ready it takes effect."""
        self._touched = True
        if self._ready:
            self._end_change()
        else:
            self._ready = self.engine.prepare(steps)

    def _end_change(self) -> None:
        if self.changing is not None:
            (commit, event, feed), self.changing = self.changing, None
            self._ready = False
            self._apply(commit, feed)
            self._on_stream(event)

    def _on_stream(self, event: StreamEvent) -> None:
        self.handle(self.engine.on_stream(event))
        for restoring in self.noting:
            restoring.note(event)
        self.checks.keep_position()

    def _apply(self, commit: Commit, feed: Feed) -> None:
        """To the tables at the position. Where a later one of the binlog is in it already (commits out of order, and
        history was lost), that one's rows are newer."""
        if any(later.gtid in self.engine.state.ring.position for later in feed.to_come()):
            state = self.source.state_at(self.position.add(commit.gtid), strict=False)
            if state is not None:
                self.at_position.become(state)
                return
        commit.apply(self.at_position, feed.beside(self.at_position, commit))

    def do_replay(self, back: int) -> None:
        """A reconnect that repeats transactions."""
        self._end_change()
        self.feeds[0].back(back)

    def do_stray_ddl(self, name: str) -> None:
        """A statement that has no GTID."""
        self._on_stream(Ddl(None, "a statement", frozenset({f"{DATABASE}.{name}"})))

    def do_purge(self) -> None:
        """What the stream has not read is in no binlog any more."""
        self._lose_history("purged")

    def do_reconnect(self) -> None:
        """As the stream finds out where it is: `BinlogStream` with a new session."""
        self._end_change()
        source, position = self.source, self.position
        if not source.purged_set().issubset(position):
            self._lose_history("the source has purged binlogs that were not read yet")
        elif self.feeds[0].log is source.log:
            return
        elif not position.issubset(source.executed()):
            self._lose_history("the source has lost transactions")
        elif self.followed != source.server:
            self._lose_history("another server answers")
        else:
            self.feeds = self.feeds_behind(position)
            self.told.forget()
            self._on_stream(Restarted(position))

    def _lose_history(self, reason: str) -> None:
        """The stream starts anew behind what is executed: all that it skips is at the position."""
        self.followed = self.source.server
        position = self.source.executed()
        self.feeds = self.feeds_behind(position)
        state = self.source.state_at(position, strict=False)
        assert state is not None, "no server has what is executed"
        self.at_position.become(state)
        self._expect_reset()
        self.changing = None
        self._on_stream(Gap(reason, position))
        self.counts["gaps"] += 1

    def _expect_reset(self) -> None:
        self.checks.expected_resets += 1
        self.told.forget()

    def do_tick(self, seconds: float) -> None:
        """Time passes; the proxy looks after its fills, and whether the stream is still the right one."""
        self.clock += seconds
        self.handle(self.engine.tick())
        lag = FILL_PATIENCE if self.left else 0.0
        doubt = stream_doubt(self.engine, self.followed, lag, self._beyond)
        self._beyond = self.engine.memory.counters.get("fills_beyond_stream", 0)
        if doubt:
            self.counts["doubts"] += 1
            self.do_reconnect()
