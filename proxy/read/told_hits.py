"""Hits of one cache as sessions were told them: which of them are compared under the session's variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from external_upquery.mysql.other_session import Settings
from proxy.checking.sampler import TRIES
from proxy.port.api import ParameterValue
from proxy.port.as_told import AsTold
from proxy.read.opened import Opened
from sqltypes.errors import UpwellError

if TYPE_CHECKING:
    from proxy.checking.sampler import Sampler

MOST_KINDS = 64  # of sessions that are remembered of a cache; then all are forgotten


class ToldHits:
    """Of a cache in one wire format. `_tried`: how often the first hit of sessions with these variables was compared;
    TRIES where it was told to be the same."""

    def __init__(self, opened: Opened, sampler: Sampler) -> None:
        self._opened = opened
        self._sampler = sampler
        self._tried: dict[Settings, int] = {}
        self._generation = -1  # of the plan that they are of

    def judges(self, body: bytes, settings: Settings) -> bool:
        """Whether the hit of this step, with this body, is to be compared with what MySQL tells a session of these
        variables: then `judge` is called in the same step."""
        if self._sampler.fresh is not None:
            return self._sampler.takes(body)
        if self._generation == self._opened.generation and self._tried.get(settings, 0) >= TRIES:
            return False
        return self._sampler.asks_as

    def judge(self, parameters: Sequence[ParameterValue], body: bytes, settings: Settings, told: AsTold | None) -> None:
        """As `judges` asks for. `told`: None where that cannot be done for such a session or read."""
        opened, tried = self._opened, self._tried
        if self._generation != opened.generation or len(tried) >= MOST_KINDS:
            self._generation = opened.generation
            tried.clear()
        tried[settings] = TRIES if told is None else tried.get(settings, 0) + 1
        try:
            reader = opened.ready()
            if told is None or reader is None or opened.plan.too_many(parameters):
                return
            binding = opened.plan.bind_held(reader, parameters)
        except UpwellError:  # the hit is answered
            return

        def ended(known: bool) -> None:
            if known:
                tried[settings] = TRIES

        told.on_end = ended
        self._sampler.offer_told(opened.given(reader, binding, parameters, body), told)
