"""Where a client's program finds MySQL: directly, or through Upwell. The programs are told in their environment.

Part of the programs: imports nothing but what every Python has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    """`database` is the program's own to work in; `data` holds what is only read (`integration/clients/data.sql`)."""

    host: str
    port: int
    user: str
    password: str
    guest: str  # another user, who may only read `data`
    guest_password: str
    database: str
    data: str

    def environment(self) -> dict[str, str]:
        """`CLIENT_HOST`, `CLIENT_PORT`, `CLIENT_USER` and so on: what every program reads, whatever its language."""
        return {f"CLIENT_{name.upper()}": str(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def from_environment(cls, environment: dict[str, str]) -> Address:
        texts = {name: environment[f"CLIENT_{name.upper()}"] for name in cls.__slots__ if name != "port"}
        return cls(port=int(environment["CLIENT_PORT"]), **texts)


def names(run: str) -> dict[str, str]:
    """The users and databases of a run of the tests: the same for both ways, for messages carry them."""
    prefix = re.sub(r"\W", "_", run)
    return {
        "user": f"app_{prefix}",
        "password": "s3cret/%:@&= 'x",
        "guest": f"guest_{prefix}",
        "guest_password": "guest",
        "database": f"t{prefix}_work",
        "data": f"t{prefix}_data",
    }
