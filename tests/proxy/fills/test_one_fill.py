"""Which slices of a large fill are asked again, and how often: on a pump that the test answers for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

import proxy.fills.one_fill as bulk_fill
from dataflow.messages import Filled, UpqueryRequest
from dataflow.readers.derivation import Params
from proxy.fills.one_fill import TRIES, BulkFill, Slice
from proxy.loop.slices import taken
from proxy.port.fill_progress import FillProgress
from sqltypes.errors import SourceDown, SourceError, UpwellError
from sqltypes.expression import Key
from tests.support.waiting import until

KEYS: dict[Key, Params] = {1: (1,), 2: (2,)}
DOWN = SourceDown("nobody is there")
FILLED, ENDED = None, "ended"  # what comes of a slice: it is held; the engine has begun anew, and its keys are holes


class Played:
    """A pump, and an asker, whose upqueries end as `course` says, one after the other; the last goes on."""

    room = 1

    def __init__(self, course: Sequence[UpwellError | str | None]) -> None:
        self._course = list(course)
        self._told: dict[int, tuple[dict[Key, Params], Callable[[Filled], None]]] = {}
        self.asked = 0

    def fill_unasked(self, reader: object, keys: dict[Key, Params], told: Callable[[Filled], None]) -> Any:
        self.asked += 1
        self._told[self.asked] = keys, told
        return SimpleNamespace(id=self.asked)

    def drop_unasked(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._told.pop(number, None)

    def ask(self, request: UpqueryRequest) -> None:
        came = self._course.pop(0) if len(self._course) > 1 else self._course[0]
        keys, told = self._told.pop(request.id)
        holes = [] if came is FILLED else list(keys.items())
        error = came if isinstance(came, UpwellError) else None
        asyncio.get_running_loop().call_soon(told, Filled(request.id, len(keys), holes, error=error))

    def flush(self) -> None: ...

    def check(self) -> None: ...

    async def close(self) -> None: ...


class Silent(Played):
    """What is asked is not answered. `room`: how many slices are taken."""

    def __init__(self, room: int) -> None:
        super().__init__([])
        self.room = room
        self.dropped: list[Sequence[int]] = []
        self.cancelled_with_it: asyncio.Task[None] | None = None

    def ask(self, request: UpqueryRequest) -> None:
        self.room -= 1

    def drop_unasked(self, numbers: Sequence[int]) -> None:
        self.dropped.append(list(numbers))
        super().drop_unasked(numbers)
        if self.cancelled_with_it is not None:
            self.cancelled_with_it.cancel()
            self.cancelled_with_it = None


def filled(course: Sequence[UpwellError | str | None]) -> tuple[FillProgress, int]:
    """(what came of one slice, how often it was asked for)."""
    played, progress = Played(course), FillProgress("c")
    reader = object()
    cache = SimpleNamespace(name="c", dropped=False, reader=reader)
    engine = SimpleNamespace(memory=SimpleNamespace(used=0), limit=SimpleNamespace(bytes=1))

    async def scenario() -> None:
        fill = BulkFill(cast(Any, engine), cast(Any, played), cast(Any, cache), cast(Any, reader), progress)
        await asyncio.wait_for(fill.fill(iter([Slice(dict(KEYS))]), played), 30)
        fill.check_invariants()

    asyncio.run(scenario())
    return progress, played.asked


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_fill, "PAUSE", 0.001)


def test_that_mysql_is_away_is_no_try() -> None:
    """What the engine ends when it comes back is one; before, it was the last."""
    away: list[UpwellError | str | None] = [DOWN] * (3 * TRIES)
    progress, asked = filled([*away, ENDED, *away, ENDED, FILLED])
    assert (progress.held, progress.left, asked) == (2, 0, 6 * TRIES + 3)


def test_holes_are_asked_for_so_often() -> None:
    progress, asked = filled([ENDED])
    assert (progress.held, progress.left, asked) == (0, 2, TRIES)


def test_an_error_of_mysqls_counts() -> None:
    progress, asked = filled([SourceError(1142, "42000", "denied")])
    assert (progress.left, asked, progress.why) == (2, TRIES, "denied")


def test_mysql_that_stays_away_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_fill, "PATIENCE", 0.05)
    progress, asked = filled([DOWN])
    assert (progress.held, progress.left, progress.why) == (0, 2, DOWN.message) and asked > TRIES


@pytest.mark.parametrize("twice", [False, True])
def test_a_fill_that_is_cancelled_gives_up_what_is_under_way_a_little_at_a_time(
    twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all that is left at once, where it is cancelled meanwhile."""
    monkeypatch.setattr("proxy.loop.slices.SLICE", 0.0)
    played, reader = Silent(100), object()
    cache = SimpleNamespace(name="c", dropped=False, reader=reader)
    engine = SimpleNamespace(memory=SimpleNamespace(used=0), limit=SimpleNamespace(bytes=1))
    slices = [Slice({number: (number,)}) for number in range(100)]

    async def scenario() -> None:
        fill = BulkFill(cast(Any, engine), cast(Any, played), cast(Any, cache), cast(Any, reader), FillProgress("c"))
        work = asyncio.create_task(fill.fill(iter(slices), played))
        await until(lambda: not played.room)
        work.cancel()
        if twice:
            played.cancelled_with_it = work
        with pytest.raises(asyncio.CancelledError):
            await work
        assert not played._told, "all are given up"
        assert sorted(number for some in played.dropped for number in some) == list(range(1, 101))
        assert len(fill._again) == 100 and not any(slice_.tries for slice_ in slices)
        await fill.close()
        assert not fill._again

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert max(map(len, played.dropped)) == (100 - bulk_fill.AT_ONCE if twice else bulk_fill.AT_ONCE)


def test_keys_are_bound_once_and_taken_in_their_order() -> None:
    """Numbers of which all would be in one of the sets, were these chosen by the number itself."""
    asked = [(number * bulk_fill.SETS,) for number in (3, 1, 2, 3, 1)]
    binder = SimpleNamespace(
        too_many=lambda parameters: "",
        bind_written=lambda parameters: SimpleNamespace(keys=[(parameters[0], parameters)]),
    )
    found = asyncio.run(bulk_fill.bound(cast(Any, binder), asked))
    assert [key for key, _ in taken(found)] == [one * bulk_fill.SETS for one in (3, 1, 2)] and not found
    assert len(asked) == 5, "what was given may be asked for again"
