"""The access log: a sample of the reads, for `upwell rank`.

    a hit     OpenCache offers one in `every`, which goes the long way anyway     -> takes_hit, taken
    a miss    Misses                                                              -> read
    passed    by a cache: Misses, Session._passed     -> passed;  for which there is none: ProxiedQuery.note  -> proxied

Chance puts a read into the sample, as often as `share` says. Its row says how many reads it stands for. Once a second
rows become text, in slices of the loop, and go to the writing process (`proxy/access/writer.py`). At most MOST_ROWS
wait for it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, time

import structlog

from bulk.access_rows import CANNOT, HIT, LISTED, NO_CACHE, PASSED, AccessSettings
from proxy.access.charts import AccessCharts
from proxy.access.writer import AccessWriter
from proxy.auto.passed_reads import ProxiedQueries, ProxiedQuery, shape_of
from proxy.cache.key_binder import Binding, keys_in
from proxy.cache.ledger import SAMPLE
from proxy.cache.named_cache import NamedCache
from proxy.loop.slices import Slices
from proxy.port.api import ParameterValue
from proxy.port.reasons import Reason, Why
from sqltypes.errors import UpwellError
from upwell.key_text import written

log = structlog.get_logger("upwell.access_log")

MOST_ROWS = 50_000  # that wait to be written: about 20 MB
LONGEST_KEY = 4096  # bytes, about
SENT_EVERY = 1.0  # seconds
LISTED_EVERY = 300.0  # seconds from one row that says that a cache exists to the next
JUDGED_AT_ONCE = 5  # shapes of passed reads of which is found out whether they can be cached
SHAPES = 10_000  # of caches, that are remembered

Values = Sequence[ParameterValue]


@dataclass(slots=True)
class _Row:
    """`of`: the cache, or the shape that has none. `key`: the read's parameters; None: not told."""

    time: float
    of: NamedCache | ProxiedQuery
    key: Values | None
    outcome: str
    reason: str
    us: float
    weight: float
    keys: int


