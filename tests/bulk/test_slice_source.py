"""What executors do, without Spark: on a connection to a server that the test scripts."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pymysql
import pytest

pytest.importorskip("pyspark")

import bulk.questions
import bulk.slice_source as source
from bulk.questions import Login, Question

LOGIN = Login({"host": "h", "user": "u", "password": b"secret"}, pin="SET x = 1")
PACKETS = b"\x05\0\0\0\x03DO 1"


@contextmanager
def server(monkeypatch: pytest.MonkeyPatch, *talks: Callable[[socket.socket], None]) -> Iterator[list[str]]:
    """Each connection is the next of `talks`; yields what was said on the connections by PyMySQL itself."""
    said: list[str] = []
    threads: list[threading.Thread] = []
    waiting = list(talks)

    def connect(login: Login) -> object:
        if not waiting:
            raise pymysql.err.OperationalError(2003, "nobody there")
        ours, theirs = socket.socketpair()
        talk = waiting.pop(0)

        def serve() -> None:
            with theirs:
                talk(theirs)

        thread = threading.Thread(target=serve)
        thread.start()
        threads.append(thread)
        return SimpleNamespace(
            _sock=ours, query=said.append, select_db=lambda name: said.append(f"USE {name}"), _force_close=ours.close
        )

    monkeypatch.setattr(source, "_connect", connect)
    yield said
    for thread in threads:
        thread.join()


def mark_of(asked: bytes) -> bytes:
    return asked.rpartition(b"SELECT '")[2][:32]


def answering(*answers: bytes, piece: int = 1 << 20) -> Callable[[socket.socket], None]:
    """Each question gets the next of these, then a row with its mark and the end of the rows, in pieces."""

    def talk(connection: socket.socket) -> None:
        for answer in answers:
            asked = b""
            while b"' AS m" not in asked:
                asked += connection.recv(1 << 16)
            data = answer + b"\x21\0\0\5\x20" + mark_of(asked) + b"\5\0\0\6\xfe\0\0\2\0"
            for at in range(0, len(data), piece):
                connection.sendall(data[at : at + piece])

    return talk


def asked(*numbers: int, database: str = "") -> source.Slice:
    return source.Slice(LOGIN, [Question(number, PACKETS, database) for number in numbers])


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_answers_are_the_bytes_as_they_came(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    answers = (b"one" * 10, b"", bytes(range(256)) * 3)
    with server(monkeypatch, answering(*answers, piece=piece)) as said:
        found = list(source.answers(asked(1, 2, 3, database="d")))
    assert found == [
        (n, answer + b"\x21\0\0\5\x20", None, None, 0) for n, answer in zip((1, 2, 3), answers, strict=True)
    ]
    assert said == ["SET x = 1", "USE d"]


def test_a_connection_that_is_lost_is_opened_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def dying(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"half")

    with server(monkeypatch, answering(b"a"), dying, answering(b"b")):
        found = list(source.answers(source.Slice(LOGIN, [Question(1, PACKETS)])))
        assert [number for number, *_ in found] == [1]
        again = list(source.answers(asked(2)))
    assert again == [(2, b"b\x21\0\0\5\x20", None, None, 0)]


def test_what_is_wrong_is_told_in_the_place_of_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(monkeypatch):
        assert list(source.answers(asked(1, 2))) == [
            (1, None, None, "nobody there", 2003),
            (2, None, None, "nobody there", 2003),
        ]


def test_an_error_that_would_come_again_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def refuse(login: Login) -> object:
        tries.append(1)
        raise pymysql.err.OperationalError(1045, "Access denied for user 'u'")

    monkeypatch.setattr(source, "_connect", refuse)
    assert list(source.answers(asked(1))) == [(1, None, None, "Access denied for user 'u'", 1045)]
    assert len(tries) == 1


def test_an_answer_that_is_too_large_is_no_reason_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGEST", 1000)

    def large(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        with pytest.raises(OSError):
            while True:
                connection.sendall(b"x" * 500)

    with server(monkeypatch, large, answering(b"b")):
        first, second = source.answers(asked(1, 2))
    assert first == (1, None, None, "an answer of more than 1000 bytes", 0) and second[:2] == (2, b"b\x21\0\0\5\x20")


def test_a_batch_is_handed_on_before_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BATCH", 100)
    one = asked(1, 2, 3)
    with server(monkeypatch, answering(b"a" * 60, b"b" * 60, b"c")):
        batches = list(source.SliceReader([one]).read(one))
    assert [batch.column(0).to_pylist() for batch in batches] == [[1, 2], [3]]


def test_nothing_shows_the_account() -> None:
    assert "secret" not in repr(LOGIN) + repr(asked(1)) + repr(Question(1, b"secret"))


def test_an_executor_needs_no_module_of_ours(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    modules = (bulk.questions, source)
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        pickled = cloudpickle.dumps((source.source_of([asked(1)]), source.answers))  # type: ignore[no-untyped-call]
        (tmp_path / "class").write_bytes(pickled)
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
    script = """
import pickle, sys
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("bulk", "external_upquery", "sqltypes", "proxy"):
            raise ImportError(name)
sys.meta_path.insert(0, Nowhere())
made, answers = pickle.load(open(sys.argv[1], "rb"))
reader = made(options={}).reader(None)
print(len(reader.partitions()), answers.__globals__["decoder"]())
"""
    told = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "class")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert told.stdout == "1 None\n", told.stderr
