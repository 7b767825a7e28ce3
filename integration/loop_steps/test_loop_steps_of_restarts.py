"""However many keys are held, no step of a snapshot is long, and none of the start that holds them again.

Measured is the processor's time of each step, as in `integration/loop_steps/test_loop_steps.py`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration.bulk.test_bulk_fills import NUMBERS, fill, rows
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from integration.support.short_steps import each_step_is_short
from proxy.port.api import ParameterValue
from proxy.port.fill_progress import FillBy
from tests.support.step_times import StepTimes
from tests.support.waiting import until

KEYS = 30_000
LIMIT = 0.02  # seconds; the longest takes 0.004
SNAPSHOT, START = "a snapshot", "what is held again"
JOINED = "SELECT a.id, b.name FROM item a JOIN item b ON b.id = a.n WHERE a.id = ?"
CACHES: dict[str, tuple[str, list[tuple[ParameterValue, ...]]]] = {
    "by_id": ("SELECT id, n, name FROM item WHERE id = ?", [(key,) for key in range(KEYS)]),
    "joined": (JOINED, [(key,) for key in range(5000)]),
    "evicted": ("SELECT id, n FROM item WHERE LOWER(name) = ?", [(f"i{key}",) for key in range(2000)]),
}  # fmt: skip


async def snapshot(proxy: Proxy, found: StepTimes) -> None:
    """In steps of its own."""
    found.doing = SNAPSHOT
    await proxy.app.restart.save()
    found.doing = ""


async def begun_again(mysql: Server, database: str, folder: Path, found: StepTimes, options: dict[str, str]) -> None:
    """Likewise."""
    found.doing = START
    async with proxy_beside(mysql, database, folder, **options) as proxy:
        await proxy.app.restart.restored()
        assert proxy.app.catalog.get("by_id").info().keys == KEYS
        await until(lambda: not proxy.app.router.reads.closed)
        found.doing = ""


def test_snapshots_and_restarts(mysql: Server, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataflow.readers.eviction.FEW_KEYS", KEYS // 100)  # so that they are listed as very many are

    async def restarts(folder: Path, found: StepTimes) -> None:
        options = {"check": "false", "snapshot": "5m"}
        async with proxy_beside(mysql, database, folder, **options) as proxy:
            for name, (sql, keys) in CACHES.items():
                await proxy.app.router.caches.create(name, sql, database)
                await fill(proxy, name, FillBy.DIRECT, keys)
            await asyncio.create_task(snapshot(proxy, found))
        await asyncio.create_task(begun_again(mysql, database, folder, found, options))

    each_step_is_short(mysql, database, tmp_path, [*NUMBERS, rows(KEYS)], restarts, lambda found: found.most >= LIMIT)
