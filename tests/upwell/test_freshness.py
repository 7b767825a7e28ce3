"""Sessions: what a client asks of its next answer, by what it wrote and was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from gtid_tracker.gtid import GtidSet
from proxy.port.api import Freshness as Asked
from proxy.port.api import Otherwise
from tests.support.background_proxy import Background, background_proxy
from tests.support.fake_system import SERVER
from upwell import aio, errors
from upwell.client import Client
from upwell.errors import BadParameters
from upwell.freshness import NO_TOKEN, Freshness, Token, union
from upwell.v1 import upwell_pb2 as pb
from upwell.written import own_gtid

OTHER = "9f8e7d6c-0000-4000-8000-000000000001"


@pytest.fixture
def proxy() -> Iterator[Background]:
    with background_proxy() as running:
        yield running


def asked(token: Token) -> tuple[str, str]:
    message, _ = token.ask(None)
    return (message.min_gtid, message.not_before) if message is not None else ("", "")


@pytest.mark.parametrize(
    ("sets", "merged"),
    [
        ([], ""),
        (["", f"{SERVER}:5"], f"{SERVER}:5"),
        ([f"{SERVER}:1-3", f"{SERVER}:4:7"], f"{SERVER}:1-4:7"),
        ([f"{SERVER}:2-9", f"{SERVER}:1-20"], f"{SERVER}:1-20"),
        ([f"{OTHER}:1,\n{SERVER.upper()}:1", f"{SERVER}:tag:1-2"], f"{SERVER}:1,{SERVER}:tag:1-2,{OTHER}:1"),
        ([f"{SERVER}:1:tag:3-4", f"{SERVER}:tag:5"], f"{SERVER}:1,{SERVER}:tag:3-5"),
    ],
)
def test_sets_are_merged_as_the_proxy_reads_them(sets: list[str], merged: str) -> None:
    assert union(sets) == merged
    assert GtidSet.parse(merged) == GtidSet.parse(",".join(sets))


@pytest.mark.parametrize("text", ["5", SERVER, f"{SERVER}:0", f"{SERVER}:a-b", "x:1", f"{SERVER}:1;{SERVER}:2"])
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(BadParameters, match="is no GTID set"):
        union([text])


def test_answers_in_a_row_replace_what_was_shown() -> None:
    token = Token(Freshness())
    assert token.ask(None) == (None, 0), "a new session asks for nothing"
    for last in (5, 6):
        _, number = token.ask(None)
        token.took(number, f"{SERVER}:1-{last}")
    _, number = token.ask(None)
    token.took(number, f"{SERVER}:1-4:6")  # 5 was on its way then, and was rolled back
    assert asked(token) == ("", f"{SERVER}:1-4:6")


def test_answers_side_by_side_are_united() -> None:
    token = Token(Freshness())
    (_, one), (_, other) = token.ask(None), token.ask(None)
    token.took(one, f"{SERVER}:1-6")
    token.took(other, f"{SERVER}:1-5")
    assert asked(token) == ("", f"{SERVER}:1-6")


def test_writes_stay_asked_for() -> None:
    token = Token(Freshness(min_gtid=f"{SERVER}:1"))
    token.wrote(f"{SERVER}:7")
    token.took(token.ask(None)[1], f"{SERVER}:1-9")
    assert asked(token) == (f"{SERVER}:1:7", f"{SERVER}:1-9")


def test_what_one_read_asks_for_comes_beside_what_the_session_does() -> None:
    token = Token(Freshness(wait=5))
    token.wrote(f"{SERVER}:7")
    message, _ = token.ask(Freshness(min_gtid=f"{SERVER}:8", max_staleness=0.5, fail=True))
    assert message == pb.Freshness(min_gtid=f"{SERVER}:7-8", max_staleness=0.5, otherwise=pb.FAIL)


def test_reads_outside_of_sessions_keep_nothing() -> None:
    NO_TOKEN.took(0, f"{SERVER}:1-5")
    assert NO_TOKEN.ask(None) == (None, 0)


def test_session_asks_for_what_it_wrote_and_was_shown(proxy: Background) -> None:
    with Client(proxy.target) as client, client.session(Freshness(wait=0, fail=True)) as session:
        assert session.get("story", 1).served == "miss"
        assert (session.token.written, session.token.shown) == ("", SERVER + ":1-5")
        assert session.get("story", 1).served == "hit"
        session.wrote(SERVER + ":6")
        with pytest.raises(errors.TooStale):
            session.get("story", 1)
        assert [type(outcome) for outcome in session.cache("story").try_many([1])] == [errors.TooStale]
        assert [type(outcome) for _, outcome in session.cache("story").stream([1])] == [errors.TooStale]
        assert client.cache("story").get(1).served == "hit", "who asks for nothing gets what is held"
        session.query("SELECT 1")
        seen: list[Asked | None] = []
        proxy.do(lambda served: seen.append(served.system.asked))
        want = GtidSet.parse(SERVER + ":6"), 0.0, Otherwise.FAIL, GtidSet.parse(SERVER + ":1-5")
        assert [(f.min_gtid, f.wait, f.otherwise, f.not_before) for f in seen if f is not None] == [want]


def test_asyncio_session(proxy: Background) -> None:
    async def scenario() -> None:
        async with aio.Client(proxy.target) as client:
            with client.session() as session:
                story = session.cache("story")
                assert [answer.served for answer in await story.get_many([1, 2])] == ["miss", "miss"]
                assert session.token.shown == SERVER + ":1-5"
                assert [place async for place, _ in story.stream([1, 2])] == [0, 1]
                session.wrote(SERVER + ":6")
                with pytest.raises(errors.TooStale):
                    await session.get("story", 1)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_gtid_in_the_answer_to_a_commit() -> None:
    gtid = f"{SERVER}:23".encode()
    tracked = b"\x00" + bytes([len(gtid)]) + gtid
    schema = b"\x01\x05\x04test"
    changes = schema + b"\x03" + bytes([len(tracked)]) + tracked
    assert own_gtid(b"\x00" + bytes([len(changes)]) + changes) == gtid.decode()
    assert own_gtid(b"\x04text" + b"\xfc" + len(changes).to_bytes(2, "little") + changes) == gtid.decode()
    assert own_gtid(b"\x00" + bytes([len(schema)]) + schema) == ""
    assert own_gtid(b"") == ""
