"""A fill's difference counts when the stream has brought all that MySQL's own answer may be due to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import structlog

from dataflow.fills.read import Read
from dataflow.messages import (
    Ddl,
    Differs,
    Gap,
    OwnAnswer,
    StreamEvent,
    TableChanges,
    Transaction,
    UpqueryAnswer,
    UpqueryFailed,
    UpqueryRequest,
)
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from proxy.cache.answer_columns import Encoding
from proxy.cache.key_binder import Binding
from proxy.cache.named_cache import NamedCache
from proxy.cache.trust import Compared
from proxy.checking.auditor import Auditor
from proxy.checking.comparison import Comparer
from proxy.checking.ddl_excuses import AGAIN, PATIENCE
from proxy.checking.earning import Earning
from proxy.read.literals import substituted
from sqltypes.errors import SourceDown
from sqltypes.expression import Row
from sqltypes.schema import BIGINT, ResultColumn
from tests.support.engine_rig import NEW, NOTHING, OLD, ROWS, Rig, gtids

Deliver = Callable[[UpqueryAnswer | UpqueryFailed], None]
VIEW = Ddl(Gtid(OLD, 2), "CREATE OR REPLACE VIEW v AS SELECT 1", frozenset({"test.v"}))
CHANGE = Transaction(Gtid(OLD, 2), [TableChanges("test.t", [(None, (9, 9, 9))])])


@dataclass
class Filled:
    """The position is 1. A miss of key 7 was checked, and differs. `asked`: of MySQL since."""

    rig: Rig = field(default_factory=lambda: Rig(ROWS))
    clock: float = 100.0
    asked: list[tuple[UpqueryRequest, Deliver]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    before_answer: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        reader = self.rig.readers[0]
        columns = tuple(ResultColumn(name, BIGINT, True) for name in ("id", "v"))
        self.encoding = Encoding(reader, columns, None, [lambda _: lambda rows: repr(rows).encode()])
        self.cache = NamedCache("rows", ROWS, "test", plan=reader.plan, reader=reader, encoding=self.encoding)
        self.cache.names = frozenset({"test.t", "test.v"})
        self.comparer = Comparer(
            self.rig.engine, lambda request, deliver, _: self.asked.append((request, deliver)), lambda: OLD,
            lambda: self.clock,
        )  # fmt: skip
        self.earning = Earning(8)
        self.auditor = Auditor(
            self.rig.engine, self.comparer, self.earning, lambda cache, why: self.lost.append(why),
            substituted=substituted, clock=lambda: self.clock,
        )  # fmt: skip
        self.earning.begin(self.cache)

    def fill(self, held: list[Row], own: Sequence[Row]) -> None:
        """A miss, whose bracket is L = {1}."""
        reader = self.rig.readers[0]
        check = self.auditor.fill_check(
            self.cache,
            reader,
            Binding([(7, (7,))], (7,)),
            (7,),
            ROWS.replace("?", "7"),
            reader.encodings.encoders[0],
            together=False,
        )
        self.rig.engine.reads.read(Read(1, reader, [(7, (7,))], check=check))
        (request,) = self.rig.asked()
        answer = UpqueryAnswer(
            request.id, Bracket(OLD, gtids(1), NOTHING, gtids(1)), (held,), checks=(OwnAnswer(list(own)),)
        )
        differs, *_ = self.rig.engine.on_answer(answer)
        assert isinstance(differs, Differs)
        self.before_answer()
        differs.check.on_differs(differs)

    def explain(self, executed: GtidSet, server: str = OLD, uptime: int = 1000, connected_at: float = 0.0) -> None:
        request, deliver = self.asked.pop()
        bracket = Bracket(server, NOTHING, NOTHING, executed)
        deliver(UpqueryAnswer(request.id, bracket, ([("Uptime", str(uptime))],), 0.0, connected_at))

    def bring(self, event: StreamEvent) -> None:
        self.rig.engine.on_stream(event)
        self.earning.on_stream(event)
        self.comparer.suspicions.on_stream(event)
        self.comparer.on_stream(event)

    @property
    def suspected(self) -> bool:
        assert self.cache.trust is not None
        return self.cache.trust.suspicions > 0

    @property
    def counted(self) -> dict[str, int]:
        return dict(self.earning.counters)


@pytest.fixture
def filled() -> Filled:
    made = Filled()
    made.fill([(7, 1, 10)], [(1, 11)])
    assert made.suspected and not made.lost and not made.counted
    return made


def test_where_the_stream_has_all_that_is_executed_it_is_a_fault(filled: Filled) -> None:
    with structlog.testing.capture_logs() as logs:
        filled.explain(gtids(1))
    assert len(filled.lost) == 1 and "fill" in filled.lost[0]
    assert filled.counted == {"trust_differs": 1, "caches_distrusted": 1} and not filled.suspected
    assert [line["rows_of_mysql"] for line in logs] == [["(1, 11)"]]


def test_a_change_that_the_stream_has_still_to_bring_is_waited_for(filled: Filled) -> None:
    filled.explain(gtids(1, 2))
    assert not filled.lost and filled.suspected
    with structlog.testing.capture_logs():
        filled.bring(CHANGE)
    assert len(filled.lost) == 1


def test_a_ddl_statement_that_the_stream_has_still_to_bring_explains_it(filled: Filled) -> None:
    filled.explain(gtids(1, 2))
    filled.bring(VIEW)
    assert not filled.lost and not filled.suspected
    assert filled.counted == {"trust_unknown": 1}


def test_one_on_what_the_cache_does_not_name_explains_nothing(filled: Filled) -> None:
    filled.explain(gtids(1, 2))
    with structlog.testing.capture_logs():
        filled.bring(Ddl(Gtid(OLD, 2), "ALTER TABLE w ADD COLUMN n INT", frozenset({"test.w"})))
    assert len(filled.lost) == 1


def test_what_was_owned_and_was_rolled_back_is_not_waited_for(filled: Filled) -> None:
    filled.explain(gtids(1, 2))
    filled.comparer.tick()
    assert not filled.asked
    filled.clock += AGAIN + 0.1
    filled.comparer.tick()
    with structlog.testing.capture_logs():
        filled.explain(gtids(1, 3))  # what it has executed since it need not have
    assert len(filled.lost) == 1


@pytest.mark.parametrize("again", [False, True])
def test_a_server_that_was_started_anew_may_have_lost_what_explains_it(filled: Filled, again: bool) -> None:
    """A view that was replaced, seen and lost is in neither then, as if it had been rolled back."""
    if again:
        filled.explain(gtids(1, 2))
        filled.clock += AGAIN + 0.1
        filled.comparer.tick()
    filled.explain(gtids(1), uptime=1, connected_at=filled.clock)
    assert not filled.lost and not filled.suspected


def test_a_connection_that_is_opened_for_it_is_no_new_start(filled: Filled) -> None:
    with structlog.testing.capture_logs():
        filled.explain(gtids(1), connected_at=filled.clock)
    assert len(filled.lost) == 1


@pytest.mark.parametrize("how", ["gap", "never", "server", "gone"])
def test_what_cannot_be_explained_is_no_fault(filled: Filled, how: str) -> None:
    if how == "server":
        filled.explain(gtids(1), server=NEW)
    elif how == "gone":
        request, deliver = filled.asked.pop()
        deliver(UpqueryFailed(request.id, SourceDown("gone")))
    elif how == "never":
        filled.explain(gtids(1, 2))
        filled.comparer.tick()
        assert filled.suspected and not filled.asked
        filled.clock += 2 * PATIENCE + 1
        filled.comparer.tick()
    else:
        filled.bring(Gap("purged", gtids(1, 2)))
    assert not filled.lost and not filled.suspected and filled.counted == {"trust_unknown": 1}
    assert not filled.comparer.suspicions.running


def test_a_cache_that_has_another_plan_by_then_is_not_the_one_that_differed(filled: Filled) -> None:
    filled.cache.reader = Rig(ROWS).readers[0]
    filled.explain(gtids(1))
    assert not filled.lost
    assert filled.counted == {"trust_unknown": 1}, "no fault, of which nothing is logged"


def test_one_that_was_closed_before_its_answer_came_is_none_either() -> None:
    filled = Filled()
    filled.before_answer = lambda: setattr(filled.cache, "reader", None)
    filled.fill([(7, 1, 10)], [(1, 11)])
    filled.explain(gtids(1))
    assert not filled.lost and filled.counted == {"trust_unknown": 1}


def test_a_large_answer_that_changes_while_it_is_encoded_is_given_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has asked the same meanwhile may have been shown the change."""
    filled = Filled()
    reader = filled.rig.readers[0]
    filled.rig.fill_from({1: (1, 7, 10)}, 7)

    async def encode(*given: object) -> bytes:
        filled.bring(Transaction(Gtid(OLD, 2), [TableChanges("test.t", [((1, 7, 10), (1, 7, 11))])]))
        return repr([(1, 10)]).encode()

    monkeypatch.setattr("proxy.checking.comparison.LARGE", 0)
    monkeypatch.setattr("proxy.checking.comparison.encode_in_slices", encode)

    async def scenario() -> object:
        sql = ROWS.replace("?", "7")
        binding = Binding([(7, (7,))], (7,))
        future = filled.auditor.compare(filled.cache, reader, binding, (7,), sql, 0, together=False)
        assert future is not None
        request, deliver = filled.asked.pop()
        position = filled.rig.engine.state.ring.position.freeze()
        deliver(
            UpqueryAnswer(request.id, Bracket(OLD, position, NOTHING, position), (), checks=(OwnAnswer([(1, 10)]),))
        )
        return await future

    assert asyncio.run(scenario()) is None
    assert filled.counted == {"trust_unknown": 1}


def test_until_it_is_explained_nothing_is_given_that_is_not_stored(filled: Filled) -> None:
    trust = filled.cache.trust
    assert trust is not None
    filled.rig.fill_from({2: (2, 8, 20)}, 8)
    held = filled.rig.readers[0].entries[8]
    held.stale()
    while trust.ledger(unseen=True).due:
        ledger = trust.ledger(unseen=True)
        ledger.in_vain(ledger.ended)
    assert {trust.of_held(held, 0.0), trust.of_derived()} == {Compared.FIRST}, "though the ledgers are tired"
    filled.bring(VIEW)
    assert not filled.suspected
    filled.explain(gtids(1, 2))
    assert trust.of_held(held, 0.0) is Compared.NOT
