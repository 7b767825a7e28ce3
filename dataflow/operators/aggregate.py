"""Groups with COUNT, SUM, AVG, MIN and MAX, by key.

Law: content(key) maps each group of the key to count(*) and, for every aggregate, to what is needed to add and to take
away one row. That is a count for COUNT; a sum and a count of the values that are not NULL for SUM and AVG; the extreme
for MIN and MAX. Where equal values may be spelled otherwise, of group columns and of MIN and MAX, it also says whether
all of them are spelled alike: else no answer shows them (`sqltypes.spellings`). A group with count(*) = 0 does not
exist. Taking away a row that may hold the extreme underflows: the key becomes a hole, and MySQL's index answers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import repeat
from sys import getsizeof
from typing import Any

from dataflow.entries import Entries, Entry, touch, touch_all
from dataflow.held.arrangement import LinearArrangement, Locate, Memory
from dataflow.held.hits import NONE_HELD, Beside, Hits
from planner.tree.plan import Aggregate, AggregateArrangement, AggregateFunction
from sqltypes.arithmetic import average
from sqltypes.casts import no_zero
from sqltypes.errors import EvaluationError, InvariantViolated
from sqltypes.expression import Key, Row, Value
from sqltypes.schema import SqlType
from sqltypes.spellings import one_spelling
from sqltypes.values import identical

VALUES, COUNT_STAR = 0, 1  # the first slots of a group's state; the accumulators' follow
ALIKE = -1  # the last slot, where the group has columns whose equal values may be spelled otherwise
State = list[Any]
FEW_VALUES = 4
EXACT = Context(prec=100, rounding=ROUND_HALF_UP)  # MySQL's DECIMAL has 65 digits; sums and quotients of them fit


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One aggregate of a group's state: `slot` is where its value stands, `slot + 1` its count of non-null values
    (SUM, AVG), or whether all values that equal it are spelled like it (`spelled`).

    `order`: maps a value to what MIN and MAX compare (the collation's sort key); None: the value itself.
    """

    function: AggregateFunction
    type: SqlType
    slot: int
    order: Callable[[Value], Any] | None = None
    integral: bool = False  # the argument is an integer: so is its sum
    spelled: bool = False  # a MIN or MAX whose equal values may be spelled otherwise

    @property
    def adds(self) -> bool:
        return self.function in (AggregateFunction.SUM, AggregateFunction.AVG)

    @property
    def width(self) -> int:
        return 2 if self.spelled or self.adds else 1


@dataclass(frozen=True, slots=True)
class GroupProgram:
    """Compiled parts of one aggregate node.

    `group_key`: the comparison key of a row's group. `group_values`: the group columns as they are shown.
    `shown`: the same, or the value itself of a single one, to be compared. `exact`: what is equal looks the same.
    `arguments`: the values that the aggregates take, one for each accumulator (anything for COUNT(*)).
    """

    locate: Locate
    group_key: Callable[[Row], Key]
    group_values: Callable[[Row], Row]
    arguments: Callable[[Row], Row]
    add: Callable[[State, Row], None]  # `add_value` for all accumulators, compiled
    subtract: Callable[[State, Row], bool]  # `subtract_value` likewise: False if one underflows
    replace: Callable[[State, Row, Row], bool | None]  # both at once; None where no argument becomes another
    accumulators: tuple[Accumulator, ...]
    group_width: int
    answer_group_key: Callable[[Row], Key]  # of an upquery's row, key columns cut off
    spelled: tuple[int, ...]  # places among the group values where rows of one group may differ ('a' and 'A' are equal)
    of_one_row: bool = False  # a group contains a unique key
    shown: Callable[[Row], Any] = tuple
    exact: bool = False
    dated: tuple[int, ...] = ()  # of a group's row, where dates must be whole (`dataflow.graph.whole_dates`)

    @property
    def state_width(self) -> int:
        """Slots of a group's state. The last, where the group has `spelled`: of each, whether its rows are alike."""
        return COUNT_STAR + 1 + sum(accumulator.width for accumulator in self.accumulators) + bool(self.spelled)


def accumulators(
    aggregates: Sequence[Aggregate], orders: Sequence[Callable[[Value], Any] | None]
) -> tuple[Accumulator, ...]:
    """Lays the aggregates out in a group's state, in order."""
    laid: list[Accumulator] = []
    slot = COUNT_STAR + 1
    for aggregate, order in zip(aggregates, orders, strict=True):
        integral = aggregate.argument is not None and aggregate.argument.type.is_integer
        laid.append(Accumulator(aggregate.function, aggregate.type, slot, order, integral, aggregate.is_spelled))
        slot += laid[-1].width
    return tuple(laid)


