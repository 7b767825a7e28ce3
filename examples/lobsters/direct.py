"""The sample's templates and writes on MySQL itself, through PyMySQL: what Upwell is compared with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from examples.lobsters.load import Connection
from examples.lobsters.pages import Write
from examples.lobsters.queries import CATALOGUE, Parameters


def driver_form(sql: str) -> str:
    """`sql` with `?` and `IN (?)` as PyMySQL wants them: it writes a tuple with its parentheses."""
    return re.sub(r"\bIN \(\?\)", "IN %s", sql.replace("%", "%%")).replace("?", "%s")


class Direct:
    """One connection to the sample's database."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        self._forms = {id: driver_form(template.sql) for id, template in CATALOGUE.items()}

    def read(self, id: str, parameters: Parameters) -> Sequence[tuple[Any, ...]]:
        self._cursor.execute(self._forms[id], parameters)
        return self._cursor.fetchall()

    def query(self, sql: str, parameters: Parameters = ()) -> Sequence[tuple[Any, ...]]:
        """Any query in the catalogue's form."""
        self._cursor.execute(driver_form(sql), parameters)
        return self._cursor.fetchall()

    def write(self, write: Write) -> None:
        self._cursor.execute(write.sql, write.parameters)

    def close(self) -> None:
        self.connection.close()
