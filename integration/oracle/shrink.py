"""Makes a finding small: fewer changes, a smaller query, fewer rows and columns, as long as the same differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from integration.oracle.asker import Asker
from integration.oracle.round import Ask, Finding
from integration.oracle.script import Played, Script, Step, asked_again, play
from integration.oracle.settings import USUALLY
from integration.oracle.trees import (
    Node,
    bound_values,
    cache_text,
    literal_text,
    prepared_text,
    smaller,
)
from integration.oracle.world import WorldTable, Write, tables_of

T = TypeVar("T")
PATIENCE = 25.0  # seconds for one finding


class Shrinker:
    """Invariant: what `world`, `batches` and `tree` are now still differs, if it ever did. The finding's own tree is
    changed."""

    def __init__(self, asker: Asker, finding: Finding, patience: float = PATIENCE) -> None:
        self.asker = asker
        self.finding = finding
        self.ends = monotonic() + patience
        self.ask: Ask = finding.ask
        self.tree: Node = finding.cached.query.tree
        self.twin = finding.cached.twin
        self.world = replace(finding.world, tables=[replace(table) for table in finding.world.tables])
        self.batches = [[write for write in batch if write.twin == self.twin] for batch in finding.batches]
        self.settings = finding.settings
        self.played = Played()

    def script(self, title: str = "") -> Script:
        query = self.finding.cached.query
        if self.ask.prepared:
            text = prepared_text(self.tree, self.twin, self.ask.given)
            step = Step(text, bound_values(self.tree, self.ask.given))
        else:
            step = Step(literal_text(self.tree, self.twin, self.ask.given))
        batches = [[write.text(self.world) for write in batch] for batch in self.batches]
        setup = self.world.setup((self.twin,))
        steps = asked_again(setup, cache_text(self.tree, self.twin), batches, step)
        return Script(title, steps, query.ordered, query.free, self.settings)

    def differs(self) -> bool:
        if monotonic() > self.ends:
            return False
        played = play(self.asker, self.script(), self.finding.kind)
        if any(found.kind == self.finding.kind for found in played.differences):
            self.played = played
            return True
        return False

    def shrink(self) -> Script | None:
        """None where it does not differ when it is asked alone."""
        if not self.differs():
            return None
        self.set_nothing()
        self.tables()
        self.fewer_changes()
        self.smaller_tree()
        self.tables()
        self.rows()
        self.fewer_changes()
        self.columns()
        self.smaller_tree()
        found = next(item for item in self.played.differences if item.kind == self.finding.kind)
        mode = self.finding.cached.mode
        return self.script(
            f"{found.kind} differ ({found.served}, {mode}); found by make oracle SEED={self.finding.seed}\n{found.what}"
        )

    # -- steps ---------------------------------------------------------------------------------------------------------

    def fewer(self, items: Sequence[T], keep: Callable[[list[T]], None]) -> None:
        """Leaves out runs of items, long ones first."""
        left = list(items)
        size = max(1, len(left))
        while size:
            at = 0
            while at < len(left):
                tried = left[:at] + left[at + size :]
                keep(tried)
                if self.differs():
                    left = tried
                else:
                    keep(left)
                    at += size
            size //= 2
        keep(left)

    def set_nothing(self) -> None:
        before, self.settings = self.settings, USUALLY
        if not self.differs():
            self.settings = before

    def tables(self) -> None:
        before = self.world, self.batches
        self.world = self.world.only(tables_of(self.tree))
        named = {table.number for table in self.world.tables}
        self.batches = [[write for write in batch if write.table in named] for batch in self.batches]
        if not self.differs():
            self.world, self.batches = before

    def fewer_changes(self) -> None:
        flat = [(number, write) for number, batch in enumerate(self.batches) for write in batch]

        def keep(left: list[tuple[int, Write]]) -> None:
            self.batches = [[write for at, write in left if at == number] for number in range(len(self.batches))]

        self.fewer(flat, keep)

    def smaller_tree(self) -> None:
        smaller_now = True
        while smaller_now:
            smaller_now = False
            for change in smaller(self.tree):
                change.do()
                if self.differs():
                    smaller_now = True
                    break
                change.undo()

    def rows(self) -> None:
        for table in self.world.tables:
            self.fewer(table.rows, lambda left, table=table: setattr(table, "rows", left))  # type: ignore[misc]

    def columns(self) -> None:
        for table in self.world.tables:

            def keep(left: list[object], table: WorldTable = table) -> None:
                table.columns[:] = [table.columns[0], *left]  # type: ignore[list-item]

            table.columns = list(table.columns)
            self.fewer(table.columns[1:], keep)  # type: ignore[arg-type]
