"""What tests of a cache's trust look at: MySQL's own answer, what a client was shown, and what was counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from integration.support.grpc_app import Proxy
from integration.trust.test_planted_faults import FAULTS, as_shown

NOT_LIKE = next(fault for fault in FAULTS if fault.name == "NOT LIKE is LIKE")


def counter(proxy: Proxy, name: str) -> int:
    return proxy.app.router.status().counters[name]


def lost(proxy: Proxy) -> int:
    """How many caches have lost their trust."""
    return counter(proxy, "caches_distrusted")


async def truth(proxy: Proxy, sql: str) -> list[str]:
    return as_shown(await asyncio.to_thread(proxy.mysql.execute, f"USE `{proxy.database}`", sql), False)


def shown(rows: Sequence[Sequence[Any]]) -> list[str]:
    return as_shown([tuple(row) for row in rows], False)
