"""Reads by a moment (`NOW()`, and instants of a session's time zone): another key's answer may be theirs, too."""

from __future__ import annotations

from collections.abc import Sequence

from dataflow.operators.answer import AnswerNode
from dataflow.readers.derivation import TooLong
from proxy.cache.key_binder import instant_of
from proxy.port.api import ParameterValue
from proxy.port.faults import guarded
from proxy.read.opened import Opened
from sqltypes.errors import Fault, UpwellError
from sqltypes.expression import Key
from sqltypes.zone import Zone


class Moments:
    """Of one open cache. Implements `proxy.port.between.Moments`."""

    def __init__(self, opened: Opened, clocks: Zone | None) -> None:
        self.clocks = clocks
        self._opened = opened

    def note(self) -> None:
        cache = self._opened.named
        cache.by_clock = True
        root = cache.reader.nodes[0] if cache.reader is not None else None
        if isinstance(root, AnswerNode):
            root.ask_reaches()

    def between(
        self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]
    ) -> Sequence[ParameterValue] | None:
        try:
            return self._between(first, last)
        except (UpwellError, TooLong):
            return None

    def tells_between(self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]) -> bool:
        differing = [at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other]
        reader = self._opened.plan.reader
        return reader is not None and len(first) == len(last) and reader.alike.tells_between(differing)

    @guarded
    def _between(
        self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]
    ) -> Sequence[ParameterValue] | None:
        reader, plan = self._opened.ready(), self._opened.plan
        if reader is None or len(first) != len(last) or plan.lists:
            return None
        (one, other) = (plan.bind(values).keys for values in (first, last))
        if len(one) != 1 or len(other) != 1:
            return None
        low, high = one[0][1], other[0][1]
        found = reader.alike.between(reader, low, high)
        if found is None:
            return None
        return [value if at == same else at for value, at, same in zip(first, found, low, strict=True)]

    def standing(self, parameters: Sequence[ParameterValue]) -> Key | None:
        try:
            return self._standing(parameters)
        except UpwellError:
            return None

    @guarded
    def _standing(self, parameters: Sequence[ParameterValue]) -> Key | None:
        reader, plan = self._opened.ready(), self._opened.plan
        if reader is None or not reader.alike.stands or plan.lists:
            return None
        keys = plan.bind(parameters).keys
        standing = reader.alike.standing(keys[0][1]) if len(keys) == 1 else None
        return None if standing is None else reader.key_of(standing)

    def in_utc(self, parameters: Sequence[ParameterValue]) -> Sequence[ParameterValue]:
        opened, clocks = self._opened, self.clocks
        opened.renew()
        instants, plan = opened.plan.instants, opened.named.plan
        if clocks is None or plan is None or not instants or len(parameters) != len(plan.parameters):
            return parameters
        found = list(parameters)
        for at in instants:
            value, type_ = parameters[at], plan.parameters[at].type
            if isinstance(value, tuple):
                found[at] = tuple(instant_of(one, type_, clocks) for one in value)
            else:
                found[at] = instant_of(value, type_, clocks)
        return tuple(found)

    def fault(self, error: Exception, *given: object) -> Fault:
        return self._opened.fault(error, *given)
