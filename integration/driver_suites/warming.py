"""A plugin of pytest for Python's drivers: what a test reads is cached, and a hit, before the test reads it.

At MySQL itself CREATE CACHE is an error, and the test reads at once. Runs in the drivers' own Python: imports nothing
but what every Python has, and the driver.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import warnings
from typing import Any

DRIVER = "UPWELL_WARMED"  # the name of the driver's module, in the environment
READ = re.compile(rb"\s*select\b.*\bfrom\b", re.IGNORECASE | re.DOTALL)
# To ask these more than once is not the same, or takes long.
ONCE = re.compile(rb"\b(?:sleep|into|for\s+update|found_rows|last_insert_id)\b|;\s*\S", re.IGNORECASE)
ROUNDS = 20


class Warming:
    """What stands in for a driver's `Connection.query`."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.query = driver.connections.Connection.query
        self.busy: set[int] = set()  # connections that warm just now: what they ask is not warmed

    def __call__(self, connection: Any, query: Any, *arguments: Any, **named: Any) -> Any:
        text = query.encode("utf-8", "surrogateescape") if isinstance(query, str) else bytes(query)
        if id(connection) not in self.busy and READ.match(text) and not ONCE.search(text):
            self.busy.add(id(connection))
            try:
                # An error is the test's to see, when it asks itself.
                with contextlib.suppress(self.driver.Error), warnings.catch_warnings(action="ignore"):
                    self.warm(connection, text)
            finally:
                self.busy.discard(id(connection))
        return self.query(connection, query, *arguments, **named)

    def warm(self, connection: Any, text: bytes) -> None:
        with contextlib.closing(connection.cursor(self.driver.cursors.Cursor)) as cursor:
            cursor.execute(b"CREATE CACHE FROM " + text)
            for _ in range(ROUNDS):
                cursor.execute(text)
                cursor.fetchall()
                cursor.execute(b"EXPLAIN LAST STATEMENT")
                if cursor.fetchone()[0] == "hit":
                    return


def pytest_configure() -> None:
    name = os.environ[DRIVER]
    driver = importlib.import_module(name)
    for part in ("connections", "cursors"):
        importlib.import_module(f"{name}.{part}")
    warming = Warming(driver)
    driver.connections.Connection.query = lambda connection, query, *arguments, **named: warming(
        connection, query, *arguments, **named
    )
