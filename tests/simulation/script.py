"""A schedule as data: what the simulation starts from, and its steps, one a line. A script runs without any random
draw, so that it stays a regression case whatever becomes of the code around it.

```
# why it is kept
{'rows': {...}, 'ordered': True, 'limit': 60000, 'ring': (1000, 4194304), 'caches': ('rows',)}
('begin', 1, 'rows', (('a', 3, (3, 0, 1, 1, 5)),))
('advance', 1)
('read', 'rows', (0,))
```
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dataflow.held.remains import FEW
from sqltypes.expression import Row

Action = tuple[Any, ...]  # the name of a step, and what `Simulation` takes for it


@dataclass(frozen=True)
class Setup:
    """`rows`: by table and primary key. `ordered`: commits become visible in the binlog's order. `limit`: bytes of the
    engine. `ring`: its transactions and bytes. `caches`: which queries of `queries.QUERIES` are open at first. `few`:
    so many keys are taken out one by one (`dataflow/held/remains.py`). `sizes`: the fields of
    `dataflow.changes.large_change.Sizes`. `steps`: every answer is large, so that subscribers are told of it, and its
    entries go, in steps. `short`: but not one of so many rows. `bags`: each key's rows are put in order where a range
    of them is read; 2: in steps alone. `restarts`: the proxy ends and begins anew."""

    rows: dict[str, dict[int, Row]]
    ordered: bool
    limit: int
    ring: tuple[int, int]
    caches: tuple[str, ...]
    few: int = FEW
    sizes: tuple[int, ...] = ()
    steps: bool = False
    short: int = 0
    bags: int = 0
    shards: tuple[tuple[int, ...], ...] = ()
    restarts: bool = False


@dataclass(frozen=True)
class Script:
    setup: Setup
    actions: tuple[Action, ...]
    why: str = ""

    def text(self) -> str:
        comment = "".join(f"# {line}\n" for line in self.why.splitlines())
        return comment + "\n".join(map(repr, (asdict(self.setup), *self.actions))) + "\n"

    @classmethod
    def parse(cls, text: str) -> Script:
        lines = text.splitlines()
        why = "\n".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
        setup, *actions = [ast.literal_eval(line) for line in lines if line and not line.startswith("#")]
        return cls(Setup(**setup), tuple(actions), why)

    @classmethod
    def read(cls, path: Path) -> Script:
        return cls.parse(path.read_text())


def shrunk(script: Script, fails: Callable[[Script], bool]) -> Script:
    """A script that still fails after which no single step, cache or first row can be left out. Requires: it fails."""
    before = -1
    while before != len(script.actions):
        before = len(script.actions)
        script = _fewer_actions(script, fails)
        for name in script.setup.caches:
            kept = tuple(other for other in script.setup.caches if other != name)
            tried = replace(script, setup=replace(script.setup, caches=kept))
            if kept and fails(tried):
                script = tried
        script = _fewer_rows(script, fails)
    return script


def _fewer_actions(script: Script, fails: Callable[[Script], bool]) -> Script:
    """Leaves steps out in ever smaller pieces, the last ones first."""
    size = len(script.actions)
    while size:
        end = len(script.actions)
        while end > 0:
            start = max(0, end - size)
            tried = replace(script, actions=(*script.actions[:start], *script.actions[end:]))
            if fails(tried):
                script = tried
            end = start
        size //= 2
    return script


def _fewer_rows(script: Script, fails: Callable[[Script], bool]) -> Script:
    for table, number in [(table, number) for table, rows in script.setup.rows.items() for number in rows]:
        rows = {name: dict(held) for name, held in script.setup.rows.items()}
        del rows[table][number]
        tried = replace(script, setup=replace(script.setup, rows=rows))
        if fails(tried):
            script = tried
    return script


def written(actions: Sequence[Action]) -> str:
    return "\n".join(map(repr, actions))
