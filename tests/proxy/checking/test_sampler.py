"""The sampler between a stream and a MySQL that the test plays: what is told of a sampled hit, and when nothing is."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog

import proxy.checking.comparison
from dataflow.messages import (
    Ddl,
    Gap,
    OwnAnswer,
    TableChanges,
    Transaction,
    UpqueryAnswer,
    UpqueryFailed,
    UpqueryRequest,
)
from external_upquery.columns import RawColumn
from external_upquery.mysql.other_session import Question, Settings, Told
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from proxy.cache.answer_columns import Encoding
from proxy.cache.key_binder import Binding
from proxy.cache.named_cache import NamedCache
from proxy.checking.comparison import Comparer
from proxy.checking.ddl_excuses import UPTIME
from proxy.checking.given_hit import GivenHit
from proxy.checking.sampler import BURDEN, MAX_BYTES, OFFERED, PATIENCE, Sampler
from proxy.mysql.wire.packets import lenenc, packet
from proxy.port.as_told import AsTold
from proxy.read.literals import substituted
from sqltypes.errors import DeadlinePassed, SourceDown, SourceError, UpwellError
from sqltypes.expression import Row
from sqltypes.schema import BIGINT, ResultColumn
from tests.support.engine_rig import NEW, NOTHING, OLD, ROWS, Rig, gtids

HELD: list[Row] = [(1, 10), (2, 20)]
Deliver = Callable[[UpqueryAnswer | UpqueryFailed], None]


@dataclass
class Sampled:
    """Key 7 is held at position 2: `HELD`. `asked`: what the sampler has sent to MySQL."""

    rig: Rig = field(default_factory=lambda: Rig(ROWS))
    clock: float = 100.0
    up: bool = True
    draw: float = 0.0
    asked: list[tuple[UpqueryRequest, Deliver]] = field(default_factory=list)
    published: int = 0

    def __post_init__(self) -> None:
        rig = self.rig
        comparer = Comparer(
            rig.engine,
            lambda request, deliver, _: self.asked.append((request, deliver)),
            lambda: OLD,
            lambda: self.clock,
        )
        self.sampler = Sampler(
            rig.engine, comparer, substituted, share=0.001, source_up=lambda: self.up, clock=lambda: self.clock,
            chance=lambda: self.draw, publish=self.publish,
        )  # fmt: skip
        columns = tuple(ResultColumn(name, BIGINT, True) for name in ("id", "v"))
        encoding = Encoding(rig.readers[0], columns, None, [lambda _: lambda rows: repr(rows).encode()])
        self.cache = NamedCache("rows", ROWS, "test", encoding=encoding)
        self.change(2, (None, (9, 9, 9)))
        rig.fill_from({1: (1, 7, 10), 2: (2, 7, 20)}, 7)
        assert rig.hit(7) is not None

    def change(self, number: int, *pairs: Any) -> None:
        event = Transaction(Gtid(OLD, number), [TableChanges("test.t", list(pairs))])
        self.rig.engine.on_stream(event)
        self.sampler.comparer.suspicions.on_stream(event)
        self.sampler.comparer.on_stream(event)

    def publish(self) -> None:
        assert not self.rig.readers[0].entries, "subscribers are told when the key has gone"
        self.published += 1

    def offer(self, key: int = 7, together: bool = False) -> None:
        body = self.rig.hit(key)
        assert body is not None
        reader = self.rig.readers[0]
        binding = Binding([(reader.key_of((key,)), (key,))], (key,))
        self.sampler.offer(GivenHit(self.cache, reader, binding, (key,), 0, body, together))

    def offer_told(self, told: AsTold) -> None:
        """As `offer`, by a session that was told the hit so."""
        body = self.rig.hit(7)
        assert body is not None
        reader = self.rig.readers[0]
        binding = Binding([(reader.key_of((7,)), (7,))], (7,))
        self.sampler.offer_told(GivenHit(self.cache, reader, binding, (7,), 0, body, False), told)

    def answer(
        self, rows: Sequence[Row] | SourceError, lower: GtidSet, owned: GtidSet = NOTHING, server: str = OLD,
        seconds: float = 0.0, explained: bool = True,
    ) -> None:  # fmt: skip
        request, deliver = self.asked.pop()
        own = rows if isinstance(rows, SourceError) else OwnAnswer(list(rows))
        deliver(UpqueryAnswer(request.id, Bracket(server, lower, owned, lower), (), seconds, checks=(own,)))
        if explained and self.asked:
            self.explain(lower)

    def offer_again(self) -> None:
        """The key is filled again, and a hit of it is offered."""
        self.clock += 10
        self.rig.fill_from({1: (1, 7, 10), 2: (2, 7, 20)}, 7)
        self.offer()

    def explain(self, executed: GtidSet) -> None:
        """MySQL says what it has executed after an answer that differed."""
        request, deliver = self.asked.pop()
        assert request.statements == (UPTIME,) and request.lower == NOTHING
        deliver(UpqueryAnswer(request.id, Bracket(OLD, NOTHING, NOTHING, executed), ([("Uptime", "1000")],)))

    @property
    def told(self) -> dict[str, int]:
        return {name.removeprefix("sample_"): count for name, count in self.sampler.counters.items()}


@pytest.fixture
def sampled() -> Sampled:
    return Sampled()


def test_the_clients_own_query_is_asked_with_the_hits_parameters(sampled: Sampled) -> None:
    sampled.offer()
    ((request, _),) = sampled.asked
    assert [statement.sql for statement in request.checks] == ["SELECT id, v FROM t WHERE k = 7"]
    assert not request.statements, "its errors have a bracket then, too"
    assert (request.database, request.lower, request.slow) == ("test", None, True)
    assert request.id < 0  # the engine numbers its own from 1


def test_an_equal_answer_in_any_order(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer(HELD[::-1], lower=gtids(1, 2))
    assert sampled.told == {"equal": 1}
    assert sampled.rig.held(7) == HELD


def test_a_difference_is_logged_counted_and_the_key_forgotten(sampled: Sampled) -> None:
    sampled.offer()
    with structlog.testing.capture_logs() as logs:
        sampled.answer([(1, 10), (2, 21)], lower=gtids(1, 2))
    assert sampled.told == {"different": 1}
    assert sampled.rig.held(7) is None and not sampled.rig.readers[0].entries
    (line,) = logs
    assert (line["event"], line["cache"], line["parameters"]) == ("sample_different", "rows", "(7,)")
    assert (line["too_many"], line["missing"]) == (["(2, 20)"], ["(2, 21)"])
    assert line["position_of_the_hit"] == line["lower"] == str(gtids(1, 2)) and line["uncertain"] == ""
    assert line["bytes_are_of_the_rows"] is True
    assert sampled.published == 1


def test_bytes_that_are_not_those_of_the_rows_are_a_difference(sampled: Sampled) -> None:
    held = sampled.rig.readers[0].entries[7]
    assert held.bodies is not None
    held.bodies[0] = b"spoilt"
    sampled.offer()
    with structlog.testing.capture_logs() as logs:
        sampled.answer(HELD, lower=gtids(1, 2))
    assert sampled.told == {"different": 1} and logs[0]["bytes_are_of_the_rows"] is False
    assert sampled.rig.held(7) is None


def test_other_answers_from_the_wrong_entry_are_forgotten_too() -> None:
    made = Sampled(Rig(ROWS, ROWS + " ORDER BY v"))
    assert made.rig.hit(7, reader=1) is not None
    made.offer()
    with structlog.testing.capture_logs():
        made.answer([], lower=gtids(1, 2))
    assert made.rig.held(7) is None and made.rig.hit(7, reader=1) is None


@pytest.mark.parametrize("times", [1, 2])
def test_a_key_that_was_touched_meanwhile_tells_nothing_even_if_it_is_as_before(sampled: Sampled, times: int) -> None:
    sampled.offer()
    sampled.change(3, ((2, 7, 20), (2, 7, 21)))
    if times == 2:
        sampled.change(4, ((2, 7, 21), (2, 7, 20)))
    assert sampled.rig.hit(7) is not None
    sampled.answer([(1, 10), (2, 21)], lower=gtids(1, 2, 3))
    assert sampled.told == {"inconclusive": 1} and sampled.rig.held(7) is not None


def test_an_empty_answer_that_was_touched_meanwhile_is_not_taken_for_untouched(sampled: Sampled) -> None:
    sampled.rig.readers[0].encodings.encoders = [lambda rows: b"".join(repr(row).encode() for row in rows)]
    sampled.rig.fill_from({}, 8)
    sampled.offer(8)
    sampled.change(3, (None, (3, 8, 30)))
    sampled.change(4, ((3, 8, 30), None))
    assert sampled.rig.hit(8) == b""  # the very same object as before
    sampled.answer([(3, 30)], lower=gtids(1, 2, 3))
    assert sampled.told == {"inconclusive": 1}


def test_an_evicted_key_tells_nothing(sampled: Sampled) -> None:
    sampled.offer()
    sampled.rig.readers[0].clear()
    sampled.answer([], lower=gtids(1, 2))
    assert sampled.told == {"inconclusive": 1}


def test_an_answer_that_may_be_older_than_the_hit_tells_nothing(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer([], lower=gtids(1))
    assert sampled.told == {"inconclusive": 1} and sampled.rig.held(7) == HELD


def test_an_answer_of_another_server_or_none_tells_nothing(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer([], lower=gtids(1, 2), server=NEW)
    sampled.clock += 10
    sampled.offer()
    request, deliver = sampled.asked.pop()
    deliver(UpqueryFailed(request.id, SourceDown("gone")))
    assert sampled.told == {"inconclusive": 2}


def test_it_waits_until_the_position_contains_all_that_the_answer_may_have_seen(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer(HELD, lower=gtids(1, 2, 3), owned=gtids(4))
    sampled.change(3, (None, (3, 8, 30)))
    assert sampled.told == {}
    sampled.change(4, (None, (4, 8, 40)))
    assert sampled.told == {"equal": 1}


def test_what_comes_while_it_waits_may_concern_the_key(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer([(1, 10), (2, 21)], lower=gtids(1, 2, 3))
    sampled.change(3, ((2, 7, 20), (2, 7, 21)))
    assert sampled.told == {"inconclusive": 1}


def test_it_does_not_wait_without_end(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer(HELD, lower=gtids(1, 2, 3))
    sampled.sampler.tick()
    assert sampled.told == {}
    sampled.clock += 2 * PATIENCE + 1
    sampled.sampler.tick()
    assert sampled.told == {"inconclusive": 1}
    sampled.change(3, (None, (3, 8, 30)))
    assert sampled.told == {"inconclusive": 1}


def test_a_difference_counts_when_the_stream_has_brought_what_is_executed_after_it(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer([(1, 10)], lower=gtids(1, 2), explained=False)
    assert sampled.told == {} and sampled.rig.held(7) is None, "nobody is given it meanwhile"
    sampled.explain(gtids(1, 2, 3))
    assert sampled.told == {}
    with structlog.testing.capture_logs():
        sampled.change(3, (None, (3, 8, 30)))
    assert sampled.told == {"different": 1}


def test_a_view_that_is_replaced_after_the_bracket_was_read_is_no_difference(sampled: Sampled) -> None:
    """MySQL computes the text by the view that it has then; the snapshot's bracket does not tell of it."""
    sampled.offer()
    sampled.answer([(1, 10)], lower=gtids(1, 2), explained=False)
    sampled.explain(gtids(1, 2, 3))
    event = Ddl(Gtid(OLD, 3), "ALTER VIEW w AS SELECT 1", frozenset({"test.w"}))
    sampled.rig.engine.on_stream(event)
    sampled.sampler.comparer.suspicions.on_stream(event)
    sampled.sampler.comparer.on_stream(event)
    assert sampled.told == {"inconclusive": 1}


