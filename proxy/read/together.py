"""Answers of several keys that are sorted, counted or cut together, kept as long as none of the keys has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from dataflow.entries import bytes_of
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.reader import ReaderNode
from sqltypes.expression import Key

Keys: TypeAlias = Sequence[tuple[Key, Params]]
MOST_ANSWERS, MOST_TOGETHER, LONGEST = 64, 100, 16_384
"""Of one cache in one wire format, of one answer, and bytes of that with its keys: a MiB at most."""
MOST_ASKED = 1_000


class Several:
    """The answer of several keys: rows, encoded by `encoder` when the keys had these versions (`Held.version`). It
    stands in the place of a key. `keys` is empty where it was let go."""

    __slots__ = ("body", "encoder", "keys", "versions")

    def __init__(self, keys: Keys, versions: list[int], encoder: object, body: bytes) -> None:
        self.keys = keys
        self.versions = versions
        self.encoder = encoder
        self.body = body

    def find(self, reader: ReaderNode, format_: int) -> bytes | None:
        """The rows, if they are the answer still. The keys are visited then."""
        if self.encoder is not reader.encodings.encoders[format_] or not self.keys:
            return None
        entry = reader.entries.get
        for (key, _), version in zip(self.keys, self.versions, strict=True):
            held = entry(key)
            if held is None or held.version != version:
                return None
            held.visited = True
        return self.body

    def let_go(self) -> None:
        self.keys, self.versions, self.body = (), [], b""


class Together:
    """Of one cache in one wire format. An answer is kept when it is asked for a second time: most lists are asked for
    once."""

    __slots__ = ("_answers", "_asked", "_format")

    def __init__(self, format_: int) -> None:
        self._format = format_
        self._answers: dict[tuple[Any, ...], Several] = {}
        self._asked: set[int] = set()

    def of(self, keys: Keys) -> Several | None:
        """What is kept of these keys, whether or not it is the answer still."""
        return self._answers.get(tuple(keys)) if self._answers else None

    def keep(self, reader: ReaderNode, keys: Keys, body: bytes) -> None:
        """They have just been derived. Requires: nothing has changed since, and they need not be compared."""
        if len(body) > LONGEST or len(keys) > MOST_TOGETHER:
            return
        answers, place = self._answers, tuple(keys)
        if place not in answers and (number := hash(place)) not in self._asked:
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            self._asked.add(number)
            return
        if len(body) + bytes_of(place) > LONGEST or (versions := _linked(reader, keys)) is None:
            return
        if (kept := answers.get(place)) is not None:
            kept.versions, kept.encoder, kept.body = versions, reader.encodings.encoders[self._format], body
            return
        if len(answers) >= MOST_ANSWERS:
            answers.pop(next(iter(answers))).let_go()
        answers[place] = Several(place, versions, reader.encodings.encoders[self._format], body)

    def clear(self) -> None:
        for kept in self._answers.values():
            kept.let_go()
        self._answers.clear()

    def check_invariants(self, reader: ReaderNode) -> None:
        """What stands is what would be derived now."""
        assert len(self._answers) <= MOST_ANSWERS and len(self._asked) <= MOST_ASKED
        for keys, kept in self._answers.items():
            if (body := kept.find(reader, self._format)) is not None:
                rows, encode = reader.answer(keys), reader.encodings.encoders[self._format]
                assert rows is not None and encode(rows) == body, f"{keys!r} have changed"


def _linked(reader: ReaderNode, keys: Keys) -> list[int] | None:
    """The version of each key, linked now where it is not; None where that cannot be soon."""
    versions = []
    for key, params in keys:
        held = reader.entries.get(key)
        try:
            if held is None or (held.version is None and not reader.link(held, params)):
                return None
        except TooLong:
            return None
        assert held.version is not None
        versions.append(held.version)
    return versions
