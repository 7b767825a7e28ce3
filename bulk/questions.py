"""Questions that Spark's executors put to MySQL, and how they reach it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Login:
    """How to reach MySQL. `arguments`: of PyMySQL's `connect`. `tls`: "disabled", "preferred", "required" or "verify",
    with paths of PEM files, "" for none. `pin`: the statement that makes the session what upqueries expect. No part of
    it is shown by `repr`."""

    arguments: dict[str, Any] = field(repr=False)
    tls: str = "disabled"
    ca: str = ""
    certificate: str = ""
    key: str = ""
    pin: str = field(default="", repr=False)


@dataclass(frozen=True)
class Question:
    """`packets`: whole commands of MySQL's protocol, each of which is answered; `answers`: how many. `number`: tells
    its answer apart."""

    number: int
    packets: bytes = field(repr=False)
    database: str = ""
    answers: int = 0
