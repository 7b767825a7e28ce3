"""A key as text: its parameters as JSON, those that JSON has no form for as {"type": text}. `read` gives what was
`written`. Files of keys (`upwell fill --keys`), the keys of the last run and the access log have this form.

    [7, "ann", null]    {"decimal": "12.50"}    {"bytes": "AP8="}    {"float": "0x1.999999999999ap-4"}    [[1, 2]]

Bytes are base64, floats hexadecimal: each comes back bit by bit. A list within the parameters is one of `IN (?)`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

_READ: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "float": float.fromhex,
}


def written(parameters: Sequence[object]) -> str:
    """Parameters as text."""
    return json.dumps([_plain(value) for value in parameters], ensure_ascii=False)


def _plain(value: object) -> object:
    match value:
        case tuple():
            return [_plain(one) for one in value]
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case float():
            return {"float": value.hex()}
        case _:
            return value


def read(text: str) -> tuple[Any, ...]:
    """The parameters that were written. Raises ValueError."""
    return tuple(map(value_of, json.loads(text)))


def value_of(plain: Any) -> Any:
    """A value as it was before it was written. Raises ValueError for what stands for none."""
    if isinstance(plain, list):
        return tuple(map(value_of, plain))
    if not isinstance(plain, dict):
        return plain  # a number, a text or NULL
    if len(plain) == 1:
        ((kind, text),) = plain.items()
        if kind in _READ and isinstance(text, str):
            try:
                return _READ[kind](text)
            except ArithmeticError:  # of a Decimal
                pass
    raise ValueError(f"{json.dumps(plain)}: a decimal, bytes or float is accepted")
