"""Primary-key lookups as sysbench's `oltp_point_select` makes them, and who answers them in turns in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks import sysbench
from benchmarks.bench import SCRATCH, Bench
from benchmarks.sysbench import POINT_SELECT, Load, Outcome
from benchmarks.warming import ask_each
from examples.lobsters.cpu import process_seconds
from examples.lobsters.proxy_process import ProxyProcess
from upwell.client import Client

ROWS = 10_000
QUERY = "SELECT c FROM sbtest1 WHERE id = ?"
ROUNDS = 5
WARM = 2.0  # seconds: enough that sysbench has asked for each key


def load_points(bench: Bench) -> Load:
    """Makes sysbench's table in the scratch database; the load that reads it."""
    bench.scratch(
        "CREATE TABLE sbtest1 (id INT AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0,"
        " c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))",
        f"SET cte_max_recursion_depth = {ROWS}",
        f"INSERT INTO sbtest1 WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
        " SELECT i, i, CONCAT(SHA2(i, 256), LEFT(SHA2(-i, 256), 55)), LEFT(SHA2(i + 0.5, 256), 59) FROM n",
        "ANALYZE TABLE sbtest1",
    ).close()
    options = "--tables=1", f"--table-size={ROWS}"
    return Load(POINT_SELECT, SCRATCH, options=options, user=bench.server.user, password=bench.server.password)


def cache_points(bench: Bench, proxy: ProxyProcess, client: Client, *, prepared: bool) -> None:
    """Caches the lookups, with every key held, as it comes by being asked for so."""
    client.create_cache(QUERY, name="points", database=SCRATCH)
    ask_each(proxy, client, bench.server, QUERY, [(key,) for key in range(1, ROWS + 1)], prepared=prepared)


@dataclass(frozen=True, slots=True)
class Way:
    """To an answer. `pid`: of whose CPU is counted, where it is known."""

    name: str
    host: str
    port: int
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """Microseconds for each statement: `cpu` of the way's process, `behind` of the server's; None where unknown."""

    outcome: Outcome
    cpu: float | None
    behind: float | None = None


def measure(way: Way, load: Load, seconds: float, server: int | None = None) -> Measured:
    """`server`: the process of MySQL, where it is known."""
    pids = way.pid, server
    before = [process_seconds(pid) if pid is not None else 0.0 for pid in pids]
    outcome = sysbench.run(load, way.host, way.port, seconds)
    cpu, behind = (
        (process_seconds(pid) - used) / outcome.statements * 1e6 if pid is not None else None
        for pid, used in zip(pids, before, strict=True)
    )
    return Measured(outcome, cpu, behind)


class Rounds:
    """The same load on each way in turns, so that the machine's mood meets all alike. `server`: MySQL's process,
    whose CPU is counted beside each way's."""

    def __init__(
        self, ways: Sequence[Way], load: Load, seconds: float, rounds: int = ROUNDS, server: int | None = None
    ) -> None:
        self.ways = ways
        for way in ways:  # what each key costs once: pages read, answers encoded for this protocol
            sysbench.run(load, way.host, way.port, WARM)
        self.measured: dict[str, list[Measured]] = {way.name: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                self.measured[way.name].append(measure(way, load, seconds, server))

    def per_second(self, name: str) -> float:
        return median(one.outcome.per_second for one in self.measured[name])

    def cpu(self, name: str) -> float | None:
        known = [one.cpu for one in self.measured[name] if one.cpu is not None]
        return median(known) if known else None

    def ratio(self, name: str, to: str) -> float:
        """The median of the rounds' ratios of statements a second."""
        return median(one.outcome.per_second / other.outcome.per_second for one, other in self._pairs(name, to))

    def cpu_ratio(self, name: str, to: str) -> float | None:
        """The median of the rounds' ratios of the ways' CPU for a statement. None where one is unknown."""
        return self._median([(one.cpu, other.cpu) for one, other in self._pairs(name, to)])

    def behind_ratio(self, name: str, to: str) -> float | None:
        """Likewise, of MySQL's CPU for a statement."""
        return self._median([(one.behind, other.behind) for one, other in self._pairs(name, to)])

    def _pairs(self, name: str, to: str) -> list[tuple[Measured, Measured]]:
        return list(zip(self.measured[name], self.measured[to], strict=True))

    @staticmethod
    def _median(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
        known = [one / other for one, other in pairs if one is not None and other]
        return median(known) if known else None

    def microseconds(self, name: str) -> float:
        """Between two statements of a connection, as its client sees it. For loads of one connection."""
        return median(1e6 / one.outcome.per_second for one in self.measured[name])

    def rows(self, label: str) -> list[tuple[str, str, float, float, float, float | None]]:
        """Of a sheet with COLUMNS."""
        return [
            (
                label,
                way.name,
                self.per_second(way.name),
                median(one.outcome.p95 for one in self.measured[way.name]),
                max(one.outcome.slowest for one in self.measured[way.name]),
                self.cpu(way.name),
            )
            for way in self.ways
        ]


COLUMNS = "load", "answered by", "statements/s", "ms p95", "slowest ms", "its CPU us a statement"