class AggregateNode(LinearArrangement):
    """Content: dict group key -> state `[shown group values, count(*), accumulators' slots ..., whether alike]`."""

    def __init__(self, plan: AggregateArrangement, number: int, memory: Memory, program: GroupProgram) -> None:
        super().__init__(plan, number, memory, program.locate)
        self._program = program
        sums = [item for item in program.accumulators if item.function is AggregateFunction.SUM]
        spelled = [item for item in program.accumulators if item.spelled]
        self._second = [item.slot + 1 for item in (*sums, *spelled)]  # slots that come behind COUNT(*) in a fill's row
        self._group_bytes = 180 + 40 * program.state_width + 60 * program.group_width
        self._quick = program.exact and not program.spelled and not program.of_one_row
        if self._quick:
            slow = [
                item for item in program.accumulators if item.order is not None or (item.adds and not item.integral)
            ]
            self.effort = 1 + 2 * len(slow) + len(program.accumulators) // FEW_VALUES

    def change(
        self, entries: Entries, before: Row | None, after: Row | None, old: Entry | None, new: Entry | None
    ) -> None:
        if old is not None and old is new and before is not None and after is not None:
            self._replace(entries, old, before, after)
            return
        if old is not None and before is not None:
            self._subtract(entries, old, before)
        if new is not None and after is not None and new.content is not None:
            self._add(entries, new, after)

    def change_all(self, hits: Hits, beside: Beside | None = None) -> None:
        """As for each of them, but the usual case, a group that has more rows, without a call for each."""
        if not self._quick or hits.mixed is not None:
            super().change_all(hits, beside)
            return
        before, after = hits.before or repeat(None), hits.after or repeat(None)
        changed: list[Entry] = []
        for old, new, entry in zip(before, after, hits.old or hits.new or []):  # noqa: B905 - one may be endless
            try:
                done = self._change_state(old, new, entry, beside)
                if done:
                    changed.append(entry)
                elif done is not None and (target := self._target(entry, beside)) is not None:
                    self.change(self.entries if beside is None else NONE_HELD, old, new, target, target)
            except EvaluationError:
                self._fail_target(entry, beside, "evaluation_failed")
        if beside is None:
            touch_all(changed)

    def _change_state(self, before: Row | None, after: Row | None, entry: Entry, beside: Beside | None) -> bool | None:
        """Changes a group that there is before and after. None: there is nothing to change, or no more; False: it is
        another case."""
        program, content = self._program, entry.content
        if content is None or (beside is not None and entry in beside.made):
            return False
        group: Key = ()
        if program.group_width:
            group = program.group_key(after if before is None else before)  # type: ignore[arg-type]  # one is there
            if before is not None and after is not None and program.shown(before) != program.shown(after):
                return False
        state = content.get(group)
        if state is None or (before is not None and state[COUNT_STAR] <= 1):
            return False
        if beside is not None:
            state = state.copy()
        done: bool | None = True
        if before is None:
            assert after is not None, "there is a row"
            state[COUNT_STAR] += 1
            program.add(state, after)
        elif after is None:
            state[COUNT_STAR] -= 1
            done = program.subtract(state, before)
        else:
            done = program.replace(state, before, after)
        if done is False:
            self._fail_target(entry, beside, "extreme_underflow")
            return None
        if done and beside is not None:
            beside.made[entry] = group, state, 0
        return done

    def _replace(self, entries: Entries, entry: Entry, before: Row, after: Row) -> None:
        """A row stays under its key; mostly in its group, too, which then is looked up once."""
        program = self._program
        same_group = not program.group_width or (
            program.shown(before) == program.shown(after)
            if program.exact
            else identical(program.group_values(before), program.group_values(after))
        )
        if same_group:
            state = entry.content.get(program.group_key(before) if program.group_width else ())
            if state is not None and state[COUNT_STAR] > 1:  # the only row of a group takes its extremes with it
                done = program.replace(state, before, after)
                if done:
                    touch(entry)
                elif done is not None:
                    self.fail(entries, entry, "extreme_underflow")
                return
            if identical(program.arguments(before), program.arguments(after)):
                return
        self._subtract(entries, entry, before)
        if entry.content is not None:
            self._add(entries, entry, after)

    def _add(self, entries: Entries, entry: Entry, row: Row) -> None:
        program = self._program
        group = program.group_key(row)
        state = entry.content.get(group)
        if state is None:
            state = empty_state(program.group_values(row), program.accumulators)
            if program.spelled:
                state.append((True,) * len(program.spelled))
            entry.content[group] = state
            self._resize(entries, entry, self._group_bytes)
        elif program.of_one_row:
            self.fail(entries, entry, "two_rows_of_a_key")
            return
        elif program.spelled:
            state[ALIKE] = _alike(state, program.spelled, program.group_values(row))
        state[COUNT_STAR] += 1
        program.add(state, row)
        touch(entry)

    def _subtract(self, entries: Entries, entry: Entry, row: Row) -> None:
        program = self._program
        group = program.group_key(row)
        state = entry.content.get(group)
        if state is None:
            self.fail(entries, entry, "removed_row_not_held")
            return
        state[COUNT_STAR] -= 1
        if state[COUNT_STAR] <= 0:
            del entry.content[group]
            self._resize(entries, entry, -self._group_bytes)
            touch(entry)
            return
        if program.spelled and not all(state[ALIKE]):
            self.fail(entries, entry, "spelling_underflow")  # are those that are left spelled alike?
            return
        if program.subtract(state, row):
            touch(entry)
        else:
            self.fail(entries, entry, "extreme_underflow")

    def load(self, key: Key, rows: list[Row]) -> Entry:
        content: dict[Key, State] = {}
        self._take_up(rows, content)
        return self.new_entry(key, content, len(rows) * self._group_bytes + getsizeof(content))

    def load_in_parts(self, key: Key, rows: list[Row], most: int) -> Generator[None, None, Entry]:
        content: dict[Key, State] = {}
        for first in range(0, len(rows), most):
            self._take_up(rows[first : first + most], content)
            yield
        return self.new_entry(key, content, len(rows) * self._group_bytes + getsizeof(content))

    def _take_up(self, rows: Iterable[Row], content: dict[Key, State]) -> None:
        for row in rows:
            state = self._state_of(row)
            group = self._program.answer_group_key(row)
            if group in content:
                raise InvariantViolated("an upquery returned two rows for one group")
            if state[COUNT_STAR]:  # without GROUP BY, MySQL returns a row over nothing
                content[group] = state

    def _state_of(self, row: Row) -> State:
        """An upquery's row: group columns, then for each aggregate its value (AVG: sum, count; SUM: sum), then
        COUNT(*), then for each SUM the count of its non-null values, then whether equal values are spelled alike, of
        each MIN and MAX and of each group column that may have others (`planner.fill.upquery_sql.fill_columns`)."""
        program = self._program
        width = program.group_width
        at = width
        state = empty_state(row[:width], program.accumulators)
        for accumulator in program.accumulators:
            match accumulator.function:
                case AggregateFunction.AVG:
                    state[accumulator.slot] = _sum(accumulator, row[at])
                    state[accumulator.slot + 1] = row[at + 1]
                    at += 1
                case AggregateFunction.SUM:
                    state[accumulator.slot] = _sum(accumulator, row[at])
                case _:
                    state[accumulator.slot] = row[at]
            at += 1
        state[COUNT_STAR] = row[at]
        at += 1
        for slot, value in zip(self._second, row[at:], strict=False):
            state[slot] = value
        if program.spelled:
            state.append(tuple(map(bool, row[at + len(self._second) :])))
        return state

    def copied(self, content: Any) -> Any:
        if len(content) == 1:
            ((group, state),) = content.items()
            return {group: state.copy()}
        return {group: state.copy() for group, state in content.items()}

    def rows(self, content: Any) -> Iterable[Row]:
        """Raises EvaluationError where MySQL may show another date, or another spelling of a MIN or MAX."""
        return self._rows(content.values())

    def rows_in_parts(self, content: Any, most: int) -> Iterator[Iterable[Row]]:
        states = list(content.values())
        for first in range(0, len(states), most):
            yield self._rows(states[first : first + most])

    def _rows(self, states: Iterable[State]) -> list[Row]:
        accumulators = self._program.accumulators
        spelled = bool(self._program.spelled)
        rows = [
            (
                *state[VALUES],
                *(result(state, item) for item in accumulators),
                state[COUNT_STAR],
                *(state[ALIKE] if spelled else ()),
            )
            for state in states
        ]
        for at in self._program.dated:
            for row in rows:
                if row[at] is not None:
                    no_zero(row[at])
        return rows


