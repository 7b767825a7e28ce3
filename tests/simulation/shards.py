"""The model source of several shards: each is a server that commits by itself and has GTIDs of its own.

A row is of a group, by its primary key; so are the values of the column that its table is sharded by, and the two
agree. A shard has the rows of some groups. So a key of such a column is of one shard, and no row moves but in a
reshard, in which other servers take over. A transaction that changes rows of several shards is one of each, and these
know nothing of each other.

One column has a lookup: a table of another place, which no stream tells of, has its value of each row. A row stands
there once the next transaction begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gtid_tracker.bracket import history_of
from gtid_tracker.gtid import GtidSet
from sqltypes.expression import Row
from tests.simulation.queries import Parameters
from tests.simulation.source import Change, Commit, ModelSource, Number
from tests.simulation.sql_side import DATABASE, TABLES, Rows, State

Groups = tuple[int, ...]
Partition = tuple[Groups, ...]  # which groups are on a shard together
SHARDED_BY = {"a": 1, "b": 1, "n": 2}  # the place of the column, by table
LOOKED_UP = re.compile(r"FROM `sim`\.`a` WHERE `j` (?:=|IN \(\d)")  # by the column in that place
LOOKUP_AT = 2
# Queries whose answer follows from the rows of one shard: by which parameters it is told which. Those of primary keys
# and of the columns that tables are sharded by; joins only where both sides are of one group.
DECIDING: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(["rows", "by_id", "left_rows", "value_of", "right_rows", "two_parts", "range", "distinct"], (0,)),
    **dict.fromkeys(["total", "groups", "averages", "having", "having_parameter", "derived_table"], (0,)),
    **dict.fromkeys(["in_list", "in_groups", "in_count", "count_by_key", "not_exists"], (0,)),
    **dict.fromkeys(["top_of_key", "top_behind", "top_of_list", "top_as_asked"], (0,)),
    **dict.fromkeys(["names_groups", "names_least", "names_distinct"], (0,)),
    **dict.fromkeys(["union", "lists_in_union"], (0, 1)),
}


def no_rows() -> Rows:
    return {name: {} for name in TABLES}


def together(parts: Iterable[Rows]) -> Rows:
    """The rows of several shards, of which no two have one in common."""
    found: Rows = no_rows()
    for part in parts:
        for name, rows in part.items():
            found[name].update(rows)
    return found


def union(sets: Iterable[GtidSet]) -> GtidSet:
    found = GtidSet.empty()
    for each in sets:
        found = found.union(each)
    return found


def groups_asked(name: str, parameters: Parameters, groups: int) -> frozenset[int] | None:
    """The groups that may have rows of an answer; None: any."""
    found: set[int] = set()
    for at in DECIDING.get(name, ()):
        values = parameters[at] if isinstance(parameters[at], tuple) else (parameters[at],)
        assert isinstance(values, tuple)
        for value in values:
            if not isinstance(value, int):
                return None
            found.add(value % groups)
    return frozenset(found) or None


@dataclass(eq=False, slots=True)
class Shard:
    """`start`: what it had executed when it came to be, and `rows`. Another that has the same groups later has another
    name."""

    name: str
    groups: frozenset[int]
    server: ModelSource
    start: GtidSet
    rows: Rows


class ShardedSource:
    """The shards that answer now, in order; `followed` are those that the stream follows. `lookup`: what the column
    that has one was in each row, when the lookup was last written."""

    server = history_of(DATABASE)
    log: Sequence[Commit] = ()  # there is none of all

    def __init__(self, rows: Rows, ordered: bool, partition: Partition) -> None:
        self.groups = sum(map(len, partition))
        self.incarnation = 1
        self._ordered = ordered
        self._places = 0
        self._scratch = State()
        self.made: list[Shard] = []
        self.shards: list[Shard] = []
        self._take_over(rows, partition)
        self.followed = list(self.shards)
        self.lookup: dict[int, object] = {}
        self.write_lookup()

    def write_lookup(self) -> None:
        """Now it has the rows that are seen."""
        self.lookup = {number: row[LOOKUP_AT] for number, row in self.seen()[0]["a"].items()}

    def looked_up(self, rows: Rows) -> Rows:
        """What of these rows is found where the lookup says in which places a value is to be sought."""
        found = {number: row for number, row in rows["a"].items() if self.lookup.get(number) == row[LOOKUP_AT]}
        return {**rows, "a": found}

    def _take_over(self, rows: Rows, partition: Partition) -> None:
        """New shards have these rows. Others stay."""
        for groups in partition:
            self._places += 1
            own = self.rows_of(rows, groups)
            server = ModelSource(own, self._ordered, self._places)
            server.execute_unseen()  # as who has copied the rows has done
            name = f"{'-'.join(map(str, groups))}.{self._places}"
            self.shards.append(Shard(name, frozenset(groups), server, server.executed(), own))
            self.made.append(self.shards[-1])
        self.shards.sort(key=lambda shard: min(shard.groups))

    def rows_of(self, rows: Mapping[str, Mapping[int, Row]], groups: Iterable[int]) -> Rows:
        wanted = set(groups)
        return {
            name: {number: row for number, row in held.items() if number % self.groups in wanted}
            for name, held in rows.items()
        }

    def close(self) -> None:
        self._scratch.close()
        for shard in self.made:
            shard.server.close()

    # -- what all of it has --------------------------------------------------------------------------------------------

    def executed(self) -> GtidSet:
        return union(shard.server.executed() for shard in self.shards)

    def owned(self) -> GtidSet:
        return union(shard.server.owned() for shard in self.shards)

    def purged_set(self) -> GtidSet:
        return union(shard.server.purged_set() for shard in self.followed)

    def seen(self) -> tuple[Rows, GtidSet]:
        return self.snapshot(range(self.groups))

    def snapshot(self, groups: Iterable[int]) -> tuple[Rows, GtidSet]:
        """What is seen of these groups now, wherever they are, and the transactions."""
        wanted = frozenset(groups)
        seen = [shard.server.seen() for shard in self.shards if shard.groups & wanted]
        return self.rows_of(together(rows for rows, _ in seen), wanted), union(gtids for _, gtids in seen)

    @property
    def visible(self) -> State:
        self._scratch.become(self.seen()[0])
        return self._scratch

    @property
    def latest(self) -> Rows:
        return together(shard.server.latest for shard in self.shards)

    @property
    def live(self) -> Mapping[tuple[int, int], Commit]:
        """By number and place of the shard."""
        return {
            (number, at): commit for at, shard in enumerate(self.shards) for number, commit in shard.server.live.items()
        }

    @property
    def exclusive(self) -> bool:
        return any(shard.server.exclusive for shard in self.shards)

    def lockable(self, tables: Iterable[str]) -> bool:
        return False

    def other_views(self, position: GtidSet) -> bool:
        return False

    def state_at(self, position: GtidSet, strict: bool = True) -> Rows | None:
        """As of one server, for those that are followed."""
        states = [shard.server.state_at(position, strict) for shard in self.followed]
        return None if None in states else together(state for state in states if state is not None)

    # -- progress ------------------------------------------------------------------------------------------------------

    def begin(self, number: int, kind: str, changes: Sequence[Change]) -> None:
        """One transaction of each shard that has any of the rows."""
        self.write_lookup()
        for at, shard in enumerate(self.shards):
            own = tuple(change for change in changes if change[1] % self.groups in shard.groups)
            if own or (not changes and at == number % len(self.shards)):
                shard.server.begin(number, kind, own)

    def begin_ddl(self, number: int, name: str, rows: Sequence[Row], named: bool) -> None:
        """Each shard comes there when it does."""
        for shard in self.shards:
            own = tuple(row for row in rows if isinstance(row[0], int) and row[0] % self.groups in shard.groups)
            shard.server.begin_ddl(number, name, own, named)

    def advance(self, number: Number) -> None:
        """One moment of a transaction, on all shards or on one."""
        if isinstance(number, int):
            for shard in self.shards:
                shard.server.advance(number)
        elif number[1] < len(self.shards):
            self.shards[number[1]].server.advance(number[0])

    def execute_unseen(self) -> None:
        self.shards[0].server.execute_unseen()

    def reshard(self, partition: Partition) -> list[Shard]:
        """Other shards take over from some; those that are the same in both stay. What is under way there is rolled
        back, or was in the binlog. Returns those that are no more."""
        wanted = {frozenset(groups): groups for groups in partition}
        gone = [shard for shard in self.shards if shard.groups not in wanted]
        for shard in gone:
            shard.server.fail_over(0, True)
        rows = together(shard.server.visible.rows for shard in gone)
        self.shards = [shard for shard in self.shards if shard not in gone]
        kept = {shard.groups for shard in self.shards}
        self._take_over(rows, tuple(groups for have, groups in wanted.items() if have not in kept))
        if gone:
            self.incarnation += 1
        return gone

    def as_it_is(self) -> bool:
        """Does the stream follow the shards that answer?"""
        return self.followed == self.shards
