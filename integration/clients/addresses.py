"""Where a client's program finds MySQL: directly, or through Upwell. The programs are told in their environment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from integration.mysql_server import Server


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


# WHERE THE PROXY'S ADDRESS GOES: once it has its MySQL listener, `port_through_upwell` gives the port of one for
# `server`, and this is True. Nothing else changes; until then "through Upwell" is MySQL itself.
UPWELL_SPEAKS_MYSQL = False


def port_through_upwell(server: Server) -> int:
    """The port, on the same host, where a proxy of `server` listens."""
    return server.port


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
