"""What a session asks of MySQL about itself: the trackers switched on, and what they do not tell."""

from __future__ import annotations

import asyncio
from typing import Protocol

from proxy.mysql.responses import Kind, Outcome
from proxy.mysql.session_state import ASK, TRACKS, SessionState, text_row, track_statement

ASK_TRACKS = "SELECT " + ", ".join(f"@@session.{name}" for name in TRACKS)


class Server(Protocol):
    def ask(self, packets: bytes, kind: Kind) -> asyncio.Future[Outcome]: ...


class Asking(Protocol):
    """A session, as far as it is asked here. `eof`: without CLIENT_DEPRECATE_EOF."""

    state: SessionState
    eof: bool

    @property
    def server(self) -> Server: ...

    def query(self, sql: str) -> bytes: ...


async def switch_on(session: Asking) -> None:
    """Switches the trackers on in a session that has just begun, or whose client has set them, and asks what it is
    like. A MySQL that cannot do that leaves the session unknown: nothing is answered by a cache. Raises SourceDown,
    Malformed."""
    state = session.state
    found = await session.server.ask(session.query(ASK_TRACKS), Kind.RESULT)
    if found.error is None:
        state.learn_tracks(dict(zip(TRACKS, (text or "" for text in only_row(found.payloads)), strict=False)))
    switched = session.server.ask(session.query(track_statement(state.client_tracks)), Kind.RESULT)
    asked = session.server.ask(session.query(ASK), Kind.RESULT)
    outcome = await switched
    found = await asked
    state.tracks_changed = state.changed = False
    state.set_tracks.clear()
    if outcome.error is None and found.error is None:
        state.learn(only_row(found.payloads), found.payloads[1])


async def refresh(session: Asking) -> None:
    """Asks again what the trackers did not tell. Raises SourceDown, Malformed."""
    state = session.state
    if session.eof:  # rows carry no trackers there: an OK packet brings what has gathered
        gathered = await session.server.ask(session.query("DO 0"), Kind.RESULT)
        state.on_trackers(gathered.state)
        state.temporary |= state.changed
        state.changed = False
    found = await session.server.ask(session.query(ASK), Kind.RESULT)
    if found.error is None:
        state.learn(only_row(found.payloads), found.payloads[1])
    else:
        state.values = {}
        state.known = True  # with no value that is the caches'


def only_row(payloads: list[bytes]) -> list[str | None]:
    """The row of a result set of one row, from all its packets: the last one ends it. Raises Malformed."""
    return text_row(payloads[-2])
