"""Which of a reader's keys have the answer of another key: queries by moments ask for another key each time.

Evict mode is told by MySQL how far an answer reaches (`dataflow/operators/standing.py`). Where rows are held, they are
looked at.

Invariants:
1. `lately` has MOST_LATELY keys at most. Each is the parameters that it leads to, without those by which rows are
   compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from dataflow.operators.answer import AnswerNode
from dataflow.operators.standing import is_not_later
from dataflow.readers.derivation import Params, ReaderProgram
from sqltypes.expression import Row

if TYPE_CHECKING:
    from dataflow.readers.reader import ReaderNode

MOST_LATELY = 10_000


class Alike:
    """Of one reader, which it does not hold."""

    def __init__(self, program: ReaderProgram) -> None:
        self._program = program
        self.lately: dict[Params, Params] = {}  # by the other parameters those that `between` told last

    @property
    def stands(self) -> bool:
        """Whether answers may stand for other keys."""
        root = self._program.root
        return isinstance(root, AnswerNode) and bool(root.crossings)

    def standing(self, params: Params) -> Params | None:
        """The parameters of a key that is held at the position, whose answer is that of these, too; None where they
        have their own, or there is none."""
        root = self._program.root
        if not isinstance(root, AnswerNode) or not root.crossings:
            return None
        key = self._program.root_key(params)
        return None if key in root.entries else root.standing(key, self._program.root_values(params))

    def tells_between(self, places: Iterable[int]) -> bool:
        """Whether `between` may tell anything where the parameters at these places differ."""
        root = self._program.root
        if isinstance(root, AnswerNode):
            return root.crosses(places)
        return all(at in self._program.compared for at in places)

    def between(self, reader: ReaderNode, first: Params, last: Params) -> Params | None:
        """Parameters whose answer, at the position, is that of all that are between these two, which differ in moments;
        None where that is not known. `reader`: that of which this is. Raises TooLong."""
        program, root = self._program, self._program.root
        differing = [at for at, (one, other) in enumerate(zip(first, last, strict=True)) if one != other]
        if isinstance(root, AnswerNode):
            reached = root.reached(program.root_key(first), program.root_values(first), program.root_values(last))
            return first if reached and root.crossings else None
        if not self.tells_between(differing) or not all(is_not_later(first[at], last[at]) for at in differing):
            return None
        rest = tuple([None if at in differing else value for at, value in enumerate(first)])
        before = self.lately.get(rest)
        if before is not None and not all(is_not_later(before[at], first[at]) for at in differing):
            before = None
        found = reader.derive(before or first, reader.held_levels, reader.memory.most_rows, last)
        if found.holes:
            return None
        rows, compared = list(found.rows), [program.compared[at] for at in differing]
        if before is not None and _are_alike(rows, compared, before, last):
            return before
        if not _are_alike(rows, compared, first, last):
            return None
        if len(self.lately) >= MOST_LATELY:
            self.lately.clear()
        self.lately[rest] = first
        return first

    def check_invariants(self) -> None:
        """Raises AssertionError where one does not hold."""
        assert len(self.lately) <= MOST_LATELY
        for rest, params in self.lately.items():
            alike = all(value is None or value == own for value, own in zip(rest, params, strict=True))
            assert alike, f"{params!r} are not of {rest!r}"


def _are_alike(
    rows: Sequence[Row], compared: Sequence[Callable[[Row, Params], bool]], first: Params, last: Params
) -> bool:
    """Whether each comparison says the same of each row at both ends, and so everywhere between them."""
    return all(by(row, first) == by(row, last) for by in compared for row in rows)
