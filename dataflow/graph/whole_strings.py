"""Groups and DISTINCT rows whose strings MySQL may sort by a part alone: it makes several of one where they come
interleaved out of such a sort, so there is no key for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqltypes.ordering import require_sorted_whole, sorted_whole
from sqltypes.schema import SqlType


def of_whole_strings(
    key: Callable[..., Any], types: Sequence[SqlType], values: Callable[..., Sequence[Any]]
) -> Callable[..., Any]:
    """The function `key`, made to raise UnprovenString where one of `values`, of these types, is such a string."""
    checks = [
        (at, require_sorted_whole(type_))
        for at, type_ in enumerate(types)
        if type_.is_string and not sorted_whole(type_)
    ]
    if not checks:
        return key

    def checked(*args: Any) -> Any:
        found = values(*args)
        for at, require in checks:
            require(found[at])
        return key(*args)

    return checked
