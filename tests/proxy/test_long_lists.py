"""Lists of keys whose answers are derived, and joined, in steps of the loop: what others do in between is their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import cast

import pytest

from dataflow.fills.read import Read
from dataflow.messages import UpqueryRequest
from proxy.cache.key_binder import MOST_KEYS, TOO_MANY, KeyBinder
from proxy.mysql.wire.rows import FORMATS, TEXT
from proxy.port.api import Served, WireFormat
from proxy.read.look import Missing
from proxy.read.misses import Misses
from proxy.read.open_cache import OpenCache
from sqltypes.errors import BadParameters
from sqltypes.expression import Row
from tests.simulation.desk import Announced, Desk, packed, unpacked
from tests.support.engine_rig import Rig, gtids

JOINED = "SELECT t.id, w.v FROM t JOIN w ON w.id = t.v WHERE t.k IN (?)"
PLAIN = f"SELECT id{', v' * 30} FROM t WHERE k IN (?)"
LARGE, SMALL = 999, range(1, 61)


class Lists:
    """A cache of a list, whose keys are filled by hand."""

    def __init__(self, sql: str, wire: WireFormat | None = None) -> None:
        self.rig = Rig(sql)
        self.reader = self.rig.readers[0]
        self.host = Desk(self.rig.engine, wire).host
        cache = Announced("c", sql, "test", plan=self.reader.plan, reader=self.reader, state="ready")
        self.binder = cache.binder = KeyBinder(self.reader.plan, self.reader)
        self.reader.encodings.encoders = [packed]
        if wire is not None:
            self.reader.encodings.encoders = [wire.encoder_for(cache.columns)]
        self.opened = OpenCache(self.host, cache, 0)

    def fill(self, keys: Sequence[int], rows: int, *more: list[Row]) -> None:
        """So many rows for each."""
        self.rig.waiter += 1
        self.rig.engine.reads.read(Read(self.rig.waiter, self.reader, self.binder.bind((tuple(keys),)).keys))
        for request in [effect for effect in self.rig.engine.flush() if isinstance(effect, UpqueryRequest)]:
            fill = self.rig.engine.fills.by_number.get(request.id)
            assert fill is not None
            answer: list[Row] = [(key, cast(int, key) * 10_000 + at, 1) for key in fill.keys for at in range(rows)]
            self.rig.answer(request, answer, *more, lower=gtids(1))

    def make_stale(self, keys: Sequence[int]) -> None:
        for key in keys:
            self.reader.entries[key].stale()

    def read(self) -> Misses:
        return Misses(self.opened, self.host, 0)


def test_another_read_s_large_answer_is_not_taken_for_that_of_a_key_of_the_list() -> None:
    lists = Lists(JOINED)
    for key in SMALL:
        lists.fill([key], 100, [(1, 77)])
    lists.fill([LARGE], 3_000, [(1, 77)])
    lists.make_stale([*SMALL, LARGE])
    turns = 0

    async def scenario() -> None:
        nonlocal turns
        reading = asyncio.create_task(lists.read().fill((tuple(SMALL),)))
        while not reading.done():
            assert lists.opened.hit(((LARGE,),)) is None
            turns += 1
            await asyncio.sleep(0)
        answer = await reading
        assert not isinstance(answer, str) and len(unpacked(answer.body)) == 100 * len(SMALL)
        large = await lists.read().fill(((LARGE,),))
        assert not isinstance(large, str)
        assert sorted(unpacked(large.body)) == [(LARGE * 10_000 + at, 77) for at in range(3_000)]

    asyncio.run(scenario())
    assert turns > 3, "there was something in between"
    lists.rig.engine.check_invariants()


def rows_of(body: bytes) -> int:
    """How many packets there are before the one that ends the answer."""
    at = count = 0
    while at < len(body):
        at += 4 + int.from_bytes(body[at : at + 3], "little")
        count += 1
    return count - 1


def test_a_list_of_very_many_keys_is_told_whole_however_many_are_to_be_derived() -> None:
    lists = Lists(PLAIN, FORMATS[TEXT])
    keys = tuple(range(1, MOST_KEYS + 501))
    for first in range(0, len(keys), 50):
        lists.fill(keys[first : first + 50], 3)

    async def scenario() -> None:
        for stale in (0, 60, MOST_KEYS, MOST_KEYS + 1, MOST_KEYS + 300, len(keys)):
            for first in range(0, len(keys), 50):
                answer = await lists.read().fill((keys[first : first + 50],))
            lists.make_stale(keys[:stale])
            lists.opened.hit((keys,))
            answer = await lists.read().fill((keys,))
            assert not isinstance(answer, str), (stale, answer)
            assert (answer.served, rows_of(answer.body)) == (Served.HIT, 3 * len(keys)), stale

    asyncio.run(scenario())


def test_a_list_of_very_many_keys_of_which_one_is_missing_is_left_to_mysql(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is found as the others are derived in steps; the keys are filled behind it."""
    lists, wanted = Lists(PLAIN), list[object]()
    lists.host.want = lambda cache, parameters: wanted.append(parameters)

    async def look(misses: Misses, parameters: object, first: object, due: object) -> Missing:
        return Missing.HOLE

    monkeypatch.setattr(Misses, "_look", look)
    keys = (tuple(range(MOST_KEYS + 1)),)
    assert asyncio.run(lists.read().fill(keys)) is TOO_MANY and wanted == [keys]


def test_a_very_long_list_for_a_parameter_that_takes_one_value_is_refused_as_a_short_one_is() -> None:
    """Its values are not gone through: nothing else would have its turn meanwhile."""

    class Unread(tuple[int, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[int]:
            raise AssertionError("the list is gone through")

    lists = Lists("SELECT id FROM t WHERE k = ? AND id < ?")
    assert lists.opened.bound((1, 2)) is not None
    for parameters in ((Unread(range(MOST_KEYS + 1)), 1), (1, Unread(range(MOST_KEYS + 1)))):
        assert lists.opened.peek(parameters) is None
        with pytest.raises(BadParameters, match="takes one value, a list was given"):
            asyncio.run(lists.read().fill(parameters))
