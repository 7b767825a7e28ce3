"""The overview and its stream: whole first, then differences; one look for all, no look for nobody."""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from proxy.cache.named_cache import NamedCache
from proxy.http.live import Live, changed
from tests.support.fake_overviews import FakeOverviews, more_hits
from tests.support.fake_system import FakeSystem


def run(scenario: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(scenario, 60))


def looked_at(caches: int = 2) -> FakeOverviews:
    made = FakeSystem()
    for number in range(caches):
        made.caches.add(f"c{number}", {})
    return made.overviews


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as it is written there."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def parsed(events: Sequence[bytes]) -> list[tuple[str, Any]]:
    """(kind, data) of each event."""
    found = []
    for event in b"".join(events).decode().split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in event.split("\n"))
        found.append((lines["event"], json.loads(lines["data"])))
    return found


async def following(live: Live, *, texts: bool = True) -> AsyncIterator[tuple[str, Any]]:
    async with aclosing(live.events(texts=texts)) as events:
        async for event in events:
            for found in parsed(event):
                yield found


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.live.EVERY", 0.01)
    monkeypatch.setattr("proxy.http.live.READS_EVERY", 0.01)


def test_patches_make_of_the_first_event_what_a_look_finds() -> None:
    async def scenario() -> None:
        made = looked_at(50)
        made.changed = more_hits("c7")
        live = Live(made)
        state: Any = None
        kinds = []
        async for kind, data in following(live):
            kinds.append(kind)
            state = data if kind == "overview" else merged(state, data)
            if len(kinds) == 4:
                break
        assert kinds == ["overview", "patch", "patch", "patch"]
        assert state == json.loads(await (await live.now()).whole(texts=True))
        assert state["caches"]["c7"]["hits"] == 7 + 4

    run(scenario())


def test_a_patch_has_what_has_changed_and_no_more() -> None:
    async def scenario() -> None:
        made = looked_at()
        made.changed = more_hits("c1")
        async for kind, data in following(Live(made)):
            if kind == "patch":
                assert data.keys() == {"at", "caches"}
                assert data["caches"] == {"c1": {"hits": 9}}
                return

    run(scenario())


def test_a_dropped_cache_is_taken_away_and_new_rows_of_the_hour_come_alone() -> None:
    async def scenario() -> None:
        made = looked_at()

        def dropped(overview: Any) -> Any:
            if made.looks < 2:
                return overview
            made.rows.append((2.0, 3.0))
            return replace(
                overview, caches={"c0": overview.caches["c0"]}, history=replace(overview.history, rows=made.rows)
            )

        made.changed = dropped
        found = []
        async for event in following(Live(made), texts=False):
            found.append(event)
            if len(found) == 3:
                break
        assert found[1][1]["caches"] == {"c1": None} and "history" not in found[1][1]
        assert found[2] == ("sample", [[2.0, 3.0]])

    run(scenario())


def test_texts_are_only_for_those_who_may_read_them() -> None:
    async def scenario() -> None:
        moment = await Live(looked_at()).now()
        shown, hidden = [json.loads(await moment.whole(texts=texts)) for texts in (True, False)]
        assert shown["caches"]["c0"]["sql"] == "SELECT ..." and shown["queries"]
        assert "queries" not in hidden and "SELECT" not in json.dumps(hidden) and "'bob'" not in json.dumps(hidden)
        assert hidden["caches"]["c0"]["hits"] == 7

    run(scenario())


def test_one_look_for_all_who_look_and_none_for_nobody() -> None:
    async def scenario() -> None:
        made = looked_at()
        live = Live(made)
        await asyncio.sleep(0)
        assert made.looks == 0
        streams = [live.events(texts=texts) for texts in (True, False, True)]
        for _ in range(3):
            await asyncio.gather(*map(anext, streams))
        looks = made.looks
        assert looks <= 4  # 3 rounds of three streams; a stream may begin behind the first
        for stream in streams:
            await stream.aclose()
        for _ in range(1000):
            await asyncio.sleep(0)
        assert made.looks == looks

    run(scenario())


def test_a_client_that_has_missed_a_difference_gets_a_whole_one() -> None:
    async def scenario() -> None:
        made = looked_at()
        live = Live(made)
        async with aclosing(live.events(texts=True)) as events:
            assert parsed(await anext(events))[0][0] == "overview"
            while (await live.now()).number < 3:
                await asyncio.sleep(0)
            assert parsed(await anext(events))[0][0] == "overview"

    run(scenario())


def test_nothing_is_kept_of_a_look_once_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.http.live.KEPT", 0.05)

    async def scenario() -> None:
        live = Live(looked_at())
        moment = weakref.ref(await live.now())
        while moment() is not None:
            await asyncio.sleep(0)
        async with aclosing(live.events(texts=True)) as events:
            assert parsed(await anext(events))[0][0] == "overview"

    run(scenario())


def test_who_has_not_read_for_long_gets_a_whole_one_and_no_difference_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy.http.live.KEPT", 0)

    async def scenario() -> None:
        made = looked_at()
        made.rows.clear()
        made.changed = lambda overview: replace(overview, caches={} if made.looks > 1 else overview.caches)
        async with aclosing(Live(made).events(texts=True)) as events:
            state: Any = None
            for kept in (["c0", "c1"], []):
                for kind, data in parsed(await anext(events)):
                    state = data if kind == "overview" else merged(state, data)
                assert list(state["caches"]) == kept

    run(scenario())


def test_differences_of_what_is_no_object_are_whole() -> None:
    before = {"a": [1, 2], "b": {"c": 1, "d": 2}, "e": 1, "g": {"h": 1}, "i": 0}
    after = {"a": [1], "b": {"c": 1, "d": 3}, "e": 1, "f": {}, "g": 1, "j": 0}
    assert changed(before, after) == {"a": [1], "b": {"d": 3}, "f": {}, "g": 1, "i": None, "j": 0}
    assert merged(before, changed(before, after)) == after


def a_miss(system: FakeSystem, *values: int) -> None:
    system.watching.missed(NamedCache("c0", "SELECT 'secret'", "d"), values, 1500.0, hole=True)


def test_reads_are_told_as_they_happen_and_texts_to_those_who_may_read_them() -> None:
    async def scenario() -> None:
        system = FakeSystem()
        live = Live(system.overviews)
        streams = [live.reads(system.watching.watched(), texts=texts) for texts in (True, False)]
        async with aclosing(streams[0]), aclosing(streams[1]):
            for stream in streams:
                assert await anext(stream) == [b": from now on\n\n"]
            for number in range(45):
                a_miss(system, number)
            ((kind, shown),), ((_, hidden),) = [parsed(await anext(stream)) for stream in streams]
            assert (kind, shown["lost"], len(shown["reads"])) == ("reads", 0, 45)
            assert [read["key"] for read in shown["reads"]] == [f"[{number}]" for number in range(45)]
            assert shown["reads"][0]["query"] == "SELECT 'secret'" and shown["reads"][0]["why"] == "not held"
            assert hidden["reads"][0].keys() == {"at", "outcome", "cache", "reason", "us", "times"}
            assert "secret" not in json.dumps(hidden)
        assert system.watch is None

    run(scenario())
