"""What the answers of the reads that wait for a fill must pass first: comparison with MySQL's own answers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

from dataflow.entries import Entries
from dataflow.fills.read import Read
from dataflow.messages import Check, Finding, OwnAnswer
from sqltypes.errors import SourceError
from sqltypes.expression import Key, Row


@dataclass(slots=True, eq=False)
class Checks:
    """`asked`: one for each text. `proved`: the texts whose answers agree. `doubts`: reads whose answers are to be
    compared; those that went away, too. `found`: by text, what was found before the answer was delivered.
    `versions`: by key those of what is held as the snapshot has it."""

    asked: list[tuple[Check, Read]] = field(default_factory=list)
    proved: set[str] = field(default_factory=set)
    doubts: list[Read] = field(default_factory=list)
    found: dict[str, Finding] = field(default_factory=dict)
    versions: dict[Key, int] = field(default_factory=dict)

    def add(self, reads: Iterable[Read], whole: Container[Key]) -> None:
        """Takes up the checks of reads whose keys are all in `whole`. Requires: before the request is built."""
        texts: set[str] = set()
        for read in reads:
            check = read.check
            if check is not None and check.sql not in texts and all(key in whole for key, _ in read.keys):
                texts.add(check.sql)
                self.asked.append((check, read))

    def doubtful(self) -> set[Key]:
        """The keys of reads that should have been compared, and were not."""
        reads = (read for read in self.doubts if read.check is None or read.check.sql not in self.proved)
        return {key for read in reads for key, _ in read.keys}

    def tell_held(self) -> None:
        """All that is to be held of the answer is so."""
        for check, read in self.asked:
            versions = [self.versions[key] for key, _ in read.keys if key in self.versions]
            if check.held is not None and check.sql in self.proved and len(versions) == len(read.keys):
                check.held(versions)

    def compare(
        self,
        own: Sequence[OwnAnswer | SourceError],
        told: Callable[[Read], list[Row] | None],
        overlay: Sequence[Entries],
    ) -> Check | None:
        """Compares with MySQL's own answers. `told`: what a read would be. Returns the check that found a
        difference."""
        for (check, read), answer in zip(self.asked, own, strict=True):
            match self.found.get(check.sql) or check.compare(told(read), answer, overlay):
                case Finding.DIFFERS:
                    return check
                case Finding.AGREES:
                    self.proved.add(check.sql)
        return None
