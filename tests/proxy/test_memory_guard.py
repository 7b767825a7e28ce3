"""The guard that holds the process to its memory limit."""

from __future__ import annotations

from dataflow.engine import Engine
from gtid_tracker.gtid import GtidSet
from proxy.memory import MemoryGuard

MIB = 1 << 20


class Process:
    def __init__(self) -> None:
        self.resident = 50 * MIB

    def __call__(self) -> int:
        return self.resident


def guarded(limit: int) -> tuple[Engine, Process, MemoryGuard]:
    engine = Engine(GtidSet.empty(), limit, lambda: 0.0)
    process = Process()
    return engine, process, MemoryGuard(engine, limit, process)


def test_bytes_that_cost_more_than_estimated_lower_the_limit() -> None:
    engine, process, guard = guarded(100 * MIB)
    engine.memory.used = 40 * MIB
    process.resident += 80 * MIB
    guard.tick()
    assert engine.limit == 50 * MIB


def test_memory_that_does_not_go_back_to_the_system_is_not_charged_to_what_is_left() -> None:
    engine, process, guard = guarded(100 * MIB)
    engine.memory.used = 80 * MIB
    process.resident += 100 * MIB
    guard.tick()
    engine.memory.used = 20 * MIB
    for _ in range(50):
        guard.tick()
    assert engine.limit == 80 * MIB


def test_little_held_says_nothing_about_the_cost_of_a_byte() -> None:
    engine, process, guard = guarded(100 * MIB)
    engine.memory.used = MIB
    process.resident += 30 * MIB
    guard.tick()
    assert engine.limit > 80 * MIB
