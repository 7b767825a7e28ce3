"""Real clients read through the proxy before vtgate and at vtgate itself: the same rows, and repeated reads are hits.

But for the `mysql` command: from 9.0 it has no mysql_native_password, by which the tests' vtgate lets everybody in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from external_upquery.address import parse_upstream
from integration.clients import world
from integration.clients.addresses import Address, names
from integration.clients.outcome import Client, run, share_of_hits
from integration.clients.test_clients import READERS, lines_or_skip
from integration.servers.existing_vitess import ExistingVitess
from integration.servers.mysql_server import ExistingServer
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import address
from integration.vitess.shop import PLAIN

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it


@pytest.fixture(scope="module")
def ways(vitess: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Address]]:
    """At vtgate, and through the proxy. The data is in a keyspace of one shard."""
    vitess.mysqls[PLAIN, "0"].execute(f"USE {vitess.database(PLAIN)}", *world.statements_of(world.DATA.read_text()))
    vitess.control("ReloadSchemaKeyspace", PLAIN)
    vitess.until("vtgate", lambda: bool(vitess.shown("SELECT 1 FROM author", PLAIN)))
    direct = Address(host="127.0.0.1", port=vitess.sql, **{**names("vt"), "database": PLAIN, "data": PLAIN})
    url = address(vitess, PLAIN)
    with world.upwell_beside(ExistingVitess(parse_upstream(url), url), tmp_path_factory.mktemp("upwell")) as port:
        yield direct, replace(direct, port=port)


@pytest.mark.parametrize("client", [one for one in READERS if one.name != "mysql"], ids=lambda client: client.name)
def test_repeated_reads_give_vtgates_rows_and_are_hits(client: Client, ways: tuple[Address, Address]) -> None:
    """Of a client with its own defaults."""
    direct, through = ways
    directly = lines_or_skip(client, client.reads, direct)
    assert run(client, client.reads, through) == directly
    upwell = ExistingServer(through.host, through.port, through.user, through.password, PLAIN)
    listed = upwell.execute("SHOW PROXIED QUERIES")
    upwell.execute(*[f"CREATE CACHE FROM {query}" for query, database, _, _, _, can, *_ in listed if can == "yes"])
    share, reasons = share_of_hits(run(client, (*client.reads, "--explain"), through))
    assert share >= 0.9, reasons