class AccessLog:
    """`caches`: all that there are, by name. `chance`: from 0 to 1."""

    def __init__(
        self,
        settings: AccessSettings,
        writer: AccessWriter,
        caches: Mapping[str, NamedCache],
        proxied: ProxiedQueries,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.sample(settings.share)
        self.writer = writer
        self._caches = caches
        self._proxied = proxied
        self._chance = chance
        self._rows: list[_Row] = []
        self._sending: asyncio.Task[None] | None = None
        self._sent_at = monotonic()
        self._listed_at = float("-inf")
        self._shapes: dict[str, str] = {}
        self.charts = AccessCharts(settings.folder, lambda: self._share)
        proxied.noted.append(self.proxied)

    def sample(self, share: float) -> None:
        """Such a part of the reads is logged from now on: above 0, at most 1."""
        self.every = max(1, min(SAMPLE, int(1 / share)))
        self.weight = 1 / share
        self._share = share
        self._of_offered = share * self.every

    def gap(self) -> int:
        """So many hits of a cache until the next one is offered: never the same, for reads come in patterns."""
        return random.randrange(1, 2 * self.every)

    # -- what is read --------------------------------------------------------------------------------------------------

    def takes_hit(self) -> bool:
        """Whether a hit that is offered is to be `taken`."""
        return self._chance() < self._of_offered

    def read(self, cache: NamedCache, binding: Binding, outcome: str, us: float) -> None:
        """A read that was not offered."""
        if self._chance() < self._share:
            self.taken(cache, binding, outcome, us)

    def hit_of(self, cache: NamedCache, values: Values) -> None:
        """As `read`, of a hit given from what was shown before."""
        if self._chance() < self._share:
            self._add_unbound(cache, values, HIT, "", 0.0)

    def hit_of_list(self, cache: NamedCache, values: Values) -> None:
        """A hit that is offered, of lists with so many values that they are not bound as a whole."""
        if self.takes_hit() and cache.binder is not None:
            one = tuple(random.choice(value) if isinstance(value, tuple) and value else value for value in values)
            with suppress(UpwellError):
                self.taken(cache, cache.binder.bind(one), HIT, 0.0, count=keys_in(values))

    def passed(self, cache: NamedCache, values: Values | None, why: str, us: float) -> None:
        """MySQL has answered a read of a cache. `values` None: they are not known."""
        if self._chance() < self._share:
            self._add_unbound(cache, values, PASSED, why, us)

    def passed_by_name(self, name: str, values: Values | None, why: str, us: float) -> None:
        """As `passed`; the cache may be gone meanwhile."""
        if (cache := self._caches.get(name)) is not None:
            self.passed(cache, values, why, us)

    def proxied(self, query: ProxiedQuery, us: float, times: int, reason: Reason, unable: Why) -> None:
        """MySQL has answered a read that no cache is for, which stands for so many."""
        likely = min(1.0, times * self._share)
        if self._chance() < likely:
            self._add(_Row(time(), query, None, PASSED, "", us, times / likely, 1))

    def _add_unbound(self, cache: NamedCache, values: Values | None, outcome: str, why: str, us: float) -> None:
        binder = cache.binder
        if values is not None and binder is not None:
            with suppress(UpwellError):
                if not binder.too_many(values):
                    self.taken(cache, binder.bind(values), outcome, us, why)
                    return
        self._add(_Row(time(), cache, None, outcome, why, us, self.weight, 1))

    def taken(
        self, cache: NamedCache, binding: Binding, outcome: str, us: float, why: str = "", count: int = 0
    ) -> None:
        """Of several keys, one stands for all. `count`: how many there are, 0: those of the binding."""
        keys = binding.keys
        params = (keys[0] if len(keys) == 1 else random.choice(keys))[1] if keys else None
        if params is not None and is_long(params):
            params = None
        self._add(_Row(time(), cache, params, outcome, why, us, self.weight, count or len(keys) or 1))

    def _add(self, row: _Row) -> None:
        if len(self._rows) >= MOST_ROWS:
            self.writer.lose(1)
        else:
            self._rows.append(row)

    # -- what is written -----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """To be called now and then."""
        now = monotonic()
        due = self._rows or now - self._listed_at >= LISTED_EVERY
        sending = self._sending is not None and not self._sending.done()
        if due and not sending and now - self._sent_at >= SENT_EVERY:
            self._sent_at = now
            self._sending = asyncio.get_running_loop().create_task(self._send(last=False))

    async def close(self) -> None:
        """Writes what is held."""
        self.charts.close()
        self._proxied.noted.remove(self.proxied)
        if self._sending is not None:
            await self._sending
        await self._send(last=True)
        await self.writer.close()

    async def _send(self, *, last: bool) -> None:
        """A fault costs the rows, and nothing else."""
        rows, self._rows = self._rows, []
        slices = Slices()
        try:
            if last or monotonic() - self._listed_at >= LISTED_EVERY:
                self._listed_at, at = monotonic(), time()
                for cache in list(self._caches.values()):
                    rows.append(_Row(at, cache, None, LISTED, "", 0.0, 0.0, 0))
                    await slices.turn()
            if not last:
                await self._judge(rows)
            await self._write(rows, slices)
        except Exception:
            self.writer.lose(len(rows))
            log.exception("access_log_failed")

    async def _write(self, rows: list[_Row], slices: Slices) -> None:
        some: list[bytes] = []
        for number, row in enumerate(rows, 1):
            some.append(self._line(row))
            if number % 200 == 0 or number == len(rows):
                await self.writer.send(b"".join(some), len(some))
                some = []
            await slices.turn()

    async def _judge(self, rows: list[_Row]) -> None:
        """Finds out of a few shapes whether they can be cached."""
        shapes = {row.of: None for row in rows if isinstance(row.of, ProxiedQuery) and row.of.judgement is None}
        with suppress(UpwellError):  # MySQL cannot be asked now
            for query in sorted(shapes, key=lambda query: -query.total_us)[:JUDGED_AT_ONCE]:
                await self._proxied.judged(query)

    def _line(self, row: _Row) -> bytes:
        of = row.of
        values: tuple[str | None, ...]
        key = None if row.key is None else written(row.key)
        if isinstance(of, ProxiedQuery):
            judgement = of.judgement
            refused = judgement is not None and self._proxied.is_refused(of)
            reason = f"{CANNOT}{judgement.reason}" if judgement is not None and refused else NO_CACHE
            values = (None, of.shape, of.database, key, row.outcome, reason)
        else:
            values = (of.name, self._shape(of.sql), of.database, key, row.outcome, row.reason)
        line = json.dumps((int(row.time * 1e6), *values, row.us, row.weight, row.keys), ensure_ascii=False)
        return line.encode(errors="replace") + b"\n"

    def _shape(self, sql: str) -> str:
        found = self._shapes.get(sql)
        if found is None:
            if len(self._shapes) >= SHAPES:
                self._shapes.clear()
            found = self._shapes[sql] = shape_of(sql)
        return found


def is_long(values: Values) -> bool:
    """Whether a key has too many bytes, about, to be written."""
    size = 0
    for value in values:
        if isinstance(value, tuple):
            size += 8 * len(value)
            if size > LONGEST_KEY:
                return True
            size += sum([len(one) for one in value if isinstance(one, (str, bytes))])
        elif isinstance(value, (str, bytes)):
            size += len(value)
    return size > LONGEST_KEY
