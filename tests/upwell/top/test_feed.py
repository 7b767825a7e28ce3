"""The streams of a proxy that ends, comes back, refuses, or is none."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from upwell.top import feed
from upwell.top.feed import Away, Follower, Place, Refused, look

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer, port: int = 0) -> Iterator[Place]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *arguments: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Place("127.0.0.1", server.server_address[1], "secret")
        finally:
            server.shutdown()
            thread.join()


def saying(status: int, body: bytes) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.end_headers()
        request.wfile.write(body)

    return answer


class Told:
    """What a follower tells."""

    def __init__(self, place: Place) -> None:
        self._queue: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.follower = Follower(place, "/v1/live", lambda kind, data: self._queue.put((kind, data)))
        self.follower.start()

    def next(self) -> tuple[str, Any]:
        return self._queue.get(timeout=60)

    def end(self) -> None:
        self.follower.close()
        self.follower.join(60)
        assert not self.follower.is_alive()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "AGAIN", 0.01)


EVENTS = b': hello\n\nevent: overview\nid: 1\ndata: {"a": 1}\n\nevent: patch\nid: 2\ndata: {"a": 2}\n\n'


def test_a_look_carries_the_token() -> None:
    given = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        given.append((request.path, request.headers["Authorization"]))
        saying(200, b'{"a": [1]}')(request)

    with answering(answer) as place:
        assert look(place) == {"a": [1]}
        look(Place(place.host, place.port), "/x")
    assert given == [("/v1/overview", "Bearer secret"), ("/x", None)]


def test_a_stream_is_followed_through_an_end_and_a_start() -> None:
    with answering(saying(200, EVENTS)) as place:
        told = Told(place)
        assert [told.next() for _ in range(3)] == [("begun", None), ("overview", {"a": 1}), ("patch", {"a": 2})]
    while (kind := told.next())[0] != "lost" or "refused" not in kind[1].lower():
        pass
    with answering(saying(200, EVENTS), place.port):
        while told.next() != ("overview", {"a": 1}):
            pass
        told.end()


def test_an_outage_is_told_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = Told(Place("127.0.0.1", port))
    assert told.next() == (
        "lost",
        f"no proxy answers at 127.0.0.1:{port} (--http): Connection refused; is `upwell serve` running?",
    )
    with answering(saying(200, EVENTS), port):
        assert told.next() == ("begun", None)
        told.end()


def test_a_silent_stream_ends_when_it_is_closed() -> None:
    begun, end = threading.Event(), threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        saying(200, EVENTS)(request)
        begun.set()
        end.wait(60)

    with answering(answer) as place:
        told = Told(place)
        begun.wait(60)
        told.end()
        end.set()


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (
            404,
            b"there is no /v1/overview: there are /",
            Refused,
            "is no proxy, or an older one: there is no /v1/overview",
        ),
        (404, b"there is no cache 'x'\n", Refused, "^there is no cache 'x'$"),
        (400, b'{"error":{"message":"no such thing"}}', Refused, "^no such thing$"),
        (400, b'{"error":"no"}', Refused, '^{"error":"no"}$'),
        (503, b"more than 64\n", Away, "says: more than 64"),
        (200, b"<html>", Refused, "is no proxy of this version"),
    ],
)
def test_what_is_refused_is_a_sentence(status: int, body: bytes, error: type[Exception], words: str) -> None:
    with answering(saying(status, body)) as place, pytest.raises(error, match=words):
        look(place)


def test_what_is_no_proxy_is_told() -> None:
    with answering(saying(200, b"data: nonsense\n\n")) as place:
        told = Told(place)
        assert told.next()[0] == "begun" and told.next()[0] == "lost"
        told.end()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def junk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x01\x02\x03\r\n\r\n")

        thread = threading.Thread(target=junk)
        thread.start()
        with pytest.raises(Away, match="does not speak HTTP"):
            look(Place("127.0.0.1", server.getsockname()[1]))
        thread.join()


def test_a_refusal_is_the_last() -> None:
    with answering(saying(404, b"no")) as place:
        told = Told(place)
        assert told.next() == ("refused", "no")
        told.follower.join(60)
        assert not told.follower.is_alive()


def test_addresses_are_written_as_they_are_given() -> None:
    assert [str(Place(host, 1)) for host in ("h", "::1")] == ["h:1", "[::1]:1"]
