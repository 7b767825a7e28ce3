"""The queries of the simulation, what their parameters may be, and what SQLite says that they give."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from dataflow.fills.fill import Fill
from planner.api import plan_query, with_result_columns
from planner.fill.upquery_sql import fill_columns
from planner.tree.plan import AnswerArrangement, QueryPlan, ReadLimit
from proxy.port.api import ParameterValue
from sqltypes.expression import ParamRef, Row, Value
from sqltypes.schema import Relation, ResultColumn, SchemaSnapshot, SqlType
from sqltypes.values import client_literal
from tests.simulation.sql_side import DATABASE, INT, TABLES, TEXT, State

QUERIES = {
    # one table
    "rows": "SELECT id, v FROM a WHERE k = ? AND f = 1",
    "other_index": "SELECT id, k, v FROM a WHERE j = ?",
    "by_id": "SELECT k, j, v FROM a WHERE id = ?",
    "left_rows": "SELECT id, j FROM a WHERE k = ?",
    "value_of": "SELECT id, v FROM a WHERE id = ?",
    "right_rows": "SELECT id, w FROM b WHERE j = ?",
    "two_parts": "SELECT id, v FROM a WHERE k = ? AND j = ?",
    "range": "SELECT id, v FROM a WHERE k = ? AND v > ?",
    "distinct": "SELECT DISTINCT j FROM a WHERE k = ?",
    # groups
    "total": "SELECT COUNT(*) AS n, SUM(v) AS s FROM a WHERE k = ? AND f = 1",
    "groups": "SELECT j, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi FROM a WHERE k = ? GROUP BY j",
    "averages": "SELECT j, COUNT(v) AS n, AVG(v) AS m FROM a WHERE k = ? GROUP BY j",
    "everything": "SELECT COUNT(*) AS n, MAX(w) AS hi FROM b",
    "having": "SELECT j, COUNT(*) AS n FROM a WHERE k = ? GROUP BY j HAVING COUNT(*) > 1",
    "having_parameter": "SELECT k, SUM(v) AS s FROM a WHERE k = ? GROUP BY k HAVING COUNT(*) > ?",
    "derived_table": "SELECT z.k, z.n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) z WHERE z.k = ?",
    # lists
    "in_list": "SELECT id, v FROM a WHERE k IN (?)",
    "in_groups": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM a WHERE k IN (?) GROUP BY k",
    "in_count": "SELECT COUNT(*) AS n FROM a WHERE k IN (?)",
    "in_join": "SELECT a.id, b.id AS bid, b.w FROM a JOIN b ON b.j = a.j WHERE a.k IN (?)",
    "two_lists": "SELECT a.id, b.id AS bid FROM a JOIN b ON b.j = a.j WHERE a.k IN (?) AND b.w IN (?)",
    "list_above": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON b.j = a.j WHERE a.k = ? AND COALESCE(b.w, 0) IN (?)",
    # joins
    "inner": "SELECT a.id, b.id AS bid, a.v, b.w FROM a JOIN b ON b.j = a.j WHERE a.k = ? AND a.f = 1",
    "outer": "SELECT a.id, b.id AS bid, a.v, b.w FROM a LEFT JOIN b ON b.j = a.j WHERE a.k = ? AND a.f = 1",
    "outer_pairs": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON b.j = a.j AND b.w > a.v WHERE a.k = ? AND a.f = 1",
    "outer_some": "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON b.j = a.j AND b.w > 2 WHERE a.k = ? AND a.f = 1",
    "anti": "SELECT a.id FROM a LEFT JOIN b ON b.j = a.j WHERE a.k = ? AND b.id IS NULL",
    "self": "SELECT x.id, y.id AS yid, y.v FROM a x JOIN a y ON y.id = x.j WHERE x.k = ?",
    "diamond": (
        "SELECT a.id, b.id AS bid, c.id AS cid FROM a JOIN b ON b.j = a.j LEFT JOIN b c ON c.id = a.v WHERE a.k = ?"
    ),
    "chain": "SELECT b.id, a.id AS aid, y.v FROM b JOIN a ON a.k = b.w LEFT JOIN a y ON y.id = a.j WHERE b.j = ?",
    "chain_of_nothing": (
        "SELECT a.id, c.id AS cid FROM a LEFT JOIN b ON b.id = a.j AND b.w > 1 "
        "LEFT JOIN b c ON c.id = COALESCE(b.w, 1) WHERE a.k = ?"
    ),
    "pushed_count": (
        "SELECT b.id, COUNT(a.id) AS n, SUM(a.v) AS s FROM b LEFT JOIN a ON a.k = b.w WHERE b.id = ? GROUP BY b.id"
    ),
    "derived_count": "SELECT b.w, COUNT(*) AS n FROM a JOIN b ON b.j = a.j WHERE a.k = ? GROUP BY b.w",
    "count_by_key": "SELECT a.id, (SELECT COUNT(*) FROM b WHERE b.j = a.k) AS n FROM a WHERE a.k = ?",
    "count_by_row": "SELECT a.id, (SELECT COUNT(*) FROM b WHERE b.j = a.j) AS n FROM a WHERE a.k = ?",
    # the first rows
    "top": "SELECT id, v FROM a WHERE f = 1 ORDER BY v DESC, id LIMIT 2",
    "top_of_key": "SELECT id, v FROM a WHERE k = ? ORDER BY v DESC, id LIMIT 2",
    "top_behind": "SELECT id, v FROM a WHERE k = ? ORDER BY v, id LIMIT 2 OFFSET 1",
    "top_of_list": "SELECT id, v FROM a WHERE k IN (?) ORDER BY v, id LIMIT 2",
    "top_as_asked": "SELECT id, v FROM a WHERE k = ? ORDER BY v, id LIMIT ?",
    # strings that compare without case
    "names": "SELECT id, s FROM n WHERE s = ?",
    "names_list": "SELECT id, s FROM n WHERE s IN (?)",
    "names_groups": "SELECT s, COUNT(*) AS c FROM n WHERE v = ? GROUP BY s",
    "names_least": "SELECT COUNT(*) AS c, MIN(s) AS lo FROM n WHERE v = ?",
    "names_distinct": "SELECT DISTINCT s FROM n WHERE v = ?",
    "names_join": "SELECT x.id, y.id AS yid, y.s FROM n x JOIN n y ON y.s = x.s WHERE x.v = ?",
    # evict mode
    "union": "SELECT id FROM a WHERE k = ? UNION ALL SELECT id FROM b WHERE j = ?",
    "exists": "SELECT a.id FROM a WHERE a.k = ? AND EXISTS (SELECT 1 FROM b WHERE b.j = a.j AND b.w >= a.v)",
    "not_exists": (
        "SELECT a.id FROM a WHERE a.k = ? AND NOT EXISTS (SELECT 1 FROM b WHERE b.j = a.k AND b.w = 1 AND b.id <> a.v)"
    ),
    "in_subquery": "SELECT id FROM a WHERE k = ? AND (f = 1 OR j IN (SELECT j FROM b WHERE w = ?))",
    "or_exists": "SELECT a.id FROM a WHERE a.k = ? OR EXISTS (SELECT 1 FROM b WHERE b.j = a.j AND b.w = ?)",
    "not_in": "SELECT id FROM a WHERE k = ? AND j NOT IN (SELECT j FROM b WHERE w = ?)",
    "outer_of_groups": (
        "SELECT a.id, d.n FROM a LEFT JOIN (SELECT j, COUNT(*) AS n FROM b GROUP BY j) d ON d.j = a.j "
        "WHERE a.k = ? AND EXISTS (SELECT 1 FROM a y WHERE y.j = a.k AND y.v >= a.v)"
    ),
    "lists_in_union": "SELECT id FROM a WHERE k IN (?) UNION SELECT id FROM b WHERE j IN (?)",
    "names_union": "SELECT id FROM n WHERE s = ? UNION ALL SELECT id FROM a WHERE k = ?",
}
# Evict mode, with answers that stand for other keys; opened apart (`Schedule`).
REACHING = {
    "reaching": (
        "SELECT a.id FROM a WHERE a.k = ? AND a.v > ? AND EXISTS (SELECT 1 FROM b WHERE b.j = a.j AND b.w >= ?)"
    ),
    "reaching_below": (
        "SELECT a.id FROM a WHERE a.k = ? AND a.v <= ? AND EXISTS (SELECT 1 FROM b WHERE b.j = a.j AND b.w >= a.f)"
    ),
}
# Subqueries that are maintained as joins; opened apart, so that the seeds that are known go on to show their rules.
SUBQUERIES = {
    "exists_joined": "SELECT a.id FROM a WHERE a.k = ? AND EXISTS (SELECT 1 FROM b WHERE b.j = a.j)",
    "not_exists_joined": (
        "SELECT a.id FROM a WHERE a.k = ? AND NOT EXISTS (SELECT 1 FROM b WHERE b.j = a.k AND b.w = 1)"
    ),
    "in_joined": "SELECT id FROM a WHERE k = ? AND j IN (SELECT j FROM b WHERE w = ?)",
    "in_root": "SELECT id, v FROM a WHERE j IN (SELECT j FROM b WHERE w = ?)",
    "not_in_keys": "SELECT id FROM a WHERE k = ? AND id NOT IN (SELECT id FROM b WHERE w = ?)",
    "exists_alone": "SELECT EXISTS (SELECT 1 FROM b WHERE j = ? AND w > 1) AS e",
    "row_of": "SELECT a.id, (SELECT b.w FROM b WHERE b.id = a.j AND b.j > 0) AS w FROM a WHERE a.k = ?",
    "right": "SELECT b.id AS bid, a.id FROM b RIGHT JOIN a ON a.j = b.j AND b.w > 1 WHERE a.k = ?",
}
# Evict mode, where conditions and ends tell what a change concerns; likewise.
TELLING = {
    "spans": "SELECT id FROM a WHERE v BETWEEN ? AND ? UNION ALL SELECT id FROM b WHERE w < ?",
    "spans_of_key": "SELECT id FROM a WHERE k = ? AND v >= ? UNION ALL SELECT id FROM a WHERE k IN (?) AND j < ?",
    "branches": "SELECT id FROM a WHERE (k = ? OR j = ?) AND v > ? UNION ALL SELECT id FROM b WHERE w <> ?",
    "pages": "SELECT id FROM a WHERE (v, id) > (?, ?) UNION ALL SELECT id FROM b WHERE (j, w) = (?, ?)",
    "cut_off": (
        "SELECT a.id, a.v FROM a WHERE a.k = ? AND a.j NOT IN (SELECT j FROM b WHERE w > ?) "
        "ORDER BY a.v DESC, a.id LIMIT 2"
    ),
    "cut_off_where_asked": (
        "SELECT a.id, a.v FROM a WHERE a.k > ? AND EXISTS (SELECT 1 FROM b WHERE b.j = a.j AND b.w >= a.f) "
        "ORDER BY a.v, a.id LIMIT ?"
    ),
}
ORDERED = frozenset(
    {"top", "top_of_key", "top_behind", "top_of_list", "top_as_asked", "cut_off", "cut_off_where_asked"}
)
NUMBERS = (0, 1, 2)
WORDS = ("a", "A", "b", "B")
_ALIKE = (
    "rows other_index by_id two_parts range distinct",
    "total groups averages everything having having_parameter derived_table in_groups in_count names_least",
    "in_list in_groups in_count in_join two_lists list_above top_of_list lists_in_union",
    "inner outer outer_pairs in_join right_rows chain",
    "self anti left_rows value_of diamond",
    "outer_some chain_of_nothing diamond chain anti",
    "pushed_count derived_count count_by_key count_by_row distinct",
    "top top_of_key top_behind top_of_list top_as_asked",
    "names names_list names_join names_union",
    "names_groups names_least names_distinct names_list names_join",
    "union exists not_exists or_exists in_subquery not_in outer_of_groups lists_in_union",
)
Parameters = tuple[ParameterValue, ...]


@dataclass(frozen=True)
class Query:
    """One of the queries, planned once for all schedules."""

    name: str
    sql: str
    plan: QueryPlan
    types: tuple[SqlType, ...]

    def parameters(self, rng: random.Random) -> Parameters:
        """Random ones: few values, so that reads meet; now and then NULL."""
        limits = _limit_parameters(self.plan.reader.limit)
        if self.sql.endswith(" LIMIT ?"):
            limits.add(len(self.plan.parameters) - 1)
        made: list[ParameterValue] = []
        for parameter in self.plan.parameters:
            pool: Sequence[Value] = WORDS if parameter.type.is_string else NUMBERS
            if parameter.index in limits:
                made.append(rng.choice(NUMBERS))
            elif parameter.list:
                made.append(tuple(rng.choice(pool) for _ in range(rng.randint(1, 3))))
            else:
                made.append(None if rng.random() < 0.03 else rng.choice(pool))
        return tuple(made)

    def truth(self, state: State, parameters: Parameters) -> list[Row]:
        """The client's own query, answered by SQLite."""
        return state.query(bound(self.sql, parameters), self.types)

    def agrees(self, rows: list[Row], state: State, parameters: Parameters, in_order: bool = True) -> bool:
        """Whether `rows` is the answer over `state`: where the source may choose a spelling, it answers itself."""
        ours, theirs = rows, self.truth(state, parameters)
        return ours == theirs if in_order and self.name in ORDERED else Counter(ours) == Counter(theirs)


