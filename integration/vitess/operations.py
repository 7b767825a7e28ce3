"""What operators do to a Vitess while it is used: shards are split, and tables move to another keyspace."""

from __future__ import annotations

from collections.abc import Sequence

from integration.vitess.cluster import Cluster

FOUR = ("-40", "40-80", "80-c0", "c0-")


class Workflow:
    """One of vtctld's: `of` names it, in a command of `vtctldclient`."""

    def __init__(self, cluster: Cluster, *of: str) -> None:
        self._cluster, self._of = cluster, of

    def run(self, action: str) -> None:
        self._cluster.control(*self._of, action)

    def create(self, *arguments: str) -> None:
        """Returns when its targets have all rows, and follow: a line of its status for each stream of rows."""
        self._cluster.until("vtctld", lambda: self._cluster.tried(*self._of, "create", *arguments))
        self._cluster.until("vtctld", self._follows)

    def _follows(self) -> bool:
        told = self._cluster.control(*self._of, "status")
        return 0 < told.count("Status: ") == told.count("Status: Running.")


class Reshard:
    """From the shards that a keyspace has to others: `begin`, `switch`, perhaps `switch_back`, `complete`."""

    def __init__(self, cluster: Cluster, keyspace: str, into: Sequence[str] = FOUR) -> None:
        self._cluster, self._keyspace, self._into = cluster, keyspace, tuple(into)
        self._from = tuple(shard for of, shard in cluster.mysqls if of == keyspace)
        self._workflow = Workflow(cluster, "Reshard", "--target-keyspace", keyspace, "--workflow", "split")

    def begin(self) -> None:
        """Returns when the new shards have all rows, and follow the old ones."""
        for shard in self._into:
            self._cluster.add_shard(self._keyspace, shard)
        new = {(self._keyspace, shard) for shard in self._into}
        self._cluster.until("vtgate", lambda: self._cluster.tablets() >= new)
        self._workflow.create(f"--source-shards={','.join(self._from)}", f"--target-shards={','.join(self._into)}")

    def switch(self) -> None:
        """From now on vtgate, if it runs, asks the new shards."""
        self._workflow.run("switchtraffic")
        self._until_asked(self._into)

    def switch_back(self) -> None:
        self._workflow.run("reversetraffic")
        self._until_asked(self._from)

    def _until_asked(self, shards: Sequence[str]) -> None:
        if self._cluster.runs("vtgate"):
            self._cluster.until("vtgate", lambda: self._cluster.asked(self._keyspace) == set(shards))

    def complete(self) -> None:
        """The old shards are no more."""
        self._workflow.run("complete")
        for shard in self._from:
            self._cluster.remove_shard(self._keyspace, shard)


class MoveTables:
    """From one keyspace to another: `begin`, `switch`, perhaps `switch_back`, `complete`. `shards`: all tables of these
    alone."""

    def __init__(self, cluster: Cluster, source: str, target: str, *tables: str, shards: Sequence[str] = ()) -> None:
        moved = ("--source-shards", ",".join(shards), "--all-tables") if shards else ("--tables", ",".join(tables))
        self._tables = ("--source-keyspace", source, *moved)
        self._workflow = Workflow(cluster, "MoveTables", "--target-keyspace", target, "--workflow", "move")

    def begin(self) -> None:
        """Returns when the target has all rows, and follows the source."""
        self._workflow.create(*self._tables)

    def switch(self) -> None:
        """From now on vtgate reads and writes them at the target."""
        self._workflow.run("switchtraffic")

    def switch_back(self) -> None:
        self._workflow.run("reversetraffic")

    def complete(self) -> None:
        """The source has them no more."""
        self._workflow.run("complete")

    def cancel(self) -> None:
        """All is as before it."""
        self._workflow.run("cancel")
