"""A table's changes to the arrangements on it.

Most changes concern few keys that are held, so what counts is how fast a hole is found: for each arrangement one
dictionary lookup an image, no call into it. Arrangements with the same key and the same filter share what locates a
row.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from operator import itemgetter

from dataflow.entries import Entry
from dataflow.held.arrangement import NOWHERE, Arrangement, LinearArrangement, Locate
from dataflow.held.hits import Hits, Images, hits_of
from dataflow.messages import Pair
from sqltypes.errors import EvaluationError
from sqltypes.expression import Key, Row

MANY = 8  # changes of a table in one transaction from which they are taken together
# An arrangement, the position of the column whose value is its key (if that is how it is located), and `entries.get`.
Place = tuple[LinearArrangement, int, Callable[[Key], Entry | None]]


class TableNodes:
    """The arrangements on one base table.

    Invariants: 1. Each of `nodes` is in exactly one of `_direct` (its key is the value of one column), `_located` (by
    what locates a row) and `_others`.
    """

    def __init__(self) -> None:
        self.nodes: dict[Arrangement, None] = {}
        self._direct: dict[Arrangement, Place] = {}
        self._located: dict[object, tuple[Locate, list[Place]]] = {}
        self._others: list[Arrangement] = []

    def add(self, node: Arrangement) -> None:
        self.nodes[node] = None
        if not isinstance(node, LinearArrangement):
            self._others.append(node)
            return
        place = (node, node.key_column or 0, node.entries.get)
        if node.key_column is not None:
            self._direct[node] = place
        else:
            self._located.setdefault(node.located_by, (node.locate, []))[1].append(place)

    def remove(self, node: Arrangement) -> None:
        del self.nodes[node]
        if not isinstance(node, LinearArrangement):
            self._others.remove(node)
        elif node.key_column is not None:
            del self._direct[node]
        else:
            locate, places = self._located.pop(node.located_by)
            rest = [place for place in places if place[0] is not node]
            if rest:
                self._located[node.located_by] = locate, rest

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def __iter__(self) -> Iterator[Arrangement]:
        return iter(self.nodes)

    def process(self, table: str, pairs: Sequence[Pair]) -> None:
        """Applies a transaction's changes of the table to all held entries. Where one cannot be evaluated, what it
        concerns is dropped, or all entries of the arrangement where that is not known."""
        if len(pairs) >= MANY:
            self._process_many(pairs)
        else:
            for before, after in pairs if self._direct else ():
                image = after if after is not None else before
                assert image is not None
                was = before if after is not None else None  # of an update, which may move the row to another key
                for node, at, get in self._direct.values():
                    key = image[at]
                    old = new = get(key)
                    if was is not None and was[at] != key:
                        old = get(was[at])
                    if old is not None or new is not None:
                        node.memory.applied += 1
                        _change(node, before, after, None if before is None else old, None if after is None else new)
            for locate, places in self._located.values():
                _process_located(locate, places, pairs)
        for other in self._others:
            try:
                other.apply(table, pairs, other.entries)
            except EvaluationError:
                other.cannot_evaluate()

    def _process_many(self, pairs: Sequence[Pair]) -> None:
        for node, hits in self.found(pairs, self.nodes):
            if isinstance(hits, EvaluationError):
                node.cannot_evaluate()
            elif hits is not None and isinstance(node, LinearArrangement):
                node.change_all(hits)
                node.memory.applied += len(hits)

    def found(
        self, pairs: Sequence[Pair], among: Container[Arrangement]
    ) -> Iterator[tuple[Arrangement, Hits | EvaluationError | None]]:
        """The arrangements that are `among` these, each with the changes that concern what it holds now: None where
        there are none, an error where that cannot be evaluated. Of arrangements that find their keys themselves, None.
        They are those of the first step."""
        direct = [place for place in self._direct.values() if place[0] in among]
        located = [
            (locate, found)
            for locate, places in self._located.values()
            if (found := [place for place in places if place[0] in among])
        ]
        others = [other for other in self._others if other in among]
        images = Images(pairs)
        columns: dict[int, _Keys] = {}
        for node, at, get in direct:
            if node.entries and at not in columns:
                columns[at] = _keys(itemgetter(at), images)
            yield node, hits_of(get, *columns[at], images) if node.entries else None
        for locate, places in located:
            try:
                keys = _keys(locate, images)
            except EvaluationError as error:
                yield from ((node, error) for node, _, _ in places)
                continue
            for node, _, get in places:
                yield node, hits_of(get, *keys, images) if node.entries else None
        for other in others:
            yield other, None


_Keys = tuple[list[Key] | None, list[Key] | None]


def _keys(locate: Locate, images: Images) -> _Keys:
    """The keys of the images before, and of those after; None where no change has one."""
    return _keys_of(locate, images.before, images.missing), _keys_of(locate, images.after, images.missing)


def _keys_of(locate: Locate, rows: Sequence[Row | None] | None, missing: bool) -> list[Key] | None:
    if rows is None:
        return None
    if missing:
        return [NOWHERE if row is None else locate(row) for row in rows]
    return list(map(locate, rows))  # type: ignore[arg-type]  # none is missing


def _process_located(locate: Locate, places: Sequence[Place], pairs: Sequence[Pair]) -> None:
    """The changes for arrangements that share what locates a row."""
    applied = 0
    for before, after in pairs:
        try:
            leaves = locate(before) if before is not None else NOWHERE
            enters = locate(after) if after is not None else NOWHERE
        except EvaluationError:
            for node, _, _ in places:
                node.cannot_evaluate()
            continue
        for node, _, get in places:
            old, new = get(leaves), get(enters)
            if old is not None or new is not None:
                applied += 1
                _change(node, before, after, old, new)
    if applied:
        places[0][0].memory.applied += applied


def _change(
    node: LinearArrangement, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
) -> None:
    try:
        node.change(node.entries, before, after, old, new)
    except EvaluationError:
        node.fail_evaluation(node.entries, old, new)
