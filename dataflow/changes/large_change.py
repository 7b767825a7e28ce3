"""A transaction that is much work: what it makes of the held keys is worked out beside them, in steps, and takes effect
in one.

While the steps are made (`steps`), the state stays at the position before the transaction, and reads are hits there.
The first change of a held key mostly becomes an edit: where in the content to put what. With the second the key gets a
draft: a copy of its content, to which the changes are applied. `publish` makes the edits and puts the drafts in the
place of the contents, which is short. So nobody sees half of a transaction.

A change costs less than an edit and what puts it in its place, and a copy costs much more. So as many changes as are a
short step are only found beforehand, with the entries that they concern, and `publish` applies them to the contents
themselves: all changes of an arrangement, or none.

A transaction may concern more keys than one short step can replace. Then the arrangements with most of them are emptied
as a whole, which is quick however many keys they hold (`dataflow/held/remains.py`), and MySQL fills them again.

Requires: from the first step on until `publish` nothing is inserted at the position. Keys may go meanwhile, and
arrangements may come or go.

Invariants:
1. An entry in `_drafts` was held when its draft or edit was made, and that has all changes of the steps so far. A held
   key that was concerned and has neither is the same after them as before.
2. Of an arrangement that has a change in `waiting` there is no draft and no edit.
3. `_count` is the number of all drafts and edits of arrangements that are not to be emptied, `_size` that of the bytes
   copied for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dataflow.changes.dispatch import TableNodes
from dataflow.entries import Draft, Entry
from dataflow.held.arrangement import Arrangement, LinearArrangement, Memory
from dataflow.held.hits import Beside, Edit, Hits
from dataflow.losses import CHANGE, LARGE
from dataflow.messages import Pair, Transaction
from dataflow.operators.answer import AnswerNode
from sqltypes.errors import EvaluationError, InvariantViolated
from sqltypes.expression import Key

COPIED_AT_ONCE = 1 << 20  # bytes of contents that one step copies, or those of one key: half a millisecond
FREED_AT_ONCE = 1 << 15  # bytes of drafts that are freed in one step: a microsecond


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much one step does.

    `large`: row changes, each counted for every arrangement on its table; a transaction of more is not applied in one
    step. `rows`: of such a transaction, looked at for one arrangement in a step. `published`: drafts and edits that are
    put in their places, 5 ms. `remembered`: rows of a large transaction that the ring keeps. Of one with more it keeps
    the tables only, and what was read before that transaction is not inserted after it: to bring an answer forward by
    so many rows would be a long step. `stale`: answers that one event makes stale one by one, of those that share an
    entry, 1 ms; where there are more, the readers forget all of theirs. `copied`: bytes of the contents that have a
    draft; what goes beyond that empties its arrangement. `in_place`: changes of held keys that have neither, each
    counted with its `LinearArrangement.effort`, 4 ms.
    """

    large: int = 1_000
    rows: int = 200
    published: int = 10_000
    remembered: int = 1_000
    stale: int = 10_000
    copied: int = 64 << 20
    in_place: int = 4_500


SIZES = Sizes()
MIXED = 2  # by so much more effort it is where some row leaves its key
DRAFTS_OF_A_CHANGE = 3  # that are put in their places in the time of a change in place


def work_of(transaction: Transaction, by_table: dict[str, TableNodes], enough: int) -> int:
    """How much work the transaction is, in the unit of `Sizes.large`; where it is more than `enough`, at least that."""
    work = 0
    for change in transaction.changes:
        nodes = by_table.get(change.table)
        if nodes is not None:
            work += len(change.pairs) * len(nodes.nodes)
            if work > enough:
                break
    return work


@dataclass(slots=True)
class Drafts:
    """Of one arrangement.

    `beside`: drafts and edits. `waiting`: changes that are to be applied in place, whose effort is `waits`; `drafting`:
    none is any more. `keys`: in evict mode, what becomes a hole. `emptied`: all keys become holes; `failed`: because a
    change cannot be evaluated.
    """

    beside: Beside = field(default_factory=Beside)
    waiting: list[Hits] = field(default_factory=list)
    waits: int = 0
    drafting: bool = False
    keys: dict[Key, None] = field(default_factory=dict)
    emptied: bool = False
    failed: bool = False


