"""What a login leaves to the session that begins with it."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.mysql.login.auth_relay import Terms
from proxy.mysql.login.login_packets import Greeting
from proxy.mysql.wire.compression import Compression
from proxy.mysql.wire.packet_stream import PacketStream


@dataclass(slots=True)
class LoggedIn:
    """Two connections after authentication. MySQL's OK is not handed on yet: `client.send` has the number for it."""

    client: PacketStream
    server: PacketStream
    capabilities: int  # in effect with the client
    compression: Compression | None  # with the client, from behind MySQL's OK
    server_capabilities: int  # in effect with MySQL
    user: str  # as the client said it; which account that is, and so which rights, only MySQL knows
    database: str
    collation: int
    greeting: Greeting  # of the connection to MySQL, which has its number
    client_tls: bool
    server_secure: bool
    ok_payload: bytes  # as MySQL sent it, with session tracking whatever the client's capabilities say
    terms: Terms  # for COM_CHANGE_USER; its nonce changes with each

    @property
    def connection_id(self) -> int:
        """MySQL's number of it."""
        return self.greeting.connection_id
