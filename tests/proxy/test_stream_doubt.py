"""When the stream is asked to look again who answers."""

from __future__ import annotations

from dataflow.fills.inserting import FILL_PATIENCE
from proxy.app import stream_doubt
from tests.support.engine_rig import NEW, OLD, ROWS, Rig, gtids


def answered(server: str, *executed: int) -> Rig:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(*executed), server=server)
    return rig


def test_upqueries_of_another_server_than_the_stream() -> None:
    engine = answered(NEW, 1).engine
    assert NEW in stream_doubt(engine, OLD, lag=0.0, beyond=0)
    assert stream_doubt(engine, NEW, lag=0.0, beyond=0) == ""


def test_nothing_is_doubted_before_the_first_answer() -> None:
    assert stream_doubt(Rig(ROWS).engine, OLD, lag=0.0, beyond=0) == ""


def test_executed_transactions_that_never_come_while_the_stream_believes_to_be_current() -> None:
    rig = answered(OLD, 1, 5)
    rig.clock = FILL_PATIENCE + 1
    rig.engine.tick()
    assert stream_doubt(rig.engine, OLD, lag=0.1, beyond=0) != ""
    assert stream_doubt(rig.engine, OLD, lag=FILL_PATIENCE, beyond=0) == ""  # it is behind, that is all
    assert stream_doubt(rig.engine, OLD, lag=0.1, beyond=1) == ""  # acted upon already