def test_a_difference_that_is_never_explained_tells_nothing(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer([(1, 10)], lower=gtids(1, 2), explained=False)
    sampled.explain(gtids(1, 2, 3))
    sampled.clock += 2 * PATIENCE + 1
    sampled.sampler.tick()
    assert sampled.told == {"inconclusive": 1}
    sampled.offer_again()
    sampled.answer([(1, 10)], lower=gtids(1, 2), explained=False)
    request, deliver = sampled.asked.pop()
    deliver(UpqueryFailed(request.id, SourceDown("gone")))
    assert sampled.told == {"inconclusive": 2}


SECOND_ROW = SourceError(1242, "21000", "Subquery returns more than 1 row")


def test_an_error_of_the_rows_in_the_place_of_what_is_held_is_a_difference(sampled: Sampled) -> None:
    sampled.offer()
    with structlog.testing.capture_logs() as logs:
        sampled.answer(SECOND_ROW, lower=gtids(1, 2))
    assert sampled.told == {"different": 1} and "more than 1 row" in logs[0]["error_of_mysql"]


def test_an_error_of_rows_that_the_stream_has_still_to_bring_is_none(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer(SECOND_ROW, lower=gtids(1, 2), owned=gtids(3))
    assert sampled.told == {}
    sampled.change(3, (None, (3, 7, 30)))
    assert sampled.told == {"inconclusive": 1} and sampled.rig.held(7) is not None


def test_an_error_that_is_not_of_the_rows_tells_nothing(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer(SourceError(1038, "HY001", "Out of sort memory"), lower=gtids(1, 2))
    assert sampled.told == {"inconclusive": 1} and sampled.rig.held(7) == HELD


def test_a_gap_ends_the_wait(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer(HELD, lower=gtids(1, 2, 3))
    event = Gap("purged", gtids(1, 2, 3, 4))
    sampled.rig.engine.on_stream(event)
    sampled.sampler.comparer.suspicions.on_stream(event)
    sampled.sampler.comparer.on_stream(event)
    assert sampled.told == {"inconclusive": 1}


def test_a_view_that_is_replaced_while_it_waits_is_no_difference(sampled: Sampled) -> None:
    sampled.offer()
    sampled.answer([], lower=gtids(1, 2, 3))
    # No table of the key is concerned, so that it stays untouched until its cache is told.
    event = Ddl(Gtid(OLD, 3), "ALTER VIEW w AS SELECT 1", frozenset({"test.w"}))
    sampled.rig.engine.on_stream(event)
    sampled.sampler.comparer.suspicions.on_stream(event)
    sampled.sampler.comparer.on_stream(event)
    assert sampled.rig.held(7) == HELD
    assert sampled.told == {"inconclusive": 1}


def test_what_mysql_does_not_answer_in_time_is_not_asked_again_at_once(sampled: Sampled) -> None:
    sampled.offer()
    request, deliver = sampled.asked.pop()
    sampled.clock += PATIENCE
    deliver(UpqueryFailed(request.id, DeadlinePassed("late")))
    sampled.clock += BURDEN * PATIENCE - 1
    sampled.offer()
    assert not sampled.asked
    sampled.clock += 2
    sampled.offer()
    assert sampled.asked


def test_one_at_a_time_with_pauses_that_grow_with_what_mysql_took(sampled: Sampled) -> None:
    sampled.offer()
    sampled.offer()
    assert len(sampled.asked) == 1
    sampled.answer(HELD, lower=gtids(1, 2), seconds=2.0)
    sampled.clock += 19.0
    sampled.offer()
    assert not sampled.asked
    sampled.clock += 2.0
    sampled.offer()
    assert len(sampled.asked) == 1


def test_few_are_asked_and_none_while_mysql_is_out_of_reach(sampled: Sampled) -> None:
    sampled.draw = 0.001 * OFFERED
    sampled.offer()
    sampled.draw, sampled.up = 0.0, False
    sampled.offer()
    assert not sampled.asked
    sampled.up = True
    sampled.offer()
    assert sampled.asked


def test_answers_that_take_long_to_compare_are_left_alone(sampled: Sampled) -> None:
    sampled.rig.readers[0].encodings.encoders = [lambda rows: bytes(MAX_BYTES + 1)]
    sampled.rig.readers[0].entries[7].stale()
    sampled.offer()
    assert not sampled.asked


def test_an_answer_that_is_not_stored_is_watched_too(sampled: Sampled) -> None:
    sampled.rig.readers[0].entries[7].stale()
    reader = sampled.rig.readers[0]
    rows = reader.answer([(7, (7,))])
    assert rows is not None
    binding = Binding([(7, (7,))], (7,))
    sampled.sampler.offer(GivenHit(sampled.cache, reader, binding, (7,), 0, reader.encodings.encoders[0](rows), True))
    sampled.answer(HELD, lower=gtids(1, 2))
    assert sampled.told == {"equal": 1}


def test_a_fault_of_the_comparison_is_logged_and_ends_nothing_else(sampled: Sampled) -> None:
    sampled.offer()

    def broken(rows: Sequence[Row]) -> bytes:
        raise AssertionError("broken")

    sampled.rig.readers[0].encodings.encoders = [broken]
    with structlog.testing.capture_logs() as logs:
        sampled.answer(HELD, lower=gtids(1, 2))
    assert [line["event"] for line in logs] == ["answers_not_compared"]
    assert sampled.told == {"inconclusive": 1}


def test_a_view_in_evict_mode_may_leave_mysql_a_choice() -> None:
    made = Sampled(Rig(ROWS + " AND id NOT IN (SELECT v FROM t)"))
    made.cache.relations = frozenset({("test", "t"), ("test", "newest")})
    made.offer()
    with structlog.testing.capture_logs() as logs:
        made.answer([(1, 10), (2, 21)], lower=gtids(1, 2))
    assert (made.told, logs) == ({"inconclusive": 1}, [])
    assert made.rig.held(7) is None


class Other:
    """The connection that asks under a session's variables. `asked`: its questions, with who gets their answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[Question, Callable[[Told | UpwellError], None]]] = []

    def ask(self, question: Question, deliver: Callable[[Told | UpwellError], None]) -> None:
        self.asked.append((question, deliver))

    def tell(self, rows: Sequence[Row], lower: GtidSet) -> None:
        _, deliver = self.asked.pop()
        columns = [RawColumn(name, "t", 8, 0, 63, 20, 0) for name in ("id", "v")]
        deliver(Told(Bracket(OLD, lower, NOTHING, lower), columns, as_packets(rows)[:-1], 0.0))


def as_packets(rows: Sequence[Row]) -> list[bytes]:
    return [b"".join(lenenc(str(value).encode()) for value in row) for row in rows] + [b"\xfe\0\0\2\0\0\0"]


def shown(rows: Sequence[Row], on_end: Callable[[bool], None]) -> AsTold:
    definition = lenenc(b"") * 6 + b"\x0c" + struct.pack("<HIBHB", 63, 20, 8, 0, 0) + b"\0\0"
    head = b"".join(packet(payload, 1) for payload in (b"\2", definition, definition))
    body = b"".join(packet(payload, 3) for payload in as_packets(rows))
    settings = Settings((("time_zone", "+09:00"),), ())
    return AsTold(settings, b"SELECT its text", b"", "test", head, body, "utf8mb4", on_end)


@pytest.mark.parametrize(
    ("told", "outcome"), [(HELD, "equal"), (HELD[::-1], "equal"), ([(1, 10), (2, 29)], "different")]
)
def test_what_a_session_was_told_is_compared_under_its_variables(
    sampled: Sampled, told: list[Row], outcome: str
) -> None:
    other, ended = Other(), list[bool]()
    sampled.sampler.comparer.other = other  # type: ignore[assignment]  # a stand-in
    assert sampled.sampler.asks_as
    sampled.offer_told(shown(told, ended.append))
    assert not sampled.sampler.asks_as, "one at a time"
    ((question, _),) = other.asked
    assert not sampled.asked and (question.text, question.database) == (b"SELECT its text", "test")
    other.tell(HELD, gtids(1, 2))
    if outcome == "different":
        sampled.explain(gtids(1, 2))
    assert sampled.told == {outcome: 1, "as_session": 1} and ended == [outcome == "equal"]
    assert (sampled.rig.held(7) == HELD) is (outcome == "equal")


def test_a_change_meanwhile_leaves_what_a_session_was_told_open(sampled: Sampled) -> None:
    other, ended = Other(), list[bool]()
    sampled.sampler.comparer.other = other  # type: ignore[assignment]  # a stand-in
    sampled.offer_told(shown(HELD, ended.append))
    sampled.change(3, ((1, 7, 10), (1, 7, 11)))
    other.tell([(1, 11), (2, 20)], gtids(1, 3))
    assert sampled.told == {"inconclusive": 1, "as_session": 1} and ended == [False]


def test_without_such_a_connection_none_is_compared_so(sampled: Sampled) -> None:
    assert not sampled.sampler.asks_as and not sampled.sampler.takes(b"")


@pytest.mark.parametrize(("told", "outcome"), [(HELD, "equal"), (HELD[::-1], "inconclusive")])
def test_large_packets_are_not_read_value_by_value(
    sampled: Sampled, monkeypatch: pytest.MonkeyPatch, told: list[Row], outcome: str
) -> None:
    monkeypatch.setattr(proxy.checking.comparison, "MOST_READ", 1)
    other = Other()
    sampled.sampler.comparer.other = other  # type: ignore[assignment]  # a stand-in
    sampled.offer_told(shown(told, lambda known: None))
    other.tell(HELD, gtids(1, 2))
    assert sampled.told == {outcome: 1, "as_session": 1}
