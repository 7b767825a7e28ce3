"""Answers of some of the source's shards: each shard is a MySQL with GTIDs of its own."""

from __future__ import annotations

from collections.abc import Sequence

from dataflow.fills.read import Read
from dataflow.fills.shards import MOST_KEYS, by_root, root_rows
from dataflow.messages import Changes, Keyed, Progress, UpqueryAnswer
from dataflow.messages import UpqueryRequest as Request
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import Gtid, GtidSet
from sqltypes.expression import Key, Row
from tests.support.engine_rig import NEW, NOTHING, OLD, ROWS, Rig

LEFT, RIGHT = OLD, NEW  # the shards' servers
LISTS = "SELECT id, v FROM t WHERE k IN (?...)"


def of(server: str, last: int) -> GtidSet:
    return GtidSet({server: (1, last + 1)})


def all_of(left: int, right: int) -> GtidSet:
    return of(LEFT, left).union(of(RIGHT, right))


def odd_and_even(reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> tuple[str, ...] | None:
    """Odd keys are on the left."""
    found = {"left" if isinstance(value, int) and value % 2 else "right" for _, (value, *_) in keys}
    return tuple(sorted(found)) if len(found) < 2 else None


def rig_of(*queries: str) -> Rig:
    """At the first transaction of each shard; nothing is held ahead of the position."""
    rig = Rig(*queries, ahead_fills=False)
    rig.engine.fills.shards_of = odd_and_even
    rig.engine.on_stream(Progress(Gtid(RIGHT, 1)))
    return rig


def answer(
    rig: Rig, request: Request, rows: list[Row], lower: GtidSet, executed: GtidSet | None = None,
    owned: GtidSet = NOTHING, others: GtidSet | None = None,
) -> None:  # fmt: skip
    bracket = Bracket("all", lower, owned, lower if executed is None else executed, others)
    rig.engine.on_answer(UpqueryAnswer(request.id, bracket, (rows,)))


def only(requests: list[Request]) -> Request:
    (request,) = requests
    return request


def test_keys_of_one_shard_are_asked_of_it_alone_and_apart_from_others() -> None:
    rig = rig_of(ROWS, LISTS)
    for key in (1, 2, 3):
        rig.read(key)
    assert sorted((request.shards, len(rig.engine.fills.by_number[request.id].whole)) for request in rig.asked()) == [
        (("left",), 2),
        (("right",), 1),
    ]
    lists = rig.readers[1]
    rig.engine.reads.read(Read(99, lists, [(key, (key,)) for key in (4, 5)]))
    request = only(rig.asked())
    assert request.shards is None
    assert len(rig.engine.fills.by_number[request.id].whole) == 2, "who wants them together is told one state"


def test_a_fill_that_no_read_asks_for_is_of_the_shards_of_its_keys() -> None:
    rig = rig_of(ROWS)
    reader = rig.readers[0]
    for keys, shards in (((1, 3), ("left",)), ((5, 6), None)):
        request = rig.engine.unasked.fill(reader, {reader.key_of((key,)): (key,) for key in keys})
        assert request is not None and request.shards == shards


def test_a_key_of_one_shard_is_held_while_another_shard_stands_still() -> None:
    rig = rig_of(ROWS)
    rig.read(2)
    answer(rig, only(rig.asked()), [(2, 6, 7)], all_of(1, 50))  # a scatter tells how far the right shard is
    assert rig.engine.inserting.waiting == 1
    rig.read(1)
    answer(rig, only(rig.asked()), [(1, 4, 5)], of(LEFT, 2), others=of(RIGHT, 1))
    assert rig.engine.inserting.waiting == 2 and rig.held(1) is None
    rig.change(2, (None, (9, 3, 9)))
    assert rig.held(1) == [(4, 5)] and rig.held(2) is None
    assert rig.engine.memory.counters["resets"] == 0


def test_a_subscriber_of_one_shard_does_not_wait_for_another() -> None:
    rig = rig_of(ROWS)
    reader = rig.readers[0]
    assert rig.engine.subscribe(7, reader, reader.key_of((1,)), (1,)) == []
    request = only(rig.asked())
    bracket = Bracket("all", of(LEFT, 1), NOTHING, of(LEFT, 1), of(RIGHT, 1))
    (told,) = rig.engine.on_answer(UpqueryAnswer(request.id, bracket, ([(1, 4, 5)],)))
    assert isinstance(told, Changes) and told.added == [(4, 5)]


def test_what_one_shard_received_meanwhile_is_brought_forward_and_another_passes_it_by() -> None:
    rig = rig_of(ROWS)
    rig.read(1)
    request = only(rig.asked())
    rig.change(2, (None, (8, 1, 8)))
    rig.engine.on_stream(Progress(Gtid(RIGHT, 2)))
    answer(rig, request, [(1, 4, 5)], of(LEFT, 1), others=of(RIGHT, 1))
    assert rig.held(1) == [(4, 5), (8, 8)]


def test_a_reading_of_one_shard_tells_nothing_of_what_another_has_rolled_back() -> None:
    rig = rig_of(ROWS)
    rig.read(2)
    answer(rig, only(rig.asked()), [(2, 6, 7)], all_of(1, 1), owned=GtidSet.of([Gtid(RIGHT, 2)]))
    for key, waiting in ((1, 1), (3, 1)):
        rig.read(key)
        answer(rig, only(rig.asked()), [], of(LEFT, 1), others=of(RIGHT, 1))
        assert rig.engine.inserting.waiting == waiting
    rig.read(4)
    answer(rig, only(rig.asked()), [], of(RIGHT, 1), others=of(LEFT, 1))
    assert rig.engine.inserting.waiting == 0 and rig.held(2) == [(6, 7)]


def test_a_reading_of_one_shard_is_no_loss_of_what_others_have_and_its_own_loss_is_seen() -> None:
    rig = rig_of(ROWS)
    rig.read(2)
    answer(rig, only(rig.asked()), [], all_of(5, 5))
    rig.read(1)
    answer(rig, only(rig.asked()), [], of(LEFT, 6), others=of(RIGHT, 1))
    rig.read(4)
    answer(rig, only(rig.asked()), [], all_of(6, 5))
    assert rig.engine.memory.counters["resets"] == 0
    rig.read(3)
    answer(rig, only(rig.asked()), [], of(LEFT, 5), others=of(RIGHT, 1))
    assert rig.engine.memory.counters["resets_by_answer"] == 1


def test_what_the_stream_has_brought_of_a_shard_that_was_not_asked_is_no_reading_of_it() -> None:
    """The stream brings a transaction before it is executed."""
    rig = rig_of(ROWS)
    rig.engine.on_stream(Progress(Gtid(RIGHT, 2)))
    rig.read(1)
    answer(rig, only(rig.asked()), [], of(LEFT, 1), others=of(RIGHT, 2))
    rig.read(2)
    request = only(rig.asked())
    assert request.lower is None
    answer(rig, request, [], all_of(1, 1))
    assert rig.engine.memory.counters["resets"] == 0


def test_of_very_many_keys_nobody_looks_on_which_shards_they_are() -> None:
    """It would take long."""
    rig = rig_of(ROWS)
    looked: list[int] = []

    def left(rows: Keyed) -> tuple[str, ...]:
        looked.append(len(rows.values))
        return ("left",)

    shards_of = by_root(left)
    keys: list[tuple[Key, Params]] = [((key,), (key,)) for key in range(MOST_KEYS + 1)]
    assert shards_of(rig.readers[0], keys[1:]) == ("left",) and looked == [MOST_KEYS]
    assert shards_of(rig.readers[0], keys) is None and len(looked) == 1
    assert root_rows(rig.readers[0], keys) is None
