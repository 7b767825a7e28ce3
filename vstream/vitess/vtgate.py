"""How vtgate is asked for the changes of a keyspace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc

from vstream import vitess_pb2 as pb

METHOD = "/vtgateservice.Vitess/VStream"
LARGEST_RESPONSE = 16 << 20
"""Bytes: what a vtgate sends at most, as it is set up by default. gRPC makes one piece of it, in one step that takes
0.8 ms a MB. Most have 250 kB; a larger one has a single row."""
OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_RESPONSE),
    ("grpc.keepalive_time_ms", 15_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # We wait between attempts ourselves; gRPC would wait for up to two minutes more.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)
SENDABLE = frozenset(map(chr, range(0x20, 0x7F)))  # what gRPC's metadata takes
NOT_SENT = "; the account was not sent: gRPC takes printable ASCII only in its name and password"

Opened = Callable[[pb.VStreamRequest], Any]


@dataclass(frozen=True, slots=True)
class Vtgate:
    """`address`: `host:port` of its gRPC. `account`: user and password, which a vtgate with static accounts asks for.
    `tls`: None for plain text."""

    address: str
    keyspace: str
    account: tuple[str, str]
    tls: grpc.ChannelCredentials | None

    @property
    def unsent(self) -> str:
        """Why the account is not sent, as the end of a sentence."""
        return "" if SENDABLE.issuperset("".join(self.account)) else NOT_SENT

    def channel(self) -> grpc.aio.Channel:
        if self.tls is None:
            return grpc.aio.insecure_channel(self.address, OPTIONS)
        return grpc.aio.secure_channel(self.address, self.tls, OPTIONS)

    def opened(self, channel: grpc.aio.Channel) -> Opened:
        """Begins a stream. Its responses are read by us: a large one takes long, and it may be none."""
        user, password = self.account
        streaming = channel.unary_stream(
            METHOD, request_serializer=pb.VStreamRequest.SerializeToString, response_deserializer=bytes
        )
        sent = (("username", user), ("password", password)) if password and not self.unsent else ()
        return partial(streaming, metadata=sent)
