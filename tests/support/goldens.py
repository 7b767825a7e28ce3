"""Golden plans: files of queries, each followed by its plan or refusal as comments.

    -- # what the case shows
    SELECT ...;
    -- the plan, line by line

`python -m tests.support.goldens --write` rewrites the plans (`make goldens`); the difference is reviewed like code.
The sample's queries are taken from its own file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.api import plan_query
from planner.explain import explain
from planner.maintain.rewrites import RULES, Rule
from planner.text.parse import parse
from planner.tree.expressions import Parameters
from planner.tree.logical import NotMaintained
from planner.tree.names import Catalogue
from planner.tree.plan import QueryPlan
from planner.tree.resolve import Resolver
from sqltypes.errors import UnsupportedQuery, UpwellError
from sqltypes.schema import SchemaSnapshot
from tests.support.block_text import block_text
from tests.support.schema_text import snapshot_of

ROOT = Path(__file__).parents[2]
PLANS = ROOT / "tests" / "fixtures" / "plans"
REWRITES = ROOT / "tests" / "fixtures" / "rewrites"
SAMPLE = ROOT / "examples" / "lobsters"

LOBSTERS_ROWS = {
    "users": 5_797,
    "stories": 40_650,
    "comments": 121_270,
    "votes": 1_000_000,
    "tags": 100,
    "taggings": 81_000,
    "read_ribbons": 30_000,
    "hidden_stories": 10_000,
    "saved_stories": 20_000,
    "keystores": 15_800,
}
SHOP_ROWS = {
    "customers": 20_000,
    "orders": 200_000,
    "order_lines": 600_000,
    "products": 30_000,
    "settings": 40,
    "log_entries": 10**6,
}
SHOP_VIEWS = {
    "big_orders": "SELECT id, customer_id, total FROM shop.orders WHERE total >= 1000",
    "order_counts": "SELECT customer_id, COUNT(*) AS n, SUM(total) AS total FROM shop.orders GROUP BY customer_id",
}


@dataclass(frozen=True)
class Case:
    title: str
    sql: str
    expected: str


def snapshot(file: Path) -> tuple[str, SchemaSnapshot]:
    """The (database, schema) that a file's queries are for."""
    if file.stem == "lobsters":
        return "lobsters", snapshot_of((SAMPLE / "schema.sql").read_text(), "lobsters", LOBSTERS_ROWS)
    ddl = (ROOT / "tests" / "fixtures" / "shop.sql").read_text()
    return "shop", snapshot_of(ddl, "shop", SHOP_ROWS, SHOP_VIEWS)


def cases(file: Path) -> list[Case]:
    """The cases of a golden file."""
    found = re.findall(r"-- # (.*)\n((?:(?!--).*\n)+)((?:--(?! #).*\n?)*)", file.read_text())
    return [Case(title, sql.strip().rstrip(";"), expected) for title, sql, expected in found]


def sample_queries() -> Iterator[tuple[str, str]]:
    """(title, query) of every template of the sample."""
    text = (SAMPLE / "queries.sql").read_text()
    for title, sql in re.findall(r"-- (\S+) \|[^\n]*\n(?:--[^\n]*\n)*([^;]*);", text):
        if not sql.lstrip().startswith("--"):
            yield title, sql.strip()


def outcome(sql: str, database: str, schema: SchemaSnapshot) -> str:
    """The plan, or the error, as the comment that stands below the query."""
    try:
        plan: QueryPlan | None = plan_query(sql, database, schema)
        text = explain(plan) if plan is not None else ""
        lines = [line for line in text.splitlines() if not line.startswith("query:")]
    except UnsupportedQuery as error:
        lines = [f"refused {error.code}: {error}"]
    except UpwellError as error:
        lines = [f"{type(error).__name__}: {error}"]
    return "".join(f"-- {line}\n" for line in lines)


def rewrite_outcome(rule: str, sql: str, database: str, schema: SchemaSnapshot) -> str:
    """The query after one rewrite alone, or the reason why the rule refuses it."""
    query = parse(sql, schema.server_version)
    block = Resolver(Catalogue(schema, database), Parameters(query.lists), query.item_names).query(query.tree)
    known: dict[str, Rule] = {getattr(function, "__name__", ""): function for function in RULES}
    try:
        return f"-- {block_text(known[rule](block))}\n"
    except NotMaintained as reason:
        return f"-- not maintained: {reason}\n"


def rewritten(file: Path) -> str:
    """The file's text with every plan as the planner gives it now."""
    database, schema = snapshot(file)
    head = re.match(r"(?:-- (?!#).*\n|\n)*", file.read_text()) if file.exists() else None
    known = sample_queries() if file.stem == "lobsters" else ((case.title, case.sql) for case in cases(file))
    blocks = [f"-- # {title}\n{sql};\n{expected(file, sql, database, schema)}" for title, sql in known]
    return (head.group() if head else "") + "\n".join(blocks)


def expected(file: Path, sql: str, database: str, schema: SchemaSnapshot) -> str:
    """What stands below a query of that file."""
    if file.parent == REWRITES:
        return rewrite_outcome(file.stem, sql, database, schema)
    return outcome(sql, database, schema)


def main() -> int:
    write = "--write" in sys.argv
    changed = 0
    for file in sorted([*PLANS.glob("*.sql"), *REWRITES.glob("*.sql")]):
        text = rewritten(file)
        if text != file.read_text():
            changed += 1
            print(f"{'rewritten' if write else 'differs'}: {file.relative_to(ROOT)}")
            if write:
                file.write_text(text)
    return 0 if write or not changed else 1


if __name__ == "__main__":
    sys.exit(main())
