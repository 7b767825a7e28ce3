"""The versioned tables, and the caches over them: their parameters, and where versions stand in their answers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from integration.hammer.judge import Group

DATABASE = "hammer"
GROUPS = 10
KEYS = 2  # of each group
PARTS = 3  # rows of each key in `pieces`
TOKENS = 3  # of each group: rows that move between its keys

TABLES = (
    "CREATE TABLE pieces (id INT PRIMARY KEY, k INT NOT NULL, part INT NOT NULL, version BIGINT NOT NULL, KEY (k))",
    "CREATE TABLE heads (k INT PRIMARY KEY, g INT NOT NULL, version BIGINT NOT NULL, KEY (g))",
    # Swapped by RENAME. Both are written by each transaction, so only `side` tells them apart.
    "CREATE TABLE shown (k INT PRIMARY KEY, version BIGINT NOT NULL, side INT NOT NULL)",
    "CREATE TABLE hidden (k INT PRIMARY KEY, version BIGINT NOT NULL, side INT NOT NULL)",
    "CREATE TABLE tokens (id INT PRIMARY KEY, k INT NOT NULL, version BIGINT NOT NULL, KEY (k))",
)
Values = Sequence[Any]
Read = tuple[list[tuple[Group, object]], set[int], str]  # versions by group, sides, what else is wrong


def keys_of(group: Group) -> range:
    return range(group * KEYS, (group + 1) * KEYS)


def group_of(key: int) -> Group:
    return key // KEYS


def first_rows() -> list[str]:
    keys = range(GROUPS * KEYS)
    pieces = ", ".join(f"({key * PARTS + part}, {key}, {part}, 0)" for key in keys for part in range(PARTS))
    heads = ", ".join(f"({key}, {group_of(key)}, 0)" for key in keys)
    tokens = ", ".join(
        f"({group * TOKENS + at}, {keys_of(group)[at % KEYS]}, 0)" for group in range(GROUPS) for at in range(TOKENS)
    )
    return [
        f"INSERT INTO pieces VALUES {pieces}",
        f"INSERT INTO heads VALUES {heads}",
        *(f"INSERT INTO {name} VALUES " + ", ".join(f"({key}, 0, {side})" for key in keys)
          for side, name in enumerate(("shown", "hidden"))),
        f"INSERT INTO tokens VALUES {tokens}",
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Versioned:
    """A cache over versioned tables. `ask`: parameters for a group; `read`: what rows of the answer show."""

    sql: str
    ask: Callable[[random.Random, Group], tuple[Any, ...]]
    read: Callable[[Sequence[Values], tuple[Any, ...]], Read]

    @property
    def several(self) -> bool:
        """Whether an answer is made of several entries: then none of them is held ahead of the position."""
        return " JOIN " in self.sql or "IN (?)" in self.sql

    def fresh(self, number: int) -> str:
        """The same query in words that no cache has had, so that it shares nothing that is held. `number`: above all
        keys and groups."""
        return re.sub(r"((?:\w\.)?[kg]) (= \?|IN \(\?\))", rf"\g<0> AND \1 < {number}", self.sql)


def one_key(rng: random.Random, group: Group) -> tuple[Any, ...]:
    return (rng.choice(keys_of(group)),)


def key_twice(rng: random.Random, group: Group) -> tuple[Any, ...]:
    return one_key(rng, group) * 2


def all_keys(rng: random.Random, group: Group) -> tuple[Any, ...]:
    return (list(keys_of(group)),)


def two_groups(rng: random.Random, group: Group) -> tuple[Any, ...]:
    return ([*keys_of(group), *keys_of((group + 1 + rng.randrange(GROUPS - 1)) % GROUPS)],)


def the_group(rng: random.Random, group: Group) -> tuple[Any, ...]:
    return (group,)


def nothing(rng: random.Random, group: Group) -> tuple[Any, ...]:
    return ()


def columns(count: int, *at: int) -> Callable[[Sequence[Values], tuple[Any, ...]], Read]:
    """Versions of the asked key's group in these columns of each of `count` rows."""

    def read(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
        group = group_of(parameters[0])
        return [(group, row[place]) for row in rows for place in at], set(), wrong_count(rows, count)

    return read


def keyed(each: int, *at: int) -> Callable[[Sequence[Values], tuple[Any, ...]], Read]:
    """As `columns` for a list of keys: the key is the first column, each has `each` rows."""

    def read(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
        shown = [(group_of(row[0]), row[place]) for row in rows for place in at]
        missing = {key for key in parameters[0] if sum(row[0] == key for row in rows) != each}
        return shown, set(), f"keys {missing} do not have {each} rows" if missing else ""

    return read


def groups(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """key, SUM, MIN, MAX, COUNT."""
    shown: list[tuple[Group, object]] = []
    for key, total, low, high, count in rows:
        mean = Fraction(int(total), count)
        average = mean.numerator if mean.denominator == 1 else mean
        shown += [(group_of(key), version) for version in (average, low, high)]
    counted = sum(row[4] for row in rows)
    return shown, set(), wrong_count(rows, 1) or ("" if counted == PARTS else f"{counted} rows are counted")


def group_total(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """group, SUM, COUNT."""
    shown: list[tuple[Group, object]] = []
    for group, total, count in rows:
        mean = Fraction(int(total), count)
        shown.append((group, mean.numerator if mean.denominator == 1 else mean))
    return shown, set(), wrong_count(rows, 1) or ("" if rows[0][2] == KEYS else f"{rows[0][2]} rows are counted")


def subquery(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """version, SUM of the parts'."""
    group = group_of(parameters[0])
    shown: list[tuple[Group, object]] = []
    for version, total in rows:
        shown += [(group, version), (group, Fraction(int(total), PARTS))]
    return [(g, _whole(version)) for g, version in shown], set(), wrong_count(rows, 1)


def _whole(version: object) -> object:
    return version.numerator if isinstance(version, Fraction) and version.denominator == 1 else version


def distinct(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """COUNT(DISTINCT version), MAX(version)."""
    ((count, high),) = rows
    wrong = "" if count == 1 else f"{count} different versions are counted"
    return [(group_of(parameters[0]), high)], set(), wrong


def sided(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """version, side."""
    group = group_of(parameters[0])
    return [(group, row[0]) for row in rows], {row[1] for row in rows}, wrong_count(rows, 1)


def both_sides(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """version and side of the shown row, then of the hidden one."""
    group = group_of(parameters[0])
    shown: list[tuple[Group, object]] = [(group, version) for row in rows for version in (row[0], row[2])]
    return shown, {side for row in rows for side in (row[1], 1 - row[3])}, wrong_count(rows, 1)


def tokens(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """id, key, version: every token of the group is at exactly one of its keys."""
    group = group_of(parameters[0][0])
    expected = [group * TOKENS + at for at in range(TOKENS)]
    ids = sorted(row[0] for row in rows)
    return [(group, row[2]) for row in rows], set(), "" if ids == expected else f"tokens {ids}, not {expected}"


def newest(rows: Sequence[Values], parameters: tuple[Any, ...]) -> Read:
    """key, version, of whatever groups."""
    return [(group_of(row[0]), row[1]) for row in rows], set(), wrong_count(rows, 6)


def wrong_count(rows: Sequence[Values], count: int) -> str:
    return "" if len(rows) == count else f"{len(rows)} rows, not {count}"


VERSIONED = {
    "rows": Versioned("SELECT id, version FROM pieces WHERE k = ?", one_key, columns(PARTS, 1)),
    # The positions of its columns move when one is added in front, the names stay.
    "star": Versioned("SELECT * FROM heads WHERE k = ?", one_key, columns(1, -1)),
    "groups": Versioned(
        "SELECT k, SUM(version), MIN(version), MAX(version), COUNT(*) FROM pieces WHERE k = ? GROUP BY k",
        one_key,
        groups,
    ),
    "joined": Versioned(
        "SELECT p.version, h.version FROM pieces p JOIN heads h ON h.k = p.k WHERE p.k = ?",
        one_key,
        columns(PARTS, 0, 1),
    ),
    "joined_groups": Versioned(
        "SELECT h.k, h.version, MAX(p.version), MIN(p.version) FROM heads h LEFT JOIN pieces p ON p.k = h.k"
        " WHERE h.k = ? GROUP BY h.k, h.version",
        one_key,
        columns(1, 1, 2, 3),
    ),
    "subquery": Versioned(
        "SELECT h.version, (SELECT SUM(p.version) FROM pieces p WHERE p.k = h.k) FROM heads h WHERE h.k = ?",
        one_key,
        subquery,
    ),
    "top": Versioned(
        "SELECT version, id FROM pieces WHERE k = ? ORDER BY version DESC, id LIMIT 2", one_key, columns(2, 0)
    ),
    "answers": Versioned("SELECT COUNT(DISTINCT version), MAX(version) FROM pieces WHERE k = ?", one_key, distinct),
    "united": Versioned(
        "SELECT version FROM pieces WHERE k = ? UNION ALL SELECT version FROM heads WHERE k = ?",
        key_twice,
        columns(PARTS + 1, 0),
    ),
    "list": Versioned("SELECT k, version FROM pieces WHERE k IN (?)", all_keys, keyed(PARTS, 1)),
    "list_joined": Versioned(
        "SELECT p.k, p.version, h.version FROM pieces p JOIN heads h ON h.k = p.k WHERE p.k IN (?) ORDER BY p.k, p.id",
        two_groups,
        keyed(PARTS, 1, 2),
    ),
    "group_total": Versioned(
        "SELECT g, SUM(version), COUNT(*) FROM heads WHERE g = ? GROUP BY g", the_group, group_total
    ),
    "sided": Versioned("SELECT version, side FROM shown WHERE k = ?", one_key, sided),
    "both_sides": Versioned(
        "SELECT s.version, s.side, h.version, h.side FROM shown s JOIN hidden h ON h.k = s.k WHERE s.k = ?",
        one_key,
        both_sides,
    ),
    "tokens": Versioned("SELECT id, k, version FROM tokens WHERE k IN (?)", all_keys, tokens),
    "newest": Versioned("SELECT k, version FROM heads ORDER BY version DESC, k LIMIT 6", nothing, newest),
}
