"""Adds access logs up with pyarrow, in this process: one file after the other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow
import pyarrow.compute as pc

from bulk.access_rows import LISTED
from bulk.log_files import LogFiles, damage, read
from bulk.ranking import HOUR, READS_UNIT, SCORE_UNIT, Asked, KeySum, Part, Sums

AT_ONCE = 16  # files whose sums wait to be added up
OF_KEYS = ("cache", "database", "query", "key")
OF_PARTS = ("proxy", "cache", "database", "query", "outcome", "reason")
KEY_SUMS = {"score": "sum", "reads": "sum"}
PART_SUMS = {"rows": "sum", "reads": "sum", "us": "sum", "oldest": "min", "newest": "max"}


def sums_of(logs: LogFiles, asked: Asked) -> Sums:
    """Files that turn out to be damaged are skipped."""
    while True:
        newest = logs.newest
        found = _sums_of(logs, asked, newest)
        if newest == logs.newest:  # no file is damaged of which it was
            return found


def _sums_of(logs: LogFiles, asked: Asked, newest: int) -> Sums:
    keys, parts = _Sums(OF_KEYS, KEY_SUMS), _Sums(OF_PARTS, PART_SUMS)
    since = -1 if asked.hours is None else newest - round(asked.hours * HOUR)
    for file in list(logs.files):
        if file.newest < since:
            continue
        try:
            table = read(file.path)
        except (OSError, ValueError) as error:
            logs.skip(file, damage(error))
            continue
        time = table["time"].cast(pyarrow.int64())
        table = table.set_column(0, "time", time).filter(pc.greater_equal(time, since))
        keys.add(_key_columns(table, asked, newest))
        parts.add(_part_columns(table))
    return Sums(_parts(parts.result()), _first_keys(keys.result(), asked.top))


def _whole(values: Any, unit: int) -> Any:
    return pc.floor(pc.add(pc.multiply(values, float(unit)), 0.5)).cast(pyarrow.int64())


def _key_columns(table: pyarrow.Table, asked: Asked, newest: int) -> pyarrow.Table:
    table = table.filter(pc.and_(pc.is_valid(table["cache"]), pc.is_valid(table["key"])))
    hours = pc.divide(pc.subtract(newest, table["time"]).cast(pyarrow.float64(), safe=False), float(HOUR))
    weight = pc.multiply(table["weight"], table["keys"].cast(pyarrow.float64()))
    score = pc.multiply(weight, pc.power(0.5, pc.divide(hours, asked.half_life)))
    columns = [*(table[name] for name in OF_KEYS), _whole(score, SCORE_UNIT), _whole(weight, READS_UNIT)]
    return pyarrow.table(columns, names=[*OF_KEYS, *KEY_SUMS])


def _part_columns(table: pyarrow.Table) -> pyarrow.Table:
    reason = pc.if_else(pc.is_null(table["cache"]), table["reason"], "")
    columns = [
        *(table[name] if name != "reason" else reason for name in OF_PARTS),
        pyarrow.chunked_array([pc.if_else(pc.equal(table["outcome"], LISTED), 0, 1).combine_chunks()]),
        _whole(table["weight"], READS_UNIT),
        _whole(pc.multiply(table["weight"], table["us"]), 1),
        table["time"],
        table["time"],
    ]
    return pyarrow.table(columns, names=[*OF_PARTS, *PART_SUMS])


class _Sums:
    """Tables with the same columns, added up by some of them."""

    def __init__(self, by: tuple[str, ...], sums: dict[str, str]) -> None:
        self._by = by
        self._sums = sums
        self._tables: list[pyarrow.Table] = []

    def add(self, table: pyarrow.Table) -> None:
        self._tables.append(self._added_up(table))
        if len(self._tables) >= AT_ONCE:
            self._tables = [self.result()]

    def result(self) -> pyarrow.Table | None:
        return self._added_up(pyarrow.concat_tables(self._tables)) if self._tables else None

    def _added_up(self, table: pyarrow.Table) -> pyarrow.Table:
        found = table.group_by(list(self._by)).aggregate(list(self._sums.items()))
        return found.select([*self._by, *(f"{name}_{how}" for name, how in self._sums.items())]).rename_columns(
            [*self._by, *self._sums]
        )


def _parts(table: pyarrow.Table | None) -> list[Part]:
    return [] if table is None else [Part(**row) for row in table.to_pylist()]


def _first_keys(table: pyarrow.Table | None, top: int) -> list[KeySum]:
    if table is None or not table.num_rows:
        return []
    order = [("cache", "ascending"), ("database", "ascending"), ("query", "ascending"), ("score", "descending")]
    table = table.sort_by([*order, ("key", "ascending")])
    differs = pyarrow.array([False] * (table.num_rows - 1), pyarrow.bool_())
    for name in OF_KEYS[:3]:
        column = table[name].combine_chunks()
        differs = pc.or_(differs, pc.not_equal(column.slice(1), column.slice(0, table.num_rows - 1)))
    firsts = [0, *(at + 1 for at in pc.indices_nonzero(differs).to_pylist()), table.num_rows]
    found: list[KeySum] = []
    for first, end in pairwise(firsts):
        found += [KeySum(**row) for row in table.slice(first, min(top, end - first)).to_pylist()]
    return found
