"""What a relay needs of those who work with it (`relay.py`): who knows what commands mean, the quick path, and what
takes over both sides for a while."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sized
from typing import Protocol


class Handler(Protocol):
    """Who knows what commands mean."""

    def handle(self, data: bytes) -> None:
        """One command, its packet with the header. Raises Malformed."""
        ...

    def large(self, data: bytes) -> None:
        """The beginning of a command too large to be looked at. Raises Malformed."""
        ...

    async def outlive(self) -> None:
        """MySQL's connection is lost, and the client wants nothing of it at the moment."""
        ...

    def last_look(self) -> Coroutine[None, None, None] | None:
        """The client has gone: what must be asked of MySQL before the session is over, None where nothing."""
        ...

    def ending(self) -> None:
        """The session is over, though its sockets may still be open."""
        ...

    def ended(self) -> None:
        """Both sockets are closed."""
        ...


class Quick(Protocol):
    """The quick path of a session: answers that are found at once (`quick_path.py`)."""

    @property
    def kinds(self) -> Sized:
        """Of commands that it may answer."""
        ...

    @property
    def hot(self) -> Sized:
        """Of those, the ones on the shortest way."""
        ...

    def receiver(
        self, write: Callable[[bytes], None], long_way: Callable[[bytes], None]
    ) -> Callable[[bytes], None]: ...

    def answer(self, data: bytes, *, alone: bool = False) -> bytes | None: ...

    def cool(self) -> None: ...

    def close(self) -> None:
        """Something is under way: nothing is answered until `reopen`."""
        ...

    def reopen(self, *, unheard: bool) -> None: ...

    def invalidate(self) -> None: ...


class Dialogue(Protocol):
    """What has taken over both sides for a while: a change of the account."""

    left: bytes  # what the client has sent and nobody has looked at yet
    sequence: int  # number of the next packet to the client or from it

    def on_bytes(self, data: bytes) -> None: ...

    def part(self) -> bool:
        """Takes MySQL's leave, where it waits for an answer. Whether it did."""
        ...


class _Gone:
    """The handler of a relay whose session has ended."""

    def handle(self, data: bytes) -> None:
        pass

    def large(self, data: bytes) -> None:
        pass

    async def outlive(self) -> None:
        pass

    def last_look(self) -> Coroutine[None, None, None] | None:
        return None

    def ending(self) -> None:
        pass

    def ended(self) -> None:
        pass


GONE = _Gone()
