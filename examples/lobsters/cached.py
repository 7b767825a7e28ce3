"""The sample's templates through Upwell: caches by name, and the reader that pages run against."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from examples.lobsters.load import Connection
from examples.lobsters.queries import CATALOGUE, Parameters, Template
from gtid_tracker.gtid import GtidSet
from upwell.client import Cache, Client
from upwell.errors import Unavailable, UpwellError


@dataclass
class Made:
    """Which templates became caches, under which name and in which mode, and why the others did not."""

    names: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def create_caches(client: Client, templates: Iterable[Template], database: str) -> Made:
    """Creates the cache of each template; one that is refused is named with the reason. Raises Unavailable."""
    made = Made()
    for template in templates:
        try:
            cache = client.create_cache(template.sql, name=template.cache_name, database=database)
        except Unavailable:
            raise
        except UpwellError as error:
            made.refused[template.id] = str(error)
            continue
        if cache.state == "refused":
            made.refused[template.id] = cache.why
        else:
            made.names[template.id] = cache.name
            made.modes[template.id] = cache.mode
    return made


class Cached:
    """Reads templates from their caches, and those that have none as plain SQL through the proxy.

    `served` counts the answers by (template, "hit" | "miss" | "passed").
    """

    def __init__(self, client: Client, database: str, made: Made) -> None:
        self.client, self._database = client, database
        self._caches = {id: client.cache(name) for id, name in made.names.items()}
        self.served: Counter[tuple[str, str]] = Counter()

    def cache(self, id: str) -> Cache:
        return self._caches[id]

    def read(self, id: str, parameters: Parameters) -> Sequence[Sequence[Any]]:
        cache = self._caches.get(id)
        if cache is not None:
            answer = cache.get(*parameters)
        else:
            answer = self.client.query(CATALOGUE[id].sql, parameters, database=self._database)
        self.served[id, answer.served] += 1
        return answer


def wait_until_current(client: Client, connection: Connection, seconds: float = 30.0) -> None:
    """Returns when the proxy has applied everything that is committed in MySQL now. Raises TimeoutError."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        row = cursor.fetchone()
    wait_until_applied(client, GtidSet.parse(row[0] if row else ""), seconds)


def wait_until_applied(client: Client, executed: GtidSet, seconds: float = 30.0) -> None:
    """Returns when the proxy has applied all of these. Raises TimeoutError."""
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not executed.issubset(GtidSet.parse(position := client.status().position)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the proxy is at {position!r} after {seconds} s, MySQL was at {str(executed)!r}")
        pause.wait(0.01)
