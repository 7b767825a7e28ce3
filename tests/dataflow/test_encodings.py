"""One key asked for in several wire formats: each encoding is made once, and all are counted."""

from __future__ import annotations

from dataflow.entries import Held
from dataflow.readers.encodings import BODIES_BYTES, BODY_BYTES
from sqltypes.expression import Row
from tests.support.engine_rig import ROWS, Rig


def rig_of_two_formats() -> Rig:
    rig = Rig(ROWS)
    rig.readers[0].encodings.encoders = [lambda rows: repr(list(rows)).encode(), lambda rows: b"%d rows" % len(rows)]
    rig.fill_from({1: (1, 7, 10)}, 7)
    return rig


def held_key(rig: Rig) -> Held:
    reader = rig.readers[0]
    held = rig.engine.sieve.hold(reader, reader.key_of((7,)), (7,))
    assert held is not None
    return held


def body(rig: Rig, held: Held, format_: int) -> bytes | None:
    stored = rig.readers[0].body(held, (7,), format_)
    rig.engine.check_invariants()
    return stored


def test_another_format_leaves_the_bytes_of_the_first_in_place() -> None:
    rig = rig_of_two_formats()
    held = held_key(rig)
    first = body(rig, held, 0)
    bodies = held.bodies
    assert (first, body(rig, held, 1)) == (b"[(1, 10)]", b"1 rows")
    assert held.bodies is bodies, "nothing has touched the key"
    assert body(rig, held, 0) is first
    assert held.body_size == len(b"[(1, 10)]") + len(b"1 rows") + 2 * BODY_BYTES + BODIES_BYTES


def test_a_change_takes_the_bytes_of_all_formats() -> None:
    rig = rig_of_two_formats()
    held = held_key(rig)
    assert body(rig, held, 0) is not None and body(rig, held, 1) is not None
    new: Row = (2, 7, 20)
    rig.change(rig.next_gtid(), (None, new))
    assert held.bodies is None
    assert body(rig, held, 1) == b"2 rows"
    assert held.body_size == len(b"2 rows") + BODY_BYTES + BODIES_BYTES
    assert body(rig, held, 0) == b"[(1, 10), (2, 20)]"


def test_an_answer_derived_without_encoding_it_counts_no_bytes_twice() -> None:
    rig = rig_of_two_formats()
    held = held_key(rig)
    assert body(rig, held, 0) is not None
    rig.change(rig.next_gtid(), (None, (2, 7, 20)))
    assert rig.readers[0].refresh(held, (7,)) == [(1, 10), (2, 20)]
    assert body(rig, held, 0) == b"[(1, 10), (2, 20)]"
    assert held.body_size == len(b"[(1, 10), (2, 20)]") + BODY_BYTES + BODIES_BYTES
