"""One plan of a cache, as reads in one wire format meet it."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

from dataflow.readers.reader import ReaderNode
from planner.tree.plan import AnswerArrangement, QueryPlan
from proxy.cache.key_binder import Binding, KeyBinder
from proxy.cache.named_cache import NamedCache
from proxy.port.api import ListLookup, Lookup, ParameterValue
from proxy.port.reasons import NO_REASON, Why
from proxy.read.held_answers import HeldAnswers
from proxy.read.host import ReadHost
from proxy.read.lookups import list_lookup, lookup, nothing_listed, nothing_stored


class Planned:
    """What an open cache derives from its plan, once. A cache that is planned anew gets another one."""

    __slots__ = (
        "binder",
        "generation",
        "held",
        "instants",
        "joins",
        "lists",
        "plain_int",
        "reader",
        "single",
        "stored",
        "stored_list",
        "tells",
        "together_from",
    )

    def __init__(self, host: ReadHost, cache: NamedCache, format_: int) -> None:
        plan = cache.plan
        self.generation = cache.generation
        self.reader: ReaderNode | None = cache.reader
        self.binder: KeyBinder | None = cache.binder
        self.plain_int = cache.binder is not None and cache.binder.plain_int
        """One integer is the parameter, and the key too."""
        self.single = cache.reader is not None and cache.reader.program.limit_from_params
        """Not even the answer of one key is stored: a parameter is its LIMIT."""
        self.joins = not _is_of_all(plan)
        """The answer of several keys is that of each, one after the other."""
        self.lists = plan is None or any(parameter.list for parameter in plan.parameters)
        self.tells = () if plan is None else tuple(each.index for each in plan.parameters if each.tells)
        self.instants = (
            () if plan is None else tuple(each.index for each in plan.parameters if each.type.name == "timestamp")
        )
        """The parameters that are compared with instants."""
        self.together_from = 1 if self.single else maxsize if self.joins else 2
        """The answer of so many keys is derived from all of them together, and not stored by key."""
        self.held = HeldAnswers(host, cache, format_, self.together_from)
        self.stored: Lookup = nothing_stored
        self.stored_list: ListLookup = nothing_listed
        if self.reader is None or self.binder is None:
            return
        self.stored = lookup(host, cache, self.reader, format_)
        keys_of = self.binder.quick_keys
        if keys_of is not None and self.joins and not self.single:
            self.stored_list = list_lookup(host, cache, self.reader, format_, keys_of, self.held.join)

    def is_whole(self, binding: Binding) -> bool:
        return len(binding.keys) >= self.together_from

    def too_many(self, parameters: Sequence[ParameterValue]) -> Why:
        """Why there are more keys than can be looked at; "" if there are not."""
        return self.binder.too_many(parameters) if self.lists and self.binder is not None else NO_REASON

    def bind(self, parameters: Sequence[ParameterValue]) -> Binding:
        """Requires: there is a reader. Raises BadParameters, ComparedElsewhere."""
        if self.plain_int and len(parameters) == 1 and parameters[0].__class__ is int:
            (value,) = params = tuple(parameters)
            return Binding([(value, params)], params)
        assert self.binder is not None
        return self.binder.bind(parameters)

    def bind_held(self, reader: ReaderNode, parameters: Sequence[ParameterValue]) -> Binding:
        """As `bind`, for a hit: of another key where the answer that is held for that is this key's, too. Good for this
        step alone."""
        binding = self.bind(parameters)
        standing = reader.alike.standing(binding.keys[0][1]) if len(binding.keys) == 1 else None
        return binding if standing is None else Binding([(reader.key_of(standing), standing)], standing)


def _is_of_all(plan: QueryPlan | None) -> bool:
    """Whether something applies to the rows of all keys together: an order, a limit, DISTINCT. MySQL's own answers, in
    evict mode, are whole as they are."""
    if plan is None or isinstance(plan.reader.root, AnswerArrangement):
        return False
    return bool(plan.reader.order) or plan.reader.limit is not None or plan.reader.distinct is not None
