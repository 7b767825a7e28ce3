"""From a client's parameters to reader keys: conversion to the columns' types, IN-lists expanded, NULL under `=`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from operator import itemgetter
from typing import Any

from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import AnswerArrangement, Parameter, QueryPlan
from planner.tree.untyped import as_in_key, key_of
from proxy.port.api import ParameterValue
from proxy.port.reasons import NO_REASON, Reason, Why
from sqltypes.comparison import EXACT_DOUBLE, SAFE_DIGITS
from sqltypes.errors import BadParameters, ComparedElsewhere, UpwellError
from sqltypes.expression import Key, ParamRef, Value
from sqltypes.ordering import order_key
from sqltypes.parameters import convert_operand
from sqltypes.plainly_spelled import is_plain
from sqltypes.schema import SqlType
from sqltypes.values import convert_parameter
from sqltypes.zone import Zone

MOST_KEYS = 1000
"""Of one read that are looked at one by one: about 3 ms."""
TOO_MANY = Reason.PARAMETERS.why(f"a list of more than {MOST_KEYS} values, not all of which are held")
MOST_LISTED = 8000
"""Values of a list that is a hit: 5 ms, most of which joins the rows of MySQL's protocol."""
UNLISTED = Reason.PARAMETERS.why(f"a list of more than {MOST_LISTED} values")
MOST_IN_KEY = 4000
"""Whole numbers of a list that is part of a key, in evict mode. A miss of so many takes 3 ms."""
LONG = Reason.PARAMETERS.why(f"a list of more than {MOST_IN_KEY} values")
MOST_COMBINATIONS = 500
"""Keys that several lists may give together. Each is asked for by all of its parts: a miss of so many takes 4 ms, one
of 1,000 takes 8 ms."""
COMBINED = Reason.PARAMETERS.why(f"lists that give more than {MOST_COMBINATIONS} keys together")
Bound = list[tuple[Key, Params]]


@dataclass(frozen=True, slots=True)
class Binding:
    """`keys`: one for each distinct value of the IN-lists; empty if NULL is compared by `=` only. `params`: for what
    needs no key."""

    keys: Bound
    params: Params


