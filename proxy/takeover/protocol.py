"""What two proxies say to each other while one takes over, as plain values. No sockets here.

    new                                  old
    hello: who asks, and for what   -->
                                    <--  no: why not                  and that is all; or
                                    <--  take: the lock, the sockets, the token
    (starts, and follows the source)
    ready                           -->
                                    <--  yours: its position          it accepts nobody any more; "": it is long
                                    <--  no: why not                  it goes on as before: nothing was taken over
    mine                            -->                               until here the old one can go on as before
    doubt: forget what you hold     <->                               as often as it happens
    distrust: a cache, and why      <->                               as often as it happens
                                    <--  released: gRPC's port        it listens nowhere any more
                                    <--  bye                          it ends

Exactly one of both serves. `mine` is heard, or cannot be said: whoever gives up stops listening, reads what was said by
then, and only then says `no`. An end without `no` and `bye` is the end of the process.

Each message is a JSON object in a packet of its own. `word` says which it is. A peer of another VERSION is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

VERSION = 1
LARGEST = 1 << 16  # bytes of a message; a GTID set of a thousand servers, or of as many gaps, has more
LISTENERS = ("mysql-listen", "grpc-listen", "http-listen")


class Malformed(Exception):
    """That is no message of this protocol, with the reason."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Who takes over, or serves. `source`: the upstream's address without its password. `network`: the namespace of its
    network, as the kernel tells. `listens`: by setting, host and port; port 0: any is wanted."""

    process: int
    source: str
    network: str
    listens: Mapping[str, tuple[str, int]]
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Message:
    """`word`: which one. `more`: what it says besides."""

    word: str
    more: Mapping[str, object]

    def text(self, name: str) -> str:
        """Raises Malformed."""
        value = self.more.get(name)
        if not isinstance(value, str):
            raise Malformed(f"{self.word!r} has no text {name!r}")
        return value


DOUBT = Message("doubt", {})
PASSED_ON = ("doubt", "distrust")  # what no stream tells, and each must know


def encoded(word: str, **more: object) -> bytes:
    return json.dumps({"word": word, **more}).encode()


def decoded(data: bytes) -> Message:
    """Raises Malformed."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"it is no JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("word"), str):
        raise Malformed("it has no word")
    return Message(found.pop("word"), found)


def encoded_position(position: str) -> bytes:
    """`yours`. A position that is too long for a message is "": the other asks the source."""
    message = encoded("yours", position=position)
    return message if len(message) <= LARGEST else encoded("yours", position="")


def encoded_hello(hello: Hello) -> bytes:
    return encoded("hello", **asdict(hello))


def hello_of(message: Message) -> Hello:
    """Raises Malformed."""
    more = message.more
    if message.word != "hello":
        raise Malformed(f"it begins with {message.word!r}")
    version, process, listens = more.get("version"), more.get("process"), more.get("listens")
    if not (isinstance(version, int) and isinstance(process, int) and isinstance(listens, dict)):
        raise Malformed("it does not say who it is")
    found = {}
    for name in LISTENERS:
        match listens.get(name):
            case [str(host), int(port)]:
                found[name] = host, port
            case _:
                raise Malformed(f"it does not say its {name}")
    return Hello(process, message.text("source"), message.text("network"), found, version)


def why_not(asks: Hello, serves: Hello) -> str:
    """Why the one that serves cannot hand over to the one that asks, as half a sentence; "" if it can. A port that is
    0 in `asks` is whichever the other has.

    >>> at = {name: ("127.0.0.1", 3307) for name in LISTENERS}
    >>> why_not(Hello(8, "mysql://a", "net:1", at), Hello(7, "mysql://b", "net:1", at))
    'it serves mysql://b, and this one mysql://a'
    """
    if asks.version != serves.version:
        return f"it hands over by version {serves.version} of the protocol, and this one by {asks.version}"
    if asks.source != serves.source:
        return f"it serves {serves.source}, and this one {asks.source}"
    if asks.network != serves.network:
        return "it is in another network namespace (another container), where its sockets stay"
    for name in LISTENERS:
        (host, port), (own_host, own_port) = asks.listens[name], serves.listens[name]
        if host != own_host or port not in (0, own_port):
            return f"its {name} is {own_host}:{own_port}, and this one's {host}:{port}"
    return ""
