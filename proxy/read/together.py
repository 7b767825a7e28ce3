"""Answers of several keys that are sorted, counted or cut together, kept as long as none of the keys has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.reader import ReaderNode
from sqltypes.expression import Key

Keys: TypeAlias = Sequence[tuple[Key, Params]]
MOST_ANSWERS, MOST_TOGETHER, LONGEST = 64, 100, 16_384
"""Of one cache in one wire format: a MiB at most. They are not part of what its keys take."""


class Together:
    """Of one cache in one wire format. An answer is found by its keys, and is the answer while each of them has the
    version (`Held`) that it was made of.

    It is kept when it is asked for a second time: most lists are asked for once.
    """

    __slots__ = ("_answers", "_format")

    def __init__(self, format_: int) -> None:
        self._format = format_
        self._answers: dict[tuple[tuple[Key, Params], ...], tuple[list[int], object, bytes] | None] = {}

    def find(self, reader: ReaderNode, keys: Keys) -> bytes | None:
        """The rows, encoded, if they are kept and are the answer still. The keys are visited then."""
        kept = self._answers.get(tuple(keys))
        if kept is None or kept[1] is not reader.encoders[self._format]:
            return None
        entry = reader.entries.get
        for (key, _), version in zip(keys, kept[0], strict=True):
            held = entry(key)
            if held is None or held.version != version:
                return None
            held.visited = True
        return kept[2]

    def keep(self, reader: ReaderNode, keys: Keys, body: bytes) -> None:
        """They have just been derived. Requires: nothing has changed since, and they need not be compared."""
        if len(body) > LONGEST or len(keys) > MOST_TOGETHER:
            return
        answers, place = self._answers, tuple(keys)
        if place not in answers:
            if len(answers) >= MOST_ANSWERS:
                del answers[next(iter(answers))]
            answers[place] = None
            return
        versions: list[int] = []
        for key, params in keys:
            held = reader.entries.get(key)
            try:
                if held is None or (held.version is None and not reader.link(held, params)):
                    return
            except TooLong:
                return
            assert held.version is not None
            versions.append(held.version)
        answers[place] = versions, reader.encoders[self._format], body

    def check_invariants(self, reader: ReaderNode) -> None:
        """What stands is what would be derived now."""
        assert len(self._answers) <= MOST_ANSWERS
        for keys in self._answers:
            if (body := self.find(reader, keys)) is not None:
                rows = reader.answer(keys)
                assert rows is not None and reader.encoders[self._format](rows) == body, f"{keys!r} have changed"
