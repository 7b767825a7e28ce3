"""Large fills and audits, as callers ask for them: implements `proxy.port.api.Fills`."""

from __future__ import annotations

from proxy.fills.fills import Bulk
from proxy.fills.warm_up import WarmUp


class Fills:
    """What `bulk` fills and compares, and the keys that `warm_up` has kept of the last run."""

    def __init__(self, bulk: Bulk, warm_up: WarmUp) -> None:
        self.bulk, self.warm_up = bulk, warm_up
        self.fill, self.held_before = warm_up.fill, warm_up.hottest
        self.fill_first, self.audit = bulk.fill_first, bulk.audit

    async def close(self) -> None:
        await self.warm_up.close()
        await self.bulk.close()
