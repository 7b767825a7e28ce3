"""Packets numbered as an answer's are, and bytes that something has happened to."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from tests.support.mysql_packets import packet


def numbered(payloads: Iterable[bytes], first: int = 1) -> bytes:
    """Packets, each with the number after the one before."""
    return b"".join(packet(payload, first + number) for number, payload in enumerate(payloads))


def cut(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, payload) of the whole packets. Requires: none is of the largest size."""
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 3], "little")
        if at + 4 + size > len(data):
            return
        yield data[at + 3], data[at + 4 : at + 4 + size]
        at += 4 + size


def pieces(rng: random.Random, data: bytes, sizes: tuple[int, ...] = (1, 4, 30, 1000, 66_000)) -> Iterator[bytes]:
    """As a network brings them."""
    few = rng.random() < 0.6
    while data:
        size = len(data) if few and rng.random() < 0.9 else rng.choice((*sizes, len(data)))
        yield data[:size]
        data = data[size:]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """With a few bytes changed, cut out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(6)
        if kind == 0 and changed:
            changed[at % len(changed)] = rng.choice((0, 1, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF, rng.randrange(256)))
        elif kind == 1:
            del changed[at : at + rng.choice((1, 2, 4, 30))]
        elif kind == 2:
            changed[at:at] = rng.randbytes(rng.choice((1, 2, 4, 9)))
        elif kind == 3:
            changed[at:at] = changed[at : at + rng.choice((1, 4, 40))]
        elif kind == 4 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        else:
            del changed[at:]
    return bytes(changed)
