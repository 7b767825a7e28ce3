"""Whether a cluster has workers. Without any Spark waits for some, for ever, and says nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bulk.session import SparkSettings

SETTING = "spark.upwell.workersWithin"
"""Of Spark's configuration: seconds that a job waits for a worker where the cluster has none."""
WITHIN = 120.0
LOOK_EVERY = 1.0  # seconds


class NoWorkers(Exception):
    """The cluster has had no worker for too long."""


class Watch:
    """Of one job. `executors`: how many there are; `give_up`: ends the job, by another thread. `without`: it was
    ended."""

    def __init__(
        self, executors: Callable[[], int], give_up: Callable[[], None], within: float, every: float = LOOK_EVERY
    ) -> None:
        self.within = within
        self.without = False
        self._executors = executors
        self._give_up = give_up
        self._every = every
        self._ended = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises NoWorkers in the place of what the job's end raises."""
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        try:
            yield
        except Exception as error:
            if self.without:
                raise NoWorkers(
                    f"the cluster has had no worker for {self.within:g} s ({SETTING} in spark-defaults.conf)"
                ) from error
            raise
        finally:
            self._ended.set()
            thread.join()

    def _look(self) -> None:
        since = monotonic()
        while not self._ended.wait(self._every):
            if self._executors():
                since = monotonic()
            elif monotonic() - since >= self.within:
                self.without = True
                self._give_up()  # again at the next look: Spark may be planning what it is to give up


def executors_of(session: SparkSession) -> int:
    """Of a session with a driver of its own. That is told among them."""
    told = session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return len(told) - 1


def within(session: SparkSession, settings: SparkSettings) -> float | None:
    """Seconds to wait for a worker; None where this process cannot see any: in local mode, and by Spark Connect."""
    if settings.is_connect or settings.master == "local" or settings.master.startswith("local["):
        return None
    return float(session.sparkContext.getConf().get(SETTING, str(WITHIN)) or WITHIN)
