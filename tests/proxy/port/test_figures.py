"""Whatever is counted by name is in the tables, shown from the start, and explained in docs/metrics.md."""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataflow.held.arrangement import Memory
from dataflow.held.counters import ENGINE
from dataflow.messages import GivenUp
from proxy.http.metrics import CACHES_AT_ONCE, Metrics
from proxy.port.figures import COUNTERS, GAUGES, SOURCE
from sqltypes.errors import EvaluationError, SourceDown, UpwellError
from tests.support.engine_rig import OLD, ROWS, Rig, gtids
from tests.support.fake_system import FakeSystem

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("dataflow", "gtid_tracker", "vstream", "proxy")


def modules(*packages: str) -> Iterator[ast.Module]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ast.parse(path.read_text())


def called(tree: ast.AST, name: str) -> Iterator[ast.expr]:
    """The last argument that is a text, of each call of a function or method of this name that has one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == name:
            yield from [
                arg
                for arg in node.args
                if isinstance(arg, ast.JoinedStr) or (isinstance(arg, ast.Constant) and isinstance(arg.value, str))
            ][-1:]


def increased(tree: ast.AST) -> Iterator[str]:
    """The names of `something.counters["name"] += ...`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            target = node.target
            if getattr(target.value, "attr", "") == "counters" and isinstance(target.slice, ast.Constant):
                yield str(target.slice.value)


def counted() -> set[str]:
    """Every name that the engine and the proxy count under."""
    found: set[str] = set()
    for tree in modules(*PACKAGES):
        for function in ("count", "fail", "_end"):
            for text in called(tree, function):
                if isinstance(text, ast.Constant):
                    if re.fullmatch(r"\w+", str(text.value)):  # else a string counts characters
                        found.add(str(text.value))
                else:
                    assert ast.unparse(text) == "f'given_up_{why.reason}'", "a name that this test cannot tell"
        found.update(increased(tree))
    return found | {f"given_up_{why.reason}" for why in GivenUp}


def test_every_name_that_is_counted_is_in_the_tables() -> None:
    found = counted()
    assert {"conflicts", "ring_too_short", "evicted_by_change", "given_up_hot_key"} <= found  # the scan sees them
    assert sorted(found - COUNTERS.keys()) == []


def test_every_reason_to_give_a_read_up_is_in_the_tables() -> None:
    errors: list[type[UpwellError]] = [SourceDown, EvaluationError, *EvaluationError.__subclasses__()]
    assert {f"given_up_{error.reason}" for error in errors} <= ENGINE.keys()


def test_what_the_connections_count_is_shown_and_nothing_else() -> None:
    names = {f"source_{name}" for tree in modules("external_upquery") for name in increased(tree)}
    assert names == SOURCE.keys()


def test_every_counter_of_the_tables_is_counted_somewhere() -> None:
    shown_otherwise = {
        "automatic_reads_left",
        "clock_keys_dropped",
        "records_applied",
        "evicted",
        "freshness_waits",
        "freshness_waits_in_vain",
        "http_answers_refused",
        "http_clients_left",
        "loop_late",
        "mysql_passed",
        "spans_dropped",
        "subscribers_cut_off",
    }
    given_up = {name for name in ENGINE if name.startswith("given_up_")}
    assert COUNTERS.keys() - counted() - given_up == shown_otherwise | SOURCE.keys()


def test_counters_are_there_from_the_start_and_gauges_are_none() -> None:
    assert Memory().counters == dict.fromkeys(ENGINE, 0)
    assert not COUNTERS.keys() & GAUGES.keys()


def test_row_changes_are_counted_where_they_meet_what_is_held() -> None:
    rig = Rig(ROWS)
    rig.fill_from({1: (1, 7, 70)}, 7)
    rig.change(2, (None, (2, 7, 71)), (None, (3, 8, 0)))
    rig.change(3, ((2, 7, 71), (2, 8, 71)))
    assert rig.engine.memory.applied == 2


def test_resets_are_counted_by_what_told() -> None:
    rig = Rig(ROWS)
    rig.read(7)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1, 2))
    rig.read(8)
    (request,) = rig.asked()
    rig.answer(request, [], lower=gtids(1), server=OLD)
    counters = rig.engine.memory.counters
    assert (counters["resets"], counters["resets_by_answer"], counters["resets_by_stream"]) == (1, 1, 0)


@pytest.fixture
def page() -> str:
    return (ROOT / "docs/metrics.md").read_text()


def test_the_page_explains_every_counter_by_its_own_sentence(page: str) -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| (.*) \|$", page.split("## Counters by name")[1], re.M))
    assert rows == COUNTERS


def test_the_page_names_every_other_metric(page: str) -> None:
    text = asyncio.run(Metrics(FakeSystem()).text()).decode()
    names = set(re.findall(r"^# TYPE (upwell\w*) ", text, re.M))
    assert "upwell_lag_seconds" in names
    assert {f"upwell_{name}" for name in GAUGES} <= names
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_many_caches_are_told_metric_by_metric() -> None:
    system = FakeSystem()
    for number in range(2 * CACHES_AT_ONCE + 1):
        system.caches.add(f'c"{number}', {})
    lines = asyncio.run(Metrics(system).text()).decode().splitlines()
    told = [line.split()[2] for line in lines if line.startswith("# TYPE upwell_cache_")]
    assert told == sorted(set(told), key=told.index) and "upwell_cache_hits_total" in told
    for name in told:
        first = next(at for at, line in enumerate(lines) if line.startswith(f"# HELP {name} "))
        own = [line for line in lines if line.startswith(f"{name}{{")]
        assert lines[first + 2 : first + 2 + len(own)] == own and own and len(own) % len(system.caches) == 0
        assert f'{name}{{cache="c\\"7"' in "\n".join(own)
