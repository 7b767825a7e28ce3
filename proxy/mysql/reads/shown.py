"""What hits have shown a transaction that is to see one state. Pure but for calls of a cache (`Shown.holds`).

 state   | hits were given | MySQL has a snapshot of its own    | a read may be a hit
---------+-----------------+------------------------------------+----------------------------------------------------
 EMPTY   | no              |                                    | whatever it asks for
 FOLLOWS | yes             | no                                 | shown before, or unchanged since `Shown.sequence`
 PINNED  | yes             | yes, of the state that was shown   | as FOLLOWS, until MySQL looks at tables
 SETTLED | yes             | yes, or will have of another state | shown before

 in      | a hit is given | MySQL looks at tables, | it opens its | it looks at tables, | the transaction
         |                | as they were shown     | snapshot     | which have changed  | ends
---------+----------------+------------------------+--------------+---------------------+----------------
 EMPTY   | FOLLOWS        | EMPTY                  | EMPTY        | EMPTY               | EMPTY
 FOLLOWS | FOLLOWS        | FOLLOWS                | SETTLED      | SETTLED             | EMPTY
 PINNED  | PINNED         | PINNED                 | PINNED       | PINNED              | EMPTY
 SETTLED | SETTLED        | SETTLED                | SETTLED      | SETTLED             | EMPTY

FOLLOWS becomes PINNED where MySQL opens its snapshot right behind the first hit, before it must look at tables
(`proxy/mysql/session/snapshot_forecast.py`), and finds there what was shown; else SETTLED.

What has changed since `Shown.sequence` is MySQL's in PINNED, for its snapshot is of then; in FOLLOWS the transaction
stands at a later state as long as all that it was shown is still the answer there.

`proxy/mysql/reads/gate.py` has the rules by which reads are hits.

A quick hit is only put on a list (`Shown.give`). It is filed once something asks what was shown: most transactions end
before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING

from proxy.cache.key_binder import keys_in
from proxy.port.api import ParameterValue
from proxy.port.session import SessionCache

if TYPE_CHECKING:
    from proxy.mysql.reads.prepared_statement import PreparedStatement
    from proxy.mysql.reads.routes import Target
    from sqltypes.expression import Value

    Values = tuple[Value, ...]

MOST_GIVEN = 100  # quick hits that are not filed yet: less than a millisecond's work
SHOWN_KEYS, SHOWN_BYTES = 1000, 1 << 20
"""Of one transaction's answers that are remembered. What is read beyond them is MySQL's: they are looked at again after
each event of the stream, 1,000 keys in 2 to 5 ms."""

Asked = tuple[SessionCache, int, tuple[ParameterValue, ...], tuple[object, ...]]
"""What was asked: 1 and 1.0 are equal, and may be asked for with different results. With the plan that it was asked of:
after another one the columns are others."""


def _asked(cache: SessionCache, generation: int, parameters: Sequence[ParameterValue]) -> Asked:
    types = tuple(tuple(map(type, value)) if isinstance(value, tuple) else type(value) for value in parameters)
    return cache, generation, tuple(parameters), types


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


@dataclass(frozen=True, slots=True, eq=False)
class ShownKind:
    """What quick hits have in common that are given one after the other to reads of one kind. `generation`, `needs`,
    `relations`: of the cache, as it is then. The rest as in `Command` and `Said`."""

    cache: SessionCache
    generation: int
    needs: frozenset[str]
    relations: frozenset[tuple[str, str]]
    head: bytes
    target: Target | None
    database: str
    announces: object
    rights: tuple[object, ...]
    by_clock: bool  # a prepared statement that may have functions of the clock


QuickHit = tuple[ShownKind, "Sequence[ParameterValue]", bytes, bytes, "tuple[PreparedStatement, object, Values] | None"]
"""A hit that was given, not filed yet: its kind; the values of the cache's parameters; the rows; the text; of a
prepared statement, it and the types and values that were bound to it. A plain tuple: one is made for each hit."""


def _filed(hit: QuickHit) -> tuple[Asked, Command, Said]:
    kind, values, body, text, bound = hit
    told = None if bound is None else (*bound[:2], repr(bound[2]))
    command = command_of(text, told, kind.database, kind.announces)
    said = Said(kind.head, body, kind.cache.name, kind.needs, kind.relations, kind.rights, kind.target)
    return _asked(kind.cache, kind.generation, values), command, said


class Stage(Enum):
    """The states of `Shown`, as above."""

    EMPTY = "empty"
    FOLLOWS = "follows"
    PINNED = "pinned"
    SETTLED = "settled"


def _nobody_is_told(*_: object) -> None:
    pass


@dataclass(slots=True)
class Shown:
    """What hits have shown one transaction, and where it stands."""

    _answers: dict[Asked, bytes] = field(default_factory=dict)  # what was shown, and is filed
    _said: dict[Command, Said] = field(default_factory=dict)  # the same, by the command: it outlives its cache
    _given: list[QuickHit] = field(default_factory=list)  # and what is not filed yet
    _given_keys: int = 0
    _given_size: int = 0  # bytes
    keys: int = 0  # of all answers
    size: int = 0  # of all answers, in bytes
    # The newest position, and its number, at which all of them are known to be the answers.
    position: str = ""
    sequence: int = 0
    settled: bool = False  # as the states say
    pinned: bool = False  # likewise
    looked: bool = False  # MySQL has looked at tables since hits were given
    began: str = ""  # the cache of the first hit; "": none was given
    # Told of the cache of a first hit, and of its transaction's end, with `looked`.
    on_first: Callable[[str], None] = _nobody_is_told
    on_end: Callable[[str, bool], None] = _nobody_is_told

    @property
    def answers(self) -> Mapping[Asked, bytes]:
        """What was shown."""
        if self._given:
            self._file()
        return self._answers

    @property
    def said(self) -> Mapping[Command, Said]:
        """What was said to which command."""
        if self._given:
            self._file()
        return self._said

    @property
    def stage(self) -> Stage:
        if not self.answers:
            return Stage.EMPTY
        if self.pinned:
            return Stage.PINNED
        return Stage.SETTLED if self.settled else Stage.FOLLOWS

    def at_mysql(self, sequence: int, position: str, *, opens_snapshot: bool) -> bool:
        """MySQL looks at tables for the transaction. Whether their state is known not to be the one that was shown.
        Told before MySQL looks and again when it has answered, with `sequence` and `position` of that moment: the
        stream may be late. Requires: FOLLOWS."""
        mixed = not self.holds(sequence, position)
        self.settled = mixed or opens_snapshot
        return mixed

    def pin(self, *, brought: bool) -> bool:
        """MySQL has opened its snapshot behind the first hits. Whether its state may be another one than they have
        shown. `brought`: the snapshot has all of the hits' position, and the position of now all of the snapshot.
        Requires: FOLLOWS."""
        mixed = not brought or any(cache.peek(asked) != body for (cache, _, asked, _), body in self.answers.items())
        self.settled, self.pinned = mixed, not mixed
        return mixed

    def note(self, cache: SessionCache, parameters: Sequence[ParameterValue], body: bytes) -> None:
        """A hit was given, which is the answer at `sequence`."""
        if not self.began:
            self._begin(cache.name)
        self._note(_asked(cache, cache.generation, parameters), body)

    def _begin(self, cache: str) -> None:
        self.began = cache
        self.on_first(cache)

    def _note(self, asked: Asked, body: bytes) -> None:
        if asked not in self._answers:
            self.keys += keys_in(asked[2])
            self.size += len(body)
        self._answers[asked] = body

    def say(self, command: Command, said: Said) -> None:
        """It has been said. Of many ways to ask the same not all are remembered."""
        if len(self._said) < SHOWN_KEYS:
            self._said[command] = said

    def give(self, hit: QuickHit, sequence: int, position: Callable[[], str]) -> bool:
        """Whether a quick hit, which is the answer at `sequence`, may be given; then it is put on the list."""
        given = self._given
        if self.began:
            if not self.goes_on(sequence):
                return False
        else:
            self.sequence, self.position = sequence, position()
            self._begin(hit[0].cache.name)
        given.append(hit)
        values = hit[1]
        self._given_keys += 1 if len(values) == 1 and values[0].__class__ is int else keys_in(values)
        self._given_size += len(hit[2])
        return True

    def goes_on(self, sequence: int) -> bool:
        """Whether what is the answer at `sequence` is one state with all that was shown, and can be put on the list.
        Hits were given, or no."""
        return (
            sequence == self.sequence
            and self.began != ""
            and not self.settled
            and len(self._given) < MOST_GIVEN
            and self.keys + self._given_keys < SHOWN_KEYS
            and self.size + self._given_size <= SHOWN_BYTES
        )

    def _file(self) -> None:
        given, self._given = self._given, []
        self._given_keys = self._given_size = 0
        for hit in given:
            asked, command, said = _filed(hit)
            self._note(asked, said.body)
            self.say(command, said)

    def again(self, cache: SessionCache, parameters: Sequence[ParameterValue]) -> bytes | None:
        """What was shown for this before."""
        return self.answers.get(_asked(cache, cache.generation, parameters)) if self.answers else None

    def holds(self, sequence: int, position: str) -> bool:
        """Is every answer that was shown still the answer at the position of now? No where that cannot be told: a key
        that was evicted. Where it is, the transaction stands there, unless it is PINNED."""
        if self.pinned:
            return sequence == self.sequence
        if (
            sequence != self.sequence
            and self.answers
            and any(cache.peek(parameters) != body for (cache, _, parameters, _), body in self.answers.items())
        ):
            return False
        self.sequence, self.position = sequence, position
        return True

    def full(self, parameters: Sequence[ParameterValue]) -> bool:
        """Whether no answer to these can be remembered, too. The first one always can."""
        if self._given and self._over(parameters):  # what was given twice counts once, once it is filed
            self._file()
        return self.began != "" and self._over(parameters)

    def _over(self, parameters: Sequence[ParameterValue]) -> bool:
        keys = self.keys + self._given_keys + keys_in(parameters)
        return keys > SHOWN_KEYS or self.size + self._given_size > SHOWN_BYTES

    def release(self) -> None:
        """Nobody is told of anything any more."""
        self.on_first, self.on_end = _nobody_is_told, _nobody_is_told

    def clear(self) -> None:
        """The transaction is over."""
        if self.began:
            self.on_end(self.began, self.looked)
            self.began = ""
        self.settled = self.pinned = self.looked = False
        if self._given:
            self._given.clear()
            self._given_keys = self._given_size = 0
        if self._answers:
            self._answers.clear()
            self._said.clear()
            self.keys = self.size = 0

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert bool(self.began) == bool(self._given or self._answers)
        assert len(self._given) <= MOST_GIVEN and len(self._said) <= SHOWN_KEYS
        assert self.keys == sum(keys_in(parameters) for _, _, parameters, _ in self._answers)
        assert (self._given_keys, self._given_size) == (
            sum(keys_in(values) for _, values, *_ in self._given),
            sum(len(body) for _, _, body, *_ in self._given),
        )