def _alike(state: State, spelled: tuple[int, ...], values: Row) -> tuple[bool, ...]:
    """Whether all rows of the group spell these values alike, one with `values` included."""
    shown = state[VALUES]
    if identical(shown, values):
        return state[ALIKE]  # type: ignore[no-any-return]
    pairs = zip(spelled, state[ALIKE], strict=True)
    return tuple(alike and identical((shown[at],), (values[at],)) for at, alike in pairs)


def _sum(item: Accumulator, value: Any) -> Any:
    """A sum as an upquery returned it: MySQL's SUM of integers is a DECIMAL, ours an int."""
    if value is None:
        return 0
    return int(value) if item.integral else value


def empty_state(values: Row, items: Iterable[Accumulator]) -> State:
    """The state of a group without rows."""
    state: State = [values, 0]
    for item in items:
        match item.function:
            case AggregateFunction.SUM | AggregateFunction.AVG:
                state += (0, 0)
            case AggregateFunction.MIN | AggregateFunction.MAX:
                state += (None, True) if item.spelled else (None,)
            case _:
                state.append(0)
    return state


def add_value(state: State, item: Accumulator, value: Value) -> None:
    """Counts one more row's value in."""
    slot = item.slot
    match item.function:
        case AggregateFunction.COUNT_STAR:
            state[slot] += 1
        case AggregateFunction.COUNT:
            if value is not None:
                state[slot] += 1
        case AggregateFunction.SUM | AggregateFunction.AVG:
            if value is not None:
                state[slot] = _plus(state[slot], value)
                state[slot + 1] += 1
        case _:
            if value is None:
                return
            if state[slot] is None or _beats(item, value, state[slot]):
                state[slot] = value
                if item.spelled:
                    state[slot + 1] = True
            elif item.spelled and not identical((value,), (state[slot],)) and _ties(item, value, state[slot]):
                state[slot + 1] = False


