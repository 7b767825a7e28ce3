"""What becomes of a read that is no hit: an upquery, a comparison with MySQL's own answer, or why MySQL is to answer.

Large answers that are held and not stored are hits, too, once they are derived, in steps."""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING

from bulk.access_rows import HIT, MISS
from dataflow.entries import Held, Linking
from dataflow.fills.missing import holes_below
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.in_steps import HeldRows, Holes, Linked, RowsAt
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from proxy.auto.fill_budget import FILL_US
from proxy.cache.key_binder import MOST_LISTED, TOO_MANY, Binding
from proxy.cache.trust import Compared
from proxy.loop.metered import Metered
from proxy.loop.slices import ROWS_AT_ONCE, Slices, encode_in_slices, run_in_slices
from proxy.port.api import ANSWERED_BY_MYSQL, Answer, Demand, ParameterValue, Served
from proxy.port.faults import is_fault
from proxy.port.reasons import NO_REASON, Reason, Why, of_error
from proxy.pump.pump import NO_CONNECTION, NOT_COMPARED, SUSPECTED, Behind, PassThrough
from proxy.read.freshness import CallDemand
from proxy.read.host import ReadHost
from proxy.read.literals import substituted
from proxy.read.look import Due, InSteps, Look, Missing, let_go
from proxy.read.opened import Opened
from sqltypes.errors import AnswerTooLarge, Overloaded, SourceDown, SourceError
from sqltypes.expression import Key, Row

if TYPE_CHECKING:
    from proxy.cache.trust import Trust

WHOLE_FILL = Reason.LATE.why("all rows of the table are being filled")
NOT_FILLED = {
    "source_error": Reason.LATE.why("MySQL refuses the query that fills the key"),
    "source_down": Reason.LATE.why("the query that fills the key does not reach MySQL"),
    "overloaded": Reason.LATE.why("the query that fills the key is too much"),
}
"""Why a fill has failed, which may be for a key beside this one, or for what was asked beside the client's own text."""
MOST_TURNS = 1000
"""How many turns of the loop a read waits for another one that links the same key."""
MOST_LARGE = 20
"""How many large answers of one list are derived, or one that changes all the time, before MySQL is asked."""


