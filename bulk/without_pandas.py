"""pyarrow without pandas, for processes that make Arrow's arrays of plain lists."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _Hidden(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def hide_pandas() -> None:
    """From now on this process cannot import pandas. With the first array, pyarrow would load it where it is installed,
    to see whether the list is one of its: that takes half a second of the processor."""
    sys.meta_path.insert(0, _Hidden())