class LargeChange:
    """One transaction under way."""

    def __init__(
        self, event: Transaction, by_table: dict[str, TableNodes], memory: Memory, sizes: Sizes = SIZES
    ) -> None:
        self.event = event
        self.rows = 0  # that the steps so far have looked at
        self.outdated = False  # columns are wanted by now that its rows lack
        self._by_table = by_table
        # Those that come meanwhile hold nothing before it has taken effect, and may know its tables by other columns.
        self._nodes = {node for change in event.changes for node in by_table.get(change.table, ())}
        self._memory = memory
        self._most, self._remembered = sizes.published, sizes.remembered
        self._drafts: dict[Arrangement, Drafts] = {}
        self._largest = sizes.copied
        self._in_place = sizes.in_place
        self._count = self._size = self._waiting = 0
        self._ready = False  # all steps are made
        self.steps = self._steps(sizes.rows)

    @property
    def owns_rows(self) -> bool:
        """Whether nobody needs its rows once it has taken effect. Requires: all steps are made."""
        return self.outdated or self.rows > self._remembered

    def _steps(self, at_once: int) -> Iterator[None]:
        """Works the drafts out; each step takes less than a millisecond."""
        for change in self.event.changes:
            self.rows += len(change.pairs)
            for first in range(0, len(change.pairs), at_once):
                nodes = self._by_table.get(change.table)
                if nodes is None:
                    yield
                    break
                some = change.pairs[first : first + at_once]
                for node, hits in nodes.found(some, self._nodes):
                    yield from self._draft(node, change.table, some, hits)
                    yield
        self._ready = True

    def _draft(
        self, node: Arrangement, table: str, pairs: Sequence[Pair], hits: Hits | EvaluationError | None
    ) -> Iterator[None]:
        """Brings the drafts of an arrangement forward, by the changes of held keys."""
        if hits is None and isinstance(node, LinearArrangement):
            return
        drafts = self._drafts.setdefault(node, Drafts())
        if drafts.emptied:
            return
        if isinstance(node, AnswerNode):
            self._draft_holes(node, table, pairs, drafts)
        elif not isinstance(hits, Hits):
            self._empty(drafts, failed=True)
        elif drafts.drafting and isinstance(node, LinearArrangement):
            yield from self._draft_contents(node, hits, drafts)
        elif isinstance(node, LinearArrangement):
            effort = node.effort if hits.mixed is None else node.effort + MIXED
            drafts.waiting.append(hits)
            drafts.waits += effort * len(hits)
            self._waiting += effort * len(hits)
        while self._waiting > max(0, self._in_place - self._count // DRAFTS_OF_A_CHANGE):
            yield from self._draft_waiting(*max(self._drafts.items(), key=lambda item: item[1].waits))
        while self._count > self._most:
            self._empty(max(self._drafts.values(), key=lambda drafts: len(drafts.beside.made) + len(drafts.keys)))

    def _draft_waiting(self, node: Arrangement, drafts: Drafts) -> Iterator[None]:
        """Makes drafts of what was to be changed in place."""
        assert isinstance(node, LinearArrangement)
        waiting, drafts.waiting, drafts.drafting = drafts.waiting, [], True
        self._waiting -= drafts.waits
        drafts.waits = 0
        for hits in waiting:
            if drafts.emptied:
                return
            yield from self._draft_contents(node, hits, drafts)
            yield

    def _draft_contents(self, node: LinearArrangement, hits: Hits, drafts: Drafts) -> Iterator[None]:
        """Requires: it is not emptied."""
        some = len(hits)
        if some > 1 and hits.size > COPIED_AT_ONCE:
            yield from self._draft_contents(node, hits.part(0, some // 2), drafts)
            yield
            if not drafts.emptied:
                yield from self._draft_contents(node, hits.part(some // 2, some), drafts)
            return
        beside = drafts.beside
        count, size = len(beside.made), beside.size
        self._memory.applied += some
        node.change_all(hits, beside)
        self._count += len(beside.made) - count
        self._size += beside.size - size
        if self._size > self._largest:
            self._empty(drafts)

    def _draft_holes(self, node: AnswerNode, table: str, pairs: Sequence[Pair], drafts: Drafts) -> None:
        try:
            concerned = node.concerned(table, pairs)
        except EvaluationError:
            self._empty(drafts, failed=True)
            return
        if concerned is None:
            self._empty(drafts)
            return
        before = len(drafts.keys)
        drafts.keys.update(dict.fromkeys(concerned))
        self._count += len(drafts.keys) - before

    def _empty(self, drafts: Drafts, *, failed: bool = False) -> None:
        self._count -= len(drafts.beside.made) + len(drafts.keys)
        self._size -= drafts.beside.size
        self._waiting -= drafts.waits
        self._memory.remains.add_steps(_few_by_few(drafts.beside.made))
        drafts.beside, drafts.waiting, drafts.waits, drafts.keys = Beside(), [], 0, {}
        drafts.emptied, drafts.failed = True, failed

    def publish(self) -> None:
        """The transaction takes effect. Requires: `memory.sequence` has risen since. Raises InvariantViolated where not
        all steps are made: one of them has failed."""
        if not self._ready:
            raise InvariantViolated("a large transaction is not worked out to its end")
        for node, drafts in self._drafts.items():
            table = next(change.table for change in self.event.changes if change.table in node.tables)
            self._memory.because = LARGE if drafts.emptied else CHANGE, table
            if drafts.failed:
                node.cannot_evaluate()
            elif drafts.emptied:
                self._memory.count("emptied_by_large_change")
                node.let_go()
            elif isinstance(node, AnswerNode):
                node.let_go_of(drafts.keys)
            elif isinstance(node, LinearArrangement):
                for hits in drafts.waiting:
                    node.change_all(hits)
                    self._memory.applied += len(hits)
                node.publish(drafts.beside.made)

    def leave(self) -> None:
        """Nothing of it is needed any more. Its rows and drafts are freed a little at a time."""
        self.steps = iter(())
        remains = self._memory.remains
        for drafts in self._drafts.values():
            remains.add_steps(_few_by_few(drafts.beside.made))
        if self.owns_rows:
            remains.add_steps(_rows_one_by_one(self.event))
        self._drafts = {}


def _rows_one_by_one(event: Transaction) -> Iterator[None]:
    """Takes them out of their lists."""
    for change in event.changes:
        while change.pairs:
            change.pairs.pop()
            yield
        yield


def _few_by_few(items: dict[Entry, Draft | Edit]) -> Iterator[None]:
    """Takes them out, so that a large content is freed for itself, and small ones a few at a time."""
    drafts = [item for item in items.values() if isinstance(item, Draft)]
    items.clear()
    left = FREED_AT_ONCE
    while drafts:
        left -= 1 + drafts.pop().size
        if left < 0:
            left = FREED_AT_ONCE
            yield
