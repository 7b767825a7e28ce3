"""Keys and orders of strings under each collation against the real MySQL.

Whole where the tables, the code or the server are not those that were compared whole before
(`integration/planner_truth/checked_collations.py`); else a sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pymysql
import pytest

from integration.planner_truth import checked_collations
from integration.servers.mysql_server import Server
from sqltypes.collation import EXACT_NO_PAD, EXACT_PAD, WEIGHTED, character_set, encodes, key_function, sort_key
from sqltypes.collation_tables import load
from sqltypes.errors import UnprovenString

COLLATIONS = sorted(
    (set(WEIGHTED) | EXACT_NO_PAD | EXACT_PAD) - {"binary", "utf8_bin", "utf8_general_ci", "utf8_unicode_ci"}
)
BATCH = 500
MARKS = "\u0300\u0301\u0308\u0327\u0338\u0345\u3099\u309a\u200d\u0338\u0653\u0654"
SAMPLES = (
    "aAbBzZ09 _-.\t\n",
    "\u00e9\u00c9\u00df\u00e6\u00c6\u00f8\u00e5\u00e4\u00d6\u00f1\u0130\u0131",
    "\u0627\u0622\u0e40\u0e01\u0e44\u0eb1\u0ec0\u0e81",  # Thai and Lao vowels sort behind their consonants
    "\u0438\u0306\u0439\u0433\u0301\u045e",
    "\u0b95\u0bc6\u0bbe\u0bca\u0d4a\u0dd9\u0dcf",
    "\u3042\u304b\u304c\u30ac\u30fc\uff76\uff9e\u4e00\u9fff\u3400",
    "\uac00\u1100\u1161\ud7a3",
    "\U0001f600\U0001f468\u200b\ufeff\u00ad\u0001\x7f",
    "\u20ac\u2019\u2013\u0160\u0153\u0178\u00e9\u00ff\u00a0",  # in latin1 not where Unicode has them
    "\U00020000\U0002f800\U000e0100\u0378\uffff",
)


@dataclass(frozen=True)
class Extent:
    """How much is compared: random strings, pairs of them, every n-th character above the first scripts, pairs of
    equal and of neighbouring characters."""

    strings: int
    pairs: int
    step: int
    equal: int
    neighbours: int


WHOLE = Extent(4000, 2000, 1, 60_000, 20_000)
SAMPLE = Extent(400, 200, 61, 1500, 500)
FIRST_SCRIPTS = 0x600


@pytest.fixture(scope="module")
def extent(mysql: Server) -> Extent:
    return WHOLE if checked_collations.whole(mysql.version()) else SAMPLE


@pytest.fixture
def cursor(mysql: Server) -> Iterator[Any]:
    connection = pymysql.connect(
        host=mysql.host, port=mysql.port, user=mysql.user, password=mysql.password, charset="utf8mb4"
    )
    with closing(connection), connection.cursor() as made:
        yield made


def strings(random: Random, collation: str, count: int) -> list[str]:
    """Short strings from one script and ASCII, with marks; some equal but for case or trailing spaces."""
    made: list[str] = []
    contractions = "".join(text for text in load(WEIGHTED[collation]).contractions) if collation in WEIGHTED else ""
    while len(made) < count:
        alphabet = random.choice(SAMPLES) + "ab " + random.choice(("", MARKS, contractions or MARKS))
        text = "".join(random.choice(alphabet) for _ in range(random.randrange(0, 6)))
        variants = (text, text.swapcase(), text + " ", text + "\u200b")
        made += [variant for variant in variants if encodes(character_set(collation), variant)]
    return made


def proven(function: Any, text: str) -> bool:
    try:
        function(text)
    except UnprovenString:
        return False
    return True


def asked(cursor: Any, collation: str, pairs: list[tuple[str, str]]) -> list[tuple[int, int]]:
    """(left = right, left < right) of each pair by MySQL."""
    charset = character_set(collation)
    answers: list[tuple[int, int]] = []

    def literal(text: str) -> str:
        return f"CONVERT(_utf8mb4 x'{text.encode().hex()}' USING {charset}) COLLATE {collation}"

    for at in range(0, len(pairs), BATCH):
        tests = (
            f"{literal(left)} {operator} {literal(right)}"
            for left, right in pairs[at : at + BATCH]
            for operator in ("=", "<")
        )
        cursor.execute("SELECT " + ", ".join(tests))
        flat = cursor.fetchone()
        answers += list(zip(flat[::2], flat[1::2], strict=True))
    return answers


@pytest.mark.parametrize("collation", COLLATIONS)
def test_random_strings_are_equal_and_ordered_as_in_mysql(cursor: Any, extent: Extent, collation: str) -> None:
    random = Random(collation)
    key, order = key_function(collation), sort_key(collation)
    made = [text for text in strings(random, collation, extent.strings) if proven(key, text) and proven(order, text)]
    assert len(made) > extent.strings // 3
    pairs = [(random.choice(made), random.choice(made)) for _ in range(extent.pairs)]
    pairs += list(pairwise(made))
    wrong = [
        (left, right)
        for (left, right), (equal, less) in zip(pairs, asked(cursor, collation, pairs), strict=True)
        if (key(left) == key(right)) != bool(equal) or (order(left) < order(right)) != bool(less)
    ]
    assert wrong == [], f"{len(wrong)} pairs"


@pytest.mark.parametrize("collation", sorted(set(WEIGHTED.values())))
def test_every_character_equals_what_mysql_says_of_its_key(cursor: Any, extent: Extent, collation: str) -> None:
    """Characters in groups by key: MySQL finds each equal to its group's first, and no two groups' firsts equal."""
    key = key_function(collation)
    charset = character_set(collation)
    last = 0x110000 if charset == "utf8mb4" else 0x2200
    points = (*range(FIRST_SCRIPTS), *range(FIRST_SCRIPTS, last, extent.step))
    groups: dict[str, list[str]] = {}
    for point in points:
        text = chr(point)
        if not 0xD800 <= point <= 0xDFFF and encodes(charset, text) and proven(key, text):
            groups.setdefault(key(text), []).append(text)
    pairs = [(group[0], other) for group in groups.values() for other in group[1:][:50]]
    Random(2).shuffle(pairs)
    assert all(equal for equal, _ in asked(cursor, collation, pairs[: extent.equal]))
    firsts = sorted(
        (group[0] for group in groups.values()), key=sort_key(collation) if proven_all(collation, groups) else ord
    )
    neighbours = list(pairwise(firsts))
    Random(1).shuffle(neighbours)
    assert not any(equal for equal, _ in asked(cursor, collation, neighbours[: extent.neighbours]))


def proven_all(collation: str, groups: dict[str, list[str]]) -> bool:
    return all(proven(sort_key(collation), group[0]) for group in groups.values())
