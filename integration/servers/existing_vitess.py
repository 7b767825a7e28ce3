"""A keyspace of somebody's Vitess, as a server that clients connect to: vtgate's MySQL protocol."""

from __future__ import annotations

from functools import cached_property

from external_upquery.address import Upstream
from gtid_tracker.gtid import GtidSet
from integration.servers.mysql_server import CannotStart, ExistingServer


class ExistingVitess(ExistingServer):
    """Nothing here starts or ends it. `database` is the keyspace."""

    def __init__(self, upstream: Upstream, url: str) -> None:
        super().__init__(upstream.host, upstream.port, upstream.user, upstream.password, upstream.database)
        self._url = url

    @property
    def url(self) -> str:
        """`vitess://...`, as it was given."""
        return self._url

    @cached_property
    def shards(self) -> tuple[str, ...]:
        """Names. Raises CannotStart where there is no such keyspace."""
        found = [str(row[0]).partition("/") for row in self.execute("SHOW VITESS_SHARDS")]
        names = tuple(shard for keyspace, _, shard in found if keyspace == self.database)
        if not names:
            known = ", ".join(sorted({keyspace for keyspace, _, _ in found})) or "none"
            raise CannotStart(f"vtgate knows no keyspace {self.database!r}: there are {known}")
        return names

    def executed(self) -> GtidSet:
        """By all shards. In a transaction: outside of one a tablet may hand over an older answer."""
        found = GtidSet.empty()
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for shard in self.shards:
                cursor.execute(f"USE `{self.database}:{shard}`")
                cursor.execute("SELECT @@GLOBAL.gtid_executed")
                found = found.union(GtidSet.parse(str(cursor.fetchall()[0][0])))
            cursor.execute("COMMIT")
        return found
