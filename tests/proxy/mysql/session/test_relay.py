"""A session that MySQL ends has an end for its client, too."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast
from unittest.mock import Mock

from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.session.relay import Relay
from proxy.mysql.wire.responses import Kind


def test_mysql_that_ends_right_behind_its_ok_ends_the_session() -> None:
    """What hears the answers to the first questions is cancelled before it has begun."""

    async def scenario() -> None:
        sides = [SimpleNamespace(transport=Mock(), below=None) for _ in range(2)]
        logged_in = SimpleNamespace(capabilities=0, compression=None, server=sides[0], client=sides[1])
        relay = Relay(Mock(), Mock(), cast(LoggedIn, logged_in), largest=1 << 24, keep_state=bytes, clock=lambda: 0.0)
        asked = relay.server.ask(b"a question", Kind.RESULT)

        async def hears() -> None:
            await asked

        relay.start(hears())
        relay.server.eof_received()
        assert relay.task is not None
        await asyncio.wait((relay.task,))
        await asyncio.sleep(0)  # what follows the task's end
        assert relay.closed and relay.task is None

    asyncio.run(scenario())
