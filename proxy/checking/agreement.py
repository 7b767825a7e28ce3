"""Whether two answers to one query at one position are equal, up to what MySQL may choose.

MySQL may give rows without ORDER BY, and rows that tie, in any order; a LIMIT may cut through ties; of a group it shows
any of the equal spellings; a sum of doubles depends on the order of its rows. Answers that differ in these ways only
are equal. If a held answer does not tell enough, there is no verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence, Set
from decimal import Decimal
from enum import Enum
from itertools import groupby
from typing import Any, TypeVar

from dataflow.entries import Entries
from dataflow.readers.derivation import Params
from dataflow.readers.encodings import Encode
from dataflow.readers.in_steps import Steps, derived, grouped, in_order, passing, same_bag
from dataflow.readers.reader import ReaderNode
from planner.text.scan import scan, words
from planner.tree.plan import AnswerArrangement, QueryPlan
from sqltypes.collation import key_function, supported
from sqltypes.expression import ColumnRef, Key, Row
from sqltypes.schema import ResultColumn

CHOOSES_SPELLING = words("GROUP DISTINCT DISTINCTROW UNION INTERSECT EXCEPT MIN MAX SUM AVG ROLLUP USING NATURAL")
CHOOSES_ROWS = words(
    "LIMIT OVER ANY_VALUE GROUP_CONCAT JSON_ARRAYAGG JSON_OBJECTAGG STD STDDEV STDDEV_POP STDDEV_SAMP VARIANCE VAR_POP"
    " VAR_SAMP RECURSIVE"
)

LARGE = 400  # rows
Item = TypeVar("Item")
EXACT: Set[type] = frozenset((int, str, bytes, type(None)))  # equal values of these are the same
NUMBERS: Set[type] = frozenset((Decimal, float))


class Verdict(Enum):
    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


def agreement(
    reader: ReaderNode,
    keys: Sequence[tuple[Key, Params]],
    columns: Sequence[ResultColumn],
    encode: Encode,
    held: Sequence[Row],
    source: Sequence[Row],
    levels: Sequence[Entries] | None = None,
) -> Steps[Verdict]:
    """Compares the held answer for the keys with MySQL's rows, in steps. If one of the reader's held entries changes
    meanwhile, the caller must discard the result. Raises EvaluationError, InvariantViolated.

    `levels`: the entries that `held` was derived from, if those are not the reader's held ones.
    """
    if len(held) > LARGE and (yield from same_in_steps(reader, held, source)):
        return Verdict.EQUAL
    evict = isinstance(reader.plan.reader.root, AnswerArrangement)
    mine = yield from _mapped(held, lambda rows: _encoded(_plain(rows, columns), encode))
    theirs = yield from _mapped(source, lambda rows: _encoded(_plain(rows, columns), encode))
    if mine == theirs:
        return Verdict.EQUAL
    named = frozenset(token.text.upper() for token in scan(reader.plan.sql) if token.kind == "word")
    ours, wanted = list[Any](mine), list[Any](theirs)
    if named & CHOOSES_SPELLING:
        shown = _equal_values(columns, encode)
        ours = yield from _mapped(held, lambda rows: [shown(row) for row in rows])
        wanted = yield from _mapped(source, lambda rows: [shown(row) for row in rows])
    if not evict and ours != wanted and order_terms(reader.plan.sql) > len(reader.plan.reader.order):
        return Verdict.DIFFERENT  # what ties by the plan's order need not tie by the text's
    if reader.program.order is not None:
        return (yield from _in_order(reader, keys, ours, wanted, levels))
    if (yield from same_bag(ours, wanted)):
        return Verdict.EQUAL
    if len(ours) != len(wanted) and not (evict and chooses_how_many(reader.plan.sql, named)):
        return Verdict.DIFFERENT  # which rows a LIMIT leaves is MySQL's choice, not how many
    free = bool(named & CHOOSES_ROWS) if evict else reader.program.limit is not None
    return Verdict.UNDECIDED if free else Verdict.DIFFERENT


def same_in_steps(reader: ReaderNode, held: Sequence[Row], source: Sequence[Row]) -> Generator[None, None, bool]:
    """Whether large answers are equal without any choice of MySQL's, but for the order of rows where it is free. Then
    `agreement` need not encode all of their rows."""
    if len(held) != len(source):
        return False
    equal = True
    for first in range(0, len(held), LARGE):
        equal = equal and list(held[first : first + LARGE]) == list(source[first : first + LARGE])
        yield
    if equal and [_kinds(row) for row in held[:LARGE]] == [_kinds(row) for row in source[:LARGE]]:
        return True
    if not _unordered(reader):
        return False
    yield
    kinds = yield from _kinds_of(held)
    others = yield from _kinds_of(source)
    if not all(of_column <= EXACT | NUMBERS for of_column in (*kinds, *others)):
        return False  # a value that is not known to be encoded otherwise than all others that equal it
    bag: Counter[tuple[object, ...]] = Counter()
    for part in _parts(held):
        bag.update(_told_apart(part, kinds))
        yield
    for part in _parts(source):
        for row in _told_apart(part, others):
            count = bag.get(row, 0)
            if count > 1:
                bag[row] = count - 1
            elif count:
                del bag[row]
            else:
                return False
        yield
    return True


def _unordered(reader: ReaderNode) -> bool:
    evict = isinstance(reader.plan.reader.root, AnswerArrangement)
    return reader.program.order is None and (evict or not order_terms(reader.plan.sql))


def _mapped(rows: Sequence[Item], work: Callable[[Sequence[Item]], list[Any]]) -> Steps[list[Any]]:
    """What `work` makes of the rows."""
    out: list[Any] = []
    for part in _parts(rows):
        out += work(part)
        yield
    return out


def _parts(rows: Sequence[Item]) -> Iterable[Sequence[Item]]:
    return (rows[first : first + LARGE] for first in range(0, len(rows), LARGE))


def _kinds_of(rows: Sequence[Row]) -> Generator[None, None, list[set[type]]]:
    """Of each column the types of its values."""
    kinds: list[set[type]] = []
    for part in _parts(rows):
        of_part = [set(map(type, column)) for column in zip(*part, strict=True)]
        kinds = [one | other for one, other in zip(kinds, of_part, strict=True)] if kinds else of_part
        yield
    return kinds


def _told_apart(rows: Sequence[Row], kinds: Sequence[set[type]]) -> Iterable[tuple[object, ...]]:
    """The rows, so that 1 and 1.00 differ."""
    columns = (
        column if of_column <= EXACT else map(repr, column)
        for column, of_column in zip(zip(*rows, strict=True), kinds, strict=True)
    )
    return zip(*columns, strict=True)


def _kinds(row: Row) -> list[object]:
    """What equal values may differ in: 1 and 1.00, 0.0 and -0.0."""
    return [repr(value) if isinstance(value, Decimal | float) else value.__class__ for value in row]


def _plain(rows: Iterable[Row], columns: Sequence[ResultColumn]) -> Sequence[Row]:
    """FLOAT as MySQL writes it for a client, with six digits: what is held has all that it has."""
    floats = [at for at, column in enumerate(columns) if column.type.name == "float"]
    if not floats:
        return list(rows)
    out = []
    for row in rows:
        values = list(row)
        for at in floats:
            if isinstance(values[at], float):
                values[at] = float(format(values[at], ".6g"))
        out.append(tuple(values))
    return out


def _encoded(rows: Iterable[Row], encode: Encode) -> list[bytes]:
    return [encode((row,)) for row in rows]


def _equal_values(columns: Sequence[ResultColumn], encode: Encode) -> Callable[[Row], tuple[Any, ...]]:
    """Maps a row to what is the same for values that MySQL may take for each other. It raises EvaluationError."""
    keys: dict[int, Callable[[Any], Any]] = {}
    for at, column in enumerate(columns):
        if column.type.is_string and supported(column.type.collation):
            keys[at] = key_function(column.type.collation)
        elif column.type.is_approximate:
            keys[at] = lambda value: format(value + 0.0, ".9g")

    def shown(row: Row) -> tuple[Any, ...]:
        rest = tuple(None if at in keys else value for at, value in enumerate(row))
        equal = [key(row[at]) if row[at] is not None else None for at, key in keys.items()]
        return (encode((rest,)), *equal)

    return shown


def _in_order(
    reader: ReaderNode,
    keys: Sequence[tuple[Key, Params]],
    ours: Sequence[Any],
    theirs: Sequence[Any],
    levels: Sequence[Entries] | None,
) -> Steps[Verdict]:
    """Compares the two in the query's order. Rows that tie may come in any order; a LIMIT that cuts through a tie may
    show any of them."""
    if len(ours) != len(theirs):
        return Verdict.DIFFERENT
    offset, limited, order = yield from order_keys(reader, keys, levels)
    if len(order) != len(ours):
        return Verdict.UNDECIDED
    verdict = Verdict.EQUAL
    at = 0
    ties = [len(list(group)) for _, group in groupby(order)]
    for number, size in enumerate(ties):
        end = at + size
        if end // LARGE > at // LARGE:
            yield
        if ours[at:end] != theirs[at:end] and not (yield from same_bag(ours[at:end], theirs[at:end])):
            cut = (limited and number == len(ties) - 1) or (offset and number == 0)
            if not cut or ordered_totally(reader.plan):
                return Verdict.DIFFERENT
            verdict = Verdict.UNDECIDED
        at = end
    return verdict


def order_keys(
    reader: ReaderNode, keys: Sequence[tuple[Key, Params]], levels: Sequence[Entries] | None = None
) -> Steps[tuple[bool, bool, list[Any]]]:
    """(whether rows were left out before, whether after, the order key of each row of the held answer
    (`ReaderNode.answer`)). Requires: the reader orders, and everything is held or in `levels`."""
    program, params = reader.program, keys[0][1]
    assert program.order is not None
    rows: list[Row] = []
    for _, single in keys:
        found = yield from derived(reader, single, levels or reader.held_levels)
        rows += yield from passing(reader, found.rows, single)
    rows = yield from grouped(reader, rows, params)
    pairs = yield from in_order(program.order, rows, params)
    if program.distinct is not None:
        first: dict[Key, tuple[Any, Row]] = {}
        for part in _parts(pairs):
            for order, row in part:
                answer = program.project(row, params) if program.project is not None else row
                first.setdefault(program.distinct(answer), (order, row))
            yield
        pairs = list(first.values())
    count, offset = program.limit(params) if program.limit is not None else (None, 0)
    end = None if count is None else offset + count
    # Of a top-k arrangement only the first rows are held: there may be more behind as many as the limit.
    limited = count is not None and len(pairs) >= offset + count
    return offset > 0, limited, [order for order, _ in pairs[offset:end]]


def chooses_how_many(sql: str, named: frozenset[str]) -> bool:
    """May how many rows there are depend on what MySQL chooses? `named`: the words of the query."""
    if not named & CHOOSES_ROWS:
        return False
    selects = sum(token.kind == "word" and token.text.upper() == "SELECT" for token in scan(sql))
    return selects != 1 or not named.isdisjoint(("HAVING", "LIMIT", "RECURSIVE"))


def order_terms(sql: str) -> int:
    """How many terms the query's own ORDER BY has."""
    depth, terms, inside = 0, 0, False
    before = ""
    for token in scan(sql):
        text = token.text.upper()
        if text in ("(", ")"):
            depth += 1 if text == "(" else -1
        elif depth == 0 and token.kind == "word" and text == "BY" and before == "ORDER":
            terms, inside = 1, True
        elif depth == 0 and token.kind == "word" and text in ("LIMIT", "FOR"):
            inside = False
        elif depth == 0 and inside and text == ",":
            terms += 1
        before = text
    return terms


def ordered_totally(plan: QueryPlan) -> bool:
    """Can no two rows tie? True only where that is plain: the order has every table's primary key, or every group."""
    reader = plan.reader
    refs = {(term.expr.source, term.expr.name.lower()) for term in reader.order if isinstance(term.expr, ColumnRef)}
    if reader.aggregated:
        return {("group", f"g{at}") for at in range(len(reader.group))} <= refs
    sources = [(reader.alias, reader.root), *((step.alias, step.arrangement) for step in reader.lookups)]
    for alias, arrangement in sources:
        if isinstance(arrangement, AnswerArrangement) or not arrangement.table.primary_key:
            return False
        if not {(alias, name.lower()) for name in arrangement.table.primary_key} <= refs:
            return False
    return True
