"""Writes docs/supported_sql.md from the list of refusals and the golden plans: `python -m
tests.support.supported_sql` (`make docs`)."""

from __future__ import annotations

from pathlib import Path

from planner.api import plan_query
from planner.tree.plan import Mode
from planner.tree.reasons import EVICT_ONLY, REFUSED
from sqltypes.errors import UnsupportedQuery, UpwellError
from sqltypes.functions import FUNCTIONS
from tests.support.goldens import PLANS, ROOT, Case, cases, snapshot

TARGET = ROOT / "docs" / "supported_sql.md"
HEAD = """# What SQL is cached, and how

Written by `make docs` from `planner/tree/reasons.py` and the golden plans in `tests/fixtures/plans`; edit those.

A query that is *maintained* is answered from held rows and groups that every change keeps current. A query in *evict
mode* has its answers held as MySQL gave them; a change empties those that it may concern. A query that is *refused*
is passed to MySQL.
`upwell cache explain` shows which, and why.
"""


def document() -> str:
    """The whole text."""
    parts = [HEAD, "## Maintained\n", *_examples(Mode.MAINTAIN)]
    parts += ["## Evict mode\n", "The reasons:\n", *_reasons(EVICT_ONLY), "", *_examples(Mode.EVICT)]
    parts += ["## Refused\n", *_reasons(REFUSED), "", "For example:\n", *_refusals(), ""]
    operators = ", ".join(f"`{name}`" for name in sorted(FUNCTIONS))
    parts += ["## Expressions of maintained queries\n", f"Columns, literals, parameters, CAST and: {operators}.\n"]
    parts.append("Any other deterministic function of MySQL's own puts the query in evict mode.")
    return "\n".join(parts) + "\n"


def _reasons(codes: dict[str, str]) -> list[str]:
    return ["| code | why |", "| --- | --- |", *(f"| `{code}` | {reason} |" for code, reason in codes.items())]


def _files() -> list[Path]:
    return [file for file in sorted(PLANS.glob("*.sql")) if file.stem not in ("lobsters", "refused")]


def _examples(mode: Mode) -> list[str]:
    lines: list[str] = []
    for file in _files():
        database, schema = snapshot(file)
        for case in cases(file):
            plan = plan_query(case.sql, database, schema)
            if plan.mode is mode:
                lines.append(_example(case))
    return [*lines, ""]


def _example(case: Case) -> str:
    return f"* {case.title}: `` {' '.join(case.sql.split())} ``"


def _refusals() -> list[str]:
    database, schema = snapshot(PLANS / "refused.sql")
    lines = []
    for case in cases(PLANS / "refused.sql"):
        try:
            plan_query(case.sql, database, schema)
        except UnsupportedQuery as error:
            lines.append(f"{_example(case)} (`{error.code}`)")
        except UpwellError:
            continue
    return lines


def main() -> None:
    TARGET.write_text(document())


if __name__ == "__main__":
    main()
