"""A keyspace whose shards have histories, and what vtgate makes of them: each VStream gets what is behind the position
that it asks for, cut into responses as a random generator says, with what may go wrong between.

And a sink that replays what a stream gives: each transaction exactly once, in its shard's order.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import grpc

from dataflow.messages import Ddl, Gap, Progress, StreamEvent, Transaction
from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.expression import Row
from tests.support import vitess_events as made
from tests.support.scripted_vtgate import END, Abort, Step, asked
from tests.support.vitess_events import HEARTBEAT, SERVERS, Values, response
from vstream import vitess_pb2 as pb

SHARD_OF = {server: shard for shard, server in SERVERS.items()}
BREAKS = (
    Abort(grpc.StatusCode.UNAVAILABLE, "a tablet is not healthy"),
    Abort(grpc.StatusCode.CANCELLED, "context canceled"),
    Abort(grpc.StatusCode.DEADLINE_EXCEEDED, "deadline"),
    Abort(grpc.StatusCode.ABORTED, "unexpected server EOF while parsing events"),
    Abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "out of something"),
    END,
)
PURGED = "Cannot replicate because the source purged required binary logs. (errno 1236) (sqlstate HY000)"
Contents = dict[str, dict[int, Row]]  # rows by table and key


@dataclass
class Group:
    """One transaction of a shard, the `number`th. `untold`: its COMMIT comes without a position."""

    number: int
    changes: list[tuple[str, Row | None, Row | None]] = field(default_factory=list)
    statement: str = ""  # it is DDL
    untold: bool = False
    journal: tuple[tuple[str, ...], Mapping[str, int]] | None = None


@dataclass
class ModelShard:
    """`contents[n]`: its rows behind the `n`th transaction, from `start` on, where it is empty."""

    name: str
    start: int = 9
    groups: dict[int, Group] = field(default_factory=dict)
    contents: dict[int, Contents] = field(default_factory=dict)
    purged: int = 0  # the binlogs up to there are gone

    def __post_init__(self) -> None:
        self.contents.setdefault(self.start, {"t": {}, "u": {}})

    @property
    def latest(self) -> int:
        return self.start + len(self.groups)

    @property
    def now(self) -> Contents:
        return self.contents[self.latest]

    def add(self, changes: Sequence[tuple[str, Row | None, Row | None]] = (), **others: object) -> Group:
        """Commits it."""
        after = {table: dict(rows) for table, rows in self.now.items()}
        for table, before, row in changes:
            if before is not None:
                assert after[table].pop(int(str(before[0]))) == before
            if row is not None:
                after[table][int(str(row[0]))] = row
        group = Group(self.latest + 1, list(changes), **others)  # type: ignore[arg-type]
        self.groups[group.number] = group
        self.contents[group.number] = after
        return group


class ModelKeyspace:
    """`breaks`: how often a stream may still be broken off."""

    def __init__(self, rng: random.Random, shards: Iterable[str] = (made.LEFT, made.RIGHT), breaks: int = 0) -> None:
        self.rng = rng
        self.shards = {name: ModelShard(name) for name in shards}
        self.breaks = breaks
        # So many streams end when some shards have told where they are, or have come to their journals, and some not.
        self.cut_while_telling = self.cut_at_journals = 0
        self.serving = list(self.shards)
        self.counted: dict[str, int] = {}  # what went wrong
        self._changed = asyncio.Event()

    @property
    def latest(self) -> dict[str, int]:
        return {name: self.shards[name].latest for name in self.serving}

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, shard: str) -> None:
        """A random transaction."""
        rng, one = self.rng, self.shards[shard]
        now = {table: dict(rows) for table, rows in one.now.items()}
        changes: list[tuple[str, Row | None, Row | None]] = []
        for _ in range(rng.choice((0, 1, 1, 2, 5, 20))):
            table, key = rng.choice(("t", "t", "u")), rng.randrange(12)
            before = now[table].get(key)
            after: Row | None = (key, rng.choice((None, "é", "x" * rng.randrange(20))), rng.choice((None, -5, 7)))
            if before is not None and rng.random() < 0.4:
                after = None
            changes.append((table, before, after))
            if after is None:
                del now[table][key]
            else:
                now[table][key] = after
        one.add(changes, untold=rng.random() < 0.1)
        self.changed()

    def changed(self) -> None:
        """Whoever streams looks for what is new."""
        told, self._changed = self._changed, asyncio.Event()
        told.set()

    def reshard(self, old: Sequence[str], new: Sequence[str]) -> None:
        """The rows of the old shards are those of the new ones from now on."""
        rows: Contents = {"t": {}, "u": {}}
        for name in old:
            for table, held in self.shards[name].now.items():
                base = 1000 * list(SERVERS).index(name)
                rows[table] |= {base + key: (base + key, *row[1:]) for key, row in held.items()}
        for number, name in enumerate(new):
            self.shards[name] = one = ModelShard(name, start=3)
            one.contents[3] = {
                table: {key: row for key, row in held.items() if key % len(new) == number}
                for table, held in rows.items()
            }
        for name in old:
            self.shards[name].add(journal=(tuple(old), dict.fromkeys(new, 3)))
        self.cut_at_journals = 2
        self.serving = [name for name in self.serving if name not in old] + list(new)
        self.changed()

    # -- streaming ----------------------------------------------------------------------------------------------------

    async def answer(self, request: pb.VStreamRequest) -> AsyncIterator[Step]:
        at = self._asked(request)
        if any(number != "current" and int(number) < self.shards[name].purged for name, number in at.items()):
            yield Abort(grpc.StatusCode.UNKNOWN, PURGED)
        fields: set[tuple[str, str]] = set()
        waiting: set[str] = set()
        while True:
            changed = self._changed
            behind = [name for name, number in at.items() if name not in waiting and self._is_behind(name, number)]
            if not behind:
                yield response(HEARTBEAT)
                await changed.wait()
                continue
            name = self.rng.choice(behind)
            number = at[name]
            if number == "current":
                if self.cut_while_telling and request.flags.heartbeat_interval and set(at.values()) != {"current"}:
                    self.cut_while_telling -= 1
                    yield END
                at[name] = latest = self.shards[name].latest
                yield response(*made.told_where(name, latest, at))
                continue
            group = self.shards[name].groups[int(number) + 1]
            at[name] = group.number
            async for step in self._sent(name, group, fields, at):
                yield step
                if step is None:
                    return
            if group.journal is not None:
                old, new = group.journal
                if not set(old) <= at.keys():
                    yield Abort(grpc.StatusCode.INTERNAL, "not all journaling participants are in the stream")
                waiting.add(name)
                if not waiting >= set(old) and self.cut_at_journals and request.flags.heartbeat_interval:
                    self.cut_at_journals -= 1
                    yield END
                if waiting >= set(old):
                    at = {one: number for one, number in at.items() if one not in old} | dict(new)
                    waiting -= set(old)

    def _asked(self, request: pb.VStreamRequest) -> dict[str, int | str]:
        """The last transaction that the client has, of each shard."""
        where = asked(request)
        if set(where) == {""}:
            return dict.fromkeys(self.serving, "current")
        last: dict[str, int | str] = {}
        for name, told in where.items():
            (bounds,) = GtidSet.parse(told.removeprefix("MySQL56/")).intervals.values()
            last[name] = bounds[-1] - 1
        return last

    def _is_behind(self, name: str, number: str | int) -> bool:
        return number == "current" or int(number) < self.shards[name].latest

    async def _sent(
        self, name: str, group: Group, fields: set[tuple[str, str]], at: Mapping[str, str | int]
    ) -> AsyncIterator[Step]:
        """The transaction's responses, or the call's end."""
        events = self._events(name, group, fields, at)
        rng = self.rng
        if group.journal is None and len(events) > 2 and rng.random() < 0.1:  # the tablet was changed meanwhile
            self._count("begun anew")
            cut = rng.randrange(1, len(events) - 1)
            for step in self._cut(events[:cut]):
                yield step
            fields -= {one for one in fields if one[0] == name}
            events = self._events(name, group, fields, at)
        if self.breaks and rng.random() < 0.15:
            self.breaks -= 1
            for step in self._cut(events[: rng.randrange(len(events))]):
                yield step
            broken = rng.choice(BREAKS)
            self._count(broken.code.name if broken is not END else "EOF")
            yield broken
            return
        for step in self._cut(events):
            yield step

    def _cut(self, events: Sequence[pb.VEvent]) -> list[Step]:
        """Into responses, with heartbeats between."""
        rng, found, some = self.rng, list[Step](), list[pb.VEvent]()
        for one in events:
            some.append(one)
            if rng.random() < 0.2:
                found.append(response(*some))
                some = []
                if rng.random() < 0.2:
                    found.append(response(HEARTBEAT))
        return [*found, response(*some)] if some else found

    def _count(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def _events(
        self, name: str, group: Group, fields: set[tuple[str, str]], at: Mapping[str, str | int]
    ) -> list[pb.VEvent]:
        if group.statement:
            return made.ddl(group.number, group.statement, name, at)
        if group.journal is not None:
            return made.journal(group.number, name, *group.journal, at)
        inside = []
        for table, before, after in group.changes:
            if (name, table) not in fields:
                fields.add((name, table))
                inside.append(made.field_event(shard=name, table=table))
            inside.append(made.row(_text(before), _text(after), name, group.number, table))
        events = made.committed(group.number, *inside, shard=name, others=at)
        return [one for one in events if one.type != pb.VGTID] if group.untold else events


def _text(row: Row | None) -> Values | None:
    return None if row is None else tuple(None if value is None else str(value) for value in row)


class Replayed:
    """A sink. `applied`: of each shard, the last transaction that it was given; `gaps`, `emptied`: what was told. What
    it finds wrong is raised where it is asked for."""

    def __init__(self, model: ModelKeyspace, gaps: int = 0) -> None:
        """`gaps`: so many must be told."""
        self.model = model
        self.expected = gaps
        self.failed: AssertionError | None = None
        self.applied: dict[str, int] = {}
        self.rows: dict[str, Contents] = {}
        self.given = 0  # transactions with rows
        self.wanted: dict[str, frozenset[int]] = {}  # which columns, where not all are
        self.gaps: list[Gap] = []
        self.emptied: list[Ddl] = []

    def begin(self, position: GtidSet) -> None:
        """Everything is read anew there, as the shards were then."""
        self.applied = {}
        for server, bounds in position.intervals.items():
            assert bounds[0] == 1 and len(bounds) == 2, position
            self.applied[SHARD_OF[server]] = bounds[1] - 1
        for shard in self.applied:
            self._read(shard, ("t", "u"))

    def _read(self, shard: str, tables: Iterable[str]) -> None:
        then = self.model.shards[shard].contents[self.applied[shard]]
        self.rows.setdefault(shard, {}).update({table: self._seen(table, then) for table in tables})

    def _seen(self, table: str, contents: Contents) -> dict[int, Row]:
        """Its rows, as they are given of the columns that are wanted."""
        wanted = self.wanted.get(table)
        if wanted is None:
            return dict(contents[table])
        return {
            key: tuple(value if at in wanted else None for at, value in enumerate(row))
            for key, row in contents[table].items()
        }

    def want(self, table: str, columns: frozenset[int]) -> None:
        """Others than before: they are read anew."""
        self.wanted[table] = columns
        for shard in self.applied:
            self._read(shard, (table,))

    def _advance(self, gtid: Gtid | None) -> str:
        assert gtid is not None
        shard = SHARD_OF[gtid[0]]
        assert gtid[1] == self.applied[shard] + 1, f"{gtid} behind {self.applied}"
        self.applied[shard] = gtid[1]
        return shard

    def __call__(self, event: StreamEvent) -> None:
        try:
            if self.failed is None:
                self._take(event)
        except AssertionError as error:
            self.failed = error

    def _take(self, event: StreamEvent) -> None:
        if isinstance(event, Gap):
            self.gaps.append(event)
            assert len(self.gaps) <= self.expected, [gap.reason for gap in self.gaps]
            self.begin(event.position)
        elif isinstance(event, Progress):
            self._advance(event.gtid)
        elif isinstance(event, Ddl):
            self.emptied.append(event)
            self._advance(event.gtid)
            for shard in self.applied:
                tables = {name.removeprefix("shop.") for name in event.tables or ("shop.t", "shop.u")}
                self._read(shard, tables & {"t", "u"})
        elif isinstance(event, Transaction):
            self.given += 1
            shard = self._advance(event.gtid)
            for change in event.changes:
                held = self.rows[shard][change.table.removeprefix("shop.")]
                for before, after in change.pairs:
                    if before is not None:
                        assert held.pop(int(str(before[0]))) == before, event
                    if after is not None:
                        assert int(str(after[0])) not in held, event
                        held[int(str(after[0]))] = after

    @property
    def is_up_to_date(self) -> bool:
        if self.failed is not None:
            raise self.failed
        return self.applied == self.model.latest

    def check(self) -> None:
        """What it has replayed is what the shards have."""
        assert self.is_up_to_date, (self.applied, self.model.latest)
        assert len(self.gaps) == self.expected, [gap.reason for gap in self.gaps]
        for shard in self.applied:
            now = self.model.shards[shard].now
            assert self.rows[shard] == {table: self._seen(table, now) for table in now}, shard
