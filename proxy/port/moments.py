"""What a cache tells of reads by a moment: of another key's answer that is theirs, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from sqltypes.zone import Zone

if TYPE_CHECKING:
    from proxy.port.api import ParameterValue
    from sqltypes.expression import Key


class Moments(Protocol):
    @property
    def clocks(self) -> Zone | None:
        """By which the cache shows instants; None: by those of UTC."""
        ...

    def note(self) -> None:
        """A text asks for the cache that says NOW() or the like: its keys are of moments."""
        ...

    def in_utc(self, parameters: Sequence[ParameterValue]) -> Sequence[ParameterValue]:
        """The parameters with what those clocks say turned into instants; the same object where none is one. Raises
        ComparedElsewhere, BadParameters."""
        ...

    def between(
        self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]
    ) -> Sequence[ParameterValue] | None:
        """Parameters of which `hit`, in this step, has the answer of all that are between these two, which differ in
        moments; None where that is not known. Raises nothing."""
        ...

    def tells_between(self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]) -> bool:
        """Whether `between` may tell, where enough is held. Raises nothing."""
        ...

    def standing(self, parameters: Sequence[ParameterValue]) -> Key | None:
        """The key, for `stored`, of another answer that is that of these parameters, too; None where there is none, or
        they have their own. Good for this step. Raises nothing."""
        ...
