"""What two proxies say to each other: what is understood, what is not, and who may take over."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from proxy.takeover.protocol import (
    LISTENERS,
    VERSION,
    Hello,
    Malformed,
    decoded,
    encoded,
    encoded_hello,
    hello_of,
    why_not,
)

AT = dict(zip(LISTENERS, [("127.0.0.1", 3307), ("::1", 50051), ("0.0.0.0", 8080)], strict=True))
SERVES = Hello(7, "mysql://app@db:3306", "net:[1]", AT)
ASKS = replace(SERVES, process=8)


def test_a_hello_is_read_as_it_was_written() -> None:
    assert hello_of(decoded(encoded_hello(ASKS))) == ASKS


@pytest.mark.parametrize(
    "data", [b"", b"\0\xff", b"\xff\xfe", b"1", b"null", b"[]", b"{}", b'{"word": 1}', b"[" * 60_000, b'{"word": "a"'],
)  # fmt: skip
def test_what_is_no_message_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(Malformed):
        decoded(data)


@pytest.mark.parametrize("name", ["process", "source", "network", "listens", "version"])
@pytest.mark.parametrize("value", [None, 1.5, [], {"mysql-listen": [1, "a"]}])
def test_a_hello_that_lacks_something_is_none(name: str, value: object) -> None:
    for more in (asdict(ASKS) | {name: value}, {key: one for key, one in asdict(ASKS).items() if key != name}):
        with pytest.raises(Malformed):
            hello_of(decoded(json.dumps({"word": "hello", **more}).encode()))


def test_another_word_is_no_hello() -> None:
    with pytest.raises(Malformed, match="begins with 'mine'"):
        hello_of(decoded(encoded("mine")))


def test_one_of_the_same_source_and_listeners_may_take_over() -> None:
    assert why_not(ASKS, SERVES) == ""


def test_any_port_is_the_other_ones() -> None:
    assert why_not(replace(ASKS, listens={name: (host, 0) for name, (host, _) in AT.items()}), SERVES) == ""


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        (replace(ASKS, version=VERSION + 1), f"by version {VERSION} of the protocol, and this one by {VERSION + 1}"),
        (
            replace(ASKS, source="mysql://app@other:3306"),
            "it serves mysql://app@db:3306, and this one mysql://app@other",
        ),
        (replace(ASKS, network="net:[2]"), "another network namespace"),
        *(
            (replace(ASKS, listens={**AT, name: (AT[name][0], 1)}), f"its {name} is {AT[name][0]}:{AT[name][1]}, and")
            for name in LISTENERS
        ),
        (replace(ASKS, listens={**AT, "mysql-listen": ("0.0.0.0", 3307)}), "and this one's 0.0.0.0:3307"),
    ],
)
def test_another_may_not_and_is_told_why(asks: Hello, why: str) -> None:
    assert why in why_not(asks, SERVES)
