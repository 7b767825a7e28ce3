"""What the Python programs print: one JSON object a line, the same for the same outcome. Imports no driver.

Values that JSON cannot tell apart are objects with one member that names their kind, as `{"decimal": "1.50"}`. Nothing
that differs from run to run (connection ids, times, addresses) may be handed to `emit`.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import os
import sys
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from integration.clients.addresses import Address

Step = Callable[[], object]
Served = Callable[[], tuple[str, str]]

ROUNDS = 50
LONG = 1000  # characters or bytes; of anything longer the size and a digest are printed
EXPLAIN = "EXPLAIN LAST STATEMENT"


def address() -> Address:
    return Address.from_environment(dict(os.environ))


def canonical(value: object) -> object:
    """`value` as something that JSON can hold, of the same type and precision."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value if len(value) <= LONG else {"characters": len(value), "digest": digest(value.encode())}
    if isinstance(value, bytes | bytearray | memoryview):
        whole = bytes(value)
        return {"bytes": whole.hex()} if len(whole) <= LONG else {"bytes": len(whole), "digest": digest(whole)}
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime.timedelta):
        return {"time": str(value // datetime.timedelta(microseconds=1))}
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return {type(value).__name__: value.isoformat()}
    if isinstance(value, AbstractSet):
        return {"set": sorted(str(member) for member in value)}
    if isinstance(value, Mapping):
        return {str(name): canonical(member) for name, member in value.items()}
    if isinstance(value, Iterable):
        return [canonical(member) for member in value]
    return {type(value).__name__: str(value)}


def digest(whole: bytes) -> str:
    return hashlib.sha256(whole).hexdigest()[:16]


def emit(line: Mapping[str, object]) -> None:
    print(json.dumps(canonical(line), ensure_ascii=True), flush=True)


def run_steps(steps: Sequence[Step]) -> None:
    """Each step's outcome is what it returns; one that fails does not keep the next from being tried."""
    for step in steps:
        try:
            outcome = step()
        except Exception as error:  # noqa: BLE001 - a program's top level: what it was is printed, and the test fails
            fail(step.__name__, error)
        else:
            emit({"step": step.__name__, "outcome": outcome})


async def run_steps_async(steps: Sequence[Callable[[], Awaitable[object]]]) -> None:
    for step in steps:
        try:
            outcome = await step()
        except Exception as error:  # noqa: BLE001 - a program's top level: what it was is printed, and the test fails
            fail(step.__name__, error)
        else:
            emit({"step": step.__name__, "outcome": outcome})


def fail(step: str, error: Exception) -> None:
    where = traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
    print(json.dumps({"step": step, "failed": said}), flush=True)


class Reads:
    """What repeated reads gave: their rows, and what Upwell says of how each was answered, where it is asked."""

    def __init__(self) -> None:
        self.explain = "--explain" in sys.argv
        self.rows: dict[str, dict[str, object]] = {}
        self.served: dict[str, Counter[str]] = {}
        self.reasons: dict[str, Counter[str]] = {}

    def note(self, read: str, key: object, rows: object, served: tuple[str, str] | None) -> None:
        """One read; `served` is (hit, miss or passed; the reason), None where nobody was asked."""
        text, found = str(canonical(key)), canonical(rows)
        known = self.rows.setdefault(read, {}).setdefault(text, found)
        if known != found:
            raise AssertionError(f"{read} of {text} was {known}, now {found}")
        counts = self.served.setdefault(read, Counter())
        counts["rounds"] += 1
        if served is not None:
            counts[served[0]] += 1
            if served[0] != "hit":
                self.reasons.setdefault(read, Counter())[f"{served[0]}: {served[1]}"] += 1

    def emit(self) -> None:
        """One line a read."""
        for read, rows in self.rows.items():
            line = {"read": read, "rows": rows, **self.served[read]}
            emit(line | {"reasons": dict(self.reasons.get(read, Counter()))} if self.explain else line)


def served_in(columns: Sequence[str], row: Sequence[object]) -> tuple[str, str]:
    """(served, reason) of the row that `EXPLAIN LAST STATEMENT` gave."""
    named = dict(zip(columns, (cell.decode() if isinstance(cell, bytes) else cell for cell in row), strict=True))
    return str(named["served"]), str(named["reason"])
