"""The check of one fill: what a reader derives from it, compared with MySQL's own answer to the client's own text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from dataflow.entries import Entries
from dataflow.messages import Differs, Finding, OwnAnswer
from dataflow.readers.in_steps import Steps, at_once
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Binding
from proxy.checking.agreement import Verdict, agreement
from proxy.checking.comparison import DATA_ERRORS
from proxy.loop.slices import Encoder
from proxy.port.api import ParameterValue
from sqltypes.errors import EvaluationError, SourceError
from sqltypes.expression import Row

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache

log = structlog.get_logger("upwell.trust")


@dataclass(slots=True, eq=False)
class FillCheck:
    """Implements `dataflow.messages.Check`. `note` gets the result, `on_differs` what the engine tells of a difference;
    `began`: `Ledger.ended` at the beginning. `held`: where all keys have one answer, as `Check` has it."""

    sql: str
    cache: NamedCache
    reader: ReaderNode
    binding: Binding
    parameters: Sequence[ParameterValue]
    encode: Encoder
    note: Callable[[FillCheck, Finding], None]
    on_differs: Callable[[Differs], None]
    began: int = 0
    held: Callable[[list[int]], None] | None = None
    rows: list[Row] = field(default_factory=list)
    own: OwnAnswer | SourceError = field(default_factory=lambda: OwnAnswer([]))
    made: bool = False  # it has come to compare

    def close(self, *, given: bool) -> None:
        """The read is over. `given`: its answer was compared; another's check of the same text may have been made in
        the place of this one."""
        if not self.made:
            self.made = True
            if not given:
                self.note(self, Finding.UNKNOWN)

    def compare(self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]) -> Finding:
        return at_once(self.compare_in_steps(rows, own, levels))

    def compare_in_steps(
        self, rows: list[Row] | None, own: OwnAnswer | SourceError, levels: Sequence[Entries]
    ) -> Steps[Finding]:
        self.own = own
        finding = Finding.UNKNOWN
        if rows is not None:
            self.rows = rows
            try:
                finding = yield from self._found(rows, own, levels)
            except EvaluationError:
                finding = Finding.UNKNOWN
            except Exception:  # the fill's other readers must not suffer
                log.exception("answers_not_compared", cache=self.cache.name, sql=self.sql)
        self.made = True
        self.note(self, finding)
        return finding

    def _found(self, rows: list[Row], own: OwnAnswer | SourceError, levels: Sequence[Entries]) -> Steps[Finding]:
        if isinstance(own, SourceError):
            return Finding.DIFFERS if own.errno in DATA_ERRORS else Finding.UNKNOWN
        keys = self.binding.keys
        given = self.reader, keys, self.cache.columns, self.encode, rows, own.rows, levels
        if (yield from agreement(*given)) is Verdict.DIFFERENT:
            return Finding.DIFFERS
        if own.rows and self.cache.encoding is not None:
            self.cache.encoding.on_own_answer(own.columns)
        return Finding.AGREES
