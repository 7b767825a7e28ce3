"""What a cache tells of reads by a clock that is known to be between two moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.api import ParameterValue


class Between(Protocol):
    def between(
        self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]
    ) -> Sequence[ParameterValue] | None:
        """Parameters of which `hit`, in this step, has the answer of all that are between these two, which differ in
        moments; None where that is not known. Raises nothing."""
        ...

    def tells_between(self, first: Sequence[ParameterValue], last: Sequence[ParameterValue]) -> bool:
        """Whether `between` may tell, where enough is held. Raises nothing."""
        ...