def subtract_value(state: State, item: Accumulator, value: Value) -> bool:
    """Counts one row's value out. False: the extreme may have been that row's, what is held does not tell the next."""
    slot = item.slot
    match item.function:
        case AggregateFunction.COUNT_STAR:
            state[slot] -= 1
        case AggregateFunction.COUNT:
            if value is not None:
                state[slot] -= 1
        case AggregateFunction.SUM | AggregateFunction.AVG:
            if value is not None:
                state[slot] = _minus(state[slot], value)
                state[slot + 1] -= 1
        case _:
            return value is None or (state[slot] is not None and not _ties(item, value, state[slot]))
    return True


def _plus(total: Any, value: Any) -> Any:
    if value.__class__ is int and total.__class__ is int:
        return total + value
    return EXACT.add(Decimal(total), Decimal(value))


def _minus(total: Any, value: Any) -> Any:
    if value.__class__ is int and total.__class__ is int:
        return total - value
    return EXACT.subtract(Decimal(total), Decimal(value))


def _beats(item: Accumulator, value: Any, held: Any) -> bool:
    if item.order is not None:
        value, held = item.order(value), item.order(held)
    return bool(value < held) if item.function is AggregateFunction.MIN else bool(value > held)


def _ties(item: Accumulator, value: Any, held: Any) -> bool:
    if item.order is not None:
        value, held = item.order(value), item.order(held)
    return bool(value == held)


def result(state: State, item: Accumulator) -> Value:
    """The aggregate's value as MySQL announces it."""
    slot = item.slot
    match item.function:
        case AggregateFunction.SUM:
            return None if state[slot + 1] == 0 else typed(state[slot], item.type)
        case AggregateFunction.AVG:
            count = state[slot + 1]
            return average(state[slot], count, item.type.scale or 0)
        case _:
            value: Value = state[slot]
            return one_spelling(value, state[slot + 1]) if item.spelled else value


def typed(value: Any, type_: SqlType) -> Value:
    """A number in the canonical form of `type_`: exact decimals with its scale, rounded half up as MySQL rounds."""
    if type_.name == "decimal":
        return EXACT.quantize(Decimal(value), Decimal(1).scaleb(-(type_.scale or 0)))
    if type_.is_integer:
        return int(value)
    return value  # type: ignore[no-any-return]  # already canonical: MIN, MAX
