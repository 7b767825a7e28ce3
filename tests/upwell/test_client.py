"""The clients against a real listener over the fake system: what a caller sees beyond the single call."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from proxy.grpc.server import GrpcOptions
from proxy.port.api import SubscriptionEvent
from sqltypes import errors as server_errors
from tests.support.background_proxy import Background, background_proxy
from tests.support.grpc_listener import Served
from upwell import aio, errors, wire
from upwell.client import Client


@pytest.fixture
def proxy() -> Iterator[Background]:
    with background_proxy() as running:
        yield running


def test_the_synchronous_client_reads_writes_and_lists(proxy: Background) -> None:
    with Client(proxy.target) as client:
        story = client.cache("story")
        assert story.get(1).served == "miss"
        answer = story.get(1)
        assert (answer.served, answer.one, answer.columns) == ("hit", (1, "title 1"), ("id", "title"))
        assert [answer.served for answer in story.get_many([1, (2,), [3]])] == ["hit", "miss", "miss"]
        assert dict(story.stream([1, 2, 99])) == {0: [(1, "title 1")], 1: [(2, "title 2")], 2: []}
        assert client.query("SELECT ?", [1]).why == "no cache of this query"
        assert client.create_cache("SELECT 1", name="one").name == "one"
        assert client.explain("one").text == "plan of one"
        assert [cache.name for cache in client.caches()] == ["story", "one"]
        client.drop_cache("one")
        assert client.status().hits == 7


def test_one_client_serves_several_threads(proxy: Background) -> None:
    with Client(proxy.target) as client:
        story = client.cache("story")
        seen: list[bool] = []

        def reads() -> None:
            seen.extend(story.get(key) == [(key, f"title {key}")] for key in range(1, 10))

        threads = [threading.Thread(target=reads) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [True] * 36


def test_a_subscription_ends_with_the_proxys_reason(proxy: Background) -> None:
    def events(served: Served) -> None:
        served.system.events = [
            SubscriptionEvent(added=[(1, "a")], snapshot=True),
            SubscriptionEvent(end="too slow"),
        ]

    proxy.do(events)
    with Client(proxy.target) as client:
        seen = []
        with pytest.raises(errors.SubscriptionEnded, match="too slow"):
            for event in client.cache("story").subscribe(1):
                seen.append(event.added)
        assert seen == [[(1, "a")]]


def test_a_read_is_tried_again_while_the_source_is_down(proxy: Background) -> None:
    def down(served: Served) -> None:
        served.system.caches["story"].failing = server_errors.SourceDown("mysql is away")

    def attempts(served: Served) -> None:
        seen.append(served.system.caches["story"].misses)

    seen: list[int] = []
    proxy.do(down)
    with Client(proxy.target) as client:
        with pytest.raises(errors.SourceDown, match="mysql is away"):
            client.cache("story").get(1)
        proxy.do(attempts)
        with pytest.raises(errors.DeadlinePassed):
            client.cache("story").get(1, timeout=0.02)
    assert seen == [4]


def test_a_refusal_is_not_tried_again_and_tells_its_reason(proxy: Background) -> None:
    with Client(proxy.target) as client:
        with pytest.raises(errors.UnsupportedQuery) as failed:
            client.create_cache("SELECT RAND()")
        assert (failed.value.reason, failed.value.code, failed.value.errno) == (
            "unsupported_query",
            "nondeterministic",
            1235,
        )
        with pytest.raises(errors.UnknownCache) as unknown:
            client.cache("stroy").get(1)
        assert unknown.value.reason == "unknown_cache"


def test_a_proxy_that_is_not_there() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))  # bound, not listening: nobody else takes the port
        target = f"127.0.0.1:{reserved.getsockname()[1]}"
        with Client(target) as client, pytest.raises(errors.Unavailable):
            client.status()

        async def scenario() -> None:
            async with aio.Client(target) as client:
                with pytest.raises(errors.Unavailable):
                    await client.status()

        asyncio.run(scenario())


def test_the_attempts_of_a_read_outlast_the_first_pause_of_the_channel() -> None:
    class Impatient(random.Random):
        def random(self) -> float:
            return 0.0

    assert sum(wire.backoffs(Impatient())) > 1.2 * wire.FIRST_RECONNECT / 1000
    assert ("grpc.initial_reconnect_backoff_ms", wire.FIRST_RECONNECT) in wire.CHANNEL_OPTIONS


def self_signed(folder: Path) -> tuple[Path, Path]:
    """(certificate, key) for localhost, PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(secret)
    return folder / "cert.pem", folder / "key.pem"


def test_tls_and_a_token(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    options = GrpcOptions(certificate=certificate.read_bytes(), key=key.read_bytes(), token="secret")
    with background_proxy(options) as proxy:
        with Client(proxy.target, token="secret", tls=certificate) as client:
            assert client.cache("story").get(1) == [(1, "title 1")]
        with Client(proxy.target, tls=certificate.read_bytes()) as client, pytest.raises(errors.Unauthenticated):
            client.status()
        with Client(proxy.target, token="secret", tls=True) as client, pytest.raises(errors.Unavailable):
            client.status(timeout=5)
        with Client(proxy.target, token="secret") as client, pytest.raises(errors.Unavailable):
            client.status(timeout=5)