class KeyBinder:
    """Binds parameters for one plan. Raises BadParameters, ComparedElsewhere (MySQL would compare in another type)."""

    def __init__(self, plan: QueryPlan, reader: ReaderNode) -> None:
        self._parameters = plan.parameters
        self._key_of = reader.key_of
        self._evict = isinstance(plan.reader.root, AnswerArrangement)
        self._in_order = in_reading_order(plan)
        lists = tuple(part.parameter for part in plan.key if part.list and not self._evict)
        self._lists = (*self._in_order, *(index for index in lists if index not in self._in_order))
        roots = {plan.key[at].parameter for at in plan.reader.root_key if not plan.key[at].null_safe}
        self._not_null = frozenset() if self._evict else frozenset(roots)
        limit = plan.reader.limit
        bounds = (limit.count, limit.offset) if limit is not None else ()
        self._limits = frozenset(bound.index for bound in bounds if isinstance(bound, ParamRef))
        self._real = frozenset() if self._evict else _reals(plan)
        is_list = len(plan.parameters) == 1 and len(plan.key) == 1 and bool(self._lists) and not self._limits
        self.one_key = not self._lists
        """Whether each read asks for one key."""
        # Where MySQL computes the answer, a TIME is given as a literal. `NOT BETWEEN ? AND NULL` is another then.
        self._times = [at for at, param in enumerate(plan.parameters) if self._evict and param.type.name == "time"]
        keyed = [part.parameter for part in plan.key]
        self._places = tuple((keyed.index(index), index) for index in self._lists)
        # Keys are made in the order of reading, the first list's part first; None: that is the order of their parts.
        places = [at for at, _ in self._places]
        made = [*places, *(at for at in range(len(keyed)) if at not in places)]
        self._made = tuple(made) if places != sorted(places) else None
        is_product = (
            len(plan.key) > 1
            and bool(self._lists)
            and not self._limits
            and all(keyed.count(index) == 1 and _whole(plan.key[at].type) for at, index in self._places)
        )
        self.quick_keys = self._list_keys if is_list else self._product_keys if is_product else None
        """From a read's parameters to its distinct keys, where an IN-list is the only one, or lists of whole numbers
        stand beside others; None where `bind` has to look. Raises as `bind`."""
        falls = any(order.falling for order in self._in_order.values())  # of one list
        self._in_sequence: Callable[[Iterable[Any]], Sequence[Any]] = (
            tuple if not self._in_order else downwards if falls else sorted
        )
        self._whole_numbers = is_list and _whole(plan.parameters[0].type) and plan.reader.root_key == (0,)
        self.stored_int = self._whole_numbers or (
            len(plan.parameters) == 1
            and not self._evict
            and plan.reader.root_key == (0,)
            and _whole(plan.parameters[0].type)
            and _whole(plan.key[0].type)
        )
        """Whether a whole number of the key's column is the key, and the only parameter."""
        self._keys_of_values: dict[Value, Key] = {}
        self._places_of_keys: dict[Key, Any] = {}  # in the order of reading
        only = plan.parameters[0] if len(plan.parameters) == 1 and len(plan.key) == 1 else None
        # The key of one integer is the integer: a hit then needs no conversion at all.
        self.plain_int = (
            only is not None
            and not self._evict
            and plan.reader.root_key == (0,)
            and not only.list
            and _whole(only.type)
            and not plan.key[0].list
        )

    def bind(self, parameters: Sequence[ParameterValue]) -> Binding:
        """All keys that the read concerns."""
        expected = self._parameters
        if len(parameters) != len(expected):
            raise BadParameters(f"{len(parameters)} parameters were given, the query takes {len(expected)}")
        values = [self._convert(parameter, value) for parameter, value in zip(expected, parameters, strict=True)]
        if self._times and None in values and any(values[at] is not None for at in self._times):
            raise ComparedElsewhere("NULL beside a TIME, which MySQL reads otherwise as a literal than as a string")
        if not self._lists:
            params = tuple(values)
            missing = any(params[index] is None for index in self._not_null)
            return Binding([] if missing else [(self._key_of(params), params)], params)
        return self._expand(values)

    def bind_written(self, parameters: Sequence[ParameterValue]) -> Binding:
        """As `bind`, of parameters as keys are written to files: where no column tells the type, as the literal."""
        if len(parameters) != len(self._parameters):
            return self.bind(parameters)
        found = list(parameters)
        for at, parameter in enumerate(self._parameters):
            if parameter.type.name == "literal":
                value = parameters[at]
                found[at] = tuple(map(as_in_key, value)) if isinstance(value, tuple) else as_in_key(value)
        return self.bind(found)

    def _list_keys(self, parameters: Sequence[ParameterValue]) -> Sequence[Key] | None:
        values = parameters[0] if len(parameters) == 1 else None
        if not isinstance(values, tuple) or len(values) > MOST_LISTED:
            return None
        kinds = set(map(type, values))
        if self._whole_numbers and kinds == _INT:
            in_order = self._in_sequence
            return in_order(values) if len(set(values)) == len(values) else in_order(dict.fromkeys(values))
        if kinds != _INT and kinds != _STR:
            return None
        known = self._keys_of_values
        keys = list(map(known.get, values))
        if not all(key is not None for key in keys):
            if len(values) > MOST_KEYS or len(known) > MOST_KEYS * 10:
                known.clear()
                self._places_of_keys.clear()
                return None
            for at, value in enumerate(values):
                if keys[at] is None:
                    bound = self.bind(((value,),)).keys
                    if len(bound) != 1:
                        return None
                    key, params = bound[0]
                    keys[at] = known[value] = key
                    for order in self._in_order.values():
                        with suppress(UpwellError):
                            self._places_of_keys[key] = order.place(params[0])
        if self._in_order:
            places = self._places_of_keys
            with suppress(KeyError):  # of one the place is not known
                return sorted(set(keys), key=places.__getitem__)
        return list(dict.fromkeys(keys))

    def _product_keys(self, parameters: Sequence[ParameterValue]) -> Sequence[Key] | None:
        if len(parameters) != len(self._parameters) or self.too_many(parameters):
            return None
        values: list[Value | tuple[Value, ...]] = list(parameters)
        lists = []
        for at, index in self._places:
            items = parameters[index]
            if not isinstance(items, tuple) or set(map(type, items)) != _INT:
                return None
            values[index] = items[0]
            distinct = set(items)
            if index in self._in_order:
                items = tuple(sorted(distinct, reverse=self._in_order[index].falling))
            elif len(distinct) < len(items):
                items = tuple(dict.fromkeys(items))
            lists.append((at, items))
        for parameter in self._parameters:
            if not parameter.list:
                values[parameter.index] = self._convert(parameter, parameters[parameter.index])
        if any(values[index] is None for index in self._not_null):
            return None
        key: Any = self._key_of(tuple(values))  # of several parts
        parts: list[tuple[Any, ...]] = [(part,) for part in key]
        for at, items in lists:
            parts[at] = items
        if self._made is None:
            return list(product(*parts))
        made = product(*map(parts.__getitem__, self._made))
        return list(map(itemgetter(*map(self._made.index, range(len(parts)))), made))

    def are_keys(self, values: ParameterValue) -> bool:
        """Whether these are the values of a list, and the keys too."""
        return self._whole_numbers and isinstance(values, tuple) and set(map(type, values)) == _INT

    def _sorted(self, parameter: Parameter, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Distinct values of a list in the order in which MySQL reads their rows, where that is known."""
        order = self._in_order.get(parameter.index)
        if order is None:
            return values
        try:
            return tuple(sorted(values, key=order.place))
        except (UpwellError, TypeError):  # a string whose place is not known; a mixture of types
            return values

    def too_many(self, parameters: Sequence[ParameterValue]) -> Why:
        """Why so many keys are asked for that looking at each would hold others up; "" if they are not."""
        combinations = 1
        for index, value in enumerate(parameters):
            if not isinstance(value, tuple):
                continue
            if len(value) > MOST_LISTED:
                return UNLISTED
            if len(value) > MOST_IN_KEY and self._evict:
                return LONG
            if len(value) > MOST_KEYS and not (self._evict and set(map(type, value)) == _INT):
                return TOO_MANY
            if index in self._lists:
                combinations *= len(value)
        return COMBINED if len(self._lists) > 1 and combinations > MOST_COMBINATIONS else NO_REASON

    def _expand(self, values: list[Value | tuple[Value, ...]]) -> Binding:
        """One key for each combination of the lists' distinct values."""
        choices = [values[index] for index in self._lists]
        keys: dict[Key, Params] = {}
        params: Params = tuple(None if index in self._lists else value for index, value in enumerate(values))
        for chosen in product(*(choice for choice in choices if isinstance(choice, tuple))):
            single = list(values)
            for index, value in zip(self._lists, chosen, strict=True):
                single[index] = value
            candidate: Params = tuple(single)
            if not any(candidate[index] is None for index in self._not_null):
                keys.setdefault(self._key_of(candidate), candidate)
        return Binding(list(keys.items()), params)

    def _value(self, value: ParameterValue, parameter: Parameter) -> Value:
        if not self._evict:
            return convert_parameter(value, parameter.type)
        if parameter.plain and isinstance(value, str) and not is_plain(value, parameter.type.collation):
            raise ComparedElsewhere(SPELLED)
        return held_value(value, parameter.type)

    def _convert_one(self, parameter: Parameter, value: Value) -> Value:
        if parameter.type.name == "literal":
            return key_of(value, parameter.sent)
        if parameter.operand:
            return convert_operand(value, parameter.type)
        found = self._value(value, parameter)
        if parameter.index in self._real and found == 0:
            raise ComparedElsewhere(ZERO)
        return found

    def _convert(self, parameter: Parameter, value: ParameterValue) -> Value | tuple[Value, ...]:
        name = parameter.column or f"parameter {parameter.index + 1}"
        if not parameter.list:
            if isinstance(value, tuple):
                raise BadParameters(f"{name} takes one value, a list was given")
            if parameter.index in self._limits and (type(value) is not int or value < 0):
                raise ComparedElsewhere(f"LIMIT takes whole numbers that are not negative, given is {value!r}")
            return self._convert_one(parameter, value)
        if not isinstance(value, tuple):
            value = (value,)
        if not value:
            raise BadParameters(f"{name} takes a list of at least one value, it was empty")
        if parameter.type.name == "literal":
            return tuple(key_of(item, parameter.sent) for item in value)
        if set(map(type, value)) == _INT and _whole(parameter.type):
            if self._evict:
                return _still_a_list(sorted(set(value)), value)
            order = self._in_order.get(parameter.index)
            return tuple(sorted(set(value), reverse=order.falling) if order is not None else dict.fromkeys(value))
        converted = dict.fromkeys(self._value(item, parameter) for item in value)
        _require_alike(name, value, converted, parameter.type)
        if parameter.index in self._real and 0 in converted:
            raise ComparedElsewhere(ZERO)
        if not self._evict:
            return self._sorted(parameter, tuple(converted))
        # One spelling for equal lists: the order of an IN-list changes no answer.
        ordered = sorted(
            converted, key=lambda item: (item is None, type(item).__name__, item if item is not None else 0)
        )
        return _still_a_list(ordered, value)


def held_value(value: ParameterValue, type_: SqlType) -> Value:
    """The value where MySQL's own answer is held. In the ON of an outer join an index finds integers for 1.5e0 and
    '1.5', and comparing finds none. Raises as `convert_parameter`."""
    found = convert_parameter(value, type_)
    if type_.is_integer and isinstance(found, float | Decimal):
        raise ComparedElsewhere(f"a fraction is given for {type_.name.upper()}, which an index may round: {found}")
    return found


@dataclass(frozen=True, slots=True)
class Reading:
    """How MySQL reads by the values of a list. `place`: what they are sorted by; `falling`: numbers descend."""

    place: Callable[[Value], Any]
    falling: bool


def in_reading_order(plan: QueryPlan) -> dict[int, Reading]:
    """The parameters that are lists by whose values MySQL reads the rows, the first one first."""
    return {
        plan.key[at].parameter: Reading(order_key(plan.key[at].type, True, falling) or as_it_is, falling)
        for at, falling in plan.reader.lists
    }


def as_it_is(value: Value) -> Value:
    return value


def downwards(values: Iterable[Any]) -> list[Any]:
    return sorted(values, reverse=True)


_INT, _STR = {int}, {str}
SPELLED = "vtgate goes by the spelling, and the value has capitals, letters beyond ASCII, or a space at its end"
ZERO = "0 is looked up among DOUBLEs: from behind MySQL does not find all of 0 and -0"


def _reals(plan: QueryPlan) -> frozenset[int]:
    """The parameters by which rows are found in FLOAT and DOUBLE columns."""
    return frozenset(part.parameter for part in plan.key if part.type.is_approximate)


def instant_of(value: Value, type_: SqlType, clocks: Zone) -> Value:
    """A value that is compared with instants, as the clocks of a session say it, in UTC. Raises ComparedElsewhere,
    BadParameters."""
    said = convert_parameter(value, type_)
    if not isinstance(said, str):
        return value
    try:
        instant = clocks.instant(said)
    except ValueError:
        instant = None
    if instant is None:
        raise ComparedElsewhere(f"{said}, which the clocks of {clocks.name} say twice, never, or not at once")
    return instant


def keys_in(parameters: Sequence[ParameterValue]) -> int:
    """How many keys a read may ask for, or how many values its key may be made of."""
    count = 1
    for value in parameters:
        if isinstance(value, tuple):
            count *= len(value) or 1
    return count


def in_parts(reads: Sequence[Sequence[ParameterValue]], most: int) -> Iterator[Sequence[Sequence[ParameterValue]]]:
    """These reads in order, at most so many together, and of those that ask for many keys fewer."""
    first = weight = 0
    for at, parameters in enumerate(reads):
        weight += (count := keys_in(parameters))
        if at > first and (at - first >= most or weight > MOST_KEYS):
            yield reads[first:at]
            first, weight = at, count
    if reads:
        yield reads[first:]


def _still_a_list(found: list[Value], given: Sequence[Value]) -> tuple[Value, ...]:
    """MySQL compares with the one value of a list as `=` does, and otherwise with several, though they be equal."""
    return (found[0], found[0]) if len(found) == 1 and len(given) > 1 else tuple(found)


def _whole(type_: SqlType) -> bool:
    """Whether a whole number is compared as it is."""
    return type_.is_integer and type_.name != "year"  # MySQL reads 24 as 2024 there


def _require_alike(name: str, given: Sequence[Value], converted: Iterable[Value], type_: SqlType) -> None:
    """Raises ComparedElsewhere for a list of several types where it may matter that MySQL does not compare each value
    as it compares a list of one type. `converted`: the values as those of the column."""
    kinds = {int if isinstance(value, bool) else type(value) for value in given if value is not None}
    if len(kinds) > 1 and not _is_exact(kinds, converted, type_):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ComparedElsewhere(f"the list for {name} mixes types ({names}), which MySQL does not compare one by one")


def _is_exact(kinds: Set[type], converted: Iterable[Value], type_: SqlType) -> bool:
    """Whether a list of several types finds what each of its values finds: they are numbers, or strings of them, and
    values of the column. MySQL compares each with the column's as a number of some kind, and they are exact in all.

    But it finds 18446744073709551615 by `IN ('1', -1)`, and not by `IN (1, -1)`."""
    if not kinds <= _NUMBERS:
        return False
    values = [value for value in converted if value is not None]
    if _whole(type_):
        return all(type(value) is int and abs(value) < EXACT_DOUBLE for value in values) and (
            not type_.unsigned or all(type(value) is int and value >= 0 for value in values)
        )
    return type_.is_approximate or (type_.name == "decimal" and (type_.precision or 10) <= SAFE_DIGITS)


_NUMBERS = frozenset({int, float, Decimal, str})
