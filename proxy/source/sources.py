"""The kinds of sources, by the scheme of the upstream's address."""

from __future__ import annotations

from collections.abc import Callable

from external_upquery.address import Upstream, parse_upstream
from external_upquery.pool import Packet
from proxy.source.mysql import MysqlSource
from proxy.source.source import Source
from proxy.source.vitess import VitessSource

KINDS: dict[str, Callable[[Upstream, int, Packet], Source]] = {"mysql": MysqlSource, "vitess": VitessSource}


def source_of(address: str, connections: int, packet: Packet) -> Source:
    """The source at that address, not connected yet. `connections`: for upqueries; `packet` is told of theirs. Raises
    ConfigError, which never shows the password."""
    upstream = parse_upstream(address)
    return KINDS[upstream.kind](upstream, connections, packet)
