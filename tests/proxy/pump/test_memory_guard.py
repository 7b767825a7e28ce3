"""The guard that holds the process to its memory limit."""

from __future__ import annotations

from dataflow.engine import Engine
from gtid_tracker.gtid import GtidSet
from proxy.pump.memory_guard import MemoryGuard

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
    assert engine.limit.bytes == 50 * MIB


def test_memory_that_does_not_go_back_to_the_system_is_not_charged_to_what_is_left() -> None:
    engine, process, guard = guarded(100 * MIB)
    engine.memory.used = 80 * MIB
    process.resident += 100 * MIB
    guard.tick()
    engine.memory.used = 20 * MIB
    for _ in range(50):
        guard.tick()
    assert engine.limit.bytes == 80 * MIB


def test_little_held_says_nothing_about_the_cost_of_a_byte() -> None:
    engine, process, guard = guarded(100 * MIB)
    engine.memory.used = MIB
    process.resident += 30 * MIB
    guard.tick()
    assert engine.limit.bytes > 80 * MIB


def test_what_the_process_grows_by_while_the_cache_is_at_rest_is_not_charged_to_it() -> None:
    engine, process, guard = guarded(64 * MIB)
    engine.memory.used = 40 * MIB
    process.resident += 44 * MIB
    guard.tick()
    limit = engine.limit.bytes
    for _ in range(100):  # sessions, plans, texts of queries
        process.resident += 4 * MIB
        guard.tick()
        guard.check_invariants()
    assert engine.limit.bytes == limit


def test_the_limit_never_shrinks_below_half() -> None:
    engine, process, guard = guarded(64 * MIB)
    for held in range(1, 30):
        engine.memory.used = held * MIB
        process.resident += 10 * MIB
        guard.tick()
        guard.check_invariants()
    assert engine.limit.bytes == 32 * MIB
