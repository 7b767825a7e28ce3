"""Every golden query gives the plan, or the refusal, that stands below it; and what must hold for every plan holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planner.api import plan_evict, plan_query
from planner.explain import dot
from planner.fill.upquery_sql import fill_columns
from planner.maintain.rewrites import RULES
from planner.text.clock_literals import with_parameters
from planner.text.fingerprint import fingerprint
from planner.tree.plan import AnswerArrangement, Mode, QueryPlan, root_columns
from planner.tree.reasons import EVICT_ONLY, REFUSED
from sqltypes.errors import UpwellError
from sqltypes.expression import Expr, columns_of
from tests.support.goldens import PLANS, REWRITES, cases, outcome, rewrite_outcome, sample_queries, snapshot

FILES = sorted(PLANS.glob("*.sql"))


def all_plans() -> list[QueryPlan]:
    plans = []
    for file in FILES:
        database, schema = snapshot(file)
        for case in cases(file):
            try:
                plans.append(plan_query(case.sql, database, schema))
            except UpwellError:
                assert file.stem == "refused", case.title
    return plans


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_plans_are_as_written_down(file: Path) -> None:
    database, schema = snapshot(file)
    for case in cases(file):
        actual = outcome(case.sql, database, schema)
        assert actual == case.expected, f"{case.title}: `make goldens` writes\n{actual}"


@pytest.mark.parametrize("file", sorted(REWRITES.glob("*.sql")), ids=lambda file: file.stem)
def test_rewrites_are_as_written_down(file: Path) -> None:
    database, schema = snapshot(file)
    for case in cases(file):
        actual = rewrite_outcome(file.stem, case.sql, database, schema)
        assert actual == case.expected, f"{case.title}: `make goldens` writes\n{actual}"


def test_every_rewrite_has_its_fixture() -> None:
    assert {file.stem for file in REWRITES.glob("*.sql")} == {getattr(rule, "__name__", "") for rule in RULES}


def test_every_query_of_the_sample_has_a_golden_plan() -> None:
    written = {(case.title, case.sql) for case in cases(PLANS / "lobsters.sql")}
    assert written == set(sample_queries())


def test_the_sample_is_maintained_but_for_two_queries() -> None:
    database, schema = snapshot(PLANS / "lobsters.sql")
    evicting = [title for title, sql in sample_queries() if plan_query(sql, database, schema).mode is Mode.EVICT]
    assert evicting == ["F1a-N", "X1-N"]


def test_the_normalised_text_is_planned_alike() -> None:
    for file in FILES:
        database, schema = snapshot(file)
        for case in cases(file):
            if file.stem == "refused":
                continue
            plan = plan_query(case.sql, database, schema)
            again = plan_query(plan.sql, database, schema)
            assert (again.sql, again.reader.output, again.key) == (plan.sql, plan.reader.output, plan.key)
            asked = with_parameters(case.sql)
            assert fingerprint(again.sql, database).shape == fingerprint(asked, database).shape


def test_every_query_can_be_held_as_it_is() -> None:
    for file in FILES:
        database, schema = snapshot(file)
        for case in cases(file):
            if file.stem == "refused":
                continue
            plan = plan_evict(case.sql, database, schema)
            root = plan.reader.root
            assert isinstance(root, AnswerArrangement)
            assert {input_.table for input_ in root.inputs} == set(plan.tables)
            assert all(len(input_.key_columns) == len(plan.key) for input_ in root.inputs)


def test_expressions_read_only_what_is_there() -> None:
    """Every column that a reader's expression names is given by an alias before it."""
    for plan in all_plans():
        reader = plan.reader
        known = {(reader.alias, name.lower()) for name in root_columns(reader.root)}
        for lookup in reader.lookups:
            _require_known(known, lookup.key)
            known |= {(lookup.alias, name.lower()) for name in root_columns(lookup.arrangement)}
            _require_known(known, [lookup.on] if lookup.on is not None else [])
        _require_known(known, [*([reader.filter] if reader.filter is not None else []), *reader.group])
        _require_known(known, [a.argument for a in reader.aggregates if a.argument is not None])
        if reader.aggregated:
            known = {("group", f"g{at}") for at in range(len(reader.group))}
            known |= {("agg", aggregate.name) for aggregate in reader.aggregates}
        above = [column.expr for column in reader.output] + [term.expr for term in reader.order]
        if not isinstance(reader.root, AnswerArrangement):
            _require_known(known, [*above, *([reader.having] if reader.having is not None else [])])


def _require_known(known: set[tuple[str, str]], exprs: object) -> None:
    assert isinstance(exprs, list | tuple)
    for expr in exprs:
        assert isinstance(expr, Expr)
        for ref in columns_of(expr):
            assert (ref.source, ref.name.lower()) in known, (ref, known)


def test_every_parameter_is_a_key_part_or_a_limit() -> None:
    for plan in all_plans():
        parts = {part.parameter for part in plan.key}
        limit = plan.reader.limit
        limits = (
            {getattr(value, "index", None) for value in (limit.count, limit.offset)} if limit is not None else set()
        )
        assert {parameter.index for parameter in plan.parameters} <= parts | limits, plan.sql


def test_fills_begin_with_the_key() -> None:
    for plan in all_plans():
        for arrangement in plan.arrangements:
            if not isinstance(arrangement, AnswerArrangement):
                names = tuple(name for name, _ in fill_columns(arrangement))
                assert names[: len(arrangement.key)] == arrangement.key


def test_codes_of_reasons_are_unique_and_used_as_listed() -> None:
    assert not REFUSED.keys() & EVICT_ONLY.keys()
    text = (PLANS / "refused.sql").read_text()
    assert set(re.findall(r"-- refused (\w+):", text)) <= REFUSED.keys()


def test_graphs_name_every_arrangement() -> None:
    for plan in all_plans():
        graph = dot(plan)
        assert graph.startswith("digraph plan {")
        assert graph.count("-> reader") == 1 + len(plan.reader.lookups)