def alike() -> list[list[str]]:
    """Names of queries that share tables, keys and operators."""
    return [names.split() for names in _ALIKE]


def _limit_parameters(limit: ReadLimit | None) -> set[int]:
    if limit is None:
        return set()
    return {part.index for part in (limit.count, limit.offset) if isinstance(part, ParamRef)}


@cache
def query(name: str) -> Query:
    relations: dict[tuple[str, str], Relation] = {(DATABASE, table.name): table for table in TABLES.values()}
    sql = QUERIES.get(name) or {**REACHING, **SUBQUERIES, **TELLING}[name]
    plan = plan_query(sql, DATABASE, SchemaSnapshot(relations, (9, 7, 0)))
    if isinstance(plan.reader.root, AnswerArrangement):
        # What MySQL would announce; nothing but integers comes from these.
        names = sql.split(" FROM ")[0].removeprefix("SELECT ").split(", ")
        plan = with_result_columns(plan, tuple(ResultColumn(column, INT, True) for column in names))
        types = [INT] * len(names)
    else:
        types = [column.type for column in plan.reader.output]
    _NAMES[id(plan)] = name
    return Query(name, sql, plan, tuple(types))


_NAMES: dict[int, str] = {}  # by plan; these are never freed


def name_of(plan: QueryPlan) -> str | None:
    """None: it is none of `query`."""
    return _NAMES.get(id(plan))


