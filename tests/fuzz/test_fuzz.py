"""The fuzzer with a small fixed budget (`make fuzz SECONDS=... SEED=...` runs any other), and that it finds what is
wrong: faults that are put in, one of each kind."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from proxy.mysql.login.handshake import _Login
from proxy.mysql.reads.bound_types import BoundTypes
from proxy.mysql.session.open_sessions import Member, OpenSessions
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.session import HANDLERS, Session
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.wire.packets import packet
from proxy.mysql.wire.responses import Responses
from proxy.mysql.wire.sockets import ClientWire
from sqltypes.errors import UpwellError
from tests.fuzz import run
from tests.fuzz.decoders import TARGETS, BytesCase
from tests.fuzz.logins import login_case
from tests.fuzz.run import cases_of, fuzz, main, report
from tests.fuzz.sessions import SessionCase, session_case
from tests.fuzz.shrinking import Case, failure, smaller_bytes, smaller_steps, spelled
from tests.fuzz.strict_client import StrictClient
from tests.fuzz.system import Counts
from tests.support.mysql_packets import ok

SEEDS = 60
PLANTED = 300  # seeds, of which one finds each planted fault

NO_LIMIT = float("inf")


def test_no_bytes_and_no_session_is_a_finding_and_all_is_reached() -> None:
    fuzzed = fuzz(iter(range(1, SEEDS + 1)), NO_LIMIT)
    assert not fuzzed.findings, "".join(report(*found) for found in fuzzed.findings.values())
    assert fuzzed.seeds == SEEDS
    sessions = {"sessions", "strict sessions", "wild sessions"}
    assert set(fuzzed.counts) == {*TARGETS, "texts", "logins", *sessions}
    answered = fuzzed.answered
    for name in ("hit", "quick hit", "miss", "passed", "other command", "texts that a cache is for", "login: accepted"):
        assert answered[name] > 3, (name, answered)
    assert answered["answers looked at"] > 200
    assert sum(name.startswith("passed: ") for name in answered) > 15


def test_a_seed_makes_the_same_cases_again() -> None:
    assert list(cases_of(7)) == list(cases_of(7)) != list(cases_of(8))


def first_finding(make: Callable[[random.Random], Case]) -> str:
    """What fails first, of one kind of cases."""
    for seed in range(1, PLANTED):
        finding = failure(make(random.Random(seed)), Counter())
        if finding is not None:
            return finding.alike
    return "nothing"


def decoders_of(seed: int) -> Iterator[Case]:
    return (case for case in cases_of(seed) if isinstance(case, BytesCase))


def strict_session(rng: random.Random) -> SessionCase:
    return next(case for case in (session_case(rng) for _ in range(99)) if case.strict)


# -- faults that are put in --------------------------------------------------------------------------------------------


def test_a_decoder_that_raises_what_it_should_not_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = BoundTypes.values

    def values(statement: BoundTypes, payload: bytes) -> tuple[Any, ...]:
        if len(payload) > 30:
            raise IndexError("planted")
        return decoded(statement, payload)

    monkeypatch.setattr(BoundTypes, "values", values)
    assert "IndexError" in first_finding(lambda rng: BytesCase("execution", 1, TARGETS["execution"][0](rng)))


def test_a_handler_that_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def ping(session: Session, data: bytes) -> None:
        raise ValueError("planted")

    monkeypatch.setitem(HANDLERS, 0x0E, ping)
    assert "ValueError" in first_finding(strict_session)


def test_a_task_that_fails_is_found_by_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def first(session: Session, asked: object) -> None:
        raise LookupError("planted")

    monkeypatch.setattr(Session, "_first", first)
    assert "LookupError" in first_finding(strict_session)


def test_a_session_that_never_answers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(client: ClientWire, data: bytes) -> None:
        pass

    monkeypatch.setattr(ClientWire, "forward", nothing)
    steps = (("client", packet(b"\x03SELECT 1", 0)),)
    assert "seen.missing" in first_finding(lambda rng: SessionCase(1, 1 << 19, 0.0, True, steps))


def test_commands_that_wait_for_ever_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(upstream: Upstream) -> None:
        pass

    monkeypatch.setattr(Upstream, "answered", nothing)
    assert "commands.held" in first_finding(strict_session)


def test_answers_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = ClientWire.flush

    def flush(client: ClientWire) -> None:
        client.out.reverse()
        flushed(client)

    monkeypatch.setattr(ClientWire, "flush", flush)
    assert "strict_client.py:_compare" in first_finding(strict_session)


def test_a_client_that_is_read_without_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(relay: Relay) -> None:
        pass

    monkeypatch.setattr(Relay, "mind_reading", nothing)
    assert "size < MUCH" in first_finding(strict_session)


def test_a_session_that_is_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(sessions: OpenSessions, session: Member) -> None:
        pass

    monkeypatch.setattr(OpenSessions, "ended", nothing)
    assert "shared.sessions.closing" in first_finding(strict_session)


def test_an_end_for_no_reason_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Upstream.answered

    def closes(upstream: Upstream) -> None:
        answered(upstream)
        if upstream._shared.passed == 4:
            upstream._relay.close()

    monkeypatch.setattr(Upstream, "answered", closes)
    assert "_may_end" in first_finding(strict_session)


def test_pieces_that_matter_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Responses.feed

    def feed(responses: Responses, data: bytes) -> None:
        fed(responses, data if len(data) != 5 else data[:4])

    monkeypatch.setattr(Responses, "feed", feed)
    assert "decoders.py:responses" in first_finding(lambda rng: BytesCase("responses", 1, TARGETS["responses"][0](rng)))


def test_a_login_that_leaves_its_sockets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(login: _Login, error: UpwellError | None) -> None:
        pass

    monkeypatch.setattr(_Login, "end", end)
    assert "logins.py" in first_finding(lambda rng: replace(login_case(rng), steps=()))


@dataclass(frozen=True)
class Loop:
    """A case that does not end."""

    kind = "loops"

    def run(self, counts: Counts) -> None:
        while True:
            pass

    def smaller(self) -> Iterator[Loop]:
        yield self

    def script(self) -> str:
        return "Loop().run()"


def test_a_case_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "HANGS", 0.05)
    monkeypatch.setattr(run, "cases_of", lambda seed: iter((Loop(),)))
    assert "Hangs" in "".join(fuzz(iter((1,)), NO_LIMIT).findings)


# -- what a finding is told as -----------------------------------------------------------------------------------------


def test_a_finding_is_printed_small_with_its_seed_and_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bad(data: bytes, rng: random.Random) -> None:
        if b"\xfb" in data:
            raise KeyError("planted")

    monkeypatch.setitem(TARGETS, "row", (TARGETS["row"][0], bad))
    seed = next(seed for seed in range(1, 99) if any(failure(case, Counter()) for case in decoders_of(seed)))
    assert main(["--seed", str(seed), "--one"]) == 1
    printed = capsys.readouterr().out
    assert f"make fuzz SEED={seed} ARGS=--one" in printed
    assert ", b'\\xfb').run(Counter())" in printed
    script = "\n".join(line for line in printed.splitlines() if line.startswith(("from ", "BytesCase(")))
    with pytest.raises(KeyError, match="planted"):
        exec(script, {})


def test_a_run_without_findings_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--one"]) == 0
    printed = capsys.readouterr().out
    assert "how sessions were answered" in printed and "no findings" in printed


def test_steps_are_left_out_whole_where_the_client_is_strict() -> None:
    steps = (("client", b"abc"), ("settle", b""), ("client", b"de"))
    assert (("client", b"abc"),) not in [*smaller_steps(steps, whole=True)]
    assert all(set(smaller) < set(steps) for smaller in smaller_steps(steps, whole=True))
    assert (steps[0], steps[1], ("client", b"e")) in [*smaller_steps(steps, whole=False)]
    assert [*smaller_bytes(b"ab")] == [b"", b"b", b"a"]


@pytest.mark.parametrize("data", [b"", b"a", b"'\"\\", b"x" * 300, b"ab" + b"x" * 300 + b"\0" * 70 + b"c"])
def test_bytes_are_spelled_so_that_they_can_be_read_again(data: bytes) -> None:
    assert eval(spelled(data)) == data
    assert len(spelled(data)) < 60


# -- the judge ---------------------------------------------------------------------------------------------------------

LOGIN = packet(ok(), 2)
PING = packet(b"\x0e", 0)


@pytest.mark.parametrize(
    ("received", "answers", "missing", "left"),
    [
        (LOGIN + packet(ok(), 1) * 2, 2, 0, 0),
        (LOGIN + packet(ok(), 1), 1, 1, 0),
        (LOGIN + packet(ok(), 1) * 3, 2, 0, 11),
        (LOGIN, 0, 2, 0),
        (b"", 0, 2, 0),
    ],
)
def test_answers_are_counted(received: bytes, answers: int, missing: int, left: int) -> None:
    seen = StrictClient(eof=False).see(PING * 2, received)
    assert (seen.answers, seen.missing, seen.left) == (answers, missing, left)


@pytest.mark.parametrize("answer", [packet(ok(), 2), packet(ok() + b"\x0ctag:00000000", 1)])
def test_an_answer_that_is_another_commands_is_none(answer: bytes) -> None:
    with pytest.raises(AssertionError):
        StrictClient(eof=False).see(PING, LOGIN + answer)


def test_a_strict_client_sees_that_rows_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    case = SessionCase(1, 1 << 19 | 1 << 24, 0.0, True, (("client", packet(b"\x03SELECT 1", 0)),) * 9)
    case.run(Counter())
    forwarded = ClientWire.forward

    def half(client: ClientWire, data: bytes) -> None:
        forwarded(client, data[: len(data) // 2] if len(data) > 100 else data)

    monkeypatch.setattr(ClientWire, "forward", half)
    failures: list[Callable[[], None]] = []
    for seed in range(5):
        try:
            replace(case, seed=seed).run(Counter())
        except (AssertionError, IndexError) as error:
            failures.append(error.args[0])
    assert failures
