"""How a subscription begins."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.system.subscriptions import Subscriptions
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
