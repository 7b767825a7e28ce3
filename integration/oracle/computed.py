"""VIRTUAL columns: what MySQL computes for whoever reads, by that session's variables."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from integration.oracle.kinds import BY_NAME, Kind
from integration.oracle.trees import string

_NAMES = tuple(map(string, ("Thursday", "Donnerstag", "February", "a", "2024-02-29", "0.5")))
TEXT = replace(BY_NAME["va"], name="gt", ddl="VARCHAR(80)", near=_NAMES + BY_NAME["va"].near[:4])
NUMBER = replace(BY_NAME["ti"], name="gn", ddl="BIGINT")
FRACTION = replace(BY_NAME["ti"], name="gf", ddl="DECIMAL(40, 12)", family="dec")
DAY = replace(BY_NAME["da"], name="gd", ddl="DATE")
_OF_DATES = (
    ("DAYNAME({})", TEXT), ("DATE_FORMAT({}, '%W %M %e')", TEXT), ("WEEK({})", NUMBER), ("WEEK({}, 1)", NUMBER),
    ("{} + INTERVAL 1 MONTH", TEXT), ("CAST({} AS DATE)", DAY), ("YEAR({})", NUMBER), ("CONCAT({}, '')", TEXT),
)  # fmt: skip
_OF_NUMBERS = (
    ("{} / 3", FRACTION), ("CONCAT({}, 'x')", TEXT), ("FORMAT({}, 2)", TEXT), ("{} * 0.5", FRACTION),
    ("{} > 1", NUMBER), ("CAST({} AS CHAR(20))", TEXT),
)  # fmt: skip
_OF_TEXTS = (
    ("UPPER({})", TEXT), ("CONCAT({}, '-')", TEXT), ("LENGTH({})", NUMBER), ("{} = 'a'", NUMBER), ("LEFT({}, 1)", TEXT),
    ("REPEAT({}, 3)", TEXT),
)  # fmt: skip
EXPRESSIONS: Mapping[str, tuple[tuple[str, Kind], ...]] = {
    "date": _OF_DATES,
    "datetime": (*_OF_DATES, ("HOUR({})", NUMBER), ("TIME({})", TEXT)),
    "time": (("HOUR({})", NUMBER), ("TIME_FORMAT({}, '%H:%i')", TEXT), ("CONCAT({}, '')", TEXT)),
    "int": _OF_NUMBERS,
    "dec": _OF_NUMBERS,
    "real": _OF_NUMBERS[:4],
    "text": _OF_TEXTS,
    "json": (("{}->>'$.b'", TEXT), ("JSON_LENGTH({})", NUMBER)),
}
"""By the family of the column that it is computed of."""


def computed_of(rng: random.Random, family: str, column: str) -> tuple[str, Kind] | None:
    """An expression of a column and the kind of what it gives; None where there is none of its family."""
    choices = EXPRESSIONS.get(family)
    if choices is None:
        return None
    expression, kind = rng.choice(choices)
    index = kind.index if rng.random() < 0.3 else None
    return expression.format(column), replace(kind, index=index)
