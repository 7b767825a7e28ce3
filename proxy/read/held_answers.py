"""What is held of a cache, as a read looks at it that is no quick hit: an answer that is not stored is derived and
encoded now, if that is a short step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dataflow.entries import Held
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Binding
from proxy.cache.named_cache import NamedCache
from proxy.cache.trust import Trust
from proxy.read.host import Host
from sqltypes.expression import Key


@dataclass(frozen=True, slots=True)
class LargeAnswer:
    """An answer that is to be derived in steps, so that a read of it can be a hit. `keys`: these are stored one after
    the other; none: the answer is of all of its keys together, and is not stored. `held`: the only key, which is large.
    `parts`: of each key, all of which are stored, and are to be joined. `due`: it is to be compared behind that."""

    keys: Sequence[tuple[Key, Params]]
    held: Held | None = None
    parts: Sequence[bytes] = ()
    due: bool = False


class HeldAnswers:
    """Of one cache in one wire format. `together`: is the answer of so many keys derived from all of them together, and
    not stored? `large`: what has kept the last look from an answer, if that is to be derived in steps. Who has looked
    takes it in the same step of the loop."""

    def __init__(self, host: Host, cache: NamedCache, format_: int, together: Callable[[int], bool]) -> None:
        self.join = host.wire(format_).join_short
        self.large: LargeAnswer | None = None
        self._host = host
        self._cache = cache
        self._format = format_
        self._together = together

    def note_long(self, parts: Sequence[bytes]) -> None:
        """A list's answers, all that it has, are long to join."""
        self.large = LargeAnswer((), parts=parts)

    def body(self, reader: ReaderNode, binding: Binding, *, given: bool) -> bytes | None:
        """The answer of a read that is about to be given it, or that only looks."""
        return self._held(reader, binding, given=given, joined=True)

    def are_stored(self, reader: ReaderNode, binding: Binding) -> bool:
        """Whether the answers of these keys, which are some of a read's, are stored, by now. Requires: they are of one
        each."""
        return self._held(reader, binding, given=True, joined=False) is not None

    def _held(self, reader: ReaderNode, binding: Binding, *, given: bool, joined: bool) -> bytes | None:
        trust = self._cache.trust
        if trust is None:
            return self._looked(reader, binding, None, given=given, joined=joined)
        trust.behind.clear()
        body = self._looked(reader, binding, trust, given=given, joined=joined)
        if body is None:
            trust.look_again()
        return body

    def _looked(
        self, reader: ReaderNode, binding: Binding, trust: Trust | None, *, given: bool, joined: bool
    ) -> bytes | None:
        keys = binding.keys
        seconds = self._host.seconds(reader) if trust is not None else 0.0
        if not keys:
            if trust is not None and trust.holds_back_derived(seconds, given=given):
                return None
            return reader.encoders[self._format](reader.finish([], binding.params))
        if self._together(len(keys)):
            return self._looked_together(reader, binding, trust, seconds, given=given)
        parts = []
        memory = reader.memory
        until = memory.derived + memory.most_rows
        try:
            for at, (key, params) in enumerate(keys):
                if memory.derived > until:
                    self.large = LargeAnswer(keys[at:])
                    return None
                body = self._looked_at(reader, key, params, trust, seconds, given=given)
                if body is None:
                    return None
                parts.append(body)
        finally:
            self._host.keep_limit()  # keys may have been taken up, also where one cannot be computed
        if len(parts) == 1 or not joined:
            return parts[0]
        try:
            return self.join(parts)
        except TooLong:
            self.note_long(parts)
            return None

    def _looked_together(
        self, reader: ReaderNode, binding: Binding, trust: Trust | None, seconds: float, *, given: bool
    ) -> bytes | None:
        keys, rows = binding.keys, None
        try:
            rows = reader.answer(keys, short=True)
            if rows is None:
                return None
        except TooLong:
            pass
        if trust is not None and trust.holds_back_together(reader, keys, seconds, given=given):
            return None
        if rows is None:
            self.large = LargeAnswer((), due=trust is not None and bool(trust.behind))
            return None
        for key, _ in keys:
            if (held := reader.entries.get(key)) is not None:
                held.visited = True
        return reader.encoders[self._format](rows)

    def _looked_at(
        self, reader: ReaderNode, key: Key, params: Params, trust: Trust | None, seconds: float, *, given: bool
    ) -> bytes | None:
        # Another reader's fills may have left all that this key needs.
        held = reader.entries.get(key) or self._host.hold(reader, key, params)
        if held is None or (trust is not None and trust.holds_back(held, seconds, given=given)):
            return None  # it is a hole, or compared first
        body = None
        large = reader.is_large(held, self._format)
        if not large:
            try:
                body = reader.body(held, params, self._format)
            except TooLong:  # it was short before
                reader.long.add(key)
                large = True
        if large:  # it is derived in steps (`Misses._derive_large`)
            self.large = LargeAnswer([(key, params)], held, due=trust is not None and held in trust.behind)
        if body is not None:
            held.visited = True
        return body

    def look_at(self, reader: ReaderNode, key: Key, params: Params) -> tuple[bytes | None, LargeAnswer | None]:
        """The answer of one key, stored now if it was not, or what has kept it from that. Requires: the cache is
        trusted."""
        self.large = None
        try:
            return self._looked_at(reader, key, params, None, 0.0, given=True), self.take_large()
        finally:
            self._host.keep_limit()  # it may have been taken up

    def take_large(self) -> LargeAnswer | None:
        """What has kept the last read from being a hit, if that was to be derived in steps."""
        large, self.large = self.large, None
        return large