_FILL_TYPES: dict[tuple[int, int], list[SqlType]] = {}


def types_of(fill: Fill) -> list[list[SqlType]]:
    """Of what each statement of the fill returns, the types. Requires: its plan is one of `query`, which are never
    freed."""
    types = [_fill_types(fill.reader.plan, ask.level) for ask in fill.asked.of]
    reached: list[list[SqlType]] = [[INT] for _ in fill.asked.crossings]  # behind each answer
    return [each for answer in types for each in (answer, *reached)]


def _fill_types(plan: QueryPlan, level: int) -> list[SqlType]:
    found = _FILL_TYPES.get((id(plan), level))
    if found is None:
        reader = plan.reader
        arrangement = reader.root if level == 0 else reader.lookups[level - 1].arrangement
        found = _FILL_TYPES[id(plan), level] = [type_ for _, type_ in fill_columns(arrangement)]
    return found


@lru_cache(maxsize=100_000)
def bound(sql: str, parameters: Parameters) -> str:
    for value in parameters:
        text = ", ".join(map(client_literal, value)) if isinstance(value, tuple) else client_literal(value)
        sql = sql.replace("?", text, 1)
    return sql


__all__ = [
    "INT",
    "ORDERED",
    "QUERIES",
    "REACHING",
    "TEXT",
    "Parameters",
    "Query",
    "alike",
    "name_of",
    "query",
    "types_of",
]
