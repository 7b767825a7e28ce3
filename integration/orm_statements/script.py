"""A script: what one framework has sent, as JSON lines that can be read and played.

The first line tells of the framework, its driver, how the script was obtained, and with what the driver logs in. Each
other line is a statement: `{"text": ...}`, or `{"execute": ..., "bound": [[type, value], ...]}` for a prepared one.
`session` numbers the connections from 0, and is left out for the first.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from integration.support.raw_client import joined, nulls
from proxy.mysql.wire.packets import lenenc, read_lenenc

SCRIPTS = Path(__file__).with_name("scripts")
DATABASE = "orm_shop"  # as the scripts name it

_UNSIGNED = 0x8000  # beside a type's code
_CODES = {
    "TINY": 0x01, "SHORT": 0x02, "LONG": 0x03, "FLOAT": 0x04, "DOUBLE": 0x05, "NULL": 0x06, "TIMESTAMP": 0x07,
    "LONGLONG": 0x08, "DATE": 0x0A, "TIME": 0x0B, "DATETIME": 0x0C, "VARCHAR": 0x0F, "JSON": 0xF5, "NEWDECIMAL": 0xF6,
    "BLOB": 0xFC, "VAR_STRING": 0xFD, "STRING": 0xFE,
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
_NUMBERS = {0x01: "b", 0x02: "h", 0x03: "i", 0x08: "q", 0x04: "f", 0x05: "d"}
_TIMES = frozenset({0x07, 0x0A, 0x0B, 0x0C})

Value = int | float | str | None


@dataclass(frozen=True, slots=True)
class Bound:
    """One parameter: the name of its type, and what was sent. Times, and bytes that are no text, are `0x...`."""

    type: str
    value: Value


@dataclass(frozen=True, slots=True)
class Step:
    """`bound` None: sent as a text."""

    sql: str
    bound: tuple[Bound, ...] | None = None
    session: int = 0

    def line(self) -> dict[str, object]:
        session = {"session": self.session} if self.session else {}
        if self.bound is None:
            return {"text": self.sql, **session}
        return {"execute": self.sql, "bound": [[each.type, each.value] for each in self.bound], **session}


def as_text(step: Step) -> str:
    """The statement with its values written where they are bound. Times stand in their own bytes, so that it means the
    same only where none is bound."""
    values = iter(step.bound or ())
    return _PLACEHOLDER.sub(lambda found: _literal(next(values)) if found[0] == "?" else found[0], step.sql)


_PLACEHOLDER = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|/\*.*?\*/|\?", re.DOTALL)


def _literal(bound: Bound) -> str:
    value = bound.value
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return repr(value)
    if value.startswith("0x"):
        return f"x'{value[2:]}'"
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Header:
    """`made_of`: the framework and its driver, with their versions. `collation`, `flags`: of the login. `kept`: whether
    the driver keeps prepared statements, or closes each behind its execution."""

    made_of: str
    obtained: str
    collation: int = 255
    flags: int = 0
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    header: Header
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def sessions(self) -> int:
        return 1 + max((step.session for step in self.steps), default=0)


def read(path: Path) -> Script:
    first, *rest = path.read_text().splitlines()
    return Script(path.stem, Header(**json.loads(first)), tuple(map(_step, rest)))


def _step(line: str) -> Step:
    found = json.loads(line)
    session = found.get("session", 0)
    if "text" in found:
        return Step(found["text"], None, session)
    return Step(found["execute"], tuple(Bound(*each) for each in found["bound"]), session)


def write(path: Path, header: Header, steps: Iterable[Step]) -> None:
    fields = {name: getattr(header, name) for name in Header.__slots__}
    lines = [json.dumps(fields), *(json.dumps(step.line()) for step in steps)]
    path.write_text("\n".join(lines) + "\n")


def all_scripts() -> Iterator[Script]:
    yield from map(read, sorted(SCRIPTS.glob("*.jsonl")))


# -- parameters as the protocol has them -------------------------------------------------------------------------------


def parsed(data: bytes, count: int, before: Sequence[int]) -> tuple[list[int], tuple[Bound, ...]]:
    """Types and values of an execution's parameters, which begin with the bitmap of NULLs. `before`: the types that the
    last execution has told."""
    if not count:
        return [], ()
    at = (count + 7) // 8
    absent, types = data[:at], list(before)
    told, at = data[at], at + 1
    if told:
        types = list(struct.unpack_from(f"<{count}H", data, at))
        at += 2 * count
    found = []
    for number, type_ in enumerate(types):
        if absent[number >> 3] >> (number & 7) & 1 or type_ & 0xFF == _CODES["NULL"]:
            found.append(Bound(_name(type_), None))
            continue
        value, at = _value(data, at, type_)
        found.append(Bound(_name(type_), value))
    return types, tuple(found)


def packed(bound: Sequence[Bound]) -> bytes:
    """The parameters of an execution that tells their types."""
    if not bound:
        return b""
    values = [_bytes(each) for each in bound]
    types = b"".join(struct.pack("<H", _code(each.type)) for each in bound)
    return nulls(values) + b"\1" + types + joined(values)


def _name(type_: int) -> str:
    return _NAMES[type_ & 0xFF] + (" UNSIGNED" if type_ & _UNSIGNED else "")


def _code(name: str) -> int:
    plain, _, unsigned = name.partition(" ")
    return _CODES[plain] | (_UNSIGNED if unsigned else 0)


def _form(type_: int) -> str:
    form = _NUMBERS[type_ & 0xFF]
    return "<" + (form.upper() if type_ & _UNSIGNED and form not in "fd" else form)


def _value(data: bytes, at: int, type_: int) -> tuple[Value, int]:
    code = type_ & 0xFF
    if code in _NUMBERS:
        form = _form(type_)
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if code in _TIMES:
        end = at + 1 + data[at]
        return "0x" + data[at:end].hex(), end
    raw, at = read_lenenc(data, at)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex(), at
    return ("0x" + raw.hex() if text.startswith("0x") else text), at


def _bytes(bound: Bound) -> bytes | None:
    value, code = bound.value, _code(bound.type)
    if value is None:
        return None
    if not isinstance(value, str):
        return struct.pack(_form(code), value)
    raw = bytes.fromhex(value[2:]) if value.startswith("0x") else value.encode()
    return raw if code & 0xFF in _TIMES else lenenc(raw)
