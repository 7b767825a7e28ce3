"""How a read was answered, and reads that are repeated until they are answered as a test needs it.

That the second read of a key is a hit is nothing to count on. MySQL answers the first read of a kind, and the fill
beside it may still be under way when the second one comes; a fill may be late, or its answer not one to keep. So a test
that needs a hit reads until there is one. From then on each read is a hit until something ends that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import ParamSpec

from integration.support.proxy_thread import Beside
from integration.support.raw_client import RawClient
from proxy.mysql.session.open_sessions import Member

Given = ParamSpec("Given")
LIMIT = 60.0  # seconds


class Reads:
    """The reads of a loop that ends with one that is served as `wanted`. At the limit it fails, with what was seen."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self._seen: Counter[str] = Counter()
        self._limit = monotonic() + LIMIT

    def done(self, served: str) -> bool:
        """`served`: how the last read was answered, and why."""
        self._seen[served] += 1
        if served.split(" ")[0] == self.wanted:
            return True
        assert monotonic() < self._limit, f"no {self.wanted} within {LIMIT:g} s: {self._seen.most_common(9)}"
        return False


def last_served(beside: Beside, client: RawClient | None = None) -> str:
    """How the last statement of a client was answered, and why. None: of the only one, once others have gone."""
    shared = beside.shared

    def sessions() -> list[Member]:
        return [
            session
            for session in shared.sessions
            if client is None or session.connection_id == client.greeting.connection_id
        ]

    def told() -> str:
        (session,) = sessions()
        last = session.context.last_statement
        assert last is not None
        return f"{last.served} {last.reason}".strip()

    beside.until(lambda: len(sessions()) == 1)
    return beside.call(told)


def read_until_hit(
    beside: Beside,
    client: RawClient,
    read: Callable[Given, bytes],
    *args: Given.args,
    **named: Given.kwargs,
) -> list[bytes]:
    """Repeats a read of the client until it is a hit; the answers, of which that is the last."""
    reads = Reads("hit")
    answers = [read(*args, **named)]
    while not reads.done(last_served(beside, client)):
        answers.append(read(*args, **named))
    return answers
