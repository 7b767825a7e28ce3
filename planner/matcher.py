"""Finds the cache that a client's text is for, and its parameters' values."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.text.bare_names import BareNames
from planner.text.fingerprint import (
    Constant,
    Fingerprint,
    ListSlot,
    LongList,
    LongPlaceholders,
    Placeholder,
    Scalar,
    Slot,
    fingerprint,
    outline,
)
from planner.text.from_entries import entries
from planner.text.hints import MARK
from planner.text.scan import ANY_VERSION, DEFAULT_VERSION, ServerVersion, is_warned_of, scan, unwrap_version_comments
from planner.tree.plan import QueryPlan
from sqltypes.errors import ParseError
from sqltypes.expression import Value

ParameterValue = Value | tuple[Value, ...]
TEXTS_REMEMBERED = 10_000
LONGEST_REMEMBERED = 4096  # characters: so that what is remembered stays below some tens of megabytes


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    slots: tuple[Slot, ...]
    parameters: int


class QueryMatcher:
    """Texts to caches. `changes` is another number after each `add` and `remove`: what was learned from answers
    of before may be wrong.

    Invariants: (1) `_texts` holds fingerprints only, all as a server of `version` has them; they do not depend on the
    caches, so adding and removing never empties it; (2) candidates of one shape are tried oldest first; at most one
    text can be two caches' only if it fixes a constant that the one has as a parameter: then the one with more
    constants comes first.
    """

    def __init__(
        self,
        version: ServerVersion | None = None,
        default: str = "",
        bare_names: BareNames | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`version`: the server's; None: not known, so a text with a comment for some servers only is no cache's.
        `default`: the database whose caches a text may have that is asked in a session without one: it must name the
        databases of its tables, but of those of `bare_names`. `on_change`: is told of each change of `changes`."""
        self._default, self._bare_names = default, bare_names
        if bare_names is not None:
            bare_names.on_change = self._read_anew
        self.changes = 0  # of what texts are for
        self._on_change = on_change
        self.version = version
        self._by_shape: dict[tuple[str, str], list[_Candidate]] = {}
        self._shapes: dict[str, tuple[str, str]] = {}  # by the caches' names
        self._told: set[str] = set()  # the names of those whose text tells its collation
        self._outline_of: dict[tuple[str, str], tuple[str, str]] = {}  # by `_by_shape`'s keys
        self._outlines: Counter[tuple[str, str]] = Counter()
        self._texts: OrderedDict[tuple[str, str], Fingerprint | None] = OrderedDict()

    def read_as(self, version: ServerVersion | None) -> None:
        """From now on texts are read as a server of this version reads them."""
        if version != self.version:
            self.version = version
            self._read_anew()

    def _read_anew(self) -> None:
        self._texts.clear()
        self.changed()

    def add(self, plan: QueryPlan, name: str, found: Fingerprint | None = None, known_outline: str = "") -> None:
        """Requires: no cache of that name is known. `found`, `known_outline`: the fingerprint of the plan's text and
        its outline, if they are known."""
        self.changed()
        if found is None:
            found = fingerprint(plan.sql, plan.database)  # normalised: no version comments
        shape = plan.database, found.shape
        candidates = self._by_shape.setdefault(shape, [])
        if not candidates:
            self._outline_of[shape] = plan.database, known_outline or outline(found.shape)
            self._outlines[self._outline_of[shape]] += 1
        candidates.append(_Candidate(name, found.slots, len(plan.parameters)))
        candidates.sort(key=lambda candidate: -sum(_fixes(slot) for slot in candidate.slots))
        self._shapes[name] = shape
        if MARK in found.shape:
            self._told.add(name)

    def remove(self, name: str) -> None:
        """Forgets the cache; unknown names are nothing to forget."""
        self.changed()
        self._told.discard(name)
        at = self._shapes.pop(name, None)
        if at is None:
            return
        kept = [candidate for candidate in self._by_shape[at] if candidate.name != name]
        if kept:
            self._by_shape[at] = kept
            return
        del self._by_shape[at]
        key = self._outline_of.pop(at)
        self._outlines[key] -= 1
        if not self._outlines[key]:
            del self._outlines[key]

    @property
    def tells_collations(self) -> bool:
        """Whether the text of some cache tells the collation of its literals (`planner/text/hints.py`)."""
        return bool(self._told)

    def changed(self) -> None:
        """What was learned of before may be wrong."""
        self.changes += 1
        self._on_change()

    def match(
        self, sql: str, database: str, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        """The cache's name and the values of its parameters in its order, or None: no cache, or another number of
        values."""
        found = self._remembered(sql, database)
        return None if found is None else self.match_fingerprint(found, parameters)

    def match_fingerprint(
        self, found: Fingerprint, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        """As `match`, of a text that has this fingerprint."""
        if found.placeholders != len(parameters):
            return None
        for candidate in self._by_shape.get((found.database, found.shape), ()):
            values = _bind(candidate, found.slots, parameters)
            if values is not None:
                return candidate.name, values
        return None

    def fingerprint(self, sql: str, database: str) -> Fingerprint:
        """The text's fingerprint, as this matcher takes it. Raises ParseError."""
        if is_warned_of(sql):
            raise ParseError("a version comment of which MySQL warns")
        if not database and self._default and self._means_default(sql):
            database = self._default
        if self.version is not None:
            return fingerprint(sql, database, self.version)
        if unwrap_version_comments(sql, DEFAULT_VERSION) != unwrap_version_comments(sql, ANY_VERSION):
            raise ParseError("a version comment of which it depends on the server whether it counts")
        return fingerprint(sql, database)

    def _means_default(self, sql: str) -> bool:
        """Whether a text means the same with the default database as without any."""
        found = list(entries(scan(sql)))
        bare = [entry.name for entry in found if not entry.qualified]
        return bool(found) and (not bare or (self._bare_names is not None and self._bare_names.are_ours(bare)))

    def resembles(self, found: Fingerprint) -> bool:
        """Whether some cache's shape has this one's outline. If not, a text with this outline has no cache."""
        return (found.database, outline(found.shape)) in self._outlines

    def decisive(self, found: Fingerprint) -> frozenset[int]:
        """Which slots' values decide what a text of this shape is for: those that some cache of it fixes."""
        return frozenset(
            index
            for candidate in self._by_shape.get((found.database, found.shape), ())
            for index, slot in enumerate(candidate.slots)
            if _fixes(slot)
        )

    def parameter_slots(self, name: str, found: Fingerprint) -> tuple[int, ...]:
        """The slots of a text of this shape that give the values of the cache's parameters, in order.

        Requires: the cache's text has this shape.
        """
        for candidate in self._by_shape.get((found.database, found.shape), ()):
            if candidate.name == name:
                return tuple(index for index, slot in enumerate(candidate.slots) if not _fixes(slot))
        raise AssertionError(name)

    def _remembered(self, sql: str, database: str) -> Fingerprint | None:
        key = (sql, database)
        if key in self._texts:
            self._texts.move_to_end(key)
            return self._texts[key]
        try:
            found: Fingerprint | None = self.fingerprint(sql, database)
        except ParseError:
            found = None  # MySQL says what is wrong with it
        if len(sql) > LONGEST_REMEMBERED:
            return found
        self._texts[key] = found
        if len(self._texts) > TEXTS_REMEMBERED:
            self._texts.popitem(last=False)
        return found


def _fixes(slot: Slot) -> bool:
    """Whether a cache's slot is no parameter of it."""
    if isinstance(slot, ListSlot):
        return any(isinstance(item, Constant) for item in slot.items)
    return isinstance(slot, (Constant, LongList))


def _bind(
    candidate: _Candidate, slots: Sequence[Slot], parameters: Sequence[ParameterValue]
) -> tuple[ParameterValue, ...] | None:
    values: list[ParameterValue] = []
    for wanted, given in zip(candidate.slots, slots, strict=True):
        if isinstance(wanted, Constant):
            value = _value(given, parameters)
            if isinstance(value, tuple) or not wanted.agrees(value):
                return None
        elif isinstance(wanted, (ListSlot, LongList)) and _fixes(wanted):
            if not _same_list(wanted, given, parameters):
                return None
        else:
            values.append(_value(given, parameters))
    return tuple(values)


def _same_list(wanted: ListSlot | LongList, given: Slot, parameters: Sequence[ParameterValue]) -> bool:
    value = _value(given, parameters)
    if isinstance(wanted, LongList):
        return value == wanted.values and all(map(_alike, wanted.values, value))
    if not isinstance(value, tuple) or len(value) != len(wanted.items):
        return False
    return all(isinstance(item, Constant) and item.agrees(got) for item, got in zip(wanted.items, value, strict=True))


def _alike(one: Value, other: Value) -> bool:
    """Whether equal values are of one type, too."""
    return type(one) is type(other)


def _value(slot: Slot, parameters: Sequence[ParameterValue]) -> ParameterValue:
    if isinstance(slot, LongList):
        return slot.values
    if isinstance(slot, LongPlaceholders):
        values = parameters[slot.first : slot.first + slot.count]
        if not any(isinstance(value, tuple) for value in values):
            return tuple(values)
        return _flat(values)
    if isinstance(slot, ListSlot):
        return _flat([_scalar(item, parameters) for item in slot.items])
    return _scalar(slot, parameters)


def _flat(values: Sequence[ParameterValue]) -> tuple[Value, ...]:
    flat: list[Value] = []
    for value in values:
        flat.extend(value) if isinstance(value, tuple) else flat.append(value)
    return tuple(flat)


def _scalar(item: Scalar, parameters: Sequence[ParameterValue]) -> ParameterValue:
    return parameters[item.index] if isinstance(item, Placeholder) else item.value
