"""The process that reads the access log for the page, as the proxy sees it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from proxy.access.charts import KEPT, AccessCharts
from proxy.port.overview import NotTold
from tests.bulk.test_rank_direct import log, row


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_is_kept_for_a_minute_and_made_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = Clock()
        charts = AccessCharts(tmp_path, lambda: 0.25, clock)
        log(tmp_path, [row()])
        first, second = await asyncio.gather(charts.look(24), charts.look(24))
        assert first is second and json.loads(first)["rows"] == 1
        log(tmp_path, [row()])
        assert json.loads(await charts.look(24))["rows"] == 1
        assert json.loads(await charts.look(1))["rows"] == 2, "of other hours another answer is kept"
        clock.now += KEPT + 1
        assert json.loads(await charts.look(24))["rows"] == 2
        assert charts.share == 0.25

    asyncio.run(scenario())


def test_what_goes_wrong_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        charts = AccessCharts(tmp_path, lambda: 1.0)
        monkeypatch.setattr("sys.executable", "/bin/false")
        with pytest.raises(NotTold, match="it ended with 1"):
            await charts.look(24)
        monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
        with pytest.raises(NotTold, match="cannot be started"):
            await charts.look(24)
        monkeypatch.undo()
        assert json.loads(await charts.look(24))["rows"] == 0, "a failure is not kept"

    asyncio.run(scenario())


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)

    async def scenario() -> None:
        monkeypatch.setattr("sys.executable", str(hanging))
        charts = AccessCharts(tmp_path, lambda: 1.0)
        looking = asyncio.create_task(charts.look(24))
        while charts._process is None:
            await asyncio.sleep(0)
        charts.close()
        with pytest.raises(NotTold, match="ended with -9"):
            await looking
        with pytest.raises(NotTold, match="stopping"):
            await charts.look(1)
        monkeypatch.setattr("proxy.access.charts.PATIENCE", 0.05)
        with pytest.raises(NotTold, match="took longer"):
            await AccessCharts(tmp_path, lambda: 1.0).look(24)

    asyncio.run(scenario())
