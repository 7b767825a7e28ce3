"""An engine that does in steps whatever it can do so: the smallest answer is a large one."""

from __future__ import annotations

from dataflow.engine import Engine


def everything_in_steps(engine: Engine, short: int = 0) -> None:
    """`short`: but an answer of so many rows is derived in one."""
    engine.memory.remains.few_deps = 0
    engine.subscriptions.many = engine.subscriptions.large_bytes = 0
    engine.memory.most_rows, engine.state.placed_at_once = short, 1
