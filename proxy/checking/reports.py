"""A difference between an answer of Upwell and MySQL's own, with all that reproduces it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

import upwell
from dataflow.readers.reader import ReaderNode
from gtid_tracker.bracket import Bracket
from planner.explain import explain
from proxy.port.api import ParameterValue
from sqltypes.errors import SourceError
from sqltypes.expression import Row

if TYPE_CHECKING:
    from proxy.cache.named_cache import NamedCache

log = structlog.get_logger("upwell.trust")

LOGGED_ROWS, LOGGED_TEXT = 20, 4096


@dataclass(frozen=True, slots=True)
class Difference:
    """All that reproduces a fault. `kind`: of answer."""

    kind: str
    cache: NamedCache
    reader: ReaderNode
    sql: str
    parameters: Sequence[ParameterValue]
    held: Sequence[Row]
    own: Sequence[Row]
    error: SourceError | None
    bracket: Bracket | None
    began: str = ""  # the position when the comparison began


def report(difference: Difference, position: str, source_version: str) -> None:
    """Logs all that is needed to find the fault. `position`: of now."""
    cache, bracket, plan = difference.cache, difference.bracket, difference.reader.plan
    mine, theirs = Counter(map(repr, difference.held)), Counter(map(repr, difference.own))
    error = difference.error
    log.error(
        "cache_distrusted",
        cache=cache.name,
        kind=difference.kind,
        query=cache.sql[:LOGGED_TEXT],
        database=cache.database,
        sql=difference.sql[:LOGGED_TEXT],
        parameters=repr(difference.parameters)[:LOGGED_TEXT],
        rows_of_upwell=_shown(difference.held),
        rows_of_mysql=_shown(difference.own) if error is None else f"error {error.errno}: {error.message}",
        too_many=list((mine - theirs).elements())[:LOGGED_ROWS],
        missing=list((theirs - mine).elements())[:LOGGED_ROWS],
        position=position,
        began_at=difference.began,
        lower=str(bracket.lower) if bracket is not None else "",
        uncertain=str(bracket.uncertain) if bracket is not None else "",
        server_uuid=bracket.history if bracket is not None else "",
        mode=plan.mode.value,
        plan=explain(plan)[:LOGGED_TEXT],
        version=upwell.__version__,
        server_version=source_version,
    )


def _shown(rows: Sequence[Row]) -> list[str]:
    return [repr(row)[:LOGGED_TEXT] for row in rows[:LOGGED_ROWS]]
