"""`make oracle-mutants`: faults are planted in the planner, the operators, the types and the readers, one at a time.
The oracle must find each within five minutes.

Prints for each the seed whose round showed it. `FAULTS` remembers it, and it is tried first: mostly one round is
enough.
What also differs without the fault does not count. Exits with 1 where a fault was not found.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import structlog

import dataflow.graph.build
import dataflow.operators.aggregate
import dataflow.readers.reader
import planner.session.needs
import planner.session.session_needs
import planner.tree.expressions
import sqltypes.arithmetic
import sqltypes.collation
import sqltypes.compile
import sqltypes.ordering
from dataflow.operators.answer import AnswerNode
from dataflow.operators.topk import TopKNode
from dataflow.readers.derivation import ReaderProgram
from integration.oracle.asker import asker_beside
from integration.oracle.grammar import Focus
from integration.oracle.run import DATABASE, READERS, oracle
from integration.servers.mysql_server import Server
from integration.servers.private_mysql import find_mysql
from integration.support.campaign import in_memory, planned_in_place
from planner.evict.evict import Analysis, _Select
from tests.simulation.mutant import Patch, all_of, attribute, edit, nothing, rewritten

LONGEST = 300.0  # seconds until a fault must have been found
FIRST = 1  # of the seeds that are tried for a fault that has none
KINDS = ("error", "rows")
PUSH_DOWN = import_module("planner.maintain.rewrites.push_down_aggregate")  # the package has a function of that name


@dataclass(frozen=True)
class Fault:
    """`focus`: the queries that it may concern; `seed`: of a round of such that shows it, 0 where none is known."""

    name: str
    plant: Patch
    focus: Focus
    seed: int = 0


def special(op: str, *changes: tuple[str, str]) -> Patch:
    """Another text of the function that compiles an operator."""
    table: dict[str, Any] = sqltypes.compile._SPECIAL
    return lambda patch: patch.setitem(table, op, rewritten(table[op], *changes))


compile_sort_key = sqltypes.compile.compile_sort_key


def only_the_first_term(terms: Sequence[Any], layout: Any) -> Any:
    return compile_sort_key(terms[:1], layout)


def nothing_needed(*_: object) -> frozenset[str]:
    return frozenset()


def by_bytes(*arguments: Any) -> Any:
    return lambda row: row


LISTS = Focus(("rows",), True, ("{n} NOT IN ({i}, NULL)", "NOT ({s} IN ('a', NULL))"))
EITHER = Focus(("rows",), True, ("({c} XOR {c})", "({n} = {n} XOR {n} = {i})"))
ROWS, GROUPS = Focus(("rows",), plain=True), Focus(("grouped",), plain=True)
JOINS, DISTINCT = Focus(("joined",), plain=True), Focus(("distinct",), plain=True)
GROUPED_JOINS, HELD = Focus(("joined_groups",), plain=True), Focus(("rows", "joined", "windowed"), plain=False)

NESTED = Focus(nested=1.0)
BY_THE_FIRST = edit(_Select, "_nested", ('for join in node.args.get("joins") or ():', "for join in ():"))
NOTHING_IS_OVERLOOKED = attribute(Analysis, "overlooked", nothing)

FAULTS = (
    Fault(
        "NOT LIKE is read as LIKE",
        edit(
            planner.tree.expressions.Expressions,
            "_binary",
            ('call("not", (found,)) if node.args.get("negate") else found', "found"),
        ),
        ROWS,
        2,
    ),
    Fault(
        "an inner join's ON that speaks of another table is lost",
        edit(PUSH_DOWN, "_push", ("*others,", "")),
        GROUPED_JOINS,
        92,
    ),
    Fault("a NULL in NOT IN is passed over", special("in", ('"None" if None in held else "0"', '"0"')), LISTS, 44),
    Fault("CASE takes its first value always", special("case", ("self.truth(condition, ref)", "str(True)")), ROWS, 4),
    Fault("XOR is OR", special("xor", ("!= (not {right})", "or (not not {right})")), EITHER, 1),
    Fault(
        "terms of ORDER BY after the first do not count",
        attribute(dataflow.graph.build, "compile_sort_key", only_the_first_term),
        ROWS,
        1,
    ),
    Fault(
        "a top-k that has become too short is not filled again",
        edit(TopKNode, "_remove", ("len(top.rows) < self._limit", "False")),
        Focus(("rows",), plain=True, large=True),
        39,
    ),
    Fault("OFFSET is passed over", edit(ReaderProgram, "finish_passed", ("answer[offset :", "answer[0 :")), ROWS, 1),
    Fault(
        "strings of exact collations are not padded",
        edit(sqltypes.collation, "_without_trailing_spaces", ('text.rstrip(" ")', "text")),
        ROWS,
        50,
    ),
    Fault(
        "strings of weighted collations are not padded",
        edit(sqltypes.collation, "_weighted_key", ("padded if weights.pad_space else key", "key")),
        ROWS,
        10,
    ),
    Fault(
        "ORDER BY of strings is by code points",
        edit(sqltypes.ordering, "_base", ("sort_key(type_.collation)", "None")),
        ROWS,
        9,
    ),
    Fault(
        "a LEFT JOIN's missing partner is lost",
        edit(dataflow.readers.reader, "expand", ("not matched and level.outer", "False")),
        JOINS,
        2,
    ),
    Fault("DISTINCT is by bytes", attribute(dataflow.graph.build, "_distinct", by_bytes), DISTINCT, 7),
    Fault(
        "a sum of decimals goes through DOUBLE",
        edit(
            dataflow.graph.build,
            "_fold",
            ("EXACT.add", "lambda total, value: Decimal(repr(float(total) + float(value)))"),
        ),
        GROUPS,
        55,
    ),
    Fault(
        "AVG has a digit less",
        edit(dataflow.operators.aggregate, "result", ("item.type.scale or 0", "(item.type.scale or 1) - 1")),
        GROUPS,
        5,
    ),
    Fault(
        "a quotient is cut",
        edit(
            sqltypes.arithmetic,
            "decimal_divide",
            ("rescale(cut, scale)", "cut.quantize(Decimal(1).scaleb(-scale), ROUND_DOWN, _EXACT)"),
        ),
        GROUPS,
        10,
    ),
    Fault(
        "a row that leaves a filter does not empty its answer",
        edit(AnswerNode, "_images", ("for image in (old, new)", "for image in (new,)")),
        HELD,
        1,
    ),
    Fault(
        "a row that comes into a filter does not empty its answer",
        edit(AnswerNode, "_images", ("for image in (old, new)", "for image in (old,)")),
        HELD,
        1,
    ),
    Fault(
        "the filter of evict mode is inverted",
        edit(AnswerNode, "_images", ("and watch.passes(before)", "and not watch.passes(before)")),
        HELD,
        1,
    ),
    Fault(
        "what a query reads of a changed row does not count",
        edit(AnswerNode, "_images", ("identical(watch.used(old), watch.used(new))", "True")),
        HELD,
        5,
    ),
    Fault(
        "brackets are entered by their first table only, and no table is looked for",
        all_of(BY_THE_FIRST, NOTHING_IS_OVERLOOKED),
        NESTED,
        11,
    ),
    Fault(
        "what a VIRTUAL column is computed with is no need of who reads it",
        attribute(planner.session.session_needs, "virtual_needs", nothing_needed),
        READERS,
        2,
    ),
    Fault(
        "the language of days is no need",
        lambda patch: patch.delitem(planner.session.needs.BY_WORD, "lc_time_names"),
        READERS,
        72,
    ),
    Fault(
        "a sum over nothing is 0",
        edit(dataflow.operators.aggregate, "result", ("None if state[slot + 1] == 0 else ", "")),
        GROUPS,
        2,
    ),
)


# -- trying ------------------------------------------------------------------------------------------------------------


def forget() -> None:
    """Empties what modules keep of functions that may have been others."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("sqltypes", "planner", "dataflow", "proxy"):
            for value in list(vars(module).values()):
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


