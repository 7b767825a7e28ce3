"""Finds the cache that a client's text is for, and its parameters' values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from planner.fingerprint import Constant, Fingerprint, ListSlot, Placeholder, Scalar, Slot, fingerprint
from planner.plan import QueryPlan
from planner.scan import DEFAULT_VERSION, ServerVersion
from sqltypes.errors import ParseError
from sqltypes.expression import Value

ParameterValue = Value | tuple[Value, ...]
TEXTS_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    slots: tuple[Slot, ...]
    parameters: int


class QueryMatcher:
    """Texts to caches.

    Invariants: (1) `_texts` holds fingerprints only, which do not depend on the caches, so adding and removing never
    empties it; (2) candidates of one shape are tried oldest first; at most one text can be two caches' only if it
    fixes a constant that the one has as a parameter: then the one with more constants comes first.
    """

    def __init__(self, version: ServerVersion = DEFAULT_VERSION) -> None:
        self.changes = 0  # of what texts are for
        self._version = version
        self._by_shape: dict[tuple[str, str], list[_Candidate]] = {}
        self._texts: OrderedDict[tuple[str, str], Fingerprint | None] = OrderedDict()

    def add(self, plan: QueryPlan, name: str) -> None:
        """Requires: no cache of that name is known."""
        self.changes += 1
        found = fingerprint(plan.sql, plan.database, self._version)
        candidates = self._by_shape.setdefault((plan.database, found.shape), [])
        candidates.append(_Candidate(name, found.slots, len(plan.parameters)))
        candidates.sort(key=lambda candidate: -sum(isinstance(slot, Constant) for slot in candidate.slots))

    def remove(self, name: str) -> None:
        """Forgets the cache; unknown names are nothing to forget."""
        self.changes += 1
        for key, candidates in list(self._by_shape.items()):
            kept = [candidate for candidate in candidates if candidate.name != name]
            if kept:
                self._by_shape[key] = kept
            else:
                del self._by_shape[key]

    def match(
        self, sql: str, database: str, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        """The cache's name and the values of its parameters in its order, or None: no cache, or another number of
        values."""
        found = self._fingerprint(sql, database)
        if found is None or found.placeholders != len(parameters):
            return None
        for candidate in self._by_shape.get((database, found.shape), ()):
            values = _bind(candidate, found.slots, parameters)
            if values is not None:
                return candidate.name, values
        return None

    def _fingerprint(self, sql: str, database: str) -> Fingerprint | None:
        key = (sql, database)
        if key in self._texts:
            self._texts.move_to_end(key)
            return self._texts[key]
        try:
            found: Fingerprint | None = fingerprint(sql, database, self._version)
        except ParseError:
            found = None  # MySQL says what is wrong with it
        self._texts[key] = found
        if len(self._texts) > TEXTS_REMEMBERED:
            self._texts.popitem(last=False)
        return found


def _bind(
    candidate: _Candidate, slots: Sequence[Slot], parameters: Sequence[ParameterValue]
) -> tuple[ParameterValue, ...] | None:
    values: list[ParameterValue] = []
    for wanted, given in zip(candidate.slots, slots, strict=True):
        if isinstance(wanted, Constant):
            value = _value(given, parameters)
            if isinstance(value, tuple) or not wanted.agrees(value):
                return None
        elif isinstance(wanted, ListSlot) and any(isinstance(item, Constant) for item in wanted.items):
            if not _same_list(wanted, given, parameters):
                return None
        else:
            values.append(_value(given, parameters))
    return tuple(values)


def _same_list(wanted: ListSlot, given: Slot, parameters: Sequence[ParameterValue]) -> bool:
    value = _value(given, parameters)
    if not isinstance(value, tuple) or len(value) != len(wanted.items):
        return False
    return all(isinstance(item, Constant) and item.agrees(got) for item, got in zip(wanted.items, value, strict=True))


def _value(slot: Slot, parameters: Sequence[ParameterValue]) -> ParameterValue:
    if isinstance(slot, ListSlot):
        flat: list[Value] = []
        for item in slot.items:
            value = _scalar(item, parameters)
            flat.extend(value) if isinstance(value, tuple) else flat.append(value)
        return tuple(flat)
    return _scalar(slot, parameters)


def _scalar(item: Scalar, parameters: Sequence[ParameterValue]) -> ParameterValue:
    return parameters[item.index] if isinstance(item, Placeholder) else item.value
