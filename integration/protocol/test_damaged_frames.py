"""Compressed frames that are damaged: what MySQL does with them, or the session's end in MySQL's own words, and never
anything else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from integration.protocol.test_compression import ALGORITHMS, Q, at_mysql, bytes_until_quiet, frame, inner_of, through
from integration.servers.mysql_server import Server
from integration.support.compressed_client import CompressedClient
from integration.support.proxy_thread import Beside, beside_database
from proxy.mysql.wire.packets import COM_PING, LARGEST, packet


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """What its loop could not handle fails the tests."""
    with beside_database(mysql, "damaged_frames", Path(tmp_path_factory.mktemp("state"))) as found:
        yield found


def broken(rng: random.Random, client: CompressedClient) -> bytes:
    """A query and a ping in some frames, of which some are damaged: a bit, the end, something behind, what is
    announced, the number, the size."""
    data = Q + packet(bytes((COM_PING,)), 0)
    cuts = sorted(rng.sample(range(1, len(data)), rng.randint(0, 3)))
    pieces = []
    for number, (start, end) in enumerate(pairwise((0, *cuts, len(data)))):
        body, announced = bytearray(data[start:end]), 0
        if rng.random() < 0.8:
            body, announced = bytearray(client.packed(data[start:end])), end - start
        damage = rng.choice(("", "", "bit", "end", "behind", "announced", "number", "size"))
        if damage == "bit":
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        elif damage == "end":
            del body[rng.randrange(len(body)) :]
        elif damage == "behind":
            body += rng.randbytes(rng.randint(1, 9))
        elif damage == "announced":
            announced = rng.choice((0, 1, announced - 1, announced + 1, LARGEST, rng.randrange(1 << 24)))
        made = frame(bytes(body), rng.randrange(256) if damage == "number" else number, max(0, announced))
        if damage == "size":
            made = rng.choice((0, len(body) - 1, len(body) + 1, LARGEST)).to_bytes(3, "little") + made[3:]
        pieces.append(made)
    return b"".join(pieces)


@pytest.mark.parametrize("seed", range(24))
def test_random_damage_is_answered_as_mysql_does_or_ends_the_session_in_words(beside: Beside, seed: int) -> None:
    """MySQL passes over what it cannot decompress, and may find the frame behind it out of order."""
    algorithm = ("zlib", "zstd")[seed % 2]
    told = []
    for connect in (at_mysql, through):
        with connect(beside, **ALGORITHMS[algorithm]) as client:
            client.socket.sendall(broken(random.Random(seed), client))
            found, ended = bytes_until_quiet(client)
            told.append(([packets for _, packets in inner_of(client, found)], ended))
    (answers, ended), (expected, _) = told[1], told[0]
    if told[0] != told[1]:
        assert ended and answers[-1][4:].startswith(b"\xff" + (1157).to_bytes(2, "little"))
        assert answers[:-1] == [packets for packets in expected if b"out of order" not in packets]
