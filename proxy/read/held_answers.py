"""What is held of a cache, as a read looks at it that is no quick hit: an answer that is not stored is derived and
encoded now, if that is a short step."""

from __future__ import annotations

from dataflow.entries import Held
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Binding
from proxy.cache.named_cache import NamedCache
from proxy.cache.trust import Compared, Trust
from proxy.read.host import ReadHost
from proxy.read.look import Due, InSteps, Missing, Seen, let_go
from proxy.read.together import Together
from sqltypes.expression import Key


class HeldAnswers:
    """Of one cache in one wire format. `together_from`: as `Planned` has it."""

    def __init__(self, host: ReadHost, cache: NamedCache, format_: int, together_from: int) -> None:
        self.join = host.pump.formats.wires[format_].join_short
        self._host = host
        self._cache = cache
        self._format = format_
        self._together_from = together_from
        self.several = Together(format_)

    def look(self, reader: ReaderNode, binding: Binding, *, given: bool) -> Seen:
        """The answer of a read that is about to be given it, or (`given` False) that only looks."""
        return self._look(reader, binding, given=given, joined=True)

    def are_stored(self, reader: ReaderNode, binding: Binding) -> Seen:
        """As `look`, of some of a read's keys, whose answers are of one key each: they are not joined."""
        return self._look(reader, binding, given=True, joined=False)

    def _look(self, reader: ReaderNode, binding: Binding, *, given: bool, joined: bool) -> Seen:
        trust = self._cache.trust
        due: list[Held | None] = []
        found: Seen = Missing.HOLE
        try:
            found = self._looked(reader, binding, trust, due, given=given, joined=joined)
        finally:
            if due and not isinstance(found, bytes):
                let_go(due)
        return Due(found, due) if due and isinstance(found, bytes) else found

    def _looked(
        self,
        reader: ReaderNode,
        binding: Binding,
        trust: Trust | None,
        due: list[Held | None],
        *,
        given: bool,
        joined: bool,
    ) -> Seen:
        keys = binding.keys
        seconds = self._host.engine.fills.latency.get(reader.tag, 0.0) if trust is not None else 0.0
        if not keys:
            if trust is not None and _holds_back(trust.of_derived(seconds, given=given), None, due):
                return Missing.HELD_BACK
            return reader.encodings.encoders[self._format](reader.program.finish([], binding.params))
        if len(keys) >= self._together_from:
            return self._looked_together(reader, binding, trust, seconds, due, given=given)
        parts = []
        memory = reader.memory
        until = memory.derived + memory.most_rows
        try:
            for at, (key, params) in enumerate(keys):
                if memory.derived > until:
                    return InSteps(keys[at:])
                found = self._looked_at(reader, key, params, trust, seconds, due, given=given)
                if not isinstance(found, bytes):
                    return found
                parts.append(found)
        finally:
            self._host.engine.limit.keep()  # keys may have been taken up, also where one cannot be computed
        if len(parts) == 1 or not joined:
            return parts[0]
        try:
            return self.join(parts)
        except TooLong:
            return InSteps(parts=parts, due=bool(due))

    def _looked_together(
        self,
        reader: ReaderNode,
        binding: Binding,
        trust: Trust | None,
        seconds: float,
        due: list[Held | None],
        *,
        given: bool,
    ) -> Seen:
        keys, rows = binding.keys, None
        kept = self.several.of(keys)
        body = None if kept is None else kept.find(reader, self._format)
        try:
            if body is None and (rows := reader.answer(keys, short=True)) is None:
                return Missing.HOLE
        except TooLong:
            pass
        if trust is not None and _holds_back(trust.of_several(reader, keys, seconds, given=given), None, due):
            return Missing.HELD_BACK
        if body is None:
            if rows is None:
                return InSteps(due=bool(due))
            body = reader.encodings.encoders[self._format](rows)
            if given and trust is None and not self._host.memory_is_short:
                self.several.keep(reader, keys, body)
            for key, _ in keys:
                if (held := reader.entries.get(key)) is not None:
                    held.visited = True
        return body

    def _looked_at(
        self,
        reader: ReaderNode,
        key: Key,
        params: Params,
        trust: Trust | None,
        seconds: float,
        due: list[Held | None],
        *,
        given: bool,
    ) -> Seen:
        # Another reader's fills may have left all that this key needs.
        held = reader.entries.get(key) or self._host.engine.sieve.hold(reader, key, params)
        if held is None:
            return Missing.HOLE
        if trust is not None and _holds_back(trust.of_held(held, seconds, given=given), held, due):
            return Missing.HELD_BACK
        if not reader.is_large(held, self._format):
            try:
                body = reader.body(held, params, self._format)
            except TooLong:  # it was short before
                reader.long.add(key)
            else:
                if body is None:
                    return Missing.HOLE
                held.visited = True
                return body
        return InSteps([(key, params)], held, due=held in due)

    def of_key(self, reader: ReaderNode, key: Key, params: Params) -> Seen:
        """The answer of one key, stored now if it was not, or what has kept it from that. Requires: the cache is
        trusted."""
        try:
            return self._looked_at(reader, key, params, None, 0.0, [], given=True)
        finally:
            self._host.engine.limit.keep()  # it may have been taken up


def _holds_back(compared: Compared, held: Held | None, due: list[Held | None]) -> bool:
    """Whether the answer is not to be given before it is compared; one that is compared behind is noted."""
    if compared is Compared.BEHIND:
        due.append(held)
    return compared is Compared.FIRST
