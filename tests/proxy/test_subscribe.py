"""How a subscription begins."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.router import Router
from sqltypes.errors import SourceDown


@pytest.mark.parametrize("before", [True, False])
def test_none_begins_while_hits_are_closed(before: bool) -> None:
    """Also where that begins while the first rows are compared."""
    router = SimpleNamespace(closed="away" if before else "", compared=0)
    router._catalog = SimpleNamespace(get=lambda name: SimpleNamespace(name=name, why="", reader=None, binder=None))

    async def compare_first(cache: object, parameters: object) -> None:
        router.compared += 1
        router.closed = "away since"

    router._compare_first = compare_first

    async def scenario() -> None:
        with pytest.raises(SourceDown, match=r"^away"):
            await anext(Router.subscribe(cast(Any, router), "c", ()))

    asyncio.run(scenario())
    assert router.compared == (0 if before else 1)
