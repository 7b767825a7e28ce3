"""The engine's door: a fault inside of it empties what it may have left wrong, and fails those who wait for it.

An engine that has raised in the middle of a step may hold entries that reflect half of it. What the step was about is
made a hole: all keys of a reader, or of a change's tables. If that cannot be done either, everything.
"""

from __future__ import annotations

from collections.abc import Callable

from dataflow.engine import Engine
from dataflow.fills.fill import Fill
from dataflow.fills.read import Read
from dataflow.losses import FAULT
from dataflow.messages import Ddl, Effect, Gap, StreamEvent, Transaction, UpqueryAnswer, UpqueryFailed
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import Fault

OnFault = Callable[[str, str, Exception], None]  # the step, the query or the event, the error


class Guard:
    """Takes the steps that nobody else catches. `on_fault` is told of each fault."""

    def __init__(self, engine: Engine, on_fault: OnFault) -> None:
        self._engine = engine
        self._on_fault = on_fault
        engine.inserting.on_broken = self._broken

    def flush(self) -> list[Effect]:
        """As the engine's; a reader's fault is not the others'."""
        try:
            return self._engine.flush(self._not_asked)
        except Exception as error:  # noqa: BLE001 - an edge: the fault is told, and what may be wrong is emptied
            self._on_fault("a flush", "", error)
            # A flush that fails would fail again: what it was to ask for is not asked for any more.
            return [*self._reset(), *self._engine.reads.fail_missed(_failed())]

    def _not_asked(self, reader: ReaderNode, reads: list[Read], error: Exception) -> list[Effect]:
        self._on_fault("asking", reader.plan.sql, error)
        return self._recovered(reader, reads, None)

    def on_answer(self, answer: UpqueryAnswer, fill: Fill | None) -> list[Effect]:
        """As the engine's. `fill`: that upquery's, while it is under way."""
        try:
            return self._engine.on_answer(answer)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("an answer", "" if fill is None else fill.reader.plan.sql, error)
        return self._ended(fill)

    def on_failed(self, failed: UpqueryFailed) -> list[Effect]:
        fill = self._engine.fills.by_number.get(failed.id)
        try:
            return self._engine.on_failed(failed)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("a failed upquery", "" if fill is None else fill.reader.plan.sql, error)
        return self._ended(fill)

    def _broken(self, fill: Fill, error: Exception) -> list[Effect]:
        self._on_fault("an answer", fill.reader.plan.sql, error)
        return self._recovered(fill.reader, fill.reads, fill)

    def _ended(self, fill: Fill | None) -> list[Effect]:
        """After a fault in the step that was to end this fill. Others that it was about may be lost with it."""
        if fill is None:
            return self._reset()
        return [*self._recovered(fill.reader, fill.reads, fill), *self._engine.fail_lost(_failed())]

    def on_stream(self, event: StreamEvent) -> list[Effect]:
        engine = self._engine
        try:
            return engine.on_stream(event)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("a change", _shown(event), error)
        return self._emptied(event)

    def begin(self, event: StreamEvent) -> bool:
        """As the engine's. What fails is done at once, by `on_stream`."""
        try:
            return self._engine.begin(event)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("a change", _shown(event), error)
            self._engine.state.abandon()
            return False

    def prepare(self, most: int) -> bool:
        """As the engine's. What fails is emptied by `on_stream`."""
        try:
            return self._engine.prepare(most)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("a large change", _shown(self._engine.under_way), error)
            return True

    def _emptied(self, event: StreamEvent) -> list[Effect]:
        """Instead of an event: its tables are emptied."""
        engine = self._engine
        large = engine.state.under_way
        engine.state.abandon()
        if large is not None and large.event is event and large.outdated:
            # It has changed tables, too, that nobody wanted when it was received.
            return self._reset(engine.state.ring.position.freeze().add(large.event.gtid))
        if isinstance(event, Gap):
            return self._reset(event.position)
        gtid = getattr(event, "gtid", None)
        if gtid is None or gtid in engine.state.ring.position or not isinstance(event, Transaction | Ddl):
            return self._reset()
        changed = event.tables if isinstance(event, Ddl) else frozenset(change.table for change in event.changes)
        try:
            return engine.on_stream(Ddl(gtid, "", changed, fault=True))
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("emptying", repr(changed), error)
            return self._reset(engine.state.ring.position.freeze().add(gtid))  # the stream does not bring it again

    def go_on(self) -> list[Effect]:
        try:
            return self._engine.go_on()
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("answers that waited", "", error)
            return self._reset()

    def tick(self) -> list[Effect]:
        try:
            return self._engine.tick()
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("a round", "", error)
            return self._reset()

    def _recovered(self, reader: ReaderNode, reads: list[Read], fill: Fill | None) -> list[Effect]:
        try:
            return self._engine.recover(reader, reads, _failed(), fill)
        except Exception as error:  # noqa: BLE001 - as above
            self._on_fault("emptying", reader.plan.sql, error)
            return self._reset()

    def _reset(self, position: GtidSet | None = None) -> list[Effect]:
        """`position`: from which on the stream goes on, if not from where it is."""
        engine = self._engine
        effects = engine.reset(
            engine.state.ring.position.freeze() if position is None else position, "a fault of ours", FAULT
        )
        return effects + engine.fail_lost(_failed())


def _shown(event: object) -> str:
    """What is told of an event: not all rows of a large one."""
    if isinstance(event, Transaction):
        tables = [(change.table, change.pairs[:20]) for change in event.changes]
        return f"{event.gtid}: {tables!r}"[:2000]
    return repr(event)[:2000]


def _failed() -> Fault:
    return Fault("the engine has failed")
