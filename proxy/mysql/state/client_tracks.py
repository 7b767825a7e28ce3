"""What a client has asked MySQL's session trackers to tell it, beside what they tell Upwell. Pure.

https://dev.mysql.com/doc/refman/en/session-state-tracking.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.mysql.state.session_variables import SAME, switched_on
from proxy.mysql.wire.tracker_entries import SHOW_ALL, shown_entries


@dataclass(slots=True)
class ClientTracks:
    """Of one session."""

    wanted: dict[str, str] = field(default_factory=dict)  # what the client itself has asked to be told
    set_: set[str] = field(default_factory=set)  # which of them it has set, as far as it is known
    changed: bool = False  # a statement of the client has set session_track_...
    wait: bool = False  # they can be switched on outside of a transaction only
    renewed: bool = False  # MySQL has begun the session anew, and the trackers have not been switched on since
    reported: bool = False  # the trackers reported a state change since it was last looked at

    def learn(self, values: Mapping[str, str]) -> None:
        """The values of session_track_...: what the client has set, known from the trackers, from the statement or
        because it is not what we have set, is what it wants to be told."""
        if not self.wanted:
            self.wanted = dict(values)
            return
        ours = switched_on(self.wanted)
        for name, value in values.items():
            if name in self.set_ or SAME.get(value.lower(), value) != SAME.get(ours[name].lower(), ours[name]):
                self.wanted[name] = value
        self.set_.clear()

    def shown(self, state: bytes) -> bytes:
        """What of the trackers' information the client has asked for itself, by the statement that it is about at the
        latest. Raises Malformed."""
        tracks = self.wanted
        if self.changed:  # what it has set of them is what MySQL goes by, until ours are set again
            tracks = {**tracks, **{name: SHOW_ALL[name] for name in self.set_ if name in SHOW_ALL}}
        return shown_entries(state, tracks)

    def renew(self) -> None:
        """MySQL has begun a new session."""
        self.wanted, self.renewed, self.reported = {}, True, False
        self.set_.clear()
