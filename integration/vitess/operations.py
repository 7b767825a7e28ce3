"""What operators do to a Vitess while it is used: shards are split, and tables move to another keyspace."""

from __future__ import annotations

from collections.abc import Sequence

from integration.vitess.cluster import Cluster

FOUR = ("-40", "40-80", "80-c0", "c0-")


class Reshard:
    """From the shards that a keyspace has to others: `begin`, `switch`, perhaps `switch_back`, `complete`."""

    def __init__(self, cluster: Cluster, keyspace: str, into: Sequence[str] = FOUR) -> None:
        self._cluster, self._keyspace, self._into = cluster, keyspace, tuple(into)
        self._from = tuple(shard for of, shard in cluster.mysqls if of == keyspace)

        self._of = ("Reshard", "--target-keyspace", keyspace, "--workflow", "split")

    def begin(self) -> None:
        """Returns when the new shards have all rows, and follow the old ones."""
        for shard in self._into:
            self._cluster.add_shard(self._keyspace, shard)
        new = {(self._keyspace, shard) for shard in self._into}
        self._cluster.until("vtgate", lambda: self._cluster.tablets() >= new)
        shards = (f"--source-shards={','.join(self._from)}", f"--target-shards={','.join(self._into)}")
        self._cluster.until("vtctld", lambda: self._cluster.tried(*self._of, "create", *shards))
        self._cluster.until("vtctld", self._running)

    def _running(self) -> bool:
        """Of each new shard, a line for each old one whose rows it gets."""
        told = self._cluster.control(*self._of, "status")
        return 0 < told.count("Status: ") == told.count("Status: Running.")

    def switch(self) -> None:
        """From now on vtgate, if it runs, asks the new shards."""
        self._cluster.control(*self._of, "switchtraffic")
        self._until_asked(self._into)

    def switch_back(self) -> None:
        self._cluster.control(*self._of, "reversetraffic")
        self._until_asked(self._from)

    def _until_asked(self, shards: Sequence[str]) -> None:
        if self._cluster.runs("vtgate"):
            self._cluster.until("vtgate", lambda: self._cluster.asked(self._keyspace) == set(shards))

    def complete(self) -> None:
        """The old shards are no more."""
        self._cluster.control(*self._of, "complete")
        for shard in self._from:
            self._cluster.remove_shard(self._keyspace, shard)


class MoveTables:
    """From one keyspace to another: `begin`, `switch`, perhaps `switch_back`, `complete`."""

    def __init__(self, cluster: Cluster, source: str, target: str, *tables: str) -> None:
        self._cluster, self._tables = cluster, ("--source-keyspace", source, "--tables", ",".join(tables))
        self._of = ("MoveTables", "--target-keyspace", target, "--workflow", "move")

    def begin(self) -> None:
        """Returns when the target has all rows, and follows the source."""
        self._cluster.until("vtctld", lambda: self._cluster.tried(*self._of, "create", *self._tables))
        self._cluster.until("vtctld", self._running)

    def _running(self) -> bool:
        told = self._cluster.control(*self._of, "status")
        return 0 < told.count("Status: ") == told.count("Status: Running.")

    def switch(self) -> None:
        """From now on vtgate reads and writes them at the target."""
        self._cluster.control(*self._of, "switchtraffic")

    def switch_back(self) -> None:
        self._cluster.control(*self._of, "reversetraffic")

    def complete(self) -> None:
        """The source has them no more."""
        self._cluster.control(*self._of, "complete")