class Misses:
    """Of one opened cache. Made for each read: nothing of it stays."""

    def __init__(self, opened: Opened, host: ReadHost, format_: int) -> None:
        self._opened = opened
        self._host = host
        self._cache = opened.named
        self._format = format_
        self._join = host.pump.formats.joins[format_]
        self.holes: Holes = {}  # found in steps: what is missing below keys that are long to derive

    async def read(self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = "") -> Answer:
        """As `hit`, else by an upquery, else passed through with the reason. Raises TooStale."""
        assert demand is None or isinstance(demand, CallDemand), "demands are the host's"
        answer = self._left(parameters) or await self.fill(parameters, demand, text)
        if isinstance(answer, Answer):
            self._cache.count(answer.served)
            return answer
        started = perf_counter_ns()
        passed = await self._host.passing.read_cache(self._cache, parameters, self._format, answer, demand)
        for log in (self._host.access_log, self._host.watch):
            if log is not None:
                log.passed(self._cache, parameters, answer, (perf_counter_ns() - started) / 1000)
        return passed

    def fill(
        self, parameters: Sequence[ParameterValue], demand: Demand | None = None, text: str = "", *, wait: bool = True
    ) -> Coroutine[None, None, Answer | Why]:
        """As `hit`, else by an upquery; the reason where MySQL itself is to answer: also where the upquery fails, which
        is not the client's text alone. Nothing is counted: who gives the answer to a client does it
        (`NamedCache.count`). `wait` False: where the loop or the connections are short, too. Raises TooStale."""
        assert demand is None or isinstance(demand, CallDemand), "demands are the host's"
        if not self._cache.is_automatic:
            return self._filled(parameters, demand, text, wait=wait)
        return self._metered(parameters, demand, text, wait=wait)

    async def _metered(
        self,
        parameters: Sequence[ParameterValue],
        demand: CallDemand | None,
        text: str,
        *,
        wait: bool,
    ) -> Answer | Why:
        """As `fill`, of an automatic cache, whose hits must pay for what its fills take of the loop."""
        if not wait and (why := self._left(parameters) or self._filled_whole(parameters, text)):
            return why
        metered, filled = Metered(self._filled(parameters, demand, text, wait=wait)), 0.0
        try:
            answer = await metered
            if isinstance(answer, Answer) and answer.served is Served.MISS:
                filled = FILL_US
            return answer
        finally:
            self._host.budget.charge(self._cache, metered.us + filled)

    def _left(self, parameters: Sequence[ParameterValue]) -> Why:
        """Why a read of an automatic cache is left to MySQL while the loop is short; "" if it is not."""
        cache = self._cache
        if not cache.is_automatic:
            return NO_REASON
        why = self._host.budget.leaves(cache.name, tuple(parameters))
        cache.left += why != ""
        return why

    def _filled_whole(self, parameters: Sequence[ParameterValue], text: str) -> Why:
        """Why a read of a range is MySQL's, "" if it is not: all rows of the table are filled at once, for which MySQL
        takes longer than for the range."""
        reader, cache = self._opened.ready(), self._cache
        if reader is None or not reader.fills_whole:
            return NO_REASON
        if cache.filling is None or cache.filling.done():
            filling = self.fill(parameters, None, text)
            cache.filling = asyncio.get_running_loop().create_task(filling)
            cache.filling.add_done_callback(_looked_at)
        return WHOLE_FILL

    async def _filled(
        self, parameters: Sequence[ParameterValue], demand: CallDemand | None, text: str, *, wait: bool
    ) -> Answer | Why:
        """As `fill`. What fails on the way, a fault of ours included, is a reason for MySQL to answer."""
        try:
            return self._cache.too_large.why(parameters) or await self._answered(parameters, demand, text, wait=wait)
        except PassThrough as reason:
            return reason.why
        except ANSWERED_BY_MYSQL as reason:
            return of_error(reason)
        except AnswerTooLarge as error:
            why = Reason.OTHER.why(error.message)
            self._cache.too_large.note(parameters, why)
            return why
        except (SourceError, SourceDown, Overloaded) as error:
            return NOT_FILLED.get(error.reason) or Reason.OTHER.why(error.reason)
        except Exception as error:
            if not is_fault(error):
                raise
            return of_error(self._opened.fault(error, parameters, demand, text))

    async def _answered(
        self, parameters: Sequence[ParameterValue], demand: CallDemand | None, text: str, *, wait: bool
    ) -> Answer | Why:
        """With an answer that meets the demand. A hole is asked of MySQL at once: the upquery may have what the
        position lacks. What is held waits for the position."""
        opened = self._opened
        while True:
            self.holes = {}  # another plan's, or of a while ago
            met = demand is None or demand.met()
            found: Answer | Look | Due
            found = opened.look(parameters) if met or opened.ready() is None else opened.plan.too_many(parameters)
            reader = opened.plan.reader
            if isinstance(found, bytes | InSteps):
                found = await self.look(parameters, found)
                if isinstance(found, Answer):
                    return found
                if opened.ready() is not reader:
                    continue  # it has another plan by now
            if isinstance(found, Why) and found:
                if found is TOO_MANY:  # the keys of one long list are filled behind it
                    self._host.want(self._cache, parameters)
                return found
            assert reader is not None
            binding = opened.plan.bind(parameters)
            ahead = self.answer_ahead(reader, binding, demand) if reader.nodes[0].ahead else None
            if ahead is not None:
                return self._told_ahead(binding, *ahead)
            if not met:
                found = opened.plan.held.look(reader, binding, given=False)
            if not isinstance(found, bytes | Due):
                if not wait and demand is not None and await self._host.pump.would_wait(reader, binding.keys):
                    return NO_CONNECTION
                with suppress(Behind):
                    return await self._miss(reader, binding, parameters, text, demand, hole=found is Missing.HOLE)
            if demand is not None and not await demand.reached():
                demand.refuse()
                return Reason.LATE.why(f"{demand.shortage()} (too_stale)")

    async def look(self, parameters: Sequence[ParameterValue], found: Look | None = None) -> Answer | Missing | Why:
        """As `OpenCache.look`; answers that are long to derive or to join are so in several steps of the loop. `found`:
        what it has found just now."""
        due: list[Held] = []
        try:
            then = await self._look(parameters, found, due)
            return (self._opened.plan.too_many(parameters) or then) if isinstance(then, Missing) else then
        finally:
            let_go(due)  # what is given was taken out

    async def _look(
        self, parameters: Sequence[ParameterValue], first: Look | None, due: list[Held]
    ) -> Answer | Missing | Why:
        """`due`: what was derived for this, and is to be compared behind. It is empty where that has begun."""
        cache, opened = self._cache, self._opened
        tries, left = 0, MOST_LISTED
        while tries < MOST_LARGE:
            tries += 1
            found, first = opened.look(parameters) if first is None else first, None
            if isinstance(found, bytes):
                cache.recount(None)  # whoever gives it counts it
                if due and opened.plan.reader is not None and cache.trust is not None:
                    due.clear()
                    opened.compare_behind(opened.plan.reader, opened.plan.bind(parameters), parameters, found)
                return Answer(Served.HIT, cache.columns, found, self._host.position.text(), cache.name)
            if not isinstance(found, InSteps):
                return found
            if not found.keys:
                answer = await self._made_together(parameters, found)
                if answer is not None:
                    return answer
                if self.holes:
                    return Missing.HOLE
            elif found.held is not None:
                due += [found.held] if found.due else []
                if not await self._derive_due(found.held, found.keys[0][1], found.due):
                    return Missing.HOLE
            else:
                if len(found.keys) < left:
                    tries, left = 0, len(found.keys)  # some more are stored
                else:
                    tries += MOST_LARGE // 4  # they change all the time, or are too much for the memory
                await self._derive_listed(found.keys)
        return Missing.HELD_BACK  # it changes all the time

    async def _derive_listed(self, keys: Sequence[tuple[Key, Params]]) -> None:
        """Stores the answers of these keys, as far as they are held. What may be due for it is compared by the read
        itself."""
        await sleep(0)
        opened, trusted = self._opened, self._cache.trust is None
        reader = opened.ready()
        slices = Slices()
        for key, params in keys if trusted and reader is not None else ():
            if self._cache.trust is not None or opened.ready() is not reader:
                return
            assert reader is not None
            found = opened.plan.held.of_key(reader, key, params)
            if isinstance(found, InSteps) and found.held is not None:
                if not await self._derive_large(found.held, params):
                    return
            elif not isinstance(found, bytes):
                return
            await slices.turn()

    async def _made_together(self, parameters: Sequence[ParameterValue], large: InSteps) -> Answer | None:
        """A large answer that is not stored by key, or is joined, at the position that it is begun at; None where a
        change comes meanwhile, or a part of it is a hole."""
        cache, opened = self._cache, self._opened
        reader = opened.ready()
        if reader is None or (cache.trust is not None and cache.trust.suspicions):
            return None
        generation, position, sequence = opened.generation, self._host.position.text(), reader.memory.sequence
        columns, encode = cache.columns, reader.encodings.encoders[self._format]
        binding = None
        body: bytes | None
        if large.parts:
            body = await self._joined(large.parts)
        else:
            binding = opened.plan.bind(parameters)
            body = await self._derive_together(reader, binding)
        if body is None or opened.generation != generation or reader.encodings.encoders[self._format] is not encode:
            return None  # what it would be told with is another's
        if cache.trust is not None and cache.trust.suspicions:
            return None
        if binding is not None:
            for key, _ in binding.keys:
                if (held := reader.entries.get(key)) is not None:
                    held.visited = True
            if large.due and cache.trust is not None and reader.memory.sequence == sequence:
                opened.compare_behind(reader, binding, parameters, body)
        return Answer(Served.HIT, columns, body, position, cache.name)

    async def _derive_together(self, reader: ReaderNode, binding: Binding) -> bytes | None:
        encode = reader.encodings.encoders[self._format]
        found = RowsAt(reader, binding.keys)
        await run_in_slices(found.steps())
        self.holes = found.holes
        return None if found.rows is None else await encode_in_slices(encode, self._join, found.rows)

    async def _joined(self, parts: Sequence[bytes]) -> bytes:
        steps = self._host.pump.formats.wires[self._format].join_in_steps
        assert steps is not None
        return await run_in_slices(steps(parts))

    async def _derive_due(self, held: Held, params: Params, is_due: bool) -> bool:
        """As `_derive_large`. An answer that is to be compared behind is meanwhile given to nobody else."""
        trust = self._cache.trust
        if not is_due or trust is None or held in trust.unproved:
            return await self._derive_large(held, params)
        owner = object()
        trust.unproved[held] = owner
        try:
            return await self._derive_large(held, params)
        finally:
            if trust.unproved.get(held) is owner:
                del trust.unproved[held]

    async def _derive_large(self, held: Held, params: Params) -> bool:
        """Stores an answer, unless a change comes before that is done. False: a part of it is a hole."""
        reader = held.reader
        assert isinstance(reader, ReaderNode)
        for _ in range(MOST_TURNS):
            if not isinstance(held.watch, Linking):
                break
            await sleep(0)  # another read derives the same
        if held.body(self._format) is not None:
            return True
        found = HeldRows(reader, held, params)
        await run_in_slices(found.steps())
        rows, version = found.rows, found.version
        if found.holes:
            self.holes[held.key] = found.holes
        if rows is None or version is None or held.version != version:
            return not found.holes
        reader.encodings.note(held, self._format)  # first: the encoder may become another one meanwhile
        await sleep(0)
        encoded = await encode_in_slices(reader.encodings.encoders[self._format], self._join, rows)
        if held.alive and held.version == version and held.body(self._format) is None:
            reader.encodings.store(held, self._format, encoded)
            self._host.engine.limit.keep()
        return True

    def answer_ahead(
        self, reader: ReaderNode, binding: Binding, demand: CallDemand | None = None
    ) -> tuple[list[Row], GtidSet] | None:
        """The rows of a single key that is held ahead of the position, and what it reflects beyond that, if that meets
        the demand; its bytes are not stored, for the header of a hit names the position."""
        if len(binding.keys) != 1:
            return None
        trust = self._cache.trust
        ((key, params),) = binding.keys
        if trust is not None and (trust.suspicions or (trust.changed and not trust.changes.earned)):
            return None  # it could not be compared: it is at no position
        found = reader.answer_ahead(params)
        if found is None or (demand is not None and not demand.met_ahead(found[1])):
            return None
        held = self._host.engine.sieve.hold(reader, key, params)
        if held is not None:
            held.visited = True
        self._host.engine.limit.keep()
        self._host.engine.memory.count("hits_ahead")
        self._log(binding, HIT, 0)
        return found

    def _log(self, binding: Binding, outcome: str, started: int) -> None:
        """`started`: when, in nanoseconds; 0: just now."""
        if self._host.access_log is not None:
            us = (perf_counter_ns() - started) / 1000 if started else 0.0
            self._host.access_log.read(self._cache, binding, outcome, us)

    def _tell(self, binding: Binding, parameters: Sequence[ParameterValue], started: int, *, hole: bool) -> None:
        """Of a miss, whoever wants to know."""
        self._log(binding, MISS, started)
        if self._host.watch is not None:
            us = (perf_counter_ns() - started) / 1000
            self._host.watch.missed(self._cache, parameters, us, hole=hole)

    def _told_ahead(self, binding: Binding, rows: list[Row], lower: GtidSet) -> Answer:
        cache, host = self._cache, self._host
        assert self._opened.plan.reader is not None
        ((key, params),) = binding.keys
        held = host.engine.sieve.hold(self._opened.plan.reader, key, params)
        cut = held.deps[0].cut if held is not None else None
        horizon = host.position.text_with(lower.union(cut.doubt)) if cut is not None and cut.doubt else ""
        body = self._opened.plan.reader.encodings.encoders[self._format](rows)
        return Answer(Served.HIT, cache.columns, body, host.position.text_with(lower), cache.name, horizon=horizon)

    async def _miss(
        self,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        text: str,
        demand: CallDemand | None,
        *,
        hole: bool,
    ) -> Answer:
        """By an upquery. What may be held (`hole` False) is compared first, where the cache is new. Raises
        PassThrough."""
        cache = self._cache
        check = None
        if reader.program.levels:
            await run_in_slices(holes_below(reader, binding.keys, self.holes))
        if cache.reader is not reader and self._opened.ready() is not reader:
            raise PassThrough(NOT_COMPARED)  # it has another plan by now
        if cache.trust is not None:
            if cache.trust.suspicions:
                raise PassThrough(SUSPECTED)
            compared = None if hole else await self._compared_if_held(reader, binding, parameters, text, demand)
            if compared is not None:
                self._log(binding, HIT, 0)
                return compared
            if cache.trust is None or self._opened.ready() is not reader:
                raise PassThrough(NOT_COMPARED)  # it has another plan by now
            if self._host.auditor.fill_is_due(cache, binding):
                text = text or substituted(cache.text, parameters)
                encode = reader.encodings.encoders[self._format]
                together = self._opened.plan.is_whole(binding)
                check = self._host.auditor.fill_check(
                    cache, reader, binding, parameters, text, encode, together=together
                )
        compare = cache.trust is not None and self._host.auditor.list_is_due(cache, binding)
        started = perf_counter_ns()
        ready = None
        try:
            pump = self._host.pump
            ready = await pump.miss(reader, binding.keys, demand, check, doubted=compare, holes=self.holes)
        finally:
            if check is not None:
                check.close(given=ready is not None)
        took = perf_counter_ns() - started
        cache.time_miss(took, checked=check is not None)
        self._host.times[Served.MISS.value].note(took / 1e9)
        if self._host.access_log is not None or self._host.watch is not None:
            self._tell(binding, parameters, started, hole=hole)
        if compare or (ready.settled and cache.trust is not None and cache.trust.of_derived() is Compared.FIRST):
            return replace(await self._compared_once_filled(reader, binding, parameters, text), served=Served.MISS)
        horizon = str(ready.horizon) if ready.horizon is not None else ""
        # Together: MySQL may tell others meanwhile.
        columns, encode = cache.columns, reader.encodings.encoders[self._format]
        rows = ready.rows
        body = encode(rows) if len(rows) <= ROWS_AT_ONCE else await encode_in_slices(encode, self._join, rows)
        return Answer(Served.MISS, columns, body, str(ready.position), cache.name, horizon=horizon)

    async def _compared_if_held(
        self,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        text: str,
        demand: CallDemand | None,
    ) -> Answer | None:
        """As `_compared`; None where a part of the answer is a hole, or is older than demanded. Keys that are long to
        derive are linked first, in steps. Raises PassThrough."""
        fresh: dict[Held, bool] = {}
        trust = self._cache.trust
        assert trust is not None
        try:
            if binding.keys:
                if demand is not None and not demand.met():
                    return None
                if not await self._linked(reader, binding, fresh, trust):
                    return None
            if self._cache.trust is not trust:
                raise PassThrough(NOT_COMPARED)  # it has another plan by now, or is trusted
            return await self._compared(reader, binding, parameters, text, fresh)
        finally:
            trust.leave(fresh)

    async def _compared_once_filled(
        self, reader: ReaderNode, binding: Binding, parameters: Sequence[ParameterValue], text: str
    ) -> Answer:
        """As `_compared`, of what has just been filled. Raises PassThrough."""
        fresh: dict[Held, bool] = {}
        trust = self._cache.trust
        if trust is None:
            raise PassThrough(NOT_COMPARED)
        try:
            await self._linked(reader, binding, fresh, trust)
            return await self._compared(reader, binding, parameters, text, fresh)
        finally:
            trust.leave(fresh)

    async def _linked(self, reader: ReaderNode, binding: Binding, fresh: dict[Held, bool], trust: Trust) -> bool:
        """Whether all that the answer is made of is held. What is linked for that goes to `fresh`: nobody is given it
        before it is compared. Raises PassThrough."""
        try:
            return reader.holds(binding.keys)
        except TooLong:
            pass
        slices = Slices()
        for key, params in binding.keys:
            for tried in range(MOST_LARGE):
                await slices.turn()
                held = self._host.engine.sieve.hold(reader, key, params)
                if held is None:
                    return False
                if held.version is not None:
                    break
                if tried == MOST_LARGE - 1:
                    raise PassThrough(NOT_COMPARED)  # it changes all the time
                trust.own(held, fresh)
                link = Linked(reader, held, params)
                await run_in_slices(link.steps())
                if link.holes:
                    self.holes[key] = link.holes
                    return False
        return True

    async def _compared(
        self,
        reader: ReaderNode,
        binding: Binding,
        parameters: Sequence[ParameterValue],
        text: str,
        fresh: dict[Held, bool] | None = None,
    ) -> Answer:
        """A hit that MySQL was asked for, too, before it is given. Raises PassThrough."""
        cache = self._cache
        text = text or substituted(cache.text, parameters)
        comparison = await self._host.auditor.compared(
            cache,
            reader,
            binding,
            parameters,
            text,
            self._format,
            together=self._opened.plan.is_whole(binding),
            fresh=fresh,
        )
        if comparison is None or comparison.body is None:
            raise PassThrough(NOT_COMPARED)
        return Answer(Served.HIT, cache.columns, comparison.body, comparison.at, cache.name)


def _looked_at(filling: asyncio.Task[object]) -> None:
    """Nobody waits for it: the next read tells MySQL's reason, if it has failed."""
    if not filling.cancelled():
        filling.exception()
