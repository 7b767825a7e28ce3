"""Keys of texts that were hits: texts with comments of their own fill no memory, and are found by their values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, cast

import pytest

from proxy.mysql.reads.routes import KEYS, Route
from proxy.mysql.text.statement_kind import classify
from proxy.port.api import ParameterValue
from proxy.port.session import SessionCache
from proxy.read.together import Several

TEXT = b"SELECT c FROM t WHERE a = 'x' AND b = 7"


class Cache:
    """Of several parameters; counts how often their key is made."""

    def __init__(self) -> None:
        self.bound_to: list[tuple[ParameterValue, ...]] = []
        self.found: Any = None

    def bound(self, parameters: Sequence[ParameterValue]) -> object:
        self.bound_to.append(tuple(parameters))
        return self.found or ("key", *parameters)


@pytest.fixture
def route() -> Route:
    return Route(classify(TEXT.decode()))


def learn(route: Route, cache: Cache, text: bytes, *values: ParameterValue) -> object:
    return route.learn(text, cast(SessionCache, cache), values)


def test_texts_that_differ_in_their_comment_share_a_key(route: Route) -> None:
    cache = Cache()
    for number in range(3 * KEYS):
        assert learn(route, cache, TEXT + b" /*traceparent='%d'*/" % number, "x", 7) == ("key", "x", 7)
    assert len(cache.bound_to) == 1 == len(route.keys)
    assert learn(route, cache, TEXT + b" /*1*/", "x", 8) == ("key", "x", 8)
    assert learn(route, cache, TEXT, "x", 7) == ("key", "x", 7) and TEXT in route.keys


def test_values_that_only_seem_equal_have_keys_of_their_own(route: Route) -> None:
    cache = Cache()
    for value in (Decimal("1.0"), Decimal("1.00"), 1.0, (1, 2), None, b"1"):
        for _ in range(2):
            assert learn(route, cache, TEXT + b"/**/", value) == ("key", value)
    assert len(cache.bound_to) == 12 and route.keys == {}


def test_what_was_kept_of_several_keys_and_let_go_is_made_anew(route: Route) -> None:
    cache = Cache()
    first = cache.found = Several(cast(Any, ["k"]), [1], None, b"")
    assert learn(route, cache, TEXT + b"/*1*/", 1) is first is learn(route, cache, TEXT + b"/*2*/", 1)
    first.keys = cast(Any, [])
    second = cache.found = Several(cast(Any, ["k"]), [1], None, b"")
    assert learn(route, cache, TEXT + b"/*3*/", 1) is second


def test_long_texts_are_not_remembered(route: Route) -> None:
    cache = Cache()
    for end in (b"", b"/*1*/"):
        learn(route, cache, TEXT + b" " * 3000 + end, "x")
    assert route.keys == {}
