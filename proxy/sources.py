"""The kinds of sources, by the scheme of the upstream's address."""

from __future__ import annotations

from external_upquery.upstream import parse_upstream
from proxy.mysql_source import MysqlSource
from proxy.source import Source


def source_of(address: str, connections: int) -> Source:
    """The source at that address, not connected yet. `connections`: for upqueries. Raises ConfigError, which never
    shows the password."""
    return MysqlSource(parse_upstream(address), connections)