@contextmanager
def planted(plant: Patch) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    with planned_in_place():  # the helper that plans would not have the fault
        try:
            plant(patch)
            forget()
            yield
        finally:
            patch.undo()
            forget()


def differs(server: Server, seed: int, seconds: float, focus: Focus, database: str = DATABASE) -> int:
    """The first seed from this on whose round shows something, 0 where none does in that time."""
    with (
        tempfile.TemporaryDirectory(prefix="upwell-oracle-") as state,
        asker_beside(server, database, Path(state)) as asker,
    ):
        rounds = 0 if seconds else 1
        result = oracle(
            asker, seed, seconds=seconds, rounds=rounds, kinds=KINDS, show=_quiet, small=False, once=True, focus=focus
        )
    return seed + result.rounds - 1 if result.found else 0


def _quiet(line: str) -> None:
    """Only what was found counts here."""


def found_at(server: Server, fault: Fault, seconds: float = LONGEST) -> int:
    """The seed of a round that shows the fault and nothing without it; 0: none was found in that time."""
    if fault.seed:
        with planted(fault.plant):
            if differs(server, fault.seed, 0, fault.focus):
                return fault.seed
    ends, seed = monotonic() + seconds, FIRST
    while monotonic() < ends:
        with planted(fault.plant):
            found = differs(server, seed, ends - monotonic(), fault.focus)
        if not found or not differs(server, found, 0, fault.focus):
            return found
        seed = found + 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make oracle-mutants", description=__doc__)
    parser.add_argument("--only", help="faults whose name has this in it")
    parser.add_argument("--part", default="0/1", help="0/2 and 1/2: every second fault")
    parser.add_argument("--unknown", action="store_true", help="those that no seed is known of")
    given = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    part, parts = map(int, given.part.split("/"))
    wanted = [item for item in FAULTS if (given.only or "") in item.name and not (given.unknown and item.seed)]
    missed = 0
    with in_memory(), find_mysql(report=_quiet) as server:
        for fault in wanted[part::parts]:
            begun = monotonic()
            seed = found_at(server, fault)
            missed += not seed
            told = f"seed {seed}" if seed else "NOT FOUND"
            print(f"{told:>12} {monotonic() - begun:6.1f} s  {fault.name}", flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
