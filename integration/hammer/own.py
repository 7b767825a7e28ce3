"""Rows that one session alone writes, in every manner, and reads at once: what it reads must be what it wrote."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

OWNERS = 4
KEYS = 3  # of each owner
TABLES = (
    "CREATE TABLE own (k INT PRIMARY KEY, n INT NOT NULL, version BIGINT NOT NULL, KEY (n))",
    "CREATE PROCEDURE bumps(id INT, v BIGINT) UPDATE own SET version = v WHERE k = id",
    "CREATE PROCEDURE bumps_and_fails(id INT, v BIGINT) BEGIN UPDATE own SET version = v WHERE k = id;"
    " SIGNAL SQLSTATE '45000'; END",
    "CREATE FUNCTION bumped(id INT, v BIGINT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
    " BEGIN UPDATE own SET version = v WHERE k = id; RETURN 1; END",
)
CACHES = {
    "own": "SELECT version FROM own WHERE k = ?",
    "own_sum": "SELECT COUNT(*), SUM(version) FROM own WHERE n = ?",
    "own_list": "SELECT k, version FROM own WHERE k IN (?)",
}
EXPECTED = frozenset({1050, 1146, 1644})  # a table exists, or does not; a procedure's own error


def keys_of(owner: int) -> range:
    return range(owner * KEYS, (owner + 1) * KEYS)


def first_rows() -> list[str]:
    rows = ", ".join(f"({key}, {owner}, 0)" for owner in range(OWNERS) for key in keys_of(owner))
    return [f"INSERT INTO own VALUES {rows}"]


def every_key(name: str) -> list[tuple[Any, ...]]:
    """The parameters of all that a cache may hold."""
    if name == "own":
        return [(key,) for owner in range(OWNERS) for key in keys_of(owner)]
    return [(list(keys_of(owner)) if name == "own_list" else owner,) for owner in range(OWNERS)]


@dataclass(frozen=True, slots=True)
class Write:
    """The texts that write one version to one key. `inside`: behind how many of them the session reads it while it is
    not yet committed, 0 for never. `kept`: whether it is there in the end."""

    texts: Sequence[str]
    inside: int = 0
    kept: bool = True


Manner = Callable[[str, int, int, int], Write]  # of the UPDATE, the key, its owner and the version

MANNERS: dict[str, Manner] = {
    "an update": lambda update, k, n, v: Write([update]),
    "a row gone and back": lambda update, k, n, v: Write(
        [f"DELETE FROM own WHERE k = {k}", f"INSERT INTO own VALUES ({k}, {n}, {v})"]
    ),
    "a replacement": lambda update, k, n, v: Write([f"REPLACE INTO own VALUES ({k}, {n}, {v})"]),
    "a transaction": lambda update, k, n, v: Write(["BEGIN", update, "COMMIT"], inside=2),
    "a chain of two": lambda update, k, n, v: Write(["BEGIN", update, "COMMIT AND CHAIN", "COMMIT"], inside=2),
    "a rollback": lambda update, k, n, v: Write(["BEGIN", update, "ROLLBACK"], inside=2, kept=False),
    "a savepoint": lambda update, k, n, v: Write(
        ["BEGIN", "SAVEPOINT s", update, "ROLLBACK TO s", update, "RELEASE SAVEPOINT s", "COMMIT"], inside=5
    ),
    "autocommit off": lambda update, k, n, v: Write(
        ["SET autocommit = 0", update, "COMMIT", "SET autocommit = 1"], inside=2
    ),
    "autocommit switched on": lambda update, k, n, v: Write(["SET autocommit = 0", update, "SET autocommit = 1"]),
    "several in one": lambda update, k, n, v: Write([f"BEGIN; {update}; COMMIT"]),
    "several and an error": lambda update, k, n, v: Write([f"{update}; SELECT * FROM no_such_table"]),
    "one left open": lambda update, k, n, v: Write(
        [f"BEGIN; {update}; SELECT * FROM no_such_table", "COMMIT"], inside=1
    ),
    "a procedure": lambda update, k, n, v: Write([f"CALL bumps({k}, {v})"]),
    "a procedure that fails": lambda update, k, n, v: Write([f"CALL bumps_and_fails({k}, {v})"]),
    "a function": lambda update, k, n, v: Write([f"SELECT bumped({k}, {v})"]),
    "a prepared text": lambda update, k, n, v: Write([f"PREPARE p FROM '{update}'", "EXECUTE p"]),
    "XA": lambda update, k, n, v: Write(
        [f"XA START 'own {k}'", update, f"XA END 'own {k}'", f"XA COMMIT 'own {k}' ONE PHASE"]
    ),
    "locked tables": lambda update, k, n, v: Write(["LOCK TABLES own WRITE", update, "UNLOCK TABLES"]),
    "DDL that fails behind its commit": lambda update, k, n, v: Write(["BEGIN", update, "CREATE TABLE own (k INT)"]),
}


# Behind these a session is as it was before: its hits may go the quick way.
PLAIN = ("an update", "a row gone and back", "a replacement", "a transaction", "a rollback", "a savepoint")


def a_write(rng: random.Random, names: Sequence[str], key: int, owner: int, version: int) -> tuple[str, Write]:
    """(the manner's name, one of these; the write)."""
    name = rng.choice(names)
    return name, MANNERS[name](f"UPDATE own SET version = {version} WHERE k = {key}", key, owner, version)
