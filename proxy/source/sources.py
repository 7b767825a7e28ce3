"""The kinds of sources, by the scheme of the upstream's address."""

from __future__ import annotations

from collections.abc import Callable

from external_upquery.address import Upstream, parse_upstream
from proxy.source.mysql import MysqlSource
from proxy.source.source import Source
from proxy.source.vitess import VitessSource

KINDS: dict[str, Callable[[Upstream, int], Source]] = {"mysql": MysqlSource, "vitess": VitessSource}


def source_of(address: str, connections: int) -> Source:
    """The source at that address, not connected yet. `connections`: for upqueries. Raises ConfigError, which never
    shows the password."""
    upstream = parse_upstream(address)
    return KINDS[upstream.kind](upstream, connections)
