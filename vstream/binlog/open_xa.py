"""The XA transactions that are prepared and have not ended, as far as the stream tells."""

from __future__ import annotations

from dataflow.messages import Ddl
from vstream.binlog.untrusted import Prepared
from vstream.source import Sink

ENDED = "an XA transaction may have ended"


class OpenXa:
    """`prepared`: by xid, as `normal_xid` writes it. What may have ended without an event is told by whoever asks the
    source (`proxy/source/xa_watch.py`)."""

    def __init__(self, prepared: dict[bytes, Prepared], give: Sink) -> None:
        self._prepared = prepared
        self._give = give

    @property
    def xids(self) -> frozenset[bytes]:
        return frozenset(self._prepared)

    def untold(self, xids: frozenset[bytes], *, over: bool) -> None:
        """They may have ended without an event: their tables become holes. `over`: they have, and are forgotten."""
        for xid in self._prepared.keys() & xids:
            prepared = self._prepared.pop(xid) if over else self._prepared[xid]
            self._give(Ddl(None, ENDED, prepared.tables, schema=False))

    def unseen(self) -> None:
        """One that was prepared before the binlog was followed may have ended without an event."""
        self._give(Ddl(None, ENDED, None, schema=False))
