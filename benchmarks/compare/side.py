"""A proxy of one of both trees, beside the MySQL that both share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bench import SCRATCH
from benchmarks.compare.base import Tree
from examples.lobsters.cpu import process_seconds
from examples.lobsters.proxy_process import ProxyProcess
from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient
from upwell.client import Client

# Without it the order of sets, and with it the time that lookups take, differs from process to process.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}


@dataclass(frozen=True, slots=True)
class Counts:
    """What the proxy and MySQL have counted. `selects`: statements that MySQL executed for anybody."""

    hits: int
    misses: int
    selects: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self.hits - other.hits, self.misses - other.misses, self.selects - other.selects)


class Side:
    """Its proxy serves until the `serving` that made it ends."""

    def __init__(self, tree: Tree, server: Server, proxy: ProxyProcess, client: Client) -> None:
        self.tree = tree
        self.server = server
        self.proxy = proxy
        self.client = client

    def seconds(self) -> float:
        """Processor time that the proxy has used."""
        return process_seconds(self.proxy.pid)

    def counts(self) -> Counts:
        status = self.client.status()
        ((_, selects),) = self.server.execute("SHOW GLOBAL STATUS LIKE 'Com_select'")
        return Counts(status.hits, status.misses, int(selects))

    def connect(self, **options: Any) -> RawClient:
        return RawClient("127.0.0.1", self.proxy.mysql_port, **{"database": SCRATCH, **options})


@contextmanager
def serving(tree: Tree, server: Server, folder: Path) -> Iterator[Side]:
    """A proxy without caches, on free ports, with the options that are usual."""
    with ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        proxy = ProxyProcess(
            server.url, own, grpc_port=0, http_port=0, mysql_port=0,
            root=tree.root, python=tree.python, environment=ENVIRONMENT,
        )  # fmt: skip
        stack.enter_context(proxy)
        yield Side(tree, server, proxy, stack.enter_context(proxy.wait_ready()))
