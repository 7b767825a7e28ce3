"""What hits have shown a transaction that is to see one state. Pure but for calls of a cache (`Shown.holds`).

 state   | hits were given | MySQL has a snapshot of its own    | a read may be a hit
---------+-----------------+------------------------------------+----------------------------------------------------
 EMPTY   | no              |                                    | whatever it asks for
 FOLLOWS | yes             | no                                 | shown before, or unchanged since `Shown.sequence`
 SETTLED | yes             | yes, or will have of another state | shown before

 in      | a hit is given | MySQL looks at tables, | it opens its | it looks at tables, | the transaction
         |                | as they were shown     | snapshot     | which have changed  | ends
---------+----------------+------------------------+--------------+---------------------+----------------
 EMPTY   | FOLLOWS        | EMPTY                  | EMPTY        | EMPTY               | EMPTY
 FOLLOWS | FOLLOWS        | FOLLOWS                | SETTLED      | SETTLED             | EMPTY
 SETTLED | SETTLED        | SETTLED                | SETTLED      | SETTLED             | EMPTY

`proxy/mysql/reads.py` has the rules by which reads are hits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING

from proxy.api import ParameterValue, SessionCache
from proxy.keys import keys_in

if TYPE_CHECKING:
    from proxy.mysql.prepared import PreparedStatement
    from proxy.mysql.routes import Target
    from sqltypes.expression import Value

SHOWN_KEYS, SHOWN_BYTES = 1000, 1 << 20
"""Of one transaction's answers that are remembered. What is read beyond them is MySQL's: they are looked at again after
each event of the stream, 1,000 keys in 2 to 5 ms."""

Asked = tuple[SessionCache, int, tuple[ParameterValue, ...], tuple[object, ...]]
"""What was asked: 1 and 1.0 are equal, and may be asked for with different results. With the plan that it was asked of:
after another one the columns are others."""


def _asked(cache: SessionCache, parameters: Sequence[ParameterValue]) -> Asked:
    types = tuple(tuple(map(type, value)) if isinstance(value, tuple) else type(value) for value in parameters)
    return cache, cache.generation, tuple(parameters), types


Command = tuple[bytes, object, str, object]
"""A read as the client sent it: a digest of its text, what is bound to it and the statement that it is bound to, the
database, and by what the columns are announced."""


def command_of(text: bytes, bound: object, database: str, announces: object) -> Command:
    return blake2b(text, digest_size=16).digest(), bound, database, announces


@dataclass(frozen=True, slots=True)
class Said:
    """What a hit has answered, and what the session and its account had to be for that. `rights`: of accounts and of
    this session, as `Grants` has them. `target`: what a prepared statement was for."""

    head: bytes
    body: bytes
    cache: str
    needs: frozenset[str]
    relations: frozenset[tuple[str, str]]
    rights: tuple[object, ...]
    target: Target | None = None

    def takes(self, statement: PreparedStatement, given: tuple[Value, ...]) -> bool:
        """Whether an execution with these values still asks for it."""
        return self.target is not None and self.target.takes(statement, given)


class Stage(Enum):
    """The states of `Shown`, as above."""

    EMPTY = "empty"
    FOLLOWS = "follows"
    SETTLED = "settled"


@dataclass(slots=True)
class Shown:
    """What hits have shown one transaction, and where it stands."""

    answers: dict[Asked, bytes] = field(default_factory=dict)  # what was shown
    said: dict[Command, Said] = field(default_factory=dict)  # the same, by the command: it outlives its cache
    keys: int = 0  # of all answers
    size: int = 0  # of all answers, in bytes
    # The newest position, and its number, at which all of them are known to be the answers.
    position: str = ""
    sequence: int = 0
    settled: bool = False  # as the states say

    @property
    def stage(self) -> Stage:
        if not self.answers:
            return Stage.EMPTY
        return Stage.SETTLED if self.settled else Stage.FOLLOWS

    def at_mysql(self, sequence: int, position: str, *, opens_snapshot: bool) -> bool:
        """MySQL looks at tables for the transaction. Whether their state is known not to be the one that was shown.
        Told before MySQL looks and again when it has answered, with `sequence` and `position` of that moment: the
        stream may be late. Requires: FOLLOWS."""
        mixed = not self.holds(sequence, position)
        self.settled = mixed or opens_snapshot
        return mixed

    def note(self, cache: SessionCache, parameters: Sequence[ParameterValue], body: bytes) -> None:
        """A hit was given, which is the answer at `sequence`."""
        asked = _asked(cache, parameters)
        if asked not in self.answers:
            self.keys += keys_in(parameters)
            self.size += len(body)
        self.answers[asked] = body

    def say(self, command: Command, said: Said) -> None:
        """It has been said. Of many ways to ask the same not all are remembered."""
        if len(self.said) < SHOWN_KEYS:
            self.said[command] = said

    def again(self, cache: SessionCache, parameters: Sequence[ParameterValue]) -> bytes | None:
        """What was shown for this before."""
        return self.answers.get(_asked(cache, parameters)) if self.answers else None

    def holds(self, sequence: int, position: str) -> bool:
        """Is every answer that was shown still the answer at the position of now? No where that cannot be told: a key
        that was evicted. Where it is, the transaction stands there."""
        if (
            self.answers
            and sequence != self.sequence
            and any(cache.peek(parameters) != body for (cache, _, parameters, _), body in self.answers.items())
        ):
            return False
        self.sequence, self.position = sequence, position
        return True

    def full(self, parameters: Sequence[ParameterValue]) -> bool:
        """Whether no answer to these can be remembered, too. The first one always can."""
        return bool(self.answers) and (self.keys + keys_in(parameters) > SHOWN_KEYS or self.size > SHOWN_BYTES)

    def clear(self) -> None:
        """The transaction is over."""
        self.settled = False
        if self.answers:
            self.answers.clear()
            self.said.clear()
            self.keys = self.size = 0
