"""The sample in a keyspace of the tests' Vitess."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from examples.lobsters.data import Shape
from examples.lobsters.keyspace import VSCHEMA, load_keyspace
from examples.lobsters.load import Connection
from integration.servers.existing_vitess import ExistingVitess
from integration.servers.private_mysql import existing
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import address


def vtgate_of(cluster: Cluster, keyspace: str) -> ExistingVitess:
    found = existing(address(cluster, keyspace))
    assert isinstance(found, ExistingVitess)
    return found


@contextmanager
def sample_in(cluster: Cluster, keyspace: str, shape: Shape) -> Iterator[ExistingVitess]:
    """Beside what the keyspace has otherwise. Its entries in the VSchema stay."""
    server = vtgate_of(cluster, keyspace)
    try:
        load_keyspace(server, shape)
        yield server
    finally:
        server.execute(*(f"DROP TABLE IF EXISTS `{table}`" for table in json.loads(VSCHEMA.read_text())["tables"]))


def shards_of(connection: Connection, table: str, keyspace: str) -> dict[str, int]:
    """How many rows each shard has."""
    found = {}
    with connection.cursor() as cursor:
        for shard in ("-80", "80-"):
            cursor.execute(f"USE `{keyspace}:{shard}`")
            cursor.execute(f"SELECT COUNT(*) FROM `{table}`")
            found[shard] = int(cursor.fetchall()[0][0])
        cursor.execute(f"USE `{keyspace}`")
    return found
