"""How a subscription begins, and how it ends for those that are slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dataflow.messages import Changes
from proxy.system.subscriptions import LOOKED_AT, Subscriptions, rows_bytes
from sqltypes.errors import SourceDown


@pytest.mark.parametrize("before", [True, False])
def test_none_begins_while_hits_are_closed(before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that begins while the first rows are compared."""
    router: Any = SimpleNamespace(closed="away" if before else "", compared=0)
    catalog: Any = SimpleNamespace(get=lambda name: SimpleNamespace(name=name, why="", reader=None, binder=None))
    subscriptions = Subscriptions(router, catalog)

    async def compare_first(cache: object, parameters: object) -> None:
        router.compared += 1
        router.closed = "away since"

    monkeypatch.setattr(subscriptions, "_compare_first", compare_first)

    async def scenario() -> None:
        with pytest.raises(SourceDown, match=r"^away"):
            await anext(subscriptions.subscribe("c", ()))

    asyncio.run(scenario())
    assert router.compared == (0 if before else 1)


def test_what_slow_subscribers_have_not_taken_is_limited_for_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one with the most is cut off, and what it had is let go; the others go on."""
    delivers: list[Callable[[Changes], None]] = []
    stopped: list[int] = []

    def begun(reader: object, keys: object, deliver: Callable[[Changes], None]) -> int:
        delivers.append(deliver)
        return len(delivers)

    binder = SimpleNamespace(too_many=lambda given: "", bind=lambda given: SimpleNamespace(keys=[(1, ())]))
    cache = SimpleNamespace(name="c", why="", reader=object(), binder=binder, trust=None)
    pump = SimpleNamespace(subscribe=begun, unsubscribe=stopped.append)
    host: Any = SimpleNamespace(closed="", pump=pump, position=SimpleNamespace(text=lambda: "p"))
    catalog: Any = SimpleNamespace(get=lambda name: cache)
    subscriptions = Subscriptions(host, catalog)

    async def compare_first(cache: object, parameters: object) -> None:
        pass

    monkeypatch.setattr(subscriptions, "_compare_first", compare_first)
    row = ("x" * 1000,)
    monkeypatch.setattr("proxy.system.subscriptions.WAITING_BYTES", 4 * rows_bytes([row]))

    async def scenario() -> None:
        quick, slow = subscriptions.subscribe("c", ()), subscriptions.subscribe("c", ())
        taking = [asyncio.ensure_future(anext(events)) for events in (quick, slow)]
        while len(delivers) < 2:
            await asyncio.sleep(0)
        for number in range(3):
            for deliver in delivers:
                deliver(Changes(1, [], [row], snapshot=not number))
            if not number:
                await asyncio.gather(*taking)
            else:
                assert (await anext(quick)).added == [row]
        delivers[1](Changes(1, [], [row, row]))
        assert not stopped and subscriptions.cut_off == 0, "four rows are not taken"
        delivers[0](Changes(1, [], [row]))
        assert stopped == [2] and subscriptions.cut_off == 1
        assert (await anext(slow)).end.startswith("too slow: ")
        assert (await anext(quick)).added == [row]
        delivers[0](Changes(1, [], [row] * 4))
        assert (await anext(quick)).added == [row] * 4 and subscriptions.cut_off == 1, "nothing of the other counts"
        for events in (quick, slow):
            await events.aclose()

    asyncio.run(scenario())


def test_of_an_event_of_many_rows_some_are_looked_at() -> None:
    rows = [(number, "x" * 50) for number in range(1000, 1000 + 10 * LOOKED_AT)]
    exact = sum(rows_bytes([row]) for row in rows)
    assert abs(rows_bytes(rows) - exact) < exact / 100
    assert rows_bytes([]) == 0
